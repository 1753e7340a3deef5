"""Report a fit to a tree's measured rows.

Constants of each family and card, and errors on rows that were not used for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import numpy as np

from build_tools.timing import heuristics, winners
from build_tools.timing.families import FAMILIES, Family, Kernel, kernels_of
from build_tools.timing.fit import Rows, errors, fit, halves
from build_tools.timing.model import Floats, as_document, matrix, work_of
from build_tools.timing.rows import Measured, measured, pairs
from build_tools.timing.simulate import Cycles, simulate
from build_tools.tools.tree import Tree

EDITION: Final = 1
#: Fewer rows than this say nothing of a half.
FEWEST: Final = 12
#: AITER walks a hash map: its rule is given so many orders, and the mean counts.
_ORDERS: Final = 24
#: Variants whose measured times differ by less are not told apart by measuring, either.
APART: Final = 1.05


@dataclass(frozen=True, slots=True)
class Case:
    """A family on a card. ``cycles`` by symbol; ``pairs``: (faster, slower)."""

    family: Family
    card: int
    kernels: Sequence[Kernel]
    cycles: Mapping[str, Cycles]
    rows: Rows
    pairs: Sequence[tuple[Measured, Measured]]

    @property
    def name(self) -> str:
        """``f4gemm gfx950 256``."""
        return f"{self.family.name} {self.family.target} {self.card}"


def cases_of(tree: Tree, library: Path, older: Sequence[Path] = ()) -> list[Case]:
    """All families that the tree has with their measured rows; ``older``: folders of earlier tables, for pairs."""
    made = []
    for family in FAMILIES:
        kernels = kernels_of(family, tree)
        every = measured(family, kernels, tree)
        if not every:
            continue
        cycles = simulate(family, kernels, tree, library)
        both = pairs(family, kernels, older)
        for card in family.cards:
            rows = [row for row in every if row.shape.cus == card]
            on_card = [each for each in both if each[0].shape.cus == card]
            if len(rows) >= FEWEST:
                made.append(Case(family, card, kernels, cycles, rows_of(family, rows, cycles), on_card))
    return made


def rows_of(family: Family, rows: Sequence[Measured], cycles: Mapping[str, Cycles]) -> Rows:
    """With their work."""
    works = [work_of(family, row.kernel, row.parts, row.shape, cycles[row.kernel.symbol]) for row in rows]
    return Rows(rows, matrix(works), np.array([row.us for row in rows]))


def compute(cases: Sequence[Case], seed: int) -> dict[str, Any]:
    """Return the document of ``tune --fit``."""
    return {
        "edition": EDITION,
        "seed": seed,
        "cards": {card: as_document(fit(rows)) for card, rows in _by_card(cases).items()},
        "families": {case.name: _case(case, cases, seed) for case in cases},
    }


def _by_card(cases: Sequence[Case]) -> dict[str, list[Rows]]:
    cards: dict[str, list[Rows]] = {}
    for case in cases:
        cards.setdefault(f"{case.family.target} {case.card}", []).append(case.rows)
    return cards


def _case(case: Case, cases: Sequence[Case], seed: int) -> dict[str, Any]:
    parts = halves(case.rows, seed)
    fitted = [fit([part]) for part in parts]
    crossed = [(fitted[0], parts[1]), (fitted[1], parts[0])]
    held_out = [errors(constants, part) for constants, part in crossed]
    found = [
        winners.found(case.family, case.kernels, case.cycles, constants, part.measured)
        for constants, part in crossed
    ]
    count = sum(each.rows for each in found)
    document: dict[str, Any] = {
        "constants": as_document(fit([case.rows])),
        "rows": len(case.rows.measured),
        "held_out": _spread(np.concatenate(held_out)),
        "halves": [_spread(each) for each in held_out],
        "winner_first": _percent(sum(each.first for each in found), count),
        "winner_in_three": _percent(sum(each.three for each in found), count),
        "heuristic_first": _heuristic(case, seed),
        "left_out": _left_out(case, cases),
        "kernels": {symbol: _cycles(each) for symbol, each in sorted(case.cycles.items())},
        "residuals": _residuals([part for _, part in crossed], held_out),
    }
    if case.pairs:
        document["pairs"] = _pairs(case)
    return document


def _left_out(case: Case, cases: Sequence[Case]) -> dict[str, float] | None:
    """Errors with the constants of the card's other families; None where there is none."""
    others = [
        each.rows for each in cases
        if each.card == case.card and each.family.target == case.family.target and each is not case
    ]  # fmt: skip
    return _spread(errors(fit(others), case.rows)) if others else None


def _heuristic(case: Case, seed: int) -> float:
    """Count how often AITER's rule names the winner, in percent.

    Its caller asks f4gemm, whose rows say logarithms, for one part.
    """
    rule = next(
        each.rule for each in heuristics.LATER
        if (each.name, each.target) == (case.family.name, case.family.target)
    )  # fmt: skip
    dice = random.Random(seed)  # noqa: S311  # no secret
    shares = []
    for _ in range(_ORDERS):
        order = dice.sample(list(case.kernels), len(case.kernels))
        right = 0
        for row in case.rows.measured:
            known = [
                heuristics.Kernel(
                    each.symbol, each.tile_m, each.tile_n, each.splits and not case.family.logarithm
                )
                for each in order
                if winners.takes(each, row.shape)
            ]
            shape = heuristics.Shape(row.shape.cus, row.shape.m, row.shape.n, row.shape.k)
            named = rule(known, shape)
            right += named is not None and named.symbol == row.kernel.symbol
        shares.append(_percent(right, len(case.rows.measured)))
    return round(mean(shares), 1)


def _pairs(case: Case) -> dict[str, Any]:
    """All that differ, and those that differ by 5 % or more; the constants are those of all rows."""
    constants = fit([case.rows])
    apart = [each for each in case.pairs if each[1].us >= APART * each[0].us]
    right = winners.in_order(case.family, case.cycles, constants, apart)
    return {"apart": len(apart), "right": _percent(right, len(apart)), "all": len(case.pairs)}


def _residuals(parts: Iterable[Rows], held_out: Iterable[Floats]) -> list[list[float]]:
    """[N, K, rows, median error of held-out rows in percent] of each group."""
    groups: dict[tuple[int, int], list[float]] = {}
    for part, percents in zip(parts, held_out, strict=True):
        for row, percent in zip(part.measured, percents, strict=True):
            groups.setdefault((row.shape.n, row.shape.k), []).append(float(percent))
    return [[n, k, len(found), round(median(found), 1)] for (n, k), found in sorted(groups.items())]


def _spread(percents: Floats) -> dict[str, float]:
    sizes = np.abs(percents)
    return {"median": round(float(np.median(sizes)), 1), "p90": round(float(np.percentile(sizes, 90)), 1)}


def _cycles(cycles: Cycles) -> list[float]:
    """List a workgroup's cycles and bytes, fixed and per column."""
    return [
        float(f"{each:.6g}")
        for each in (cycles.fixed, cycles.column, cycles.bytes_fixed, cycles.bytes_column)
    ]


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(1, whole), 1)
