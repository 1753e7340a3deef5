"""All-reduces in codes, of which one rank is executed: the others' blocks hold what they would have written.

Codes are made in fp32 by steps that are exact or rounded once, so that the kernel's bits are known. What a rank leaves in its
block and in the others' is part of the contract, since the next launch reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Packs of 16 bytes for each of the 512 lanes of a workgroup, before another workgroup takes part.
_LANES = 512
#: Elements of a pack, and those that share a scale.
_PACK, _BLOCK = 8, 32
#: Packs of which a segment is made.
_WHOLE = 16
#: A scale that is less is zero.
_SMALLEST = 2.0**-126


def _up(value: int, by: int) -> int:
    return -(-value // by)


def _each(packs: int, groups: int, world: int) -> int:
    """Packs of a segment: a part has one for each rank."""
    used = max(1, min(groups, _up(packs, _LANES)))
    return max(1, _up(_up(packs, used), world * _WHOLE)) * _WHOLE


class _Codes(NamedTuple):
    """Integers from 0 to 2^bits - 1, [packs, 8], and the scale of each four packs."""

    values: Values
    scales: Values


def _rounded_to_bf16(values: Values) -> Values:
    """Of fp32, to the nearest, ties to even; NaN and infinities as they are."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    kept = ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)) << np.uint64(16)
    return np.where(np.isfinite(values), kept.astype(np.uint32).view(np.float32), values).astype(np.float32)


def _encoded(values: Values, bits: int) -> _Codes:
    """Of whole blocks."""
    x = values.astype(np.float32).reshape(-1, _BLOCK)
    half = 2 ** (bits - 1)
    furthest = np.abs(x).max(axis=1, initial=0)
    negative = ((x == -furthest[:, None]) & np.signbit(x)).any(axis=1)
    with np.errstate(all="ignore"):
        scale = _rounded_to_bf16(np.where(negative, furthest, -furthest) / np.float32(half))
        scale = np.where(np.abs(scale) < _SMALLEST, np.float32(0), scale)
        scale = np.where(np.isfinite(x).all(axis=1), scale, np.float32(np.nan))
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
        steps = np.rint(x * inverse[:, None])
    codes = np.fmin(np.fmax(steps, -half), half - 1).astype(np.int64) + half
    return _Codes(codes.reshape(-1, _PACK), scale)


def _decoded(codes: _Codes, bits: int) -> Values:
    steps = (codes.values - 2 ** (bits - 1)).astype(np.float32).reshape(-1, _BLOCK)
    with np.errstate(invalid="ignore"):
        found: Values = (steps * codes.scales[:, None]).reshape(-1)
    return found


def _planes(bits: int) -> list[tuple[int, int]]:
    """(bits of each code, shift) of the planes of a segment."""
    return {8: [(8, 0)], 6: [(4, 0), (2, 4)], 4: [(4, 0)], 3: [(2, 0), (1, 2)]}[bits]


def _written(codes: _Codes, bits: int, each: int, segment: Values) -> None:
    """Into the bytes of a segment; there may be fewer packs than it has."""
    at, packs = 0, len(codes.values)
    for width, shift in _planes(bits):
        parts = (codes.values >> shift) & (2**width - 1)
        ones = (parts[:, :, None] >> np.arange(width)) & 1
        segment[at : at + packs * width] = np.packbits(
            ones.reshape(packs, _PACK * width).astype(np.uint8), axis=1, bitorder="little"
        ).reshape(-1)
        at += each * width
    scales = codes.scales.astype(np.float32).view(np.uint32) >> np.uint32(16)
    segment[at : at + 2 * len(scales)] = scales.astype("<u2").view(np.uint8)


