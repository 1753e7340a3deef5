"""Is a tensor what is wanted of it? An interval for each element, NaN where NaN is wanted, and nothing written beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from operator import le
from typing import Final

from aiter_prebuilt.contract.calls import Want
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.execute.layout import Layout, changed, dense
from aiter_prebuilt.execute.values import decode, span, step, values_per_element

#: A byte for a byte of a mask: 0 stays, everything else means yes.
_ONES: Final = bytes([0] + [0xFF] * 255)
_FLIPPED: Final = bytes([1] + [0] * 255)


def values(want: Want, found: bytes) -> tuple[float, list[str]]:
    """Compare the elements of a tensor, dense, with a want: how much of the allowed error was used, and what is wrong.

    Right: the largest share of it that an element has used for certain, below 1; 0 where roundings alone may explain
    everything. Wrong: the largest distance from the middle of an interval in halves of it, above 1; infinite where it has none.
    """
    if found == want.low == want.high and want.kept is None:
        return 0.0, []
    sizes = {len(found), len(want.low), len(want.high)}
    if len(sizes) > 1:
        return math.inf, [f"{want.name}: {len(found)} bytes, bounds of {len(want.low)} and {len(want.high)}"]
    now, low, high = (decode(want.dtype, data) for data in (found, want.low, want.high))
    places: Sequence[int] = range(len(now))
    if want.kept is not None:
        free = _each(want.kept.translate(_FLIPPED), values_per_element(want.dtype))
        now, low, high, places = (list(compress(row, free)) for row in (now, low, high, places))  # type: ignore[assignment]
    wrong = _outside(low, now, high)
    if not wrong:
        return max(0.0, _used(want.dtype, low, now, high)), []
    far = max(_far(low[at], now[at], high[at]) for at in wrong)
    first = wrong[0]
    where = Layout(want.shape, dense(want.shape), 0, 1).place(places[first] // values_per_element(want.dtype))
    bounds = f"{low[first]!r}" if low[first] == high[first] else f"{low[first]!r} to {high[first]!r}"
    said = "nan" if low[first] != low[first] else bounds
    many = f"{len(wrong)} of {len(now)} values are not what is wanted"
    return far, [f"{want.name}: {many}, the first at {where}: {now[first]!r} instead of {said}"]


def _outside(low: Sequence[float], now: Sequence[float], high: Sequence[float]) -> list[int]:
    """Places of the values that are not what is wanted."""
    if all(map(le, low, now)) and all(map(le, now, high)):
        return []
    return [
        place
        for place, (least, value, most) in enumerate(zip(low, now, high, strict=True))
        if not (least <= value <= most or (least != least and value != value))
    ]


def _each(mask: bytes, times: int) -> bytes:
    """Repeat each byte of a mask ``times`` times."""
    if times == 1:
        return mask
    wide = bytearray(len(mask) * times)
    for place in range(times):
        wide[place::times] = mask
    return bytes(wide)


def _used(dtype: str, low: Sequence[float], now: Sequence[float], high: Sequence[float]) -> float:
    # The value was rounded once, and so was each end: together they say where value and exact result were but for one step.
    # An end that was cut, or is infinite, says nothing of where the middle is.
    smallest, largest = span(dtype)
    pairs = zip(low, now, high, strict=True)
    return max(
        (
            (abs((value - least) - (most - value)) - 2 * ulp) / (most - least + ulp)
            for least, value, most in pairs
            if smallest < least < most < largest
            for ulp in (step(dtype, max(-least, most)),)
        ),
        default=0.0,
    )


def _far(low: float, value: float, high: float) -> float:
    width = high - low
    if not 0 < width < math.inf or not math.isfinite(value):
        return math.inf
    return abs((value - low) - (high - value)) / width


def gaps(name: str, layout: Layout, now: bytes, before: bytes) -> list[str]:
    """Report writes between a tensor's elements."""
    count, first = changed(layout.without(now, before), before)
    if not count:
        return []
    return [
        f"{name}: {count} bytes between its elements were written, the first is byte {first} of {len(now)}"
    ]


def kept(want: Want, now: bytes, before: bytes) -> list[str]:
    """Report writes to elements that the call must leave alone.

    The bytes are dense.
    """
    if want.kept is None:
        return []
    itemsize = BY_NAME[want.dtype].itemsize
    count, first = changed(now, before, _each(want.kept.translate(_ONES), itemsize))
    if not count:
        return []
    where = Layout(want.shape, dense(want.shape), 0, 1).place(first // itemsize)
    return [f"{want.name}: {count} bytes of elements that must stay were written, the first at {where}"]


def untouched(name: str, now: bytes, before: bytes) -> list[str]:
    """Report writes to an input."""
    count, first = changed(now, before)
    if not count:
        return []
    return [f"{name}: an input was written: {count} bytes, the first is byte {first} of {len(now)}"]
