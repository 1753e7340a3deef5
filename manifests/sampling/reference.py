"""Choosing a token: the largest logit, a race of exponentials (the largest probability over a number drawn for it), or a
probability among the largest (top-k, top-p).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

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


def random_sample(
    input: Values, temperatures: Values, lambd: float, generator: tuple[int, int], eps: float
) -> Values:
    """As :func:`random_sample_outer_exponential`, with numbers that :func:`_exponentials` draws."""
    return _race(input, _exponentials(generator, lambd, input.shape), temperatures, float(np.float32(eps)))


def mixed_sample(
    input: Values, temperature: Values, lambd: float, generator: tuple[int, int], eps: float
) -> Values:
    """As :func:`mixed_sample_outer_exponential`."""
    numbers = _exponentials(generator, lambd, input.shape)
    return mixed_sample_outer_exponential(input, numbers, temperature, float(np.float32(eps)))


def exponential(lambd: float, generator: tuple[int, int], eps: float, sizes: Mapping[str, int]) -> Near:
    """The numbers themselves. A kernel's logarithm is off by two units, its product and sum by half a unit each."""
    numbers = _exponentials(generator, lambd, (sizes["M"], sizes["N"]))
    return near(numbers + float(np.float32(eps)), relative=2.0**-21)


def _exponentials(generator: tuple[int, int], lambd: float, shape: tuple[int, ...]) -> Values:
    """-log(u) / lambd; of u that is all but 1 the logarithm counts as 2^-24, as AITER has it (torch: -2^-24)."""
    uniform = _uniforms(*generator, *shape)
    logarithm = np.where(uniform >= 1 - 2.0**-24, 2.0**-24, np.log(uniform))
    numbers: Values = -logarithm / float(np.float32(lambd))
    return numbers


def _uniforms(seed: int, offset: int, rows: int, columns: int) -> Values:
    """fp32 numbers in (0, 1]. Thread t of row m has subsequence 1024 m + t, from ``offset`` on, and four columns at once."""
    row, column = np.indices((rows, columns), np.uint64)
    subsequence = row * np.uint64(1024) + column % np.uint64(4096) // np.uint64(4)
    taken = np.uint64(offset) + column // np.uint64(4096) * np.uint64(4) + column % np.uint64(4)
    groups = taken // np.uint64(4)
    words = _philox(
        [groups & _LOW, groups >> np.uint64(32), subsequence & _LOW, subsequence >> np.uint64(32)],
        (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF),
    )
    number = np.choose((taken % np.uint64(4)).astype(np.int64), words)
    step = np.float32(2.0**-32)
    uniform: Values = (step + number.astype(np.uint32).astype(np.float32) * step).astype(np.float64)
    return uniform


_LOW = np.uint64(0xFFFFFFFF)


def _philox(counter: list[Values], key: tuple[int, int]) -> list[Values]:
    """Philox4x32-10: four words of 32 bits for each counter."""
    a, b, c, d = counter
    for turn in range(10):
        first, second = (
            np.uint64(word + turn * step & 0xFFFFFFFF) for word, step in zip(key, _WEYL, strict=True)
        )
        low, high = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            high >> np.uint64(32) ^ b ^ first,
            high & _LOW,
            low >> np.uint64(32) ^ d ^ second,
            low & _LOW,
        )
    return [a, b, c, d]


_WEYL = (0x9E3779B9, 0xBB67AE85)


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


def top_k_renorm_probs(probs: Values, maybe_top_k_arr: Values | None, top_k_val: int) -> Near:
    """What :func:`_most` takes, over its sum. A kernel's factor and product are off by half a unit of fp64 each."""
    ks = (
        np.full(len(probs), top_k_val if top_k_val > 0 else 50)
        if maybe_top_k_arr is None
        else maybe_top_k_arr
    )
    most = _most(probs, ks, np.full(len(probs), np.inf))
    return near(most / np.maximum(most.sum(-1, keepdims=True), float(np.float32(1e-8))), relative=2.0**-50)


