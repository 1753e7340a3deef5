"""Bytes of an element type and the numbers that they mean, for numpy arrays: one rounding, to nearest even.

Floats are decoded to float64 and integers to int64, which hold every one of them exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aiter_prebuilt.contract.dtype import BY_NAME

Numbers = npt.NDArray[Any]
Bits = npt.NDArray[Any]

INTEGERS: Final[dict[str, type[np.integer[Any]]]] = {
    "bool": np.uint8, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Float:
    """The storage format of a float.

    ``fraction`` bits behind the point; ``lowest``: the exponent of the smallest normal number.

    ``infinity``: the code of +inf, or None; ``fnuz``: NaN is the code of -0, which there is none of.
    """

    bits: int
    fraction: int
    lowest: int
    largest: int
    nan: int
    infinity: int | None
    fnuz: bool = False


FLOATS: Final[dict[str, Float]] = {
    "f16": Float(16, 10, -14, 0x7BFF, 0x7E00, 0x7C00),
    "bf16": Float(16, 7, -126, 0x7F7F, 0x7FC0, 0x7F80),
    "e4m3fn": Float(8, 3, -6, 0x7E, 0x7F, None),
    "e4m3fnuz": Float(8, 3, -7, 0x7F, 0x80, None, fnuz=True),
    "e5m2": Float(8, 2, -14, 0x7B, 0x7F, 0x7C),
    "e5m2fnuz": Float(8, 2, -15, 0x7F, 0x80, None, fnuz=True),
}
_WIDE: Final[dict[str, type[np.floating[Any]]]] = {"f32": np.float32, "f64": np.float64}
#: Types whose bits numpy reads; a bf16 is the upper half of a float32.
_VIEWED: Final[dict[str, type[np.floating[Any]]]] = {**_WIDE, "f16": np.float16, "bf16": np.float32}
#: Element types that can be encoded and decoded; pairs of fp4 have no place in a case yet.
KNOWN: Final = frozenset(INTEGERS) | frozenset(FLOATS) | frozenset(_WIDE) | {"e8m0"}
#: Results of these types are cut at their largest number: nothing here answers a number that is too large with NaN.
SATURATING: Final = frozenset(INTEGERS) | {"e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"}


def is_integer(name: str) -> bool:
    """Is ``name`` an integer type (bool too)?"""
    return name in INTEGERS


def encode(values: Numbers, name: str, *, saturate: bool = False) -> Bits:
    """Encode numbers, rounded to nearest even.

    Too large ones become the largest number with ``saturate``, else infinity, or NaN where the type has none.

    Raises:
        ValueError: an integer type cannot hold a value, or ``name`` has no codec.
    """
    if name in INTEGERS:
        return _encode_integer(values, name, saturate)
    exact = np.asarray(values, np.float64)
    if name == "f64":
        return exact
    if name == "f32":
        with np.errstate(over="ignore", invalid="ignore"):
            return exact.astype(np.float32)
    if name == "e8m0":
        return _encode_scale(exact)
    if name not in FLOATS:
        raise ValueError(f"no case can hold {name}")
    return _encode_float(exact, FLOATS[name], saturate)


def _encode_integer(values: Numbers, name: str, saturate: bool) -> Bits:
    kind = INTEGERS[name]
    low, high = (0, 1) if name == "bool" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":
        if np.isnan(numbers).any():
            raise ValueError(f"NaN is no {name}")
        numbers = np.rint(numbers)
    if saturate:
        # as floats, 2^63 is too much for an i64: the cut is made after the conversion where it must be exact
        numbers = np.clip(numbers, low, high if high < 2**53 else np.nextafter(2.0**63, 0))
    elif numbers.size and not (low <= numbers.min() and numbers.max() <= high):
        raise ValueError(f"{numbers.min()} to {numbers.max()} do not fit {name}")
    return numbers.astype(kind)


def _encode_float(exact: npt.NDArray[np.float64], form: Float, saturate: bool) -> Bits:
    nan, infinite = np.isnan(exact), np.isinf(exact)
    finite = np.where(nan | infinite, 0.0, np.abs(exact))
    # frexp: finite = m * 2^exponent with m in [0.5, 1)
    exponent = np.where(finite > 0, np.maximum(np.frexp(finite)[1] - 1, form.lowest), form.lowest)
    steps = np.rint(np.ldexp(finite, form.fraction - exponent))
    # A carry of the rounding goes into the exponent by itself.
    code = ((exponent - form.lowest).astype(np.int64) << form.fraction) + steps.astype(np.int64)
    over = infinite | (code > form.largest)
    code = np.where(over, form.largest if form.infinity is None or saturate else form.infinity, code)
    if not saturate and form.infinity is None:
        nan |= over
    sign = np.signbit(exact) & ((code > 0) | (not form.fnuz))
    code |= sign.astype(np.int64) << (form.bits - 1)
    return np.where(nan, form.nan, code).astype(np.uint16 if form.bits == 16 else np.uint8)


def _encode_scale(exact: npt.NDArray[np.float64]) -> Bits:
    """Powers of two alone: the code is the exponent plus 127, 255 is NaN."""
    fraction, exponent = np.frexp(np.where(np.isfinite(exact), exact, 0.0))
    # frexp's fraction is in [0.5, 1): from 0.75 on the next power is nearer (a tie goes up, as in torch)
    code = np.where(exact > 0, np.clip(exponent - 1 + (fraction >= 0.75) + 127, 0, 254), 0)
    return np.where(np.isfinite(exact) & (exact >= 0), code, 255).astype(np.uint8)


def decode(codes: Bits, name: str) -> Numbers:
    """Decode codes to numbers: float64, or int64 for integers."""
    if name in INTEGERS:
        return codes.view(INTEGERS[name]).astype(np.int64)
    if name in _VIEWED:
        wide = codes.astype(np.uint32) << 16 if name == "bf16" else codes
        with np.errstate(invalid="ignore"):  # a NaN that signals
            return wide.view(_VIEWED[name]).astype(np.float64)
    if name == "e8m0":
        raw = codes.view(np.uint8).astype(np.int64)
        return np.where(raw == 255, np.nan, np.ldexp(1.0, raw - 127))
    return _decode_small(codes.view(np.uint8).astype(np.int64), FLOATS[name])


def _decode_small(code: npt.NDArray[np.int64], form: Float) -> Numbers:
    size = code & 0x7F
    exponent, fraction = size >> form.fraction, size & ((1 << form.fraction) - 1)
    whole = np.where(exponent > 0, fraction + (1 << form.fraction), fraction)
    value = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - 1 + form.lowest - form.fraction)
    if form.infinity is not None:
        value = np.where(size == form.infinity, np.inf, value)
    value = np.where(code & 0x80, -value, value)
    nan = code == form.nan if form.fnuz else size > (form.largest if form.infinity is None else form.infinity)
    return np.where(nan, np.nan, value)


def stored(name: str) -> np.dtype[Any]:
    """Return the numpy type that has the bytes of ``name``."""
    if name in INTEGERS:
        return np.dtype(INTEGERS[name])
    if name in _WIDE:
        return np.dtype(_WIDE[name])
    return np.dtype(np.uint16 if BY_NAME[name].itemsize == 2 else np.uint8)


def rounded(values: Numbers, name: str, *, saturate: bool = False) -> Numbers:
    """Round ``values`` to the element type ``name``."""
    return decode(encode(values, name, saturate=saturate), name)


def poison(name: str) -> int:
    """Return the byte that poisons memory: NaN in floating types."""
    return 0x80 if name in FLOATS and FLOATS[name].fnuz else 0x7F if BY_NAME[name].itemsize == 1 else 0xFF
