"""A model of memory instructions in plain Python.

The tests of the embedded device compare with it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

LANES = 64
Row = list[int]

#: name of the access -> (bytes, signed, half): half 0 none, 1 low 16 bits, 2 high 16 bits
LOADS = {
    "ubyte": (1, False, 0), "sbyte": (1, True, 0), "ushort": (2, False, 0), "sshort": (2, True, 0),
    "ubyte_d16": (1, False, 1), "ubyte_d16_hi": (1, False, 2), "sbyte_d16": (1, True, 1), "sbyte_d16_hi": (1, True, 2),
    "short_d16": (2, False, 1), "short_d16_hi": (2, False, 2),
    "dword": (4, False, 0), "dwordx2": (8, False, 0), "dwordx3": (12, False, 0), "dwordx4": (16, False, 0),
}  # fmt: skip
#: name of the access -> (bytes, first bit of the register)
STORES = {
    "byte": (1, 0), "byte_d16_hi": (1, 16), "short": (2, 0), "short_d16_hi": (2, 16),
    "dword": (4, 0), "dwordx2": (8, 0), "dwordx3": (12, 0), "dwordx4": (16, 0),
}  # fmt: skip


def loaded(raw: bytes, signed: bool, half: int) -> list[int]:
    """Register values (32 bits each) of the bytes that one lane loads.

    With SRAM ECC, as on both targets, a 16-bit load clears the other half (CDNA3 and CDNA4 ISA, 9.1.6).
    """
    if len(raw) >= 4:
        return list(struct.unpack(f"<{len(raw) // 4}I", raw))
    value = int.from_bytes(raw, "little", signed=signed) & 0xFFFFFFFF
    return [value if half == 0 else value & 0xFFFF if half == 1 else (value & 0xFFFF) << 16]


def stored(values: Sequence[int], size: int, first_bit: int) -> bytes:
    """The bytes that one lane stores."""
    if size >= 4:
        return struct.pack(f"<{size // 4}I", *values[: size // 4])
    return (values[0] >> first_bit & (1 << 8 * size) - 1).to_bytes(size, "little")


def f32(bits: int) -> float:
    """The float of 32 bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _round(value: float, mantissa: int, lowest: int, highest: float) -> float:
    """To nearest even with ``mantissa`` bits, multiples of 2**lowest below the normals, infinity beyond ``highest``."""
    if value == 0 or math.isinf(value) or math.isnan(value):
        return value
    unit = max(math.frexp(value)[1] - mantissa, lowest)
    rounded = math.ldexp(round(math.ldexp(value, -unit)), unit)
    return math.copysign(math.inf, value) if abs(rounded) > highest else math.copysign(rounded, value)


def add_f32(a: int, b: int) -> int:
    """Sum of finite f32 values, rounded once: doubles hold the sum of two floats to more than 2 * 24 + 2 bits."""
    total = _round(f32(a) + f32(b), 24, -149, 3.4028234663852886e38)
    return int.from_bytes(struct.pack("<f", total), "little")


def add_f64(a: int, b: int) -> int:
    """Sum of f64 values."""
    x, y = struct.unpack("<2d", struct.pack("<2Q", a, b))
    return int.from_bytes(struct.pack("<d", x + y), "little")


def _add_f16(a: int, b: int) -> int:
    x, y = struct.unpack("<2e", struct.pack("<2H", a, b))
    return int.from_bytes(struct.pack("<e", _round(x + y, 11, -24, 65504.0)), "little")


def _add_bf16(a: int, b: int) -> int:
    total = _round(f32(a << 16) + f32(b << 16), 8, -133, 3.3895313892515355e38)
    return int.from_bytes(struct.pack("<f", total), "little") >> 16


def packed(half: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Both halves by themselves."""
    return lambda a, b: half(a & 0xFFFF, b & 0xFFFF) | half(a >> 16, b >> 16) << 16


pk_add_f16 = packed(_add_f16)
pk_add_bf16 = packed(_add_bf16)


def signed(value: int, bits: int) -> int:
    """Two's complement."""
    return value - (1 << bits) if value >> bits - 1 else value


def integer_operations(bits: int) -> dict[str, Callable[[int, int], int]]:
    """``new = f(memory, data)`` of the integer atomics, by their name without width."""
    mask = (1 << bits) - 1
    return {
        "swap": lambda m, d: d,
        "add": lambda m, d: m + d & mask,
        "sub": lambda m, d: m - d & mask,
        "smin": lambda m, d: min(m, d, key=lambda v: signed(v, bits)),
        "smax": lambda m, d: max(m, d, key=lambda v: signed(v, bits)),
        "umin": min,
        "umax": max,
        "and": lambda m, d: m & d,
        "or": lambda m, d: m | d,
        "xor": lambda m, d: m ^ d,
        "inc": lambda m, d: 0 if m >= d else m + 1,
        "dec": lambda m, d: d if m == 0 or m > d else m - 1,
    }


def swizzled_lane(lane: int, offset: int) -> int:
    """The lane that ds_swizzle_b32 reads for ``lane``."""
    inside, group = lane % 32, lane // 32 * 32
    if offset >= 0xE000:
        mask = offset & 31
        if mask == 31:
            return lane
        turned = int(f"{inside:05b}"[::-1], 2) >> mask.bit_count()
        return group | turned | inside & mask
    if offset >= 0xC000:
        mask, by = offset & 31, offset >> 5 & 31
        turned = (inside + (32 - by if offset >> 10 & 1 else by)) % 32
        return group | inside & mask | turned & ~mask
    if offset >= 0x8000:
        return lane // 4 * 4 + (offset >> 2 * (lane % 4) & 3)
    return group | ((inside & offset | offset >> 5) ^ offset >> 10) & 31


def transposed(raw: Sequence[bytes], bits: int) -> list[int]:
    """ds_read_b*_tr_b*: what each lane fetched -> the number of all bits that it receives."""
    per_lane = len(raw[0]) * 8 // bits
    out = []
    for lane in range(LANES):
        team = lane // 16 * 16
        stream = int.from_bytes(b"".join(raw[team : team + 16]), "little")
        column = [stream >> (16 * row + lane % 16) * bits & (1 << bits) - 1 for row in range(per_lane)]
        out.append(sum(value << bits * row for row, value in enumerate(column)))
    return out
