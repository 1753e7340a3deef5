"""The places of the largest numbers of a range of each row, in order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Values


def _rows(
    logits: Values, starts: Values, ends: Values, rows: int, k: int, shape: tuple[int, int]
) -> tuple[Values, Values]:
    """Return places and numbers. NaN is the largest, -0 is below 0. Of equal numbers the first are taken. The rest is masked."""
    places = np.ma.array(np.full(shape, -1, np.int64), mask=np.ones(shape, bool))
    numbers = np.ma.array(np.zeros(shape), mask=np.ones(shape, bool))
    for row in range(rows):
        start = max(0, int(starts[row]))
        own = logits[row, start : max(start, int(ends[row]))]
        falling = np.where(np.isnan(own), -np.inf, -own)  # NaN goes with infinity, and before it
        below = (own == 0) & np.signbit(own)
        order = np.lexsort((np.arange(len(own)), below, ~np.isnan(own), falling))
        taken = np.sort(order[:k])
        found = np.full(shape[1], -1)
        found[: len(taken)] = taken + start
        values = np.zeros(shape[1])
        values[: len(taken)] = own[taken]
        places[row], numbers[row] = found, values
    return places, numbers


def top_k_per_row_prefill(
    logits: Values,
    rowStarts: Values,  # the names are AITER's
    rowEnds: Values,
    numRows: int,
    k: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> dict[str, Values | None]:
    """Of the columns from rowStarts up to rowEnds."""
    shape = (sizes["I"], sizes["W"])
    places, numbers = _rows(logits, rowStarts, rowEnds, numRows, k, shape)
    return {"indices": places, "values": numbers if "values" in kinds else None}


def top_k_per_row_decode(
    logits: Values,
    next_n: int,
    seqLens: Values,  # the names are AITER's
    numRows: int,
    k: int,
    sizes: Mapping[str, int],
) -> Values:
    """Of the columns that a row of its sequence sees."""
    row = np.arange(numRows)
    ends = seqLens[row // next_n] - next_n + row % next_n + 1
    places, _ = _rows(logits, np.zeros(numRows), ends, numRows, k, (sizes["I"], sizes["W"]))
    return places


def topk_plain(x: Values, topk: int, largest: bool) -> dict[str, Values]:
    """Of whole rows, best first. NaN is the largest."""
    size = np.where(np.isnan(x), np.inf, x)
    columns = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    way = -1.0 if largest else 1.0
    order = np.lexsort((columns, way * np.isnan(x), way * size), axis=-1)[:, :topk]
    return {"topk_ids": order, "topk_out": np.take_along_axis(x, order, axis=-1)}


def draw_starts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where ranges begin: in the first quarter of a row, every third at its begin."""
    starts = rng.integers(0, sizes["N"] // 4 + 1, shape)
    starts[::3] = 0
    return starts


def draw_ends(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where ranges end: behind the middle of a row, every third at its end, every fourth of few columns, or of none."""
    ends = rng.integers(sizes["N"] // 2, sizes["N"] + 1, shape)
    ends[::3] = sizes["N"]
    ends[3::4] = rng.integers(0, sizes["N"] // 4 + 1, ends[3::4].shape)
    return ends


def draw_lengths(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """How long sequences are: more than half of a row, every second all of it; every fifth a single column."""
    lengths = rng.integers(sizes["N"] // 2, sizes["N"] + 1, shape)
    lengths[::2] = sizes["N"]
    lengths[4::5] = 1
    return lengths


def draw_crowded(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Numbers that differ in their last bits alone, each several times, and some others."""
    del sizes
    near_one = 1.0 + rng.integers(0, 64, shape) * 2.0**-23
    return np.where(rng.random(shape) < 0.05, rng.normal(size=shape), near_one)


def draw_zeros_of_both_signs(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> Values:
    """0 and -0, and numbers below them."""
    del sizes
    return np.where(rng.random(shape) < 0.5, 0.0, -0.0) - (rng.random(shape) < 0.3)
