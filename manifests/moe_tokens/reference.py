"""Tokens of a mixture of experts: brought into the order of their experts, and their experts' results summed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Half a unit in the last place, relative.
_UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
_SMALLEST = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}


def moe_sum(input: Values, kinds: Mapping[str, str]) -> Near:
    """The sum over axis 1; every partial sum but the last is rounded to the element type once more."""
    kind = kinds["input"]
    partial = np.abs(np.cumsum(input, axis=1))[:, 1:-1].sum(axis=1)
    error = (_UNIT[kind] * (1 + 2.0**-6) + 2.0**-24) * partial + input.shape[1] * _SMALLEST[kind]
    return near(input.sum(axis=1), relative=2.0**-24, absolute=error)


def moe_align_block_size(
    topk_ids: Values,
    num_experts: int,
    block_size: int,
    sorted_token_ids: Values,
    experts_ids: Values,
    token_nums: Values,
) -> tuple[Values, Values, Values, Values]:
    """Places by expert, ascending; each expert starts a block."""
    places = np.ma.array(sorted_token_ids, mask=np.ones(sorted_token_ids.shape, bool))
    owners = np.ma.array(experts_ids, mask=np.ones(experts_ids.shape, bool))
    left = np.ma.array(token_nums, mask=np.ones(token_nums.shape, bool))
    block = 0
    for expert in range(num_experts):
        mine = np.flatnonzero(topk_ids.reshape(-1) == expert)
        places[block * block_size : block * block_size + mine.size] = mine
        for number in range(-(-mine.size // block_size)):
            owners[block], left[block] = expert, mine.size - number * block_size
            block += 1
    return places, owners, left, np.array([block * block_size])


def _descending(values: Values, out: Values | bool = False) -> Values:
    """Places of the last axis, largest number first, then NaN, then what is ``out``; of equal ones the lowest first."""
    nan = np.isnan(values)
    away = np.broadcast_to(out, values.shape)
    return np.lexsort((np.where(nan, 0.0, -values), nan, away), axis=-1)


def _order(values: Values, groups: int, kept: int, pairs: bool) -> Values:
    """The experts, best first, those of all groups but the ``kept`` best last; a group counts as its best, or as its two best."""
    rows = values.reshape(len(values), groups, values.shape[-1] // groups)
    nan = np.isnan(rows)
    ranked = np.sort(np.where(nan, -np.inf, rows), axis=-1)
    with np.errstate(invalid="ignore"):
        counted = (
            ranked[..., -1] + ranked[..., -2]
            if pairs
            else np.where(nan.all(axis=-1), np.nan, ranked[..., -1])
        )
    out = np.ones(counted.shape, bool)
    np.put_along_axis(out, _descending(counted)[:, :kept], False, axis=-1)
    return _descending(values, np.repeat(out, rows.shape[-1], axis=-1))


def _weighed(
    scores: Values, order: Values, spread: Values | float, renorm: bool, factor: float
) -> tuple[Near, Values]:
    """The ``scores`` of the experts in ``order``, which a kernel misses by ``spread``."""
    weights = np.take_along_axis(scores, order, axis=-1)
    error = 2.0**-21 * weights + np.take_along_axis(np.broadcast_to(spread, scores.shape), order, axis=-1)
    if not renorm:
        return near(weights * factor, absolute=error * factor), order
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a row of zeros has NaN for weights
        error = error + weights * error.sum(axis=-1, keepdims=True) / total
        return near(weights / total * factor, absolute=error / total * factor, relative=2.0**-22), order


def _sigmoid(logits: Values) -> Values:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-logits)))


def biased_grouped_topk_hip(
    gating_output: Values,
    correction_bias: Values,
    num_expert_group: int,
    topk_grp: int,
    need_renorm: bool,
    routed_scaling_factor: float,
    sizes: Mapping[str, int],
) -> tuple[Near, Values]:
    """(weights, experts) by sigmoid(gating) + bias; the weights know nothing of the bias."""
    scores = _sigmoid(gating_output)
    order = _order(scores + correction_bias, num_expert_group, topk_grp, pairs=True)[:, : sizes["K"]]
    return _weighed(scores, order, 2.0**-22, need_renorm, routed_scaling_factor)


def grouped_topk(
    gating_output: Values,
    num_expert_group: int,
    topk_group: int,
    need_renorm: bool,
    is_softmax: bool,
    routed_scaling_factor: float,
    sizes: Mapping[str, int],
) -> tuple[Near, Values]:
    """(weights, experts) by the softmax over all experts, or the sigmoid of each: both in the order of the logits."""
    if is_softmax:
        with np.errstate(invalid="ignore"):
            powers = np.exp(gating_output - gating_output.max(axis=-1, keepdims=True, initial=-np.inf))
        scores = powers / powers.sum(axis=-1, keepdims=True)
    else:
        scores = _sigmoid(gating_output)
    order = _order(gating_output, num_expert_group, topk_group, pairs=False)[:, : sizes["K"]]
    # A kernel's weights below 2^-126 may be lost.
    return _weighed(scores, order, 2.0**-125, need_renorm, routed_scaling_factor)


def moe_fused_gate(
    input: Values, bias: Values, num_expert_group: int, topk_group: int, topk: int
) -> tuple[Near, Values]:
    """(weights, experts) by sigmoid(input) + bias; NaN has the sigmoid 0."""
    scores = np.where(np.isnan(input), 0.0, _sigmoid(input))
    order = _order(scores + bias, num_expert_group, topk_group, pairs=True)[:, :topk]
    return _weighed(scores, order, 2.0**-22, True, 1.0)


def draw_distinct(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Rows of different numbers that every element type holds: multiples of 1/32, at most 256 of them."""
    del sizes
    rows = [(rng.permutation(shape[-1]) - shape[-1] // 2) / 32 for _ in range(shape[0])]
    return np.array(rows).reshape(shape)


def draw_first_dead(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A bias that takes the first three quarters of the experts out: whole groups of them."""
    del sizes
    bias = rng.normal(0, 0.3, shape)
    bias[: 3 * shape[0] // 4] = -np.inf
    return bias


def draw_one_alive(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A bias that takes all experts out but one."""
    del sizes
    bias = np.full(shape, -np.inf)
    bias[rng.integers(shape[0])] = 0.25
    return bias


def draw_four_alive(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Rows of NaN but for four different numbers, anywhere."""
    del sizes
    rows = np.full(shape, np.nan)
    for row in rows:
        row[rng.permutation(shape[-1])[:4]] = rng.permutation(np.arange(-32, 32))[:4] / 32
    return rows
