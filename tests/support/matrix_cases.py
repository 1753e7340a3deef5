"""Tested matrix instructions: how they are written, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from csrc.emulator.generate import isa_tables
from support import matrix_model as model
from support.matrix_model import Shape, shape_of
from support.matrix_wave import Batch

TARGETS = ("gfx942", "gfx950")
FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
A, B, C, D, INDEX, SCALES = 0, 16, 32, 64, 96, 100  # first registers of the operands
Codes = npt.NDArray[np.uint64]
_Number = TypeVar("_Number", bound=np.generic)


@cache
def shapes(target: str, kind: str) -> tuple[Shape, ...]:
    """All matrix instructions of the tables that ``target`` has: float, f64, i8, sparse, formats (f8f6f4 without scales)."""
    pytest.importorskip("tinygrad")
    found = []
    for row in isa_tables.rows():
        name = row.opcode.lower()
        if row.encoding != "vop3p_mfma" or not name.startswith(("v_mfma_f", "v_mfma_i", "v_smfmac")):
            continue
        if not row.targets & 1 + TARGETS.index(target):
            continue
        shape = shape_of(name, "fp8", "fp8")
        own = (
            "formats"
            if name.endswith("f8f6f4")
            else "sparse"
            if shape.sparse
            else {"f64": "f64", "i8": "i8"}.get(shape.a, "float")
        )
        found += [shape] if own == kind else []
    assert found
    return tuple(found)


def registers(first: int, count: int, file: str = "v") -> str:
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def text(shape: Shape, modifiers: str = "", files: str = "vvvv", c: str = "") -> str:
    """``files``: register file of D, A, B, C. SMFMAC takes its index where C stands otherwise."""
    d, a, b = (
        registers(first, shape.dwords(which), file)
        for first, which, file in ((D, "d", files[0]), (A, "a", files[1]), (B, "b", files[2]))
    )
    last = f"v{INDEX}" if shape.sparse else c or registers(C, shape.dwords("d"), files[3])
    return f"{shape.mnemonic} {d}, {a}, {b}, {last} {modifiers}".strip()


@cache
def batch(target: str, kind: str) -> Batch:
    """Everything of one kind that these tests run, assembled at once."""
    return Batch(target, tuple(dict.fromkeys(_sources(target, kind))))


def _sources(target: str, kind: str) -> Iterator[str]:
    if kind == "scaled":
        for shape, select in product(shapes(target, "formats"), range(16)):
            yield scaled_text(format_pairs(shape)[0], select)
        yield from (
            scaled_text(pair, 0) for shape in shapes(target, "formats") for pair in format_pairs(shape)
        )
        return
    for shape in shapes(target, kind):
        yield from modified(shape)
        if kind == "formats":
            yield from (text(pair, format_modifiers(pair)) for pair in format_pairs(shape))


def modified(shape: Shape) -> list[str]:
    """The instruction plain and with every modifier that its tests use."""
    out = [text(shape)]
    if shape.sparse:
        return out + [text(shape, f"cbsz:{c} abid:{n}") for c, n in ((0, 1), (0, 3), (1, 1))]
    if shape.a == "f64":
        return [*out, text(shape, c="-4.0")] + [
            text(shape, f"neg:[{a},{b},{c}]") for a, b, c in product((0, 1), repeat=3)
        ]
    if not shape.mnemonic.endswith("f8f6f4"):
        constant = "1.0" if shape.out == "f32" else "-5"
        out += [
            text(shape, files="avaa"),
            text(shape, files="vavv"),
            text(shape, c=constant),
            text(shape, c=registers(D, shape.dwords("d"))),
        ]
    return out + [text(shape, words) for words, *_ in swizzles(shape)]


def swizzles(shape: Shape) -> list[tuple[str, int, int, int]]:
    """(text, cbsz, abid, blgp) of a shape with blocks."""
    if shape.a == "f64" or (shape.blocks == 1 and shape.a != "f32"):
        return []
    out = [("blgp:" + str(n), 0, 0, n) for n in range(1, 8)]
    for cbsz in range(1, shape.blocks.bit_length()):
        abid = (1 << cbsz) - 1
        out.append((f"cbsz:{cbsz} abid:{abid}", cbsz, abid, 0))
    return out


def format_pairs(shape: Shape) -> list[Shape]:
    return [shape_of(shape.mnemonic, a, b) for a, b in product(FORMATS, repeat=2)]


def format_modifiers(shape: Shape) -> str:
    return f"cbsz:{FORMATS.index(shape.a)} blgp:{FORMATS.index(shape.b)}"


def scaled_text(shape: Shape, select: int) -> str:
    """``select``: bytes of the two scales, two bits each."""
    low, high = [select & 1, select >> 2 & 1], [select >> 1 & 1, select >> 3 & 1]
    plain = text(shape).replace("v_mfma_", "v_mfma_scale_")
    return f"{plain}, v{SCALES}, v{SCALES + 1} op_sel:{low} op_sel_hi:{high} {format_modifiers(shape)}"


def codes(rng: np.random.Generator, fmt: str, size: tuple[int, ...], ordinary: bool) -> Codes:
    """Random codes without infinities and NaNs: all there are, or magnitudes near 1."""
    exponent_bits, mantissa_bits, bias = model.FIELDS[fmt]
    width = 1 + exponent_bits + mantissa_bits
    out = rng.integers(0, 1 << width, size, dtype=np.uint64)
    if ordinary:
        fields = rng.integers(max(bias - 3, 0), min(bias + 3, (1 << exponent_bits) - 1), size).astype(
            np.uint64
        )
        keep = np.uint64(1 << (width - 1) | (1 << mantissa_bits) - 1)
        out = out & keep | fields << np.uint64(mantissa_bits)
    return np.where(np.isfinite(model.values_of(fmt, out)), out, np.uint64(0))


def expected(
    shape: Shape,
    target: str,
    a: Codes,
    b: Codes,
    c: npt.NDArray[np.float32],
    at: npt.NDArray[np.int64] | None = None,
    scales: tuple[model.Ints, model.Ints] | None = None,
) -> npt.NDArray[np.float32]:
    """D of one block from codes [i][k] and [j][k].

    ``at``: the row of B for A's stored value [i][k]. ``scales``: exponents per element.
    """
    formats = model.flavour(shape.a, target), model.flavour(shape.b, target)
    values = [model.values_of(fmt, x) for fmt, x in zip(formats, (a, b), strict=True)]
    exponents = [model.exponents_of(fmt, x) for fmt, x in zip(formats, values, strict=True)]
    if scales is not None:
        values = [np.ldexp(x, s) for x, s in zip(values, scales, strict=True)]
        exponents = [x + s for x, s in zip(exponents, scales, strict=True)]
    size = (shape.m, shape.m, a.shape[1])
    rows = np.arange(a.shape[1])[None, :].repeat(shape.m, 0) if at is None else at

    def left(x: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        return np.broadcast_to(x[:, None, :], size)

    def right(x: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        return np.transpose(x[:, rows], (1, 0, 2))

    if shape.a == "f32":
        return model.fma_chain(left(values[0]), right(values[1]), c)
    return model.dot(shape, left(values[0]), right(values[1]), (left(exponents[0]), right(exponents[1])), c)


def same(got: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic]) -> None:
    """Equal bits; any NaN equals any."""
    unsigned = np.uint64 if got.dtype.itemsize == 8 else np.uint32
    equal = np.ascontiguousarray(got).view(unsigned) == np.ascontiguousarray(wanted).view(unsigned)
    if got.dtype.kind == "f":
        equal |= np.isnan(got) & np.isnan(wanted)
    where = np.argwhere(~equal)
    assert not len(where), (len(where), where[0], got[tuple(where[0])], wanted[tuple(where[0])])


def inputs(
    rng: np.random.Generator, shape: Shape, target: str, ordinary: bool = True
) -> tuple[Codes, Codes, npt.NDArray[np.float32]]:
    a, b = (
        codes(rng, model.flavour(kind, target), (shape.blocks, shape.m, k), ordinary)
        for kind, k in ((shape.a, shape.stored_k), (shape.b, shape.k))
    )
    c = rng.standard_normal((shape.blocks, shape.m, shape.m)) * 10.0 ** (
        rng.uniform(-6, 6) if ordinary else rng.uniform(-30, 30)
    )
    return a, b, c.astype(np.float32)
