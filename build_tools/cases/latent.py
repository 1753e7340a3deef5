"""Shared code of references of attention over a latent cache.

Lists that their calls draw, and results that are written in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from build_tools.cases.near import Values


def untouched(*shape: int) -> Any:
    """Make a result of which nothing is written."""
    return np.ma.MaskedArray(np.zeros(shape), mask=True)


def first_rows(rows: Any, *shape: int) -> Any:
    """``rows``, integers, and behind them what nobody writes."""
    made = untouched(*shape).astype(np.int64)
    if len(rows):
        made[: len(rows)] = rows
    return made


def draw_queries(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Draw the start of each batch's queries.

    Batches have as equal numbers as possible; ``T`` or ``TOK`` is their sum.
    """
    del rng
    return np.arange(shape[0]) * (sizes["TOK"] if "TOK" in sizes else sizes["T"]) // (shape[0] - 1)


def draw_contexts(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1.0
) -> Values:
    """Draw the start of each batch's pages.

    Each batch has more pages than the one before it; batch ``empty`` has none.
    """
    del rng
    shares = np.arange(1.0, shape[0]) * 2 - 1
    if empty >= 0:
        shares[int(empty)] = 0
    return np.concatenate([[0], np.floor(sizes["N"] * shares.cumsum() / shares.sum())]).astype(int)


def draw_pages(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any pages of the cache, one of them twice now and then."""
    return rng.integers(0, sizes["P"], shape)


def draw_factor(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Draw a scale that is no power of two."""
    del sizes
    return rng.uniform(0.3, 0.9, shape)


def draw_ragged(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], least: float, most: float
) -> Values:
    """Draw the starts of parts, each of ``least`` to ``most``."""
    del sizes
    return np.concatenate([[0], rng.integers(int(least), int(most) + 1, shape[0] - 1).cumsum()])
