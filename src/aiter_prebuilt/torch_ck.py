"""What Dynamo traces of functions that launch ck_tile's kernels: as ``torch_calls``."""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def deepgemm(XQ: Any, WQ: Any, Y: Any, group_layout: Any, x_scale: Any, w_scale: Any) -> Any:
    """Of ``aiter_prebuilt.deepgemm``."""
    _OPS.deepgemm.default(XQ, WQ, Y, group_layout, x_scale, w_scale)
    return Y
