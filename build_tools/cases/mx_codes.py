"""Codes and scales of MX formats: what references of several families share."""

from __future__ import annotations

from typing import Final

import numpy as np

from build_tools.cases.near import Values

#: fp4 by its code, without the sign.
FP4: Final = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
#: The largest code; "u8" is a pair of fp4.
QMAX: Final = {"i8": 127.0, "e4m3fnuz": 240.0, "e4m3fn": 448.0, "u8": 6.0}
#: What amax is at least.
LEAST: Final = np.float64(np.float32(1e-10))


def shuffled_place(row: Values, group: Values, groups: int) -> Values:
    """Return where ``e8m0_shuffle`` has scale (row, group).

    Blocks of 32 rows and 8 groups have it at [g % 4][r % 16][g // 4][r // 16].
    """
    block = row // 32 * -(-groups // 8) + group // 8
    place: Values = (((block * 4 + group % 4) * 16 + row % 16) * 2 + group % 8 // 4) * 2 + row % 32 // 16
    return place


def top_of(groups: Values) -> Values:
    """Return the largest size of each group, 0 where one is NaN or infinite."""
    top = np.abs(groups).max(axis=-1, initial=0.0)
    found: Values = np.where(np.isfinite(top), top, 0.0)
    return found


def power_up(top: Values, least: int) -> Values:
    """Return e8m0 of the smallest power of two that is not less, and not below ``least``; 0 for 0."""
    fraction, exponent = np.frexp(top)
    found: Values = np.where(top > 0, np.maximum(exponent - (fraction == 0.5) + 127, least), 0)
    return found


def with_powers(groups: Values, powers: Values, kind: str) -> tuple[Values, Values]:
    """Return codes before their rounding (of fp4 the codes), and exponents; a group with NaN or an infinity is lost."""
    lost: Values = np.logical_not(np.isfinite(groups).all(axis=-1))
    scaled = groups / np.exp2(powers - 127.0)[..., None]
    exponents = np.where(lost, 255, powers)
    if kind == "u8":
        return codes_of(np.where(lost[..., None], 0.0, scaled)), exponents
    most = QMAX[kind]
    return np.where(lost[..., None], np.nan, np.clip(scaled, -most, most)), exponents


def codes_of(x: Values) -> Values:
    """Round to codes of fp4, to nearest even, cut at 6; the sign of a zero is kept."""
    sizes = np.abs(x)[..., None]
    edges = (FP4[1:] + FP4[:-1]) / 2
    # from an odd code a tie goes up, from an even one it stays
    above = np.where(np.arange(7) % 2 == 1, sizes >= edges, sizes > edges)
    found: Values = above.sum(axis=-1) + 8 * np.signbit(x)
    return found


def pairs_of(codes: Values) -> Values:
    """Pack two codes of fp4 a byte, the first in the lower half."""
    halves = codes.reshape(*codes.shape[:-1], codes.shape[-1] // 2, 2)
    found: Values = halves[..., 0] + 16 * halves[..., 1]
    return found
