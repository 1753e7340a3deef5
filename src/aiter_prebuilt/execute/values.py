"""Decode stored bytes of every element type in plain Python.

A million elements take some tens of milliseconds.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Final

from aiter_prebuilt.contract.dtype import BY_NAME

#: Letters of :mod:`array` for the types that it knows.
_LETTERS: Final = {
    "bool": "B", "u8": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "f32": "f", "f64": "d",
}  # fmt: skip
#: Bits of the fraction, bias, and where NaN is: "ieee" (infinities too), "last" (the largest code), "minus zero".
_SMALL: Final = {
    "e4m3fn": (3, 7, "last"),
    "e4m3fnuz": (3, 8, "minus zero"),
    "e5m2": (2, 15, "ieee"),
    "e5m2fnuz": (2, 16, "minus zero"),
}
_PAIRS: Final = "fp4x2"
#: Bits of the fraction, and the exponent of the smallest normal number. All others are whole numbers.
_FLOATS: Final = {
    "f64": (52, -1022), "f32": (23, -126), "f16": (10, -14), "bf16": (7, -126), _PAIRS: (1, 0), "e8m0": (0, -127),
    **{name: (fraction, 1 - bias) for name, (fraction, bias, _) in _SMALL.items()},
}  # fmt: skip
_HALVES: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

#: What memory holds that a call must write: NaN where there is one, else a value that no case wants. One byte, repeated.
POISON: Final = dict.fromkeys(BY_NAME, 0xFF) | {
    "bool": 0x7E, "u8": 0x7E, "i8": 0x80, "i16": 0x7F, "i32": 0x7F, "i64": 0x7F, "fp4x2": 0x7F,
    "e4m3fn": 0x7F, "e5m2": 0x7F, "e4m3fnuz": 0x80, "e5m2fnuz": 0x80,
}  # fmt: skip


def decode(name: str, data: bytes) -> Sequence[float]:
    """Return the exact values of the stored elements, in order.

    An fp4x2 element is two values, the low half first.
    """
    if name in _LETTERS:
        values = array(_LETTERS[name])
        values.frombytes(data)
        return values
    if name == "f16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    if name == "bf16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return decode("f32", bytes(wide))
    if name == _PAIRS:
        both: list[float] = [0.0] * (2 * len(data))
        both[0::2] = [_half(code & 15) for code in data]
        both[1::2] = [_half(code >> 4) for code in data]
        return both
    return list(map(_table(name).__getitem__, data))


def step(name: str, value: float) -> float:
    """Return the distance of neighbouring values of a type.

    They are as large as ``value``, a finite one.
    """
    if name not in _FLOATS:
        return 1.0
    fraction, least = _FLOATS[name]
    return math.ldexp(1.0, max(math.frexp(value)[1] - 1 if value else least, least) - fraction)


@cache
def span(name: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a type.

    A result beyond is cut to them; infinities where none is.
    """
    if name in _LETTERS and name not in _FLOATS:
        bits, signed = BY_NAME[name].bits, name.startswith("i")
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if name == _PAIRS:
        return -_HALVES[-1], _HALVES[-1]
    if BY_NAME[name].itemsize > 1:
        return -math.inf, math.inf
    known = [value for value in _table(name) if math.isfinite(value)]
    return min(known), max(known)


def values_per_element(name: str) -> int:
    """2 where an element stores a pair."""
    return 2 if name == _PAIRS else 1


def _half(code: int) -> float:
    return -_HALVES[code & 7] if code & 8 else _HALVES[code]


@cache
def _table(name: str) -> tuple[float, ...]:
    if name == "e8m0":
        return (*(2.0 ** (code - 127) for code in range(255)), math.nan)
    return tuple(_small(name, code) for code in range(256))


def _small(name: str, code: int) -> float:
    bits, bias, kind = _SMALL[name]
    exponent, fraction = (code & 0x7F) >> bits, code & ((1 << bits) - 1)
    last = exponent == (1 << 7 - bits) - 1
    if kind == "minus zero" and code == 0x80:
        return math.nan
    if (kind == "ieee" and last and fraction) or (kind == "last" and code & 0x7F == 0x7F):
        return math.nan
    if kind == "ieee" and last:
        size = math.inf
    elif exponent:
        size = ((1 << bits) + fraction) * 2.0 ** (exponent - bias - bits)
    else:
        size = fraction * 2.0 ** (1 - bias - bits)
    return -size if code & 0x80 else size
