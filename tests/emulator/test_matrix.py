"""Matrix instructions of the embedded device, bit by bit against the reference of ``support/matrix_model.py``."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support import matrix_model as model
from support.matrix_cases import (
    INDEX,
    SCALES,
    TARGETS,
    A,
    B,
    C,
    Codes,
    D,
    batch,
    expected,
    format_modifiers,
    format_pairs,
    inputs,
    modified,
    same,
    scaled_text,
    shapes,
    swizzles,
    text,
)  # fmt: skip
from support.matrix_model import Shape
from support.one_wave import run_wave


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ordinary", [True, False])
def test_dense(target: str, ordinary: bool, rng: np.random.Generator) -> None:
    """Every dense float shape; with ordinary numbers the sum is also near the true one."""
    for shape in shapes(target, "float"):
        a, b, c = inputs(rng, shape, target, ordinary)
        rows = {A: model.pack(shape, "a", a), B: model.pack(shape, "b", b), C: model.pack_output(shape, c)}
        file = batch(target, "float").run(text(shape), rows, execute=0)
        got = model.unpack_output(shape, file[D : D + shape.dwords("d")])
        same(got, np.stack([expected(shape, target, a[n], b[n], c[n]) for n in range(shape.blocks)]))
        if ordinary:
            left, right = (
                model.values_of(model.flavour(kind, target), x) for kind, x in ((shape.a, a), (shape.b, b))
            )
            true = np.einsum("nik,njk->nij", left, right) + c
            size = np.einsum("nik,njk->nij", np.abs(left), np.abs(right)) + np.abs(c)
            assert (np.abs(got - true) <= size * 2.0**-20).all(), shape.mnemonic


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
def test_infinities_and_nans(target: str, rng: np.random.Generator) -> None:
    for shape in shapes(target, "float"):
        a, b, c = inputs(rng, shape, target)
        if shape.a in ("f32", "xf32", "f16", "bf16"):
            exponent_bits, mantissa_bits, _ = model.FIELDS[shape.a]
            infinity = ((1 << exponent_bits) - 1) << mantissa_bits
            a[0, 1, 0], a[0, 2, -1], b[0, 3, 0] = (
                infinity,
                infinity | 1 << (mantissa_bits - 1),
                infinity | 1 << (exponent_bits + mantissa_bits),
            )
        c[0, 0, :3] = np.inf, -np.inf, np.nan
        rows = {A: model.pack(shape, "a", a), B: model.pack(shape, "b", b), C: model.pack_output(shape, c)}
        file = batch(target, "float").run(text(shape), rows)
        wanted = np.stack([expected(shape, target, a[n], b[n], c[n]) for n in range(shape.blocks)])
        assert np.isnan(wanted).any() and np.isinf(wanted).any()
        same(model.unpack_output(shape, file[D : D + shape.dwords("d")]), wanted)


#: Codes of a NaN and, where there is one, of an infinity.
UNUSUAL = {
    "f32": (0x7FC00000, 0x7F800000), "xf32": (0x7FC00000, 0x7F800000), "f16": (0x7E00, 0x7C00), "bf16": (0x7FC0, 0x7F80),
    "e4m3fnuz": (0x80,), "e5m2fnuz": (0x80,), "e4m3": (0x7F,), "e5m2": (0x7E, 0x7C),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("other", ["zeros", "smallest"])
def test_infinities_and_nans_beside_nothing(target: str, other: str, rng: np.random.Generator) -> None:
    """0 * NaN is NaN: an operand of zeros, or of the smallest numbers, hides nothing of the other one."""
    for shape, (unusual, quiet) in product(shapes(target, "float"), (("a", "b"), ("b", "a"))):
        codes: dict[str, Any] = dict(zip("abc", inputs(rng, shape, target), strict=True))
        codes[quiet][:] = 0 if other == "zeros" else rng.integers(0, 2, codes[quiet].shape)
        for code in UNUSUAL[model.flavour(shape.a if unusual == "a" else shape.b, target)]:
            codes[unusual][:, 1, 0] = code
            a, b, c = codes["a"], codes["b"], codes["c"]
            rows = {
                A: model.pack(shape, "a", a),
                B: model.pack(shape, "b", b),
                C: model.pack_output(shape, c),
            }
            file = batch(target, "float").run(text(shape), rows)
            wanted = np.stack([expected(shape, target, a[n], b[n], c[n]) for n in range(shape.blocks)])
            assert not np.isfinite(wanted).all(), shape.mnemonic
            same(model.unpack_output(shape, file[D : D + shape.dwords("d")]), wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["float", "i8"])
def test_operands_and_modifiers(target: str, kind: str, rng: np.random.Generator) -> None:
    """Accumulator registers, constants, D as C, lane swizzles of B and broadcasts of A; neither EXEC nor MODE takes part."""
    for shape in shapes(target, kind):
        c: npt.NDArray[Any]
        if kind == "i8":
            a, b = (rng.integers(0, 256, (shape.blocks, shape.m, shape.k), dtype=np.uint64) for _ in "ab")
            c = rng.integers(-(2**31), 2**31, (shape.blocks, shape.m, shape.m)).astype(np.int32)
        else:
            a, b, c = inputs(rng, shape, target)
        rows = {A: model.pack(shape, "a", a), B: model.pack(shape, "b", b), C: model.pack_output(shape, c)}
        swizzled = {words: rest for words, *rest in swizzles(shape)}
        for source in modified(shape):
            words = source.partition(" ")[2].split(", ")
            shift = [256 if word.startswith("a") else 0 for word in words]
            constant = words[3] in ("1.0", "-5")
            placed = {A + shift[1]: rows[A], B + shift[2]: rows[B], C + shift[3]: rows[C]}
            if words[3] == words[0]:
                placed[D] = placed.pop(C)
            file = batch(target, kind).run(source, placed, execute=int(rng.integers(0, 2**63)), mode=0)
            got = model.unpack_output(shape, file[D + shift[0] : D + shift[0] + shape.dwords("d")])
            cbsz, abid, blgp = swizzled.get(" ".join(words[3].split(" ")[1:]), (0, 0, 0))
            start: npt.NDArray[Any] = np.full_like(c, float(words[3])) if constant else c
            left = a[[n >> cbsz << cbsz | abid if cbsz else n for n in range(shape.blocks)]]
            right = unpacked(shape, swizzle(rows[B], blgp)) if blgp else b
            if kind == "i8":
                same(got, integer_dot(left, right, start))
            else:
                same(
                    got,
                    np.stack(
                        [expected(shape, target, left[n], right[n], start[n]) for n in range(shape.blocks)]
                    ),
                )


def swizzle(rows: model.Words, blgp: int) -> model.Words:
    """AMD's table of BLGP: halves broadcast, rotation by 16, quarters broadcast."""
    lane = np.arange(64)
    table = {
        1: lane % 32,
        2: lane % 32 + 32,
        3: (lane + 16) % 64,
        4: lane % 16,
        5: lane % 16 + 16,
        6: lane % 16 + 32,
        7: lane % 16 + 48,
    }
    return rows[:, table[blgp]]


