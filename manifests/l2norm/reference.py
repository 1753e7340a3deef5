"""Rows over their length."""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24


def l2norm_fwd(x: Values, eps: float, need_rstd: bool) -> dict[str, Near | None]:
    """Sums of squares have at most N / 16 terms of a lane, the sum over lanes behind them; a root halves what they are off."""
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.sqrt((x * x).sum(axis=-1) + float(np.float32(eps)))
        factor = 1 / length
        made = x * factor[..., None]
    off = (16 + x.shape[-1] / 16) * _ROUNDING
    return {"y": near(made, relative=off), "rstd": near(factor, relative=off) if need_rstd else None}