def top_p_sampling_from_probs(
    probs: Values,
    indices: Values | None,
    maybe_top_p_arr: Values | None,
    top_p_val: float,
    generator: tuple[int, int],
) -> Values:
    """As :func:`top_k_top_p_sampling_from_probs` with all for k."""
    return top_k_top_p_sampling_from_probs(
        probs, indices, None, probs.shape[-1] + 1, maybe_top_p_arr, top_p_val, generator
    )


def top_k_top_p_sampling_from_probs(
    probs: Values,
    indices: Values | None,
    maybe_top_k_arr: Values | None,
    top_k_val: int,
    maybe_top_p_arr: Values | None,
    top_p_val: float,
    generator: tuple[int, int],
) -> Values:
    """The first place with which the sum of what :func:`_most` takes is above the share of it that is drawn for the token."""
    rows = len(probs)
    ks = np.full(rows, top_k_val) if maybe_top_k_arr is None else maybe_top_k_arr
    ps = np.full(rows, float(np.float32(top_p_val))) if maybe_top_p_arr is None else maybe_top_p_arr
    sums = np.cumsum(_most(probs, ks, ps), axis=-1, dtype=np.longdouble)
    chosen = np.arange(rows) if indices is None else indices
    share = _shares(*generator, len(chosen))
    places = np.full(len(chosen), -1)
    for token, row in enumerate(chosen):
        if 0 <= row < rows:
            above = sums[row] > share[token] * sums[row, -1] if sums.shape[-1] else np.zeros(0, bool)
            places[token] = np.argmax(above) if above.any() else 0
    return places


def _most(probs: Values, ks: Values, ps: Values) -> Values:
    """The numbers of each row than which fewer than k are larger, that sum to less than p; at least the largest. 0 for others."""
    most = np.where(np.isfinite(probs) & (probs > 0), probs, 0.0)
    for row, own in enumerate(most):
        falling = -np.sort(-own)
        if own.size:
            larger = np.searchsorted(-falling, -own, side="left")
            sums = np.concatenate(([0], np.cumsum(falling, dtype=np.longdouble)))
            own[~((larger == 0) | ((larger < ks[row]) & (sums[larger] < ps[row])))] = 0
    return most


def _shares(seed: int, offset: int, tokens: int) -> Values:
    """A number in [0, 1) for each token, of 53 bits: of its subsequence two words, from ``offset`` on."""
    words = []
    for at in (offset, offset + 1):
        group = np.full(tokens, at // 4, np.uint64)
        counter = [
            group & _LOW,
            group >> np.uint64(32),
            np.arange(tokens, dtype=np.uint64),
            np.zeros(tokens, np.uint64),
        ]
        words.append(_philox(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))[at % 4])
    share: Values = ((words[0] << np.uint64(32) | words[1]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return share


def draw_probabilities(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """The softmax of what a model might say: from all tokens alike to a few that have nearly all, by row."""
    del sizes
    logits = rng.normal(size=shape) * np.resize([1.0, 4.0, 0.1, 8.0], shape[0])[:, None]
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-np.inf))
    probabilities: Values = weights / weights.sum(-1, keepdims=True)
    return probabilities


def draw_halves(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """1/4, twice 1/8, four times 1/16 and so on, in any order: sums are exact, a quarter of the row for each that differs."""
    del sizes
    row = 2.0 ** -(np.floor(np.log2(np.arange(1, shape[1] + 1))) + 2)
    return rng.permuted(np.broadcast_to(row, shape), axis=1)


def draw_few(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Tokens that nearly all have nothing; of every third row all."""
    del sizes
    values = np.where(rng.random(shape) < 0.01, rng.random(shape), 0.0)
    values[::3] = 0.0
    return values


def draw_small(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Numbers of all sizes that the type has, also its least: none is a probability, each counts."""
    del sizes
    return 2.0 ** rng.uniform(-149, -100, shape)


def draw_rows(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Rows of tokens; every fifth is of none."""
    rows = rng.integers(0, sizes["M"], shape)
    rows[4::10] = -1
    rows[9::10] = sizes["M"]
    return rows