def unpacked(shape: Shape, rows: model.Words) -> Codes:
    """B's codes from its registers."""
    bits = model.BITS[shape.b]
    out = np.zeros((shape.blocks, shape.m, shape.k), np.uint64)
    for block, j, k in np.ndindex(out.shape):
        lane, element = model.input_place(shape, "b", j, k, block)
        out[block, j, k] = int(rows[element * bits // 32, lane]) >> element * bits % 32 & (1 << bits) - 1
    return out


def integer_dot(a: Codes, b: Codes, c: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    left, right = (x.astype(np.uint8).view(np.int8).astype(np.int64) for x in (a, b))
    total: npt.NDArray[np.int32] = (np.einsum("nik,njk->nij", left, right) + c).astype(np.int32)
    return total


@pytest.mark.parametrize("target", TARGETS)
def test_f64(target: str, rng: np.random.Generator) -> None:
    """A chain of fma over k, in exact rationals rounded once per step; BLGP negates A, B, C."""
    for shape in shapes(target, "f64"):
        a, b = (
            rng.standard_normal((shape.blocks, shape.m, shape.k))
            * 10.0 ** rng.uniform(-3, 3, (shape.blocks, shape.m, shape.k))
            for _ in "ab"
        )
        c = rng.standard_normal((shape.blocks, shape.m, shape.m))
        rows = {
            A: model.pack(shape, "a", a.view(np.uint64)),
            B: model.pack(shape, "b", b.view(np.uint64)),
            C: model.pack_output(shape, c),
        }
        for source in modified(shape):
            signs = (
                [-1 if n == "1" else 1 for n in source.partition("neg:")[2].strip("[]").split(",")]
                if "neg" in source
                else [1, 1, 1]
            )
            start: npt.NDArray[Any] = np.full_like(c, -4.0) if source.endswith("-4.0") else c
            file = batch(target, "f64").run(source, rows)
            wanted = np.empty_like(c)
            for n, i, j in np.ndindex(c.shape):
                total = signs[2] * float(start[n, i, j])
                for k in range(shape.k):
                    exact = Fraction(signs[0] * float(a[n, i, k])) * Fraction(
                        signs[1] * float(b[n, j, k])
                    ) + Fraction(total)
                    total = exact.numerator / exact.denominator
                wanted[n, i, j] = total
            same(model.unpack_output(shape, file[D : D + shape.dwords("d")]), wanted)


def positions(
    rng: np.random.Generator, shape: Shape, sets: int, chosen: int
) -> tuple[model.Words, npt.NDArray[np.int64]]:
    """A random index register and, for set ``chosen`` of it, the row of B for each stored value of A."""
    register = rng.integers(0, 2**32, 64, dtype=np.uint64)
    bits = 32 // sets
    rows = np.zeros((shape.m, shape.stored_k), np.int64)
    for i, k in np.ndindex(rows.shape):
        lane, element = model.input_place(shape, "a", i, k, 0)
        rows[i, k] = k // 2 * 4 + (int(register[lane]) >> chosen * bits + 2 * element & 3)
    return register.astype(np.uint32)[None, :], rows


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("target", TARGETS)
def test_sparse(target: str, rng: np.random.Generator) -> None:
    """SMFMAC: two of four values of A, positions from the set of the index register that ABID chooses while CBSZ is 0."""
    for shape in shapes(target, "sparse"):
        sets = 32 // (2 * shape.stored_k * shape.m // 64)
        for source in modified(shape):
            cbsz, abid = (int(source.partition(name)[2][:1] or 0) for name in ("cbsz:", "abid:"))
            index, at = positions(rng, shape, sets, 0 if cbsz else abid % sets)
            c: npt.NDArray[Any]
            if shape.a == "i8":
                a, b = (
                    rng.integers(0, 256, (1, shape.m, k), dtype=np.uint64) for k in (shape.stored_k, shape.k)
                )
                c = rng.integers(-(2**31), 2**31, (1, shape.m, shape.m)).astype(np.int32)
                spread = np.zeros((1, shape.m, shape.k), np.int64)
                np.add.at(
                    spread[0],
                    (np.arange(shape.m)[:, None], at),
                    a[0].astype(np.uint8).view(np.int8).astype(np.int64),
                )
                wanted = (
                    np.einsum("nik,njk->nij", spread, b.astype(np.uint8).view(np.int8).astype(np.int64)) + c
                ).astype(np.int32)
            else:
                a, b, c = inputs(rng, shape, target, bool(rng.integers(0, 2)))
                wanted = expected(shape, target, a[0], b[0], c[0], at)[None]
            rows = {
                A: model.pack(shape, "a", a),
                B: model.pack(shape, "b", b),
                INDEX: index,
                D: model.pack_output(shape, c),
            }
            file = batch(target, "sparse").run(source, rows)
            same(model.unpack_output(shape, file[D : D + shape.dwords("d")]), wanted)


def test_formats(rng: np.random.Generator) -> None:
    """f8f6f4: every pair of formats."""
    for shape in (pair for one in shapes("gfx950", "formats") for pair in format_pairs(one)):
        a, b, c = inputs(rng, shape, "gfx950", False)
        c = rng.standard_normal(c.shape).astype(np.float32)
        rows = {A: model.pack(shape, "a", a), B: model.pack(shape, "b", b), C: model.pack_output(shape, c)}
        file = batch("gfx950", "formats").run(text(shape, format_modifiers(shape)), rows)
        same(
            model.unpack_output(shape, file[D : D + shape.dwords("d")]),
            expected(shape, "gfx950", a[0], b[0], c[0])[None],
        )


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_scales(rng: np.random.Generator) -> None:
    """One E8M0 byte per 32 values along k: of lane i + M * block, the byte that op_sel and op_sel_hi choose."""
    for source, shape, select in _scaled_cases():
        a, b, c = inputs(rng, shape, "gfx950")
        c = rng.standard_normal(c.shape).astype(np.float32)
        spread = int(rng.choice([3, 90]))
        scales = rng.integers(127 - spread, 127 + spread, (2, 64, 4))
        rows = {A: model.pack(shape, "a", a), B: model.pack(shape, "b", b), C: model.pack_output(shape, c)}
        rows[SCALES] = (scales << np.arange(0, 32, 8)).sum(axis=-1).astype(np.uint32)
        chosen = [scales[side, :, select >> 2 * side & 3] - 127 for side in (0, 1)]
        exponents = tuple(x.reshape(-1, shape.m).T.repeat(32, axis=1) for x in chosen)
        file = batch("gfx950", "scaled").run(source, rows)
        wanted = expected(shape, "gfx950", a[0], b[0], c[0], None, (exponents[0], exponents[1]))[None]
        same(model.unpack_output(shape, file[D : D + shape.dwords("d")]), wanted)


def _scaled_cases() -> Iterator[tuple[str, Shape, int]]:
    for one in shapes("gfx950", "formats"):
        yield from (
            (scaled_text(format_pairs(one)[0], select), format_pairs(one)[0], select) for select in range(16)
        )
        yield from ((scaled_text(pair, 0), pair, 0) for pair in format_pairs(one))


def test_scale_that_is_nan(rng: np.random.Generator) -> None:
    shape = format_pairs(shapes("gfx950", "formats")[0])[0]
    a, b, c = inputs(rng, shape, "gfx950")
    scales = np.full((2, 64), 0x7F7F7F7F, np.uint32)
    scales[0, shape.m + 3] = 0x7F7F7FFF
    rows = {
        A: model.pack(shape, "a", a),
        B: model.pack(shape, "b", b),
        C: model.pack_output(shape, c),
        SCALES: scales,
    }
    file = batch("gfx950", "scaled").run(scaled_text(shape, 0), rows)
    got = model.unpack_output(shape, file[D : D + shape.dwords("d")])
    assert np.isnan(got[0, 3]).all() and np.isfinite(np.delete(got[0], 3, axis=0)).all()


def test_sparse_rows_add_up_halves_of_the_wave(rng: np.random.Generator) -> None:
    """The row sums of AITER's fp8 attention: B is what a 32x32x64 MFMA takes, with columns 0..15 in lanes 0..15 and 32..47 and
    columns 16..31 in the others. A's ones choose values 0, 1 of four in rows 4n and values 2, 3 in rows 4n + 1; its first
    registers in rows without bit 2 see the first columns only, its last ones in the others the rest."""
    one, lanes = 0x38383838, np.arange(64)
    ones = np.where(lanes % 4 < 2, one, 0).astype(np.uint32)
    low, high = np.where(lanes & 4, 0, ones), np.where(lanes & 4, ones, 0)
    index = np.where(lanes % 4 == 1, 0xEEEEEEEE, 0x44444444).astype(np.uint32)
    values = rng.integers(0, 2, (8, 64, 4))  # 0 or 1 in e4m3
    b = (values * (0x38 << np.arange(0, 32, 8))).sum(axis=-1).astype(np.uint32)
    vector = {r: row.tolist() for r, row in enumerate((low, low, high, high))}
    vector |= {8 + r: row.tolist() for r, row in enumerate(b)} | {16: index.tolist()}
    done = run_wave(
        "gfx950", "v_smfmac_f32_16x16x128_fp8_fp8 v[20:23], v[0:3], v[8:15], v16\ns_endpgm", vector=vector
    )
    assert done.message == ""
    got = sum(np.array(done.row(r), np.uint32).view(np.float32) for r in (20, 21))
    sums = values.sum(axis=(0, 2))
    np.testing.assert_array_equal(got, sums + np.roll(sums, 32))
