"""Fused mixtures of experts by AITER's assembly: sorted tokens, fp8 with a scale for each block of 128, one launch.

What the activation gives is quantised again before the second product: each 128 columns of a row have one scale.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.experts import (
    ROUNDING,
    Total,
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
    requantised,
    usual,
)
from build_tools.cases.near import Near, Values

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

#: Rows and columns that have one scale, and columns of a tile.
_BLOCK, _TILE = 128, 256


def fmoe_fp8_blockscale_g1u1(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    input_scale: Values,
    fc1_scale: Values,
    fc2_scale: Values,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: (act(x @ gate^T) * (x @ up^T)) @ down^T; codes are multiplied by their block's scale."""
    first, second = (_scaled(usual(gate), fc1_scale), _scaled(usual(down), fc2_scale))
    columns = second.shape[2]
    per_block = input_scale.reshape(input.shape[1] // _BLOCK, len(input))
    rows = input * np.repeat(per_block.T, _BLOCK, axis=1)
    total = Total(sizes["T"], sizes["D"], kinds["out"], _TILE)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    for expert, tokens, _, weights in found:
        x, matrix = rows[tokens], first[expert]
        off = 2 * x.shape[1] * ROUNDING * (np.abs(x) @ np.abs(matrix).T)
        hidden, hidden_off = gated(x @ matrix.T, off, columns, activation == 1)
        size = np.abs(hidden)
        coded = [requantised(size[:, at : at + _BLOCK], kinds["gate"]) for at in range(0, columns, _BLOCK)]
        total.add(second[expert], tokens, weights, hidden, hidden_off + np.concatenate(coded, axis=1))
    return total.near()


def _scaled(codes: Values, scale: Values) -> Values:
    """Codes [e, n, k] times the scale of their block."""
    e, n, k = codes.shape
    parts = codes.reshape(e, n // _BLOCK, _BLOCK, k // _BLOCK, _BLOCK)
    scaled: Values = parts * scale.reshape(e, n // _BLOCK, 1, k // _BLOCK, 1)
    return scaled.reshape(e, n, k)
