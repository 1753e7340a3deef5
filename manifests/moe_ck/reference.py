"""Mixtures of experts in two stages by Composable Kernel: sorted tokens, both products, the activation between them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases import experts
from build_tools.cases.experts import ROUNDING, Total, activated, blocks, draw_codes, draw_scales, usual
from build_tools.cases.near import Near, Values, near

__all__ = ["draw_codes", "draw_scales"]

#: Elements that lie together in the layout of ``shuffle_weight`` (16, 16).
_RUN = {"bf16": 8, "e4m3fn": 16, "e4m3fnuz": 16}
_ERF = np.vectorize(math.erf, otypes=[float])


def ck_moe_stage1_fwd(
    hidden_states: Values,
    w1: Values,
    sorted_token_ids: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    topk: int,
    w1_scale: Values | None,
    a1_scale: Values | None,
    block_m: int,
    sorted_weights: Values | None,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each choice of each token: act(weight * x @ gate^T) * (weight * x @ up^T); codes times their scales.

    Choices that no sorted id names keep what they had.
    """
    tokens, columns = sizes["T"], sizes["I"]
    x = _scaled(hidden_states, a1_scale, (tokens, 1))
    first = _scaled(usual(w1, _RUN[kinds["w1"]]), w1_scale, (sizes["E"], 2 * columns, 1))
    result, error = np.zeros((2, tokens, topk, columns))
    named = np.zeros((tokens, topk), bool)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes, block_m)
    for expert, ids, choices, weights in found:
        rows, matrix = x[ids] * weights[:, None], first[expert]
        off = 2 * x.shape[1] * ROUNDING * (np.abs(rows) @ np.abs(matrix).T)
        result[ids, choices], error[ids, choices] = _gated(rows @ matrix.T, off, columns, activation == 1)
        named[ids, choices] = True
    return near(np.ma.array(result, mask=np.repeat(~named, columns).reshape(result.shape)), absolute=error)


def ck_moe_stage2_fwd(
    inter_states: Values,
    w2: Values,
    sorted_token_ids: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    out: Values,
    w2_scale: Values | None,
    a2_scale: Values | None,
    block_m: int,
    sorted_weights: Values | None,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """What is in out, plus (x @ down^T) * weight of each choice; codes times their scales."""
    x = _scaled(inter_states, a2_scale, (*inter_states.shape[:2], 1))
    down = _scaled(usual(w2, _RUN[kinds["w2"]]), w2_scale, (sizes["E"], sizes["D"], 1))
    total = Total(sizes["T"], sizes["D"], "bf16", sizes["I"])  # a workgroup adds all columns of a row
    total.values, total.sizes = out.copy(), np.abs(out)
    total.addends += (out != 0).any(axis=1, keepdims=True)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes, block_m)
    for expert, ids, choices, weights in found:
        hidden = x[ids, choices]
        total.add(down[expert], ids, weights, hidden, np.zeros_like(hidden))
    return total.near()


def _scaled(numbers: Values, scales: Values | None, shape: tuple[int, ...]) -> Values:
    return numbers if scales is None else numbers * scales.reshape(shape)


def _gated(sums: Values, off: Values, columns: int, gelu: bool) -> tuple[Values, Values]:
    """(The activation of the first ``columns`` sums times the others; how far that may be off)."""
    gate, gate_off = sums[:, :columns], off[:, :columns]
    up, up_off = sums[:, columns:], off[:, columns:]
    if gelu:  # not steeper than 1.13; the sum of 1 and erf loses some units of 1
        hidden = gate / 2 * (1 + _ERF(gate / math.sqrt(2)))
        hidden_off = 1.13 * gate_off + 8 * ROUNDING * np.abs(gate)
    else:
        hidden, hidden_off = activated(gate, gate_off, gelu=False)
    return hidden * up, hidden_off * (np.abs(up) + up_off) + np.abs(hidden) * up_off


def _sorted(sizes: Mapping[str, int]) -> dict[str, int]:
    """With the choices of a token under the name that ``experts`` has for them."""
    return {**sizes, "topk": sizes["choices"]}


def draw_sorted_ids(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Sorted ids, and rubbish behind them."""
    return experts.draw_sorted_ids(rng, shape, _sorted(sizes))


def draw_sorted_weights(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Their weights, and NaN behind them."""
    return experts.draw_sorted_weights(rng, shape, _sorted(sizes))


def draw_sorted_experts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """The expert of each block, and rubbish behind them."""
    return experts.draw_sorted_experts(rng, shape, _sorted(sizes))


def draw_valid(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """How many ids count, and how many tokens there are."""
    return experts.draw_valid(rng, shape, _sorted(sizes))
