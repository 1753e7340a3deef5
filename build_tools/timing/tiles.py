"""Times of tiled products by a few figures: what a step of K costs for the edges and the area of a tile.

    ns = start + max(busy, moved) + min(busy, moved) / 8
    busy = rounds of workgroups * (round + K * step / 1000)
    step = edges * (rows + columns) + area * rows * columns + barrier / depth + column

Composable Kernel's instances have them: their code objects are not in AITER's tree, and a tile says most of what they cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_STEPS: Final = 6000
#: How much a fit is drawn to where it begins: rows of winners alone do not tell a tile's edges from its barriers.
_DRAWN: Final = 0.01
_NAME: Final = re.compile(r"_(\d+)x(\d+)x(\d+)x(\d+)_.*?_v(\d)")


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a family on a card.

    ``start``, ``round``: nanoseconds; ``edges`` to ``barrier``: picoseconds of a step of K; ``memory``: bytes a microsecond.
    """

    start: float
    round: float
    edges: float
    area: float
    column: float
    barrier: float
    memory: float


class Tile(NamedTuple):
    """An instance of Composable Kernel, by its name: threads, rows, columns, bytes of K a step, and the schedule of its loop."""

    threads: int
    rows: int
    columns: int
    depth: int
    pipe: int


class Product(NamedTuple):
    """A call: the card's compute units, its sizes, the tile, and measured nanoseconds."""

    cus: int
    m: int
    n: int
    k: int
    rows: int
    columns: int
    depth: int
    ns: float


#: Where a fit begins: the order of size that rows of both targets have.
USUAL: Final = Figures(5000.0, 300.0, 10.0, 0.3, 150.0, 3e4, 4e6)


def tile_of(name: str) -> Tile | None:
    """Read an instance's name, ``a8w8_rowwise_256x16x64x512_..._intrawave_v3``; None if it is no such name."""
    found = _NAME.search(name)
    return Tile(*map(int, found.groups())) if found else None


def predict(figures: Figures, calls: Sequence[Product]) -> Floats:
    """Nanoseconds of each call."""
    return _times(np.array(astuple(figures)), _table(calls))


def fit(families: Sequence[Sequence[Product]], seed: int = 1) -> Figures:
    """Fit figures with the smallest mean of the logarithms' errors. Each family counts the same."""
    tables = [_table(calls) for calls in families]

    def error(logarithms: Floats) -> float:
        means = [np.mean(np.abs(np.log(_times(np.exp(logarithms), each) / each[7]))) for each in tables]
        return float(np.mean(means) + _DRAWN * np.mean(np.abs(logarithms - begin)))

    begin = np.log(np.array(astuple(USUAL)))
    best = np.exp(_search(error, begin, seed))
    return Figures(*(float(f"{value:.4g}") for value in best))


def _table(calls: Sequence[Product]) -> Floats:
    table: Floats = np.array(calls, dtype=np.float64).reshape(-1, len(Product._fields)).T
    return table


def _times(figures: Floats, table: Floats) -> Floats:
    start, fixed, edges, area, column, barrier, memory = figures
    cus, m, n, k, rows, columns, depth, _ = table
    rounds = np.ceil(np.ceil(m / rows) * np.ceil(n / columns) / cus)
    step = edges * (rows + columns) + area * rows * columns + barrier / depth + column
    busy, moved = rounds * (fixed + k * step / 1000), ((m + n) * k + 2 * m * n) * 1000 / memory
    return np.asarray(start + np.maximum(busy, moved) + np.minimum(busy, moved) / 8)


def _search(error: Callable[[Floats], float], begin: Floats, seed: int) -> Floats:
    """Search by random steps that become smaller; the same seed finds the same."""
    random = np.random.default_rng(seed)
    best, least, width = begin, error(begin), 0.6
    for step in range(_STEPS):
        tried = best + random.normal(size=best.size) * width * (random.random(best.size) < 0.5)
        found = error(tried)
        if found < least:
            best, least = tried, found
        if step % (_STEPS // 10) == _STEPS // 10 - 1:
            width *= 0.65
    return best
