"""Fused mixtures of experts of 16-bit activations by AITER's assembly: sorted tokens, one launch.

For 8-bit weights the rows of each expert are multiplied by its scales and quantised, 256 columns at a time. What the activation
gives is quantised again before the second product: a row of a tile has one scale, and which tile was chosen is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases import numbers
from build_tools.cases.experts import (
    CODES,
    HALF,
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
    shuffled,
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

#: Columns of the smallest tile with gate and up, of those with gate alone, and of a row that share a scale.
_TILE, _WIDE, _SHARE = 256, 512, 256
#: What a kernel's quotient may be off before it becomes a code: two reciprocals, two products, each of them rounded.
_OFF = 2.0**-20


def draw_level(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """16-bit weights as those of draw_alike, all of them positive."""
    experts, rows, columns = shape
    one = (experts, rows, 1) if columns == sizes["I"] else (experts, 1, columns)
    return shuffled(np.ascontiguousarray(np.broadcast_to(rng.uniform(0.1, 1.0, one) / 64, shape)), 8)


def fmoe_g1u1_a16(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    fc1_scale: Values,
    fc2_scale: Values,
    fc1_smooth_scale: Values,
    fc2_smooth_scale: Values,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: (act(x @ gate^T) * (x @ up^T) * smooth) @ down^T, x = the codes of input * its own smooth;
    all codes are multiplied by their scales.
    """
    layer = _layer(gate, down, fc1_scale, fc2_scale, fc1_smooth_scale, fc2_smooth_scale, kinds)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    total = Total(sizes["T"], sizes["D"], kinds["out"], _TILE)
    return _answer(layer, input, found, activation == 1, total)


def fmoe_int8_g1u0_a16(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    fc1_scale: Values,
    fc2_scale: Values,
    fc1_smooth_scale: Values,
    fc2_smooth_scale: Values,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """As fmoe_g1u1_a16, (gelu(x @ gate^T) * smooth) @ down^T."""
    layer = _layer(gate, down, fc1_scale, fc2_scale, fc1_smooth_scale, fc2_smooth_scale, kinds)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    total = Total(sizes["T"], sizes["D"], kinds["out"], _WIDE)
    return _answer(layer, input, found, True, total)


def fmoe(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: gelu(input @ gate^T) @ down^T; what the activation gives becomes of the input's type."""
    first, second = usual(gate, 8), usual(down, 8)
    half, smallest = HALF[kinds["input"]]
    total = Total(sizes["T"], sizes["D"], kinds["out"], _WIDE)
    for expert, tokens, _, weights in blocks(
        sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes
    ):
        rows = input[tokens]
        off = 2 * rows.shape[1] * ROUNDING * (np.abs(rows) @ np.abs(first[expert]).T)
        hidden, hidden_off = gated(rows @ first[expert].T, off, second.shape[2], True)
        hidden_off = hidden_off + half * 1.02 * np.abs(hidden) + smallest
        total.add(second[expert], tokens, weights, hidden, hidden_off)
    return total.near()


class _Layer(NamedTuple):
    """What one call has, its weights in their usual layout. ``first`` holds I rows of an expert, or 2 * I: gate and up."""

    first: Values
    second: Values
    first_scale: Values
    second_scale: Values
    before: Values
    behind: Values
    code: str


def _layer(
    gate: Values, down: Values, first: Values, second: Values, before: Values, behind: Values, kinds: Mapping[str, str]
) -> _Layer:  # fmt: skip
    experts = len(gate)
    return _Layer(
        usual(gate), usual(down), first.reshape(experts, -1), second.reshape(experts, -1), before.reshape(experts, -1),
        behind.reshape(experts, -1), kinds["gate"],
    )  # fmt: skip


def _answer(layer: _Layer, input: Values, sorted_blocks: Iterable[Block], gelu: bool, total: Total) -> Near:
    for expert, tokens, _, weights in sorted_blocks:
        rows, rows_off = _quantised(input[tokens] * layer.before[expert], layer.code)
        scale, behind = layer.first_scale[expert], layer.behind[expert]
        off = rows_off + 2 * rows.shape[1] * ROUNDING * np.abs(rows)
        sums = rows @ layer.first[expert].T * scale
        sums_off = off @ np.abs(layer.first[expert]).T * np.abs(scale)
        hidden, hidden_off = gated(sums, sums_off, layer.second.shape[2], gelu)
        hidden, hidden_off = hidden * behind, hidden_off * np.abs(behind)
        matrix = layer.second[expert] * layer.second_scale[expert][:, None]
        total.add(matrix, tokens, weights, hidden, hidden_off + requantised(np.abs(hidden), layer.code))
    return total.near()


def _quantised(rows: Values, code: str) -> tuple[Values, Values]:
    """(Codes times their scales, how far a kernel's may be off: near the edge of two codes by their distance).

    The largest of 256 columns, and at least 1e-6, becomes the largest code; to int8 the rest of a quotient is cut.
    """
    parts = rows.reshape(len(rows), -1, _SHARE)
    largest = np.maximum(np.abs(parts).max(axis=2, keepdims=True), 1e-6) / CODES[code][0]
    least, exact, most = (_coded(parts / largest * by, code) for by in (1 - _OFF, 1.0, 1 + _OFF))
    off = np.maximum(np.abs(exact - least), np.abs(most - exact)) + np.abs(exact) * _OFF
    return (exact * largest).reshape(rows.shape), (off * largest).reshape(rows.shape)


def _coded(quotients: Values, code: str) -> Values:
    if code == "i8":
        return np.trunc(quotients)
    return numbers.decode(numbers.encode(quotients, code, saturate=True), code)
