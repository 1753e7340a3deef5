"""Constants of a card from measured rows, and how far off they are on rows that had no say."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np

from build_tools.timing.model import USUAL, Constants, Floats, as_document, constants_of, predict
from build_tools.timing.rows import Measured

#: Errors below 1 % count as their squares, larger ones as they are: a few odd rows decide nothing.
_SOFT: Final = 1e-4
#: How strongly constants that rows do not determine are drawn to the usual ones, as logarithms.
_DRAWN: Final = 0.002
_TURNS, _STEP = 1200, 0.3
_STARTS: Final = (0.0, 0.2)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one family on one card, with the work that each is."""

    measured: Sequence[Measured]
    works: Floats
    us: Floats

    def some(self, chosen: Sequence[bool]) -> Rows:
        """Select the chosen rows."""
        kept = [row for row, keep in zip(self.measured, chosen, strict=True) if keep]
        mask = np.array(chosen)
        return Rows(kept, self.works[:, mask], self.us[mask])


def halves(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    """Two parts of about as many rows; all rows of one (N, K) are in the same."""
    groups: dict[tuple[int, int], int] = {}
    for row in rows.measured:
        key = (row.shape.n, row.shape.k)
        groups[key] = groups.get(key, 0) + 1
    order = sorted(groups)
    random.Random(seed).shuffle(order)  # noqa: S311  # no secret
    count, side = [0, 0], {}
    for key in order:
        side[key] = int(count[1] < count[0])
        count[side[key]] += groups[key]
    first = [side[row.shape.n, row.shape.k] == 0 for row in rows.measured]
    return rows.some(first), rows.some([not each for each in first])


def fit(families: Sequence[Rows]) -> Constants:
    """Fit the constants with the smallest mean of errors.

    Each family of several counts the same. Rounded as they are written.
    """
    usual = np.log(astuple(USUAL))

    def loss(logarithms: Floats) -> float:
        constants = Constants(*np.exp(logarithms))
        means = [
            np.mean(np.sqrt(np.log(predict(constants, rows.works) / rows.us) ** 2 + _SOFT))
            for rows in families
        ]
        return float(np.mean(means) + _DRAWN * np.sum((logarithms - usual) ** 2))

    found = min((_smallest(loss, usual + start) for start in _STARTS), key=loss)
    return constants_of(as_document(Constants(*np.exp(found))))


def errors(constants: Constants, rows: Rows) -> Floats:
    """Compute each row's error in percent of its measurement.

    It has its sign.
    """
    return np.asarray(100 * (predict(constants, rows.works) / rows.us - 1))


def _smallest(loss: Callable[[Floats], float], start: Floats) -> Floats:
    """Nelder and Mead's simplex: no gradient, no random numbers."""
    corners = [start, *(start + _STEP * unit for unit in np.eye(start.size))]
    values = [loss(corner) for corner in corners]
    for _ in range(_TURNS):
        order = np.argsort(values, kind="stable")
        corners, values = [corners[i] for i in order], [values[i] for i in order]
        middle = np.mean(corners[:-1], axis=0)
        mirrored = 2 * middle - corners[-1]
        value = loss(mirrored)
        if value < values[0]:
            farther = 3 * middle - 2 * corners[-1]
            further = loss(farther)
            corners[-1], values[-1] = (farther, further) if further < value else (mirrored, value)
        elif value < values[-2]:
            corners[-1], values[-1] = mirrored, value
        else:
            nearer = 0.5 * (middle + corners[-1])
            value = loss(nearer)
            if value < values[-1]:
                corners[-1], values[-1] = nearer, value
            else:
                corners = [corners[0], *(0.5 * (corners[0] + corner) for corner in corners[1:])]
                values = [values[0], *(loss(corner) for corner in corners[1:])]
    return corners[int(np.argmin(values))]
