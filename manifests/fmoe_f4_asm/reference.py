"""Fused mixtures of experts for MXFP4 by AITER's assembly: sorted tokens, one launch.

What the activation gives becomes MXFP4 before the second product: 32 columns share the smallest power of two with which none of
them is above 6, the largest code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from build_tools.cases.experts import (
    HALF,
    ROUNDING,
    Total,
    blocks,
    draw_sorted_experts,
    draw_sorted_ids,
    draw_sorted_weights,
    draw_valid,
    gated,
    usual,
)
from build_tools.cases.near import Near, Values, near

__all__ = ["draw_sorted_experts", "draw_sorted_ids", "draw_sorted_weights", "draw_valid"]

_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
#: Half way from each code to the next.
_EDGES = (_FP4[1:] + _FP4[:-1]) / 2
#: Columns that share a scale, and of the smallest tile.
_SHARE, _TILE = 32, 256


def fmoe_g1u1_mxfp4(
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
    """Each token's experts, weighted: (act(x @ gate^T) * (x @ up^T)) @ down^T; a scale of x belongs to a sorted id."""
    first, second = (
        _numbers(usual(weights).reshape(-1, weights.shape[2]), scales).reshape(*weights.shape[:2], -1)
        for weights, scales in ((gate, fc1_scale), (down, fc2_scale))
    )
    routed = (sorted_expert_ids, num_valid_ids, sizes)
    places = blocks(sorted_token_ids, np.arange(len(sorted_token_ids)), *routed)
    scales = _scales(input_scale, sizes["D"] // _SHARE)
    total = Total(sizes["T"], sizes["D"], kinds["out"], _TILE)
    for (expert, tokens, _, weights), (_, _, _, place) in zip(
        blocks(sorted_token_ids, sorted_weights, *routed), places, strict=True
    ):
        rows = _values(input[tokens]) * np.repeat(scales[place], _SHARE, axis=1)
        off = 2 * rows.shape[1] * ROUNDING * (np.abs(rows) @ np.abs(first[expert]).T)
        hidden = gated(rows @ first[expert].T, off, second.shape[2], activation == 1)
        total.add(second[expert], tokens, weights, *_coded(*hidden))
    found = total.near()
    if kinds["out"] != "f16":
        return found
    half, smallest = HALF["f16"]  # what is added is cut to fp16: off by half a unit more
    return near(found.values, absolute=found.error + half * 1.02 * total.sizes + smallest)


def _numbers(codes: Values, scales: Values) -> Values:
    """Codes times the scales of their rows."""
    exact = _values(codes)
    found: Values = exact * np.repeat(_scales(scales, exact.shape[1] // _SHARE), _SHARE, axis=1)
    return found


def _values(codes: Values) -> Values:
    """Bytes of two fp4 each, the lower half first."""
    rows, width = codes.shape
    halves = np.stack([codes & 15, codes >> 4], axis=-1).reshape(rows, 2 * width)
    found: Values = _FP4[halves & 7] * np.where(halves & 8, -1.0, 1.0)
    return found


def _scales(codes: Values, columns: int) -> Values:
    """Powers of two; of 32 rows and 8 columns row r and column c stand at [c % 4][r % 16][c // 4][r // 16]."""
    parts = codes.reshape(-1, columns // 8, 4, 16, 2, 2).transpose(0, 5, 3, 1, 4, 2)
    found: Values = np.ldexp(1.0, parts.reshape(-1, columns) - 127)
    return found


def _coded(hidden: Values, off: Values) -> tuple[Values, Values]:
    """(As MXFP4, how far a kernel's may be off that starts ``off`` away: by another code, or another scale)."""
    parts = hidden.reshape(len(hidden), -1, _SHARE)
    away = off.reshape(parts.shape) + 2**-22 * np.abs(parts)
    exact = _rounded(parts, _powers(parts))
    furthest = np.zeros_like(parts)
    for found in _around(parts, away):
        furthest = np.maximum(furthest, np.abs(found - exact))
    return exact.reshape(hidden.shape), furthest.reshape(hidden.shape)


def _around(parts: Values, off: Values) -> Iterator[Values]:
    """What becomes of numbers a little smaller and larger, with each scale that may come out."""
    sizes = np.abs(parts)
    for scale in (_powers(np.maximum(sizes - off, 0)), _powers(sizes + off)):
        yield from (_rounded(parts - off, scale), _rounded(parts + off, scale))


def _powers(parts: Values) -> Values:
    largest = np.maximum(np.abs(parts).max(axis=2, keepdims=True), 2.0**-120)
    found: Values = np.exp2(np.ceil(np.log2(largest / 6)))
    return found


def _rounded(parts: Values, scale: Values) -> Values:
    found: Values = np.sign(parts) * _FP4[np.searchsorted(_EDGES, np.abs(parts) / scale)] * scale
    return found
