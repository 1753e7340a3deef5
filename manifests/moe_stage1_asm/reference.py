"""The first stage of a mixture of experts by AITER's assembly: sorted tokens, 8-bit codes, both products and the activation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.experts import (
    ROUNDING,
    blocks,
    draw_alike,
    draw_codes,
    draw_scales,
    draw_sorted_experts,
    draw_sorted_ids,
    draw_sorted_weights,
    draw_sparse,
    draw_valid,
    gated,
    usual,
)
from build_tools.cases.near import Near, Values, near

__all__ = [
    "draw_alike",
    "draw_codes",
    "draw_scales",
    "draw_sorted_experts",
    "draw_sorted_ids",
    "draw_sorted_weights",
    "draw_sparse",
    "draw_valid",
]


def moe_stage1_g1u1(
    input: Values,
    w1: Values,
    sorted_token_ids: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    block_m: int,
    activation: int,
    a1_scale: Values,
    w1_scale: Values,
    sorted_weights: Values | None,
    sizes: Mapping[str, int],
) -> Near:
    """Each choice of each token: act(x @ gate^T) * (x @ up^T), x times its weight; all codes are multiplied by their scales.

    Choices that no sorted id names keep what they had.
    """
    tokens, topk, columns = sizes["T"], sizes["topk"], sizes["I"]
    first, scale = usual(w1), w1_scale.reshape(sizes["E"], -1)
    rows = input * a1_scale.reshape(-1, 1)
    error = np.zeros((tokens, topk, columns))
    out = np.ma.array(np.zeros_like(error), mask=np.ones(error.shape, bool))
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes, block_m)
    for expert, ids, choices, weights in found:
        x, matrix = rows[ids] * weights[:, None], first[expert] * scale[expert][:, None]
        off = 2 * x.shape[1] * ROUNDING * (np.abs(x) @ np.abs(matrix).T)
        out[ids, choices], error[ids, choices] = gated(x @ matrix.T, off, columns, activation == 1)
    return near(out, absolute=error)
