"""Reference of the conversions to narrow floating-point formats, in exact rationals."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import cache
from math import floor

import numpy as np
import numpy.typing as npt

from support.lane_runs import Words
from support.matrix_model import FIELDS, value_of


def f32(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(bits, np.uint32).view(np.float32)


def bits_of(values: npt.NDArray[np.floating]) -> Words:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def all_values(fmt: str) -> npt.NDArray[np.float32]:
    return np.array([value_of(fmt, code) for code in range(1 << sum(FIELDS[fmt][:2]) + 1)], np.float32)


def same_floats(got: Words, wanted: npt.NDArray[np.float32]) -> None:
    values = f32(got)
    equal = (got == bits_of(wanted)) | (np.isnan(values) & np.isnan(wanted))
    where = np.flatnonzero(~equal)
    assert not len(where), (len(where), where[0], values[where[0]], wanted[where[0]])


def interesting(fmt: str, rng: np.random.Generator, count: int = 2000) -> npt.NDArray[np.float32]:
    """Values of the format, the midpoints between them, their neighbours in f32, overflow, denormals, specials, random bits."""
    values = all_values(fmt)
    finite = np.unique(values[np.isfinite(values)])
    middle = (finite[1:] + finite[:-1]) / 2
    around = np.concatenate([finite, middle, finite[-1:] * np.float32(1.0625), finite[-1:] * 2])
    edges = np.concatenate(
        [around, np.nextafter(around, np.float32(np.inf)), np.nextafter(around, np.float32(-np.inf))]
    )
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38], np.float32)
    with np.errstate(invalid="ignore"):
        return np.concatenate([edges, special, f32(rng.integers(0, 2**32, count, dtype=np.uint32))]).astype(
            np.float32
        )


@cache
def magnitudes(fmt: str) -> list[Fraction]:
    """Finite magnitudes by code, and what would follow them."""
    out = [
        Fraction(value_of(fmt, code))
        for code in range(1 << sum(FIELDS[fmt][:2]))
        if np.isfinite(value_of(fmt, code))
    ]
    return [*out, out[-1] + out[-1] - out[-2]]


def specials(fmt: str) -> tuple[int, int]:
    """Codes of an overflow without saturation, and of NaN (positive)."""
    codes = {
        "e4m3": (0x7F, 0x7F),
        "e5m2": (0x7C, 0x7F),
        "fp6": (0x1F, 0x1F),
        "bf6": (0x1F, 0x1F),
        "fp4": (7, 7),
    }
    return codes.get(fmt, (0x80, 0x80))


def encoded(fmt: str, value: float, scale: int, saturate: bool, random: int | None = None) -> int:
    """Code of value / 2^scale: to nearest even, or with a random number's top bits under the last bit."""
    top = 1 << sum(FIELDS[fmt][:2])
    overflow, nan = specials(fmt)
    negative = bool(np.signbit(value))
    table = magnitudes(fmt)
    if np.isnan(value):
        code = nan
    elif np.isinf(value):
        code = overflow
    else:
        exact = Fraction(float(abs(value))) / Fraction(2) ** scale
        at = min(bisect_right(table, exact) - 1, len(table) - 2)
        step = table[at + 1] - table[at]
        part = (exact - table[at]) / step
        if random is None:
            code = at + (part > Fraction(1, 2) or (part == Fraction(1, 2) and at % 2 == 1))
        else:
            kept = 23 - FIELDS[fmt][1]
            code = at + floor(part + Fraction(random >> (32 - kept), 1 << kept))
        if code >= len(table) - 1:
            code = len(table) - 2 if saturate or top < 128 else overflow
    if fmt.endswith("fnuz"):
        return code if code in (0, 0x80) else code | negative << 7
    return code | top * negative


def check_codes(
    fmt: str,
    got: Words,
    values: npt.NDArray[np.float32],
    scales: npt.NDArray[np.int64] | None,
    saturate: bool,
    random: Words | None = None,
) -> None:
    for n, value in enumerate(values):
        scale = 0 if scales is None else int(scales[n])
        wanted = encoded(fmt, value, scale, saturate, None if random is None else int(random[n]))
        assert int(got[n]) == wanted, (fmt, float(value), scale, hex(int(got[n])), hex(wanted))
