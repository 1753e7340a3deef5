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
from build_tools.cases.numbers import encode

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

#: Rows and columns that have one scale; how far a scale, and a code before it is rounded, may be off for their own arithmetic.
_BLOCK, _OFF = 128, 2.0**-20
#: The largest code of a result (that of gfx942, on gfx950, too), and what the largest number of a block counts as, at least.
_LARGEST, _LEAST = 240.0, 1e-6
#: AITER's ``QuantType.per_1x128``.
_BY_BLOCK = 4


def moe_stage1_g1u1(
    input: Values,
    w1: Values,
    sorted_token_ids: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    block_m: int,
    activation: int,
    quant_type: int,
    a1_scale: Values,
    w1_scale: Values,
    sorted_weights: Values | None,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each choice of each token: act(x @ gate^T) * (x @ up^T), x times its weight; all codes are multiplied by their scales.

    By blocks the result is quantised again, each 128 columns with a scale. Choices that no sorted id names keep what they had.
    """
    tokens, topk, columns = sizes["T"], sizes["topk"], sizes["I"]
    scaled = _by_block if quant_type == _BY_BLOCK else _by_row
    rows, first = scaled(input, usual(w1), a1_scale, w1_scale)
    result, error = np.zeros((2, tokens, topk, columns))
    named = np.zeros((tokens, topk), bool)
    found = blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes, block_m)
    for expert, ids, choices, weights in found:
        x, matrix = rows[ids] * weights[:, None], first[expert]
        off = 2 * x.shape[1] * ROUNDING * (np.abs(x) @ np.abs(matrix).T)
        result[ids, choices], error[ids, choices] = gated(x @ matrix.T, off, columns, activation == 1)
        named[ids, choices] = True
    if kinds["out"] == "u8":
        return _stored(result, error, named, sizes["R"], kinds["input"])
    return near(np.ma.array(result, mask=np.repeat(~named, columns).reshape(result.shape)), absolute=error)


def _by_row(input: Values, first: Values, a1_scale: Values, w1_scale: Values) -> tuple[Values, Values]:
    """Codes times the scale of their row."""
    return input * a1_scale.reshape(-1, 1), first * w1_scale.reshape(len(first), -1, 1)


def _by_block(input: Values, first: Values, a1_scale: Values, w1_scale: Values) -> tuple[Values, Values]:
    """Codes times the scale of their block."""
    e, n, k = first.shape
    per_block = a1_scale.reshape(k // _BLOCK, len(input)).T
    parts = first.reshape(e, n // _BLOCK, _BLOCK, k // _BLOCK, _BLOCK)
    scaled = parts * w1_scale.reshape(e, n // _BLOCK, 1, k // _BLOCK, 1)
    return input * np.repeat(per_block, _BLOCK, axis=1), scaled.reshape(e, n, k)


def _stored(result: Values, error: Values, named: Values, rows: int, kind: str) -> Near:
    """The bytes of codes, then those of scales; bytes behind them stay, and those of choices that are not ``named``."""
    tokens, topk, columns = result.shape
    parts, off = (each.reshape(tokens, topk, columns // _BLOCK, _BLOCK) for each in (result, error))
    size = np.abs(parts)
    least = (size - off).max(axis=3, initial=_LEAST) * (1 - _OFF) / _LARGEST
    most = (size + off).max(axis=3, initial=_LEAST) * (1 + _OFF) / _LARGEST
    ends = [
        _codes(parts - off, parts + off, least[..., None], most[..., None], kind),
        _floats(least, most),
    ]
    low, high = (np.concatenate([each[place].ravel() for each in ends]) for place in (0, 1))
    kept = [np.repeat(~named, each[0].size // max(named.size, 1)) for each in ends]
    behind = rows * topk * columns - low.size
    middle, half = (np.pad(each, (0, behind)) for each in ((low + high) / 2, (high - low) / 2))
    mask = np.pad(np.concatenate(kept), (0, behind), constant_values=True)
    shape = (rows, topk, columns)
    return near(np.ma.array(middle.reshape(shape), mask=mask.reshape(shape)), absolute=half.reshape(shape))


def _codes(low: Values, high: Values, least: Values, most: Values, kind: str) -> tuple[Values, Values]:
    """The least and the largest byte that a code may have: a byte with a sign is larger the smaller the number."""
    ends = [value / scale for value in (low, high) for scale in (least, most)]
    low, high = (
        np.clip(value, -_LARGEST, _LARGEST) for value in (np.minimum(*ends[:2]), np.maximum(*ends[2:]))
    )
    found = [
        encode(value * factor, kind, saturate=True).astype(np.float64)
        for value, factor in ((low, 1 + _OFF * np.sign(-low)), (high, 1 + _OFF * np.sign(high)))
    ]
    apart = (low <= 0) & (high >= 0)  # bytes of both signs, and what lies between them
    ends = [np.minimum(*found), np.maximum(*found)]
    if kind != "e4m3fnuz":  # which has no -0
        ends[1] = np.where(apart, np.maximum(ends[1], 0x80), ends[1])
    return np.where(apart, 0, ends[0]), ends[1]


def _floats(least: Values, most: Values) -> tuple[Values, Values]:
    """The least and the largest value of each byte of the floats from ``least`` to ``most``, little endian."""
    ends = [
        np.nextafter(least.astype(np.float32), np.float32(0)),
        np.nextafter(most.astype(np.float32), np.float32(np.inf)),
    ]
    low, high = (
        each.astype("<f4").view(np.uint8).reshape(*each.shape, 4).astype(np.float64) for each in ends
    )
    free = np.zeros(least.shape, bool)  # a byte above them was not the same
    for byte in (3, 2, 1, 0):
        same = low[..., byte] == high[..., byte]
        low[..., byte], high[..., byte] = (
            np.where(free, 0, low[..., byte]),
            np.where(free, 255, high[..., byte]),
        )
        free |= ~same
    return low, high
