"""Quantisation of tokens for each of their experts: one scale a row, codes rounded to nearest even and cut at the largest one.

Numbers are those of ``smoothquant_fwd`` (the family quant): qmax is 127 for int8, 240 for e4m3fnuz, 448 for e4m3fn; a row of
zeros gets scale 1, and no other scale is below the smallest normal fp32 number. A kernel rounds the product, the scale twice and
the quotient, which moves a code only where the exact quotient is that close to a tie.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_QMAX = {"i8": 127.0, "e4m3fnuz": 240.0, "e4m3fn": 448.0}
_SMALLEST = 2.0**-126
_ROUNDING = 2.0**-24


def moe_smoothquant_fwd(
    input: Values, x_scale: Values, topk_ids: Values, kinds: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[Near, Near]:
    """Row k * M + t: v = input[t] * x_scale[topk_ids[t, k]]; y_scale = amax(|v|) / qmax; out = v / y_scale.

    NaN is left out of amax, and a kernel's cut takes it for the lower bound: its code is -qmax. A row with an infinity has the
    scale infinity and no codes to speak of: each is 0 or -qmax, as its kernel has it.
    """
    tokens, width, choices = sizes["M"], sizes["N"], sizes["choices"]
    rows = np.tile(input.reshape(tokens, width), (choices, 1))
    product = rows * x_scale[topk_ids.T.reshape(-1)]
    qmax = _QMAX[kinds["out"]]
    amax = np.fmax.reduce(np.abs(product), axis=-1, keepdims=True, initial=0.0)
    scales = np.where(amax > 0, np.maximum(amax / qmax, _SMALLEST), 1.0)
    codes = np.clip(product / scales, -qmax, qmax)
    lost = np.broadcast_to(amax == np.inf, codes.shape)
    codes = np.where(lost, -qmax / 2, np.where(np.isnan(product), -qmax, codes))
    return near(codes, relative=np.where(lost, 1.0, 8 * _ROUNDING)), near(
        scales.reshape(-1), relative=3 * _ROUNDING
    )


def draw_experts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """An expert for each choice of each token."""
    return rng.integers(0, sizes["E"], shape)
