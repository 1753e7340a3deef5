"""Fused mixtures of experts by AITER's assembly: sorted tokens, 8-bit codes, one launch.

What the activation gives is quantised again before the second product: a row of a tile has one scale, and which tile was
chosen is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases.experts import (
    ROUNDING,
    Block,
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

#: Columns of the smallest tile.
_TILE = 128


class _Layer(NamedTuple):
    """What one call has, its weights in their usual layout. ``first`` holds I rows of an expert, or 2 * I: gate and up."""

    first: Values
    second: Values
    first_scale: Values
    second_scale: Values
    smooth: Values | None
    gelu: bool
    code: str


def fmoe_g1u1(
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
    fc2_smooth_scale: Values | None,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: (act(x @ gate^T) * (x @ up^T) * smooth) @ down^T; all codes are multiplied by their scales.

    With fc2_smooth_scale a token has a row for each choice: choice * T + token.
    """
    layer = _layer(gate, down, fc1_scale, fc2_scale, fc2_smooth_scale, activation, kinds)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    return _answer(layer, input * input_scale.reshape(-1, 1), found, sizes, kinds)


def fmoe_g1u1_tkw1(
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
    """As fmoe_g1u1, with the weight where a token comes in: act(weight * x @ gate^T) * (weight * x @ up^T)."""
    layer = _layer(gate, down, fc1_scale, fc2_scale, None, activation, kinds)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    return _answer(layer, input * input_scale.reshape(-1, 1), found, sizes, kinds, early=True)


def fmoe_int8_g1u0(
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
    fc2_smooth_scale: Values,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: (act(x @ gate^T) * smooth) @ down^T.

    A token has a row for each choice: choice * T + token.
    """
    layer = _layer(gate, down, fc1_scale, fc2_scale, fc2_smooth_scale, activation, kinds)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    return _answer(layer, input * input_scale.reshape(-1, 1), found, sizes, kinds)


def _answer(
    layer: _Layer,
    rows: Values,
    sorted_blocks: Iterable[Block],
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
    *,
    early: bool = False,
) -> Near:
    """``early``: the weight stands in front of the first product, not behind the second."""
    total = Total(sizes["T"], sizes["D"], kinds["out"], _TILE)
    for expert, tokens, choices, weights in sorted_blocks:
        places = tokens if layer.smooth is None else (choices * sizes["T"] + tokens) % len(rows)
        ones = np.ones_like(weights)
        before, behind = (weights, ones) if early else (ones, weights)
        hidden, off = _hidden(layer, expert, rows[places] * before[:, None])
        matrix = layer.second[expert] * layer.second_scale[expert][:, None]
        total.add(matrix, tokens, behind, hidden, off)
    return total.near()


def _layer(
    gate: Values, down: Values, first: Values, second: Values, smooth: Values | None, activation: int,
    kinds: Mapping[str, str],
) -> _Layer:  # fmt: skip
    experts = len(gate)
    return _Layer(
        usual(gate), usual(down), first.reshape(experts, -1), second.reshape(experts, -1),
        None if smooth is None else smooth.reshape(experts, -1), activation == 1, kinds["gate"],
    )  # fmt: skip


def _hidden(layer: _Layer, expert: int, rows: Values) -> tuple[Values, Values]:
    """(what the activation gives for each row, how far the kernel's codes times their scale may be off)."""
    scale = layer.first_scale[expert]
    sums = rows @ layer.first[expert].T * scale
    off = 2 * rows.shape[1] * ROUNDING * (np.abs(rows) @ np.abs(layer.first[expert]).T * np.abs(scale))
    hidden, hidden_off = gated(sums, off, layer.second.shape[2], layer.gelu)
    if layer.smooth is not None:
        hidden, hidden_off = hidden * layer.smooth[expert], hidden_off * np.abs(layer.smooth[expert])
    return hidden, hidden_off + requantised(np.abs(hidden), layer.code)
