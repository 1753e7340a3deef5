"""RMSNorm of heads times SiLU of a gate, as fp8 codes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_LARGEST = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}
_ROUNDING = 2.0**-24
_LEAST = float(np.float32(1e-10))


def _gated(x: Values, z: Values, weight: Values, epsilon: float) -> tuple[Values, Values]:
    """Gated heads, and how far each may be off, relative."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = (x * x).mean(axis=-1, keepdims=True) + float(np.float32(epsilon))
        found = x / np.sqrt(mean) * weight * (z / (1 + np.exp(-z)))
        off = (24 + x.shape[-1] / 16 + 2 * np.where(np.isfinite(z), np.abs(z), 0.0)) * _ROUNDING
    return found, off


def _quantised(found: Values, off: Values, axes: tuple[int, ...], kind: str) -> tuple[Values, Values, Values]:
    """Codes before their rounding, their error, and scales: the largest of ``axes`` over the largest code."""
    largest = _LARGEST[kind]
    with np.errstate(invalid="ignore", over="ignore"):
        amax = np.fmax.reduce(np.abs(found), axis=axes, keepdims=True, initial=0.0)
        scales = np.where(amax > _LEAST, amax / largest, _LEAST)
        codes = np.clip(found / scales, -largest, largest)
        worst = off.max(axis=axes, keepdims=True, initial=0.0)
        error = np.abs(codes) * (off + worst + 6 * _ROUNDING)
    return codes, np.where(np.isfinite(error), error, 0.0), scales


def gated_rmsnorm_fp8_group_quant(
    x: Values,
    z: Values,
    weight: Values,
    epsilon: float,
    transpose_scale: bool,
    kinds: Mapping[str, str],
) -> dict[str, Near]:
    """A scale for each head of a token."""
    found, off = _gated(x, z, weight, epsilon)
    codes, error, scales = _quantised(found, off, (2,), kinds["out"])
    order = scales[..., 0].T if transpose_scale else scales[..., 0]
    lost = off.max(axis=-1, initial=0.0)
    lost = lost.T if transpose_scale else lost
    return {
        "out": near(codes.reshape(-1), absolute=error.reshape(-1)),
        "scale": near(order.reshape(-1), relative=lost.reshape(-1) + 4 * _ROUNDING),
    }


def gated_rmsnorm_fp8_per_token_quant(
    x: Values, z: Values, weight: Values, epsilon: float, kinds: Mapping[str, str]
) -> dict[str, Near]:
    """A scale for each token."""
    found, off = _gated(x, z, weight, epsilon)
    codes, error, scales = _quantised(found, off, (1, 2), kinds["out"])
    lost = off.max(axis=(1, 2), initial=0.0)
    return {
        "out": near(codes.reshape(-1), absolute=error.reshape(-1)),
        "scale": near(scales.reshape(-1), relative=lost + 4 * _ROUNDING),
    }
