"""The first stage of mixtures of experts by ck_tile: 16-bit activations, weights of MXFP4, gpt-oss's SwiGLU behind them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases import experts
from build_tools.cases.experts import ROUNDING, blocks
from build_tools.cases.near import Near, Values, near

_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
#: Columns that share a scale.
_SHARE = 32
#: Of SwiGLU: the factor within the logistic function, and where both halves are cut.
_ALPHA, _LIMIT = 1.702, 7.0


def moe_cktile2stages_gemm1(
    XQ: Values,
    WQ: Values,
    sorted_ids: Values,
    sorted_expert_ids: Values,
    max_token_ids: Values,
    topk: int,
    w_scale: Values,
    exp_bias: Values,
    block_m: int,
    sizes: Mapping[str, int],
) -> Near:
    """Each choice of each token: swiglu(x @ gate^T + bias, x @ up^T + bias).

    Choices that no sorted id names keep what they had.
    """
    count, tokens, columns = sizes["E"], sizes["T"], sizes["I"]
    first = _weights(WQ, w_scale)
    bias = exp_bias.reshape(count, 2 * columns)
    result, error = np.zeros((2, tokens, topk, columns))
    named = np.zeros((tokens, topk), bool)
    found = blocks(sorted_ids, None, sorted_expert_ids, max_token_ids, sizes, block_m)
    for expert, ids, choices, _ in found:
        rows, matrix = XQ[ids], first[expert]
        off = 2 * rows.shape[1] * ROUNDING * (np.abs(rows) @ np.abs(matrix).T) + 2 * ROUNDING * np.abs(
            bias[expert]
        )
        result[ids, choices], error[ids, choices] = _swiglu(rows @ matrix.T + bias[expert], off, columns)
        named[ids, choices] = True
    return near(np.ma.array(result, mask=np.repeat(~named, columns).reshape(result.shape)), absolute=error)


def _weights(pairs: Values, scales: Values) -> Values:
    """Numbers [E, N, K] of pairs of codes and of scales, as ck_tile's kernel has them.

    Blocks of 16 rows of gate and of up come in turn, the lower half of a byte first.
    """
    count, rows, width = pairs.shape
    shares = width * 2 // _SHARE
    placed = pairs.reshape(count, rows // 32, 2, width // 64, 4, 16, 16).transpose(0, 2, 1, 5, 3, 4, 6)
    codes = placed.reshape(count, rows, width)
    both = np.stack([codes & 15, codes >> 4], axis=-1).reshape(count, rows, 2 * width)
    stored = scales.reshape(count, rows // 32, shares // 8, 4, 16, 2, 2).transpose(0, 6, 1, 4, 2, 5, 3)
    powers = np.exp2(stored.reshape(count, rows, shares) - 127.0)
    numbers: Values = np.where(both & 8, -1.0, 1.0) * _FP4[both & 7] * np.repeat(powers, _SHARE, axis=2)
    return numbers


def _swiglu(sums: Values, off: Values, columns: int) -> tuple[Values, Values]:
    """(g * sigmoid(alpha * g) * (u + 1) of the halves of ``sums``, both cut; how far that may be off)."""
    gate, up = np.minimum(sums[:, :columns], _LIMIT), np.clip(sums[:, columns:], -_LIMIT, _LIMIT) + 1
    gate_off, up_off = off[:, :columns], off[:, columns:] + ROUNDING * np.abs(up)
    active = gate / (1 + np.exp(-_ALPHA * gate))
    # It is not steeper than 1.13; the argument of exp is off by some roundings of its size.
    steep = np.minimum(_ALPHA * np.abs(gate), 128)
    active_off = 1.13 * gate_off + np.abs(active) * ROUNDING * (16 + 8 * steep)
    return active * up, active_off * (np.abs(up) + up_off) + np.abs(active) * up_off


def _sorted(sizes: Mapping[str, int]) -> dict[str, int]:
    """With the choices of a token under the name that ``experts`` has for them."""
    return {**sizes, "topk": sizes["choices"]}


def draw_sorted_ids(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Sorted ids, and rubbish behind them."""
    return experts.draw_sorted_ids(rng, shape, _sorted(sizes))


def draw_sorted_experts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """The expert of each block, and rubbish behind them."""
    return experts.draw_sorted_experts(rng, shape, _sorted(sizes))


def draw_valid(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """How many ids count, and how many tokens there are."""
    return experts.draw_valid(rng, shape, _sorted(sizes))
