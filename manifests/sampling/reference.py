"""Choosing a token: the largest logit, or a race of exponentials (the largest probability over a number drawn for it)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Values

_LOWEST = -float(np.finfo(np.float32).max)


def _first_largest(scores: Values) -> Values:
    """Place of the largest score of each row, of equal ones the first; 0 where none is above the lowest fp32 number."""
    ranked = np.where(scores > _LOWEST, scores, -np.inf)
    if not ranked.shape[-1]:
        return np.ma.array(np.zeros(len(ranked), np.int64), mask=np.ones(len(ranked), bool))
    found: Values = np.argmax(ranked, axis=-1)
    return found


def greedy_sample(input: Values) -> Values:
    """The place of the largest value."""
    return _first_largest(input)


def _race(input: Values, exponentials: Values, temperatures: Values, eps: float) -> Values:
    if not input.size:
        return _first_largest(input)
    scaled = input / np.maximum(temperatures, 1e-5)[:, None]
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return _first_largest(weights / (exponentials + eps))


def random_sample_outer_exponential(
    input: Values, exponentials: Values, temperatures: Values, eps: float
) -> Values:
    """The place of the largest exp(input / temperature) / (exponential + eps)."""
    return _race(input, exponentials, temperatures, eps)


def mixed_sample_outer_exponential(
    input: Values, exponentials: Values, temperatures: Values, eps: float
) -> Values:
    """As :func:`random_sample_outer_exponential`, or as :func:`greedy_sample` where the temperature is 0."""
    raced = _race(input, exponentials, temperatures, eps)
    cold = temperatures == 0
    raced[cold] = _first_largest(input)[cold]
    return raced


def draw_exponential(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Of mean 1."""
    del sizes
    return rng.exponential(size=shape)


def draw_some_zero(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Temperatures, every second one 0."""
    del sizes
    temperatures = rng.uniform(0.5, 2.0, shape)
    temperatures[1::2] = 0.0
    return temperatures


def draw_lowest(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Numbers just above the lowest one of fp32."""
    del sizes
    return rng.uniform(-3.38e38, -3.36e38, shape)


#: What decides a race of two, by row: their logits, and the numbers drawn for them. All but the winner of the row are far off.
#: The first wins by 3 %, the second does; the second by what eps is, the first against it; the first by 0.5 % against eps.
_DUELS = (
    ((4.0, 0.0), (math.exp(3.97), 1.0)),
    ((4.0, 0.0), (math.exp(4.03), 1.0)),
    ((0.0, -23.0), (1.0, 0.0)),
    ((0.0, -23.0), (0.95, 0.0)),
    ((0.0, -23.0), (0.97, 0.0)),
)


def draw_duel(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Logits of two that race, in the first column and in the middle; of the others that cannot win."""
    del rng, sizes
    logits = np.full(shape, -60.0)
    for row in range(shape[0]):
        logits[row, 0], logits[row, shape[1] // 2] = _DUELS[row % len(_DUELS)][0]
    return logits


def draw_duel_numbers(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """The numbers for :func:`draw_duel`."""
    del rng, sizes
    numbers = np.ones(shape)
    for row in range(shape[0]):
        numbers[row, 0], numbers[row, shape[1] // 2] = _DUELS[row % len(_DUELS)][1]
    return numbers
