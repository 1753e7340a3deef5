"""What Dynamo traces of functions that launch matrix products of our own: as ``torch_calls``."""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._products import product, turned
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(
    X: Any, WQ: Any, w_scale: Any, bias: Any, dtype: Any, YQ: Any, transpose_bm: bool, transpose_bm_in: bool
) -> Any:
    """Of ``aiter_prebuilt.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant``."""
    made = product(X, WQ, dtype, YQ, transpose_bm != transpose_bm_in)
    _OPS.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant.default(
        turned(X, transpose_bm_in), WQ, w_scale, bias, turned(made, transpose_bm)
    )
    return made


def gemm_a16w8_blockscale(x: Any, w: Any, w_scale: Any, dtype: Any, y: Any, prequant: bool) -> Any:
    """Of ``aiter_prebuilt.gemm_a16w8_blockscale``."""
    y = product(x, w, dtype, y)
    _OPS.gemm_a16w8_blockscale.default(x, w, w_scale, y, prequant)
    return y
