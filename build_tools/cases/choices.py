"""Shared code of references of whole mixtures of experts.

Activations, choices of experts, and masks of local experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases.experts import ROUNDING, activated
from build_tools.cases.near import Values

_ERF = np.vectorize(math.erf, otypes=[float])


def active(x: Values, off: Values, activation: int) -> tuple[Values, Values]:
    """(SiLU, GELU in its erf form, or x * sigmoid(1.702 * x); how far that may be off)."""
    if activation == 2:
        steeper, wrong = activated(1.702 * x, 1.702 * off, False)
        return steeper / 1.702, wrong / 1.702
    if activation == 0:
        return activated(x, off, False)
    found: Values = 0.5 * x * (1 + _ERF(x * math.sqrt(0.5)))
    return found, 1.13 * off + (np.abs(x) + np.abs(found)) * ROUNDING * 16


def here(count: int, mask: Values | None, expert: int) -> int | None:
    """Find the place of an expert's weights; None if absent.

    They are those of ``count`` experts, or of the experts in ``mask``.
    """
    known = np.ones(count, bool) if mask is None else mask != 0
    return int(known[:expert].sum()) if 0 <= expert < len(known) and known[expert] else None


def draw_chosen(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], count: float
) -> Values:
    """Different experts of ``count`` for each token."""
    del sizes
    return np.argsort(rng.random((shape[0], int(count))), axis=1)[:, : shape[1]]


def draw_wild(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], count: float
) -> Values:
    """Such of which some are no expert's: negative, and the one behind the last."""
    chosen = draw_chosen(rng, shape, sizes, count)
    chosen[::3, 0] = -1
    chosen[1::3, -1] = int(count)
    return chosen


def draw_some(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """1 for as many experts as there are weights, not for the first."""
    here = np.zeros(shape, np.int64)
    here[1 + rng.permutation(shape[0] - 1)[: sizes["E"]]] = 1
    return here
