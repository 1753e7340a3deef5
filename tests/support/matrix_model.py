"""Reference of the matrix instructions: register layouts element by element, arithmetic with numpy in float64.

Layouts: AMD's matrix instruction calculator (CDNA3) and CK's tests of the f8f6f4 instructions (CDNA4). Fused dot products: the
model of MMA-Sim (arXiv 2511.10909), exact in float64 because every intermediate value has fewer than 53 significant bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BITS = {
    "f64": 64,
    "f32": 32,
    "xf32": 32,
    "f16": 16,
    "bf16": 16,
    "fp8": 8,
    "bf8": 8,
    "i8": 8,
    "fp6": 6,
    "bf6": 6,
    "fp4": 4,
}
#: exponent bits, mantissa bits, bias of the formats narrower than f32.
FIELDS = {
    "f16": (5, 10, 15), "bf16": (8, 7, 127), "f32": (8, 23, 127), "xf32": (8, 23, 127),
    "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp4": (2, 1, 1),
    "e4m3fnuz": (4, 3, 8), "e5m2fnuz": (5, 2, 16), "e4m3": (4, 3, 7), "e5m2": (5, 2, 15),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """One matrix instruction by its name."""

    mnemonic: str
    m: int
    k: int
    blocks: int
    a: str
    b: str
    sparse: bool

    @property
    def stored_k(self) -> int:
        return self.k // 2 if self.sparse else self.k

    @property
    def out(self) -> str:
        return {"f64": "f64", "i8": "i32"}.get(self.a, "f32")

    def dwords(self, which: str) -> int:
        if which == "d":
            return self.m * self.m * self.blocks * (2 if self.out == "f64" else 1) // 64
        k, bits = (self.stored_k, BITS[self.a]) if which == "a" else (self.k, BITS[self.b])
        return self.m * k * self.blocks * bits // 64 // 32


def shape_of(mnemonic: str, a: str = "", b: str = "") -> Shape:
    """Reads ``v_mfma_f32_32x32x4_2b_f16``; the formats of f8f6f4 are given."""
    found = re.fullmatch(r"v_(s?mfma)c?(?:_scale)?_\w\d\d_(\d+)x\d+x(\d+)(?:_(\d+)b)?_(\w+)", mnemonic)
    assert found, mnemonic
    kind, m, k, blocks, types = found.groups()
    first, _, second = types.partition("_")
    if types == "f8f6f4":
        first, second = a, b
    return Shape(mnemonic, int(m), int(k), int(blocks or 1), first, second or first, kind == "smfma")


def flavour(element: str, target: str) -> str:
    """The format behind fp8 and bf8 on a target."""
    suffix = "fnuz" if target == "gfx942" else ""
    return {"fp8": "e4m3" + suffix, "bf8": "e5m2" + suffix}.get(element, element)


# --- registers ------------------------------------------------------------------------------------------------


def input_place(shape: Shape, which: str, i: int, k: int, block: int) -> tuple[int, int]:
    """(lane, element in the lane's registers) of A[i][k] or B[k][i]; ``k`` counts stored values."""
    extent = shape.stored_k if which == "a" else shape.k
    groups = 64 // (shape.m * shape.blocks)
    per_lane = extent // groups
    group, element = divmod(k, per_lane)
    bits = BITS[shape.a if which == "a" else shape.b]
    wide_sparse = shape.sparse and which == "b" and shape.dwords("b") == 8
    if wide_sparse or (
        shape.mnemonic.endswith("f8f6f4") and bits == 8
    ):  # each four registers are one half of k
        half, rest = divmod(k, extent // 2)
        group, element = divmod(rest, 128 // bits)
        element += half * (128 // bits)
    return i + shape.m * (block + shape.blocks * group), element


def output_place(shape: Shape, i: int, j: int, block: int) -> tuple[int, int]:
    """(lane, number of the register or register pair) of D[i][j]."""
    height = 1 if shape.out == "f64" else 4
    across = 64 // shape.m
    share = -(-64 // (shape.m * shape.m // height))
    register = block * (shape.m * shape.m // 64) + i // (height * across) * height + i % height
    return block % share * shape.m + i // height % across * share * shape.m + j, register


def pack(shape: Shape, which: str, codes: npt.NDArray[np.uint64]) -> Words:
    """``codes[block][i][k]`` as register rows (dwords x 64 lanes)."""
    bits = BITS[shape.a if which == "a" else shape.b]
    lanes = [0] * 64
    for block, i, k in np.ndindex(codes.shape):
        lane, element = input_place(shape, which, i, k, block)
        lanes[lane] |= int(codes[block, i, k]) << element * bits
    count = shape.dwords(which)
    return np.array([[lane >> 32 * d & 0xFFFFFFFF for lane in lanes] for d in range(count)], np.uint32)


def pack_output(shape: Shape, values: npt.NDArray[np.generic]) -> Words:
    """C as register rows, from values of the output's type."""
    raw = np.ascontiguousarray(values).view(np.uint64 if shape.out == "f64" else np.uint32)
    rows = np.zeros((shape.dwords("d"), 64), np.uint32)
    for block, i, j in np.ndindex(values.shape):
        lane, register = output_place(shape, i, j, block)
        if shape.out == "f64":
            rows[2 * register, lane], rows[2 * register + 1, lane] = (
                int(raw[block, i, j]) & 0xFFFFFFFF,
                int(raw[block, i, j]) >> 32,
            )
        else:
            rows[register, lane] = raw[block, i, j]
    return rows


def unpack_output(shape: Shape, rows: Words) -> npt.NDArray[np.generic]:
    """D from its register rows."""
    out = np.zeros((shape.blocks, shape.m, shape.m), np.uint64 if shape.out == "f64" else np.uint32)
    for block, i, j in np.ndindex(out.shape):
        lane, register = output_place(shape, i, j, block)
        if shape.out == "f64":
            out[block, i, j] = int(rows[2 * register, lane]) | int(rows[2 * register + 1, lane]) << 32
        else:
            out[block, i, j] = rows[register, lane]
    return out.view({"f64": np.float64, "i32": np.int32, "f32": np.float32}[shape.out])


# --- values ---------------------------------------------------------------------------------------------------


def value_of(fmt: str, code: int) -> float:
    """A code of a format of 16 bits or less (or f32), by its definition."""
    exponent_bits, mantissa_bits, bias = FIELDS[fmt]
    width = 1 + exponent_bits + mantissa_bits
    if fmt == "xf32":
        code &= 0xFFFFE000
    sign = -1.0 if code >> (width - 1) else 1.0
    field = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if fmt.endswith("fnuz"):
        if code == 0x80:
            return float("nan")
    elif fmt == "e4m3":
        if field == top and mantissa == 7:
            return float("nan")
    elif fmt not in ("fp6", "bf6", "fp4") and field == top:
        return float("nan") if mantissa else sign * float("inf")
    scaled = mantissa if field == 0 else mantissa | 1 << mantissa_bits
    return float(sign * np.ldexp(float(scaled), max(field, 1) - bias - mantissa_bits))


def values_of(fmt: str, codes: npt.NDArray[np.uint64]) -> Reals:
    known: dict[int, float] = {}
    for code in np.unique(codes):
        known[int(code)] = value_of(fmt, int(code))
    return np.asarray(np.vectorize(lambda code: known[int(code)], otypes=[np.float64])(codes), np.float64)


def exponents_of(fmt: str, values: Reals) -> Ints:
    """Exponent of the leading bit, not below the format's smallest normal one; -126 for zero."""
    bias = FIELDS[fmt][2]
    finite = np.where(np.isfinite(values), values, 1.0)
    exponents = np.maximum(np.frexp(finite)[1] - 1, 1 - bias)
    return np.where(finite == 0, -126, exponents).astype(np.int64)


# --- arithmetic -----------------------------------------------------------------------------------------------


def _truncated_sum(products: Reals, exponents: Ints) -> tuple[Reals, Ints]:
    """Sum over the last axis in units of 2^(largest exponent - 24), each product cut off towards zero."""
    largest = exponents.max(axis=-1)
    return np.trunc(np.ldexp(products, 24 - largest[..., None])).sum(axis=-1), largest


def fused(
    products: Reals, exponents: Ints, c: npt.NDArray[np.float32], in_two: bool
) -> npt.NDArray[np.float32]:
    """One group of products (last axis) added to ``c``."""
    plain: Reals = products.sum(axis=-1) + c.astype(np.float64)
    high, low = (products >= 2.0**128).any(axis=-1), (products <= -(2.0**128)).any(axis=-1)
    clean = np.where(np.isfinite(products), products, 0.0)
    if in_two:
        (even, even_at), (odd, odd_at) = (
            _truncated_sum(clean[..., s::2], exponents[..., s::2]) for s in (0, 1)
        )
        at = np.maximum(even_at, odd_at)
        total = np.floor(np.ldexp(even, even_at - at)) + np.floor(np.ldexp(odd, odd_at - at))
    else:
        total, at = _truncated_sum(clean, exponents)
    own = exponents_of("f32", c.astype(np.float64))
    larger = np.maximum(at, own)
    finite = np.where(np.isfinite(c), c, 0).astype(np.float64)
    kept = np.floor(np.ldexp(finite, 24 - larger))
    if in_two:
        kept = np.where(own < larger - 25, 0.0, kept)
    total = np.floor(np.ldexp(total, 7 + at - larger)) + kept * 128
    out = np.ldexp(total, larger - 31).astype(np.float32)
    out = np.where(high, np.float32("inf"), np.where(low, np.float32("-inf"), out))
    out = np.where(high & low, np.float32("nan"), out)
    return np.where(np.isfinite(plain), out, plain).astype(np.float32)


def dot(
    shape: Shape,
    a: Reals,
    b: Reals,
    exponents: tuple[Ints, Ints],
    c: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """``a[i][j][k]`` and ``b[i][j][k]`` (already paired up for every result) onto ``c[i][j]``."""
    group = {"xf32": 4, "f16": 8, "bf16": 8}.get(shape.a, 16)
    out = c
    for first in range(0, a.shape[-1], group):
        part = slice(first, min(first + group, a.shape[-1]))
        total = exponents[0][..., part] + exponents[1][..., part]
        out = fused(a[..., part] * b[..., part], total, out, group == 16)
    return out


def fma_chain(a: Reals, b: Reals, c: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """f32 fma over ascending k: the product is exact in float64; the sum is rounded to odd there, then once to f32."""
    out = c
    for k in range(a.shape[-1]):
        out = _fma32(a[..., k], b[..., k], out)
    return out


def _fma32(a: Reals, b: Reals, c: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    product, addend = a * b, c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even & np.isfinite(total), np.nextafter(total, towards), total)
    return odd.astype(np.float32)
