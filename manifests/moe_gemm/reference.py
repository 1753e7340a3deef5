"""A mixture of experts in one call, each token by itself: no lists, no blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases.experts import HALF, ROUNDING, activated, usual
from build_tools.cases.near import Near, Values, near

_ERF = np.vectorize(math.erf, otypes=[float])
#: Elements that lie together in the layout of ``shuffle_weight`` (16, 16): 16 bytes.
_RUN = 8


def _active(x: Values, off: Values, activation: int) -> tuple[Values, Values]:
    """(SiLU, GELU in its erf form, or x * sigmoid(1.702 * x); how far that may be off)."""
    if activation == 2:
        steeper, wrong = activated(1.702 * x, 1.702 * off, False)
        return steeper / 1.702, wrong / 1.702
    if activation == 0:
        return activated(x, off, False)
    active: Values = 0.5 * x * (1 + _ERF(x * math.sqrt(0.5)))
    return active, 1.13 * off + (np.abs(x) + np.abs(active)) * ROUNDING * 16


def fused_experts(
    hidden_states: Values,
    w1: Values,
    w2: Values,
    topk_weight: Values,
    topk_ids: Values,
    expert_mask: Values | None,
    num_local_tokens: Values | None,
    activation: int,
    doweight_stage1: bool,
    w1_shuffled: bool,
    w2_shuffled: bool,
    bias1: Values | None,
    bias2: Values | None,
    swiglu_limit: float,
    kinds: Mapping[str, str],
) -> Near:
    """The sum of what each choice's expert makes of a token; between the products, and before the sum, each number is rounded."""
    half, smallest = HALF[kinds["hidden_states"]]
    first = usual(w1, _RUN) if w1_shuffled else w1
    down = usual(w2, _RUN) if w2_shuffled else w2
    known = np.ones(len(w1), bool) if expert_mask is None else expert_mask != 0
    tokens, width = hidden_states.shape
    limit = tokens if num_local_tokens is None else min(max(int(num_local_tokens[0]), 0), tokens)
    columns = w2.shape[2]
    result, error = np.zeros((2, tokens, width))
    for token in range(limit):
        x = hidden_states[token]
        for weight, expert in zip(topk_weight[token], topk_ids[token], strict=True):
            if not (0 <= expert < len(known) and known[expert]):
                continue
            own = int(known[:expert].sum())
            early, late = (weight, 1.0) if doweight_stage1 else (1.0, weight)
            sums = (first[own] @ x) * early
            off = 2 * width * ROUNDING * (np.abs(first[own]) @ np.abs(x)) * abs(early)
            if bias1 is not None:
                sums = sums + bias1[own]
                off += (np.abs(sums) + np.abs(bias1[own])) * ROUNDING
            gate, up = sums[:columns], sums[columns:]
            if swiglu_limit > 0:
                gate, up = np.minimum(gate, swiglu_limit), np.clip(up, -swiglu_limit, swiglu_limit)
            up, up_off = up + (activation == 2), off[columns:] + np.abs(up) * ROUNDING
            gate, gate_off = _active(gate, off[:columns], activation)
            hidden = gate * up
            hidden_off = gate_off * (np.abs(up) + up_off) + np.abs(gate) * up_off
            hidden_off += (np.abs(hidden) + hidden_off) * half + smallest
            sizes = np.abs(down[own])
            part = down[own] @ hidden
            part_off = sizes @ (hidden_off + 2 * columns * ROUNDING * np.abs(hidden))
            if bias2 is not None:
                part = part + bias2[own]
                part_off += (np.abs(part) + np.abs(bias2[own])) * ROUNDING
            part, part_off = part * late, part_off * abs(late)
            part_off += (np.abs(part) + part_off) * (half + 2 * ROUNDING) + smallest
            result[token] += part
            error[token] += part_off + np.abs(part) * topk_ids.shape[1] * ROUNDING
    return near(result, absolute=error)


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
