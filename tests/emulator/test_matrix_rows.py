"""Fused dot products where the integer arithmetic of ``execute/matrix_rows.h`` changes its ways: accumulators far above and below
their products, sums in the middle between two numbers, zeros, and rows that it must leave to the general model.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support import matrix_model as model
from support.matrix_cases import TARGETS, A, B, C, Codes, D, batch, expected, same, shapes, text
from support.matrix_model import Shape

ROOT = Path(__file__).resolve().parents[2]
VECTORS = "AITER_PREBUILT_EMULATOR_VECTORS"
FUSED = ("xf32", "f16", "bf16", "fp8", "bf8")


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def fused(target: str) -> tuple[Shape, ...]:
    return tuple(shape for shape in shapes(target, "float") if shape.a in FUSED and shape.m >= 16)


def factors(
    rng: np.random.Generator, fmt: str, size: tuple[int, ...], middle: int, spread: int, zeros: float
) -> Codes:
    """Codes of magnitude about 2^middle; significands that are powers of two and just below the next one come often."""
    exponent_bits, mantissa_bits, bias = model.FIELDS[fmt]
    top = (1 << exponent_bits) - 2
    fields = np.clip(rng.integers(bias + middle - spread, bias + middle + spread + 1, size), 0, top)
    kinds = rng.integers(0, 4, size)
    ones = (1 << mantissa_bits) - 1
    mantissas = np.select([kinds == 0, kinds == 1], [0, ones], rng.integers(0, ones + 1, size))
    signs = rng.integers(0, 2, size)
    out = (signs << exponent_bits + mantissa_bits) | (fields << mantissa_bits) | mantissas
    nothing = (rng.random(size) < zeros) | ((out & ((1 << exponent_bits + mantissa_bits) - 1)) == 0)
    return np.where(nothing, 0, out).astype(np.uint64)


def accumulators(rng: np.random.Generator, size: tuple[int, ...], near: int) -> npt.NDArray[np.float32]:
    """Exponents from 45 below ``near`` to 45 above, most of them close to it."""
    close, wide = rng.integers(near - 3, near + 14, size), rng.integers(near - 45, near + 46, size)
    exponents = np.where(rng.random(size) < 0.6, close, wide)
    kinds = rng.integers(0, 5, size)
    last = 2.0 ** rng.integers(-23, -15, size)
    significands = np.select(
        [kinds == 0, kinds == 1, kinds == 2], [1.0, 2 - 2.0**-23, 1 + last], 1 + rng.random(size)
    )
    values = np.ldexp(significands, exponents) * rng.choice([-1.0, 1.0], size)
    return np.where(rng.random(size) < 0.05, rng.choice([0.0, -0.0], size), values).astype(np.float32)


def check(shape: Shape, target: str, a: Codes, b: Codes, c: npt.NDArray[np.float32]) -> None:
    rows = {A: model.pack(shape, "a", a), B: model.pack(shape, "b", b), C: model.pack_output(shape, c)}
    file = batch(target, "float").run(text(shape), rows)
    got = model.unpack_output(shape, file[D : D + shape.dwords("d")])
    same(got, np.stack([expected(shape, target, a[n], b[n], c[n]) for n in range(shape.blocks)]))


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("round_", range(4))
def test_accumulators_near_and_far(target: str, round_: int, rng: np.random.Generator) -> None:
    for shape in fused(target):
        spread = int(rng.choice([0, 1, 4, 12]))
        middle = [int(rng.integers(-8, 6)) for _ in "ab"] if shape.a in ("bf16", "xf32") else [0, 0]
        a, b = (
            factors(
                rng, model.flavour(kind, target), (shape.blocks, shape.m, shape.k), at, spread, 0.1 * round_
            )
            for kind, at in zip((shape.a, shape.b), middle, strict=True)
        )
        check(shape, target, a, b, accumulators(rng, (shape.blocks, shape.m, shape.m), sum(middle) + spread))


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
def test_sums_in_the_middle(target: str, rng: np.random.Generator) -> None:
    """One product that is about half of the accumulator's last place, others that are a little above or below nothing."""
    for shape in fused(target):
        if shape.a not in ("bf16", "xf32"):
            continue
        a, b = (
            factors(rng, model.flavour(shape.a, target), (shape.blocks, shape.m, shape.k), 0, 0, 0.0)
            for _ in "ab"
        )
        bias, mantissa_bits = (model.FIELDS[shape.a][n] for n in (2, 1))
        # A's other values are far smaller: what they add is cut off, or makes the sum differ from the middle.
        small = (
            rng.integers(bias - 20, bias - 6, (shape.blocks, shape.m, shape.k - 1)).astype(np.uint64)
            << np.uint64(mantissa_bits)
        ) | (
            rng.integers(0, 2, (shape.blocks, shape.m, shape.k - 1), dtype=np.uint64)
            << np.uint64(mantissa_bits + 8)
        )
        a[:, :, 1:] = small
        c = np.ldexp(
            1 + rng.integers(0, 4, (shape.blocks, shape.m, shape.m)) * 2.0**-23,
            rng.integers(20, 28, (shape.blocks, shape.m, shape.m)),
        )
        check(shape, target, a, b, (c * rng.choice([-1, 1], c.shape)).astype(np.float32))


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_are_left_over(target: str, rng: np.random.Generator) -> None:
    """Tiny, denormal, infinite and NaN accumulators in some rows only; a row and a column of zeros; large products."""
    for shape in fused(target):
        a, b = (
            factors(rng, model.flavour(kind, target), (shape.blocks, shape.m, shape.k), 0, 2, 0.2)
            for kind in (shape.a, shape.b)
        )
        c = accumulators(rng, (shape.blocks, shape.m, shape.m), 2)
        tiny = [1e-30, -1e-30, 2.0**-94, 2.0**-95, -(2.0**-126), 1e-42, -1e-45]
        for row in rng.choice(shape.m, 6, replace=False):
            value = rng.choice([*tiny, np.inf, -np.inf, np.nan, 3.4e38])
            c[:, row, rng.integers(0, shape.m)] = np.float32(value)
        empty = int(rng.integers(0, shape.m))
        a[:, empty], b[:, int(rng.integers(0, shape.m))] = 0, 0
        c[:, empty] = 0
        c[:, empty, : len(tiny)] = np.array(
            tiny, np.float32
        )  # nothing but they makes this row one that is left over
        if shape.a in ("bf16", "xf32") and rng.integers(0, 2):
            a[:, 0, 0] = np.uint64((model.FIELDS[shape.a][2] + 60) << model.FIELDS[shape.a][1])
        check(shape, target, a, b, c)


def test_the_same_with_the_narrower_vectors() -> None:
    """Both files of matrix tests once more, with AVX2 where this process uses AVX-512."""
    if os.environ.get(VECTORS) == "avx2":
        pytest.skip("this process uses AVX2 itself")
    files = [str(Path(__file__)), str(Path(__file__).with_name("test_matrix.py"))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, VECTORS: "avx2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("word", ["sse2", "AVX2", "avx512f"])
def test_a_word_that_is_no_kind_of_vectors(word: str) -> None:
    program = "from support.emulator import library; print(library().hipInit(0))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, VECTORS: word, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"
    assert VECTORS in done.stderr
    assert word in done.stderr
