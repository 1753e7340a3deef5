"""Test the model on families that no fit has seen: how far its times are off, and how much its choices lose.

A family's constants are fitted to the card's other families of the same model. Times of its measured rows are then predicted. A
prediction may choose between kernels only where this holds (`MEDIAN`, `TAIL`); elsewhere the order of kernels chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from build_tools.timing import fit, model, tiles
from build_tools.timing.costs import Cost
from build_tools.timing.families import FAMILIES, Kernel, tile_of
from build_tools.timing.measured import RIVALS, TILED, Candidate, Family, Shape
from build_tools.timing.model import Floats
from build_tools.timing.rows import Measured
from build_tools.timing.rows import Shape as CallShape
from build_tools.timing.simulate import Cycles

NAME: Final = "build_tools/timing/blind.json"
EDITION: Final = 1
#: Errors in percent that a family may have at the median and at the 90th percentile before predictions choose in it.
MEDIAN: Final = 10.0
TAIL: Final = 25.0

#: Microseconds of variants, each with the shape that it is measured for.
Times = Callable[[Sequence[tuple[Shape, Candidate]]], Floats]


class Model(Protocol):
    """A model: which families it can predict, and how constants come from families."""

    name: str

    def knows(self, family: Family) -> bool:
        """Tell whether it has what it needs of the family's kernels."""

    def fitted(self, families: Sequence[Family]) -> Callable[[Family], Times]:
        """Fit constants to the families of one card; what is returned predicts any family on it."""


class ByCycles:
    """The timing model: cycles of one workgroup on the emulator, and ten constants of a card."""

    name = "cycles"

    def __init__(self, fitted: Mapping[str, Any]) -> None:
        self.cycles = {
            case: {symbol: Cycles(*(*numbers, 0.0)) for symbol, numbers in family["kernels"].items()}
            for case, family in fitted["families"].items()
        }

    def knows(self, family: Family) -> bool:
        """See :class:`Model`."""
        return family.case in self.cycles

    def fitted(self, families: Sequence[Family]) -> Callable[[Family], Times]:
        """See :class:`Model`."""
        constants = fit.fit([self._rows(each, _fastest(each.shapes)) for each in families])
        return lambda family: lambda calls: model.predict(constants, self._rows(family, calls).works)

    def _rows(self, family: Family, calls: Sequence[tuple[Shape, Candidate]]) -> fit.Rows:
        facts = next(each for each in FAMILIES if (each.name, each.target) == (family.name, family.target))
        rows, works = [], []
        for shape, each in calls:
            kernel, call = _kernel(each.kernel), CallShape(family.cus, shape.m, shape.n, shape.k, shape.out)
            cycles = self.cycles[family.case][each.kernel]
            rows.append(Measured(call, each.us, kernel, each.parts))
            works.append(model.work_of(facts, kernel, each.parts, call, cycles))
        return fit.Rows(rows, model.matrix(works), np.array([row.us for row in rows]))


class ByTiles:
    """Figures of a tile, for Composable Kernel's instances."""

    name = "tiles"

    def knows(self, family: Family) -> bool:
        """See :class:`Model`."""
        return family.name in TILED

    def fitted(self, families: Sequence[Family]) -> Callable[[Family], Times]:
        """See :class:`Model`."""
        figures = tiles.fit([_products(each, _fastest(each.shapes)) for each in families])
        return lambda family: lambda calls: tiles.predict(figures, _products(family, calls)) / 1000


def document(
    families: Mapping[str, Family], models: Sequence[Model], costs: Mapping[str, Cost]
) -> dict[str, Any]:
    """Test all families that a model knows. ``costs``: today's rule within a family, by case."""
    made: dict[str, Any] = {}
    blind: dict[str, Times] = {}
    for each in models:
        for family in families.values():
            if each.knows(family):
                made[family.case], times = tested(each, family, families, costs.get(family.case))
                blind |= {} if times is None else {family.case: times}
    return {
        "edition": EDITION,
        "bounds": {"median": MEDIAN, "p90": TAIL},
        "families": made,
        "between": dict(_between(families, blind)),
    }


def tested(
    by: Model, family: Family, families: Mapping[str, Family], cost: Cost | None
) -> tuple[dict[str, Any], Times | None]:
    """Test one family with constants of the card's other ones; no times where there is none."""
    others = [
        each for each in families.values() if each.cus == family.cus and each is not family and by.knows(each)
    ]
    times = by.fitted(others)(family) if others else None
    return _case(by.name, family, times, others, cost), times


