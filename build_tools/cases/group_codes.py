"""RMS norms and their codes, with a scale for each row or group of columns: what references of several families share."""

from __future__ import annotations

from typing import Final

import numpy as np

from build_tools.cases.near import Near, Values, near

QMAX: Final = {"i8": 127.0, "e4m3fnuz": 240.0, "e4m3fn": 448.0}
_FLOOR: Final = 1e-10
_ROUNDING: Final = 2.0**-24
_LARGEST: Final = float(np.finfo(np.float32).max)
#: Products of a subnormal number may be lost.
_LOST: Final = 2.0**-125


def rms_norm(x: Values, weight: Values, epsilon: float) -> tuple[Values, Values]:
    """Normalise each row, with a kernel's error bound."""
    total = (x * x).sum(axis=-1, keepdims=True)
    total = np.where(total > _LARGEST, np.inf, total)
    result: Values = x * (1 / np.sqrt(total / x.shape[-1] + epsilon)) * weight
    return result, np.nan_to_num(2.0**-19 * np.abs(result), posinf=0.0) + _LOST


def coded(y: Values, error: Values, group_size: int, kind: str, turned: bool = False) -> tuple[Near, Near]:
    """(Codes, scales) of rows that are off by ``error``, in groups of columns; ``turned``: a group's scales are side by side."""
    qmax, dims = QMAX[kind], y.shape[:-1]
    width = y.shape[-1]
    group_size = group_size or width
    groups = -(-width // group_size)
    past = [*[(0, 0)] * len(dims), (0, groups * group_size - width)]
    y, error = (np.pad(each, past).reshape(*dims, groups, group_size) for each in (y, error))
    amax = np.maximum(np.fmax.reduce(np.abs(y), axis=-1, keepdims=True, initial=0.0), _FLOOR)
    worst = np.where(np.isfinite(y), error, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    scales = amax / qmax
    codes = np.clip(y / scales, -qmax, qmax)
    relative = worst / amax + 8 * _ROUNDING
    off = np.nan_to_num(error / scales + np.abs(codes) * relative, posinf=0.0)
    if kind == "i8":
        codes = np.nan_to_num(codes, nan=0.0)
    whole = (*dims, codes.shape[-1] * groups)
    wrong = np.nan_to_num(worst / qmax + 3 * _ROUNDING * scales, posinf=0.0)
    stored = [each.reshape(-1, groups) for each in (scales, wrong)]
    scales, wrong = ((each.T if turned else each).reshape(*dims, groups) for each in stored)
    return near(codes.reshape(whole)[..., :width], absolute=off.reshape(whole)[..., :width]), near(
        scales, absolute=wrong
    )
