"""Element types in plain Python: rounding once to nearest even, stored bytes and back. Values are float64, lists are flat."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

#: Letters of :mod:`struct` for the types that it knows.
_LETTERS: Final = {"f16": "e", "f32": "f", "i8": "b", "i32": "i", "i64": "q"}
#: Largest value, and exponent of the smallest normal one, of the e4m3 flavours: OCP (gfx950, sm_90) and fnuz (gfx942).
_E4M3: Final = {"e4m3fn": (448.0, -6), "e4m3fnuz": (240.0, -7)}
_MASK: Final = 2**64 - 1


def fp8_limit(kind: str) -> float:
    """The largest value of an e4m3 flavour."""
    return _E4M3[kind][0]


def round_to(kind: str, value: float) -> float:
    """``value`` as ``kind`` holds it: rounded once, to nearest even; fp8 and int8 saturate."""
    if kind in ("f16", "f32"):
        letter = "<" + _LETTERS[kind]
        return float(struct.unpack(letter, struct.pack(letter, value))[0])
    if kind == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    if kind == "i8":
        return float(max(-127, min(127, round(value))))  # round() goes to the even neighbour
    if kind not in _E4M3:
        return float(int(value))
    largest, least = _E4M3[kind]
    cut = max(-largest, min(largest, value))
    exponent = max(least, math.frexp(cut)[1] - 1) if cut else least
    step = 2.0 ** (exponent - 3)
    return round(cut / step) * step


def encode(kind: str, values: Sequence[float]) -> bytes:
    """The stored bytes of values that ``kind`` holds exactly, little endian."""
    if kind == "bf16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if kind in _E4M3:
        table = _codes(kind)
        return bytes(table[value] for value in values)
    numbers = values if kind[0] == "f" else [int(value) for value in values]
    return struct.pack(f"<{len(values)}{_LETTERS[kind]}", *numbers)


def decode(kind: str, data: bytes) -> list[float]:
    """The exact values of stored bytes."""
    if kind == "bf16":
        padded = b"".join(b"\0\0" + data[place : place + 2] for place in range(0, len(data), 2))
        return list(struct.unpack(f"<{len(data) // 2}f", padded))
    if kind in _E4M3:
        return [_fp8(kind, code) for code in data]
    size = struct.calcsize("<" + _LETTERS[kind])
    return [float(value) for value in struct.unpack(f"<{len(data) // size}{_LETTERS[kind]}", data)]


def _fp8(kind: str, code: int) -> float:
    if (code & 0x7F == 0x7F) if kind == "e4m3fn" else code == 0x80:
        return math.nan
    exponent, fraction = code >> 3 & 15, code & 7
    bias = 7 if kind == "e4m3fn" else 8
    size = (8 + fraction) * 2.0 ** (exponent - bias - 3) if exponent else fraction * 2.0 ** (-bias - 2)
    return -size if code >> 7 else size


@cache
def _codes(kind: str) -> dict[float, int]:
    # Backwards, so that 0.0 (equal to OCP's -0.0) is the code 0.
    return {_fp8(kind, code): code for code in reversed(range(256)) if not math.isnan(_fp8(kind, code))}


def spread(seed: int, low: float = -2.0, high: float = 2.0) -> Iterator[float]:
    """An endless, always equal stream of numbers between ``low`` and ``high`` (SplitMix64; Steele, Lea and Flood, 2014)."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        yield low + (high - low) * ((mixed ^ mixed >> 31) >> 11) * 2.0**-53