def _read(segment: Values, bits: int, each: int, packs: int) -> _Codes:
    values, at = np.zeros((packs, _PACK), np.int64), 0
    for width, shift in _planes(bits):
        plane = segment[at : at + packs * width].reshape(packs, width)
        ones = np.unpackbits(plane, axis=1, bitorder="little").reshape(packs, _PACK, width).astype(np.int64)
        values |= (ones << np.arange(width)).sum(axis=2) << shift
        at += each * width
    scales = segment[at : at + packs // 2].copy().view("<u2").astype(np.uint32) << np.uint32(16)
    return _Codes(values, scales.view(np.float32))


class _Part:
    """One workgroup's part of a call: each rank's region in bytes, and how much of each segment there is."""

    def __init__(self, data: list[Values], half: int, group: int, bits: int, each: int) -> None:
        self._regions = [block[half, group].view(np.uint8) for block in data]
        self.bits, self.each = bits, each
        self._bytes = each * bits + each // 2

    def segment(self, rank: int, which: int) -> Values:
        """Bytes of a rank's region."""
        found: Values = self._regions[rank][which * self._bytes : (which + 1) * self._bytes]
        return found


def _reduced(part: _Part, mine: Values, rank: int, world: int) -> Values:
    """The sums of a part, in fp32, and the codes of it in this rank's region. ``mine`` ends with a whole block."""
    count = part.each * _PACK
    pieces = [mine[r * count : (r + 1) * count] for r in range(world)]
    for r, piece in enumerate(pieces):
        if r != rank:
            _written(_encoded(piece, part.bits), part.bits, part.each, part.segment(rank, r))
    packs = len(pieces[rank]) // _PACK
    total = np.zeros(packs * _PACK, np.float32)
    for r in range(world):
        theirs = _decoded(_read(part.segment(r, rank), part.bits, part.each, packs), part.bits)
        with np.errstate(invalid="ignore", over="ignore"):
            add = pieces[rank].astype(np.float32) if r == rank else theirs
            total = add if r == 0 else total + add
    _written(_encoded(total, part.bits), part.bits, part.each, part.segment(rank, rank))
    sums = [
        _decoded(_read(part.segment(r, r), part.bits, part.each, len(piece) // _PACK), part.bits)
        for r, piece in enumerate(pieces)
    ]
    return np.concatenate(sums)


def peer_all_reduce_codes(
    input: Values,
    data0: Values,
    data1: Values,
    signals0: Values,
    signals1: Values,
    rank: int,
    bits: int,
    data2: Values | None,
    data3: Values | None,
    data4: Values | None,
    data5: Values | None,
    data6: Values | None,
    data7: Values | None,
    signals2: Values | None,
    signals3: Values | None,
    signals4: Values | None,
    signals5: Values | None,
    signals6: Values | None,
    signals7: Values | None,
) -> tuple[Near | None, ...]:
    """The sum of all ranks' inputs, in codes."""
    given = (data0, data1, data2, data3, data4, data5, data6, data7)
    data = [np.array(x, np.int32) for x in given if x is not None]
    flags = (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7)
    signals = [np.array(x) for x in flags if x is not None]
    world, mine = len(data), input.reshape(-1)
    each = _each(mine.size // _PACK, data0.shape[1], world)
    share = each * world * _PACK
    out = np.zeros(mine.size)
    for group, first in enumerate(range(0, mine.size, share)):
        calls = int(signals[rank][world, group])
        here = mine[first : first + share]
        whole = np.concatenate([here, np.zeros(-here.size % _BLOCK)])
        sums = _reduced(_Part(data, calls % 2, group, bits, each), whole, rank, world)
        out[first : first + share] = sums[: here.size]
        for r in range(world):
            if r != rank:
                signals[r][rank, group] = 2 * calls + 2
        signals[rank][world, group] = calls + 1
    blocks = [near(x.astype(np.int64)) for x in data], [near(x) for x in signals]
    rest = [None] * (8 - world)
    ordered = (*blocks[0][:2], *blocks[1][:2], *blocks[0][2:], *rest, *blocks[1][2:], *rest)
    return near(out.reshape(input.shape)), *ordered


def draw_steps(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], calls: float = 0
) -> Values:
    """Signals of a rank whose workgroups were in ``calls`` calls, or one or two more; the others are ahead of it."""
    del sizes
    counts = int(calls) + np.arange(shape[1]) % 3
    steps = 2 * counts + 2 + rng.integers(1, 9, shape)
    steps[-1] = counts
    return steps


def draw_codes(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], bits: float = 8
) -> Values:
    """Blocks full of any codes, with scales about 1 / 2^bits; a few are zero or NaN."""
    words = rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    world = sizes["WORLD1"] - 1
    each = _each(sizes["M"] * sizes["N"] // _PACK, sizes["G"], world)
    for half, group in np.ndindex(*shape[:2]):
        part = _Part([words], half, group, int(bits), each)
        for r in range(world):
            scales = _rounded_to_bf16(rng.normal(size=each // 4).astype(np.float32) / np.float32(2**bits))
            scales[rng.random(len(scales)) < 0.03] = 0
            scales[rng.random(len(scales)) < 0.03] = np.nan
            part.segment(0, r)[each * int(bits) :] = (
                (scales.view(np.uint32) >> np.uint32(16)).astype("<u2").view(np.uint8)
            )
    return words.astype(np.int64)