def trusted(said: Mapping[str, Any]) -> frozenset[str]:
    """Name the families whose predictions may choose, by their blind errors: ``f4gemm gfx950 256``."""
    return frozenset(
        case for case, each in said["families"].items()
        if each["blind"] is not None and each["blind"]["median"] <= MEDIAN and each["blind"]["p90"] <= TAIL
    )  # fmt: skip


def _case(
    name: str, family: Family, times: Times | None, others: Iterable[Family], cost: Cost | None
) -> dict[str, Any]:
    every = [(shape, each) for shape in family.shapes for each in shape.candidates]
    contested = family.contested
    return {
        "model": name,
        "fitted_to": [each.case for each in others],
        "rows": len(every),
        "blind": None if times is None else _errors(times, every),
        "winners": None if times is None else _errors(times, _fastest(family.shapes)),
        "contested": len(contested),
        "loss": None if times is None or not contested else _loss(contested, partial(_times, times)),
        "loss_today": None if cost is None or not contested else _loss(contested, cost.of),
    }


def _errors(times: Times, calls: Sequence[tuple[Shape, Candidate]]) -> dict[str, float]:
    off = 100 * (times(calls) / np.array([each.us for _, each in calls]) - 1)
    sizes = np.abs(off)
    parts = {"median": np.median(sizes), "p90": np.percentile(sizes, 90), "bias": np.median(off)}
    return {part: round(float(value), 1) for part, value in parts.items()}


def _times(times: Times, shape: Shape) -> Floats:
    return times([(shape, each) for each in shape.candidates])


def _loss(shapes: Sequence[Shape], scores: Callable[[Shape], Sequence[float] | Floats]) -> dict[str, float]:
    return _factors([_taken(shape.candidates, scores(shape)) / shape.candidates[0].us for shape in shapes])


def _taken(candidates: Sequence[Candidate], scores: Sequence[float] | Floats) -> float:
    """Return the time of the candidate with the least score, the mean time of those that share it: a tie finds nothing."""
    least = min(scores)
    return float(np.mean([each.us for each, score in zip(candidates, scores, strict=True) if score == least]))


def _between(
    families: Mapping[str, Family], blind: Mapping[str, Times]
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Compare choices between two families that take the same calls."""
    for name, other in RIVALS.items():
        for family in families.values():
            rival = families.get(f"{other} {family.target} {family.cus}")
            if family.name == name and rival is not None and {family.case, rival.case} <= blind.keys():
                yield f"{family.case} or {rival.case}", _rivals([family, rival], blind)


def _rivals(pair: Sequence[Family], blind: Mapping[str, Times]) -> dict[str, Any]:
    """Choose among all measured variants of both; an order takes the best of the family that stands first in it."""
    known = [{shape.sizes: shape for shape in (*family.shapes, *family.others)} for family in pair]
    shared = sorted(set(known[0]) & set(known[1]))
    by_model, first, second = [], [], []
    for sizes in shared:
        shapes = [part[sizes] for part in known]
        ways = [each for shape in shapes for each in shape.candidates]
        times = np.concatenate([
            _times(blind[family.case], shape) for family, shape in zip(pair, shapes, strict=True)
        ])  # fmt: skip
        best = min(each.us for each in ways)
        by_model.append(_taken(ways, times) / best)
        first.append(shapes[0].candidates[0].us / best)
        second.append(shapes[1].candidates[0].us / best)
    found = {"loss": by_model, "loss_first": first, "loss_second": second}
    return {"shapes": len(shared), **{name: _factors(factors) for name, factors in found.items()}}


def _factors(factors: Sequence[float]) -> dict[str, float]:
    """Summarise times of the chosen over the fastest's. ``right``: percent of the choices that are the fastest."""
    return {
        "mean": round(float(np.mean(factors)), 3),
        "p90": round(float(np.percentile(factors, 90)), 3),
        "right": round(100 * float(np.mean(np.array(factors) == 1)), 1),
    }


def _fastest(shapes: Iterable[Shape]) -> list[tuple[Shape, Candidate]]:
    return [(shape, shape.candidates[0]) for shape in shapes]


def _kernel(symbol: str) -> Kernel:
    """Return a kernel with a tile and no more: all that the model asks beside its cycles."""
    return Kernel(symbol, "", *tile_of(symbol), True, True)


def _products(family: Family, calls: Sequence[tuple[Shape, Candidate]]) -> list[tiles.Product]:
    made = []
    for shape, each in calls:
        tile = tiles.tile_of(each.kernel)
        assert tile is not None, each.kernel
        made.append(
            tiles.Product(
                family.cus, shape.m, shape.n, shape.k, tile.rows, tile.columns, tile.depth, each.us * 1000
            )
        )
    return made
