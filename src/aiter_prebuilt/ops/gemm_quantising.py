"""Products of 16-bit rows with a weight in fp8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._products import product, turned
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.gemm_quantising import (
    refuse_batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant,
    refuse_gemm_a16w8_blockscale,
)

if TYPE_CHECKING:
    import torch

_batched = operator("batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant")
_gemm_a16w8_blockscale = operator("gemm_a16w8_blockscale")


@traced
def batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(
    X: torch.Tensor,
    WQ: torch.Tensor,
    w_scale: torch.Tensor,
    group_size: int = 128,
    bias: torch.Tensor | None = None,
    dtype: torch.dtype | None = None,
    splitK: int | None = None,
    YQ: torch.Tensor | None = None,
    transpose_bm: bool = False,
    transpose_bm_in: bool = False,
    config: str | None = None,
) -> torch.Tensor:
    """``(fp8(X[b]) @ WQ[b].T) * w_scale + bias[b]`` for each b; each 128 columns of a row of X have a scale of their own.

    Accumulated in fp32 on the matrix cores, rounded once.

    Args:
        X: [l, m, k] bf16 or fp16, with transpose_bm_in [m, l, k]; k a multiple of 128, the last dim contiguous, rows and matrices
            at multiples of 16 bytes. It is made fp8 as ``x / s``, s a 448th (gfx942: a 240th) of the largest size of its group.
            A row with an infinity or NaN gives NaN.
        WQ: [l, n, k] the target's own fp8, rows and matrices at multiples of 16 bytes.
        w_scale: fp32, one number.
        bias: [l, 1, n] of the type of X.
        dtype: that of X; bf16 when None. It is not looked at where YQ is given.
        YQ: [l, m, n], with transpose_bm [m, l, n], written; made when None.
        group_size, splitK, config: 128, None and None only.

    Returns:
        ``YQ``, or what was made.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant``.
    """
    refuse_batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(group_size, splitK, config)
    try:
        rows = turned(X, transpose_bm_in)
        made: torch.Tensor = product(X, WQ, dtype, YQ, transpose_bm != transpose_bm_in)
        out = turned(made, transpose_bm)
    except (*NOT_A_TENSOR, KeyError) as error:
        name = "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"
        raise no_output(name, error) from error
    _batched(rows, WQ, w_scale, bias, out)
    return made


@traced
def gemm_a16w8_blockscale(
    x: torch.Tensor,
    w: torch.Tensor,
    w_scale: torch.Tensor,
    dtype: torch.dtype | None = None,
    y: torch.Tensor | None = None,
    prequant: bool = False,
    config: str | None = None,
    skip_reduce: bool = False,
) -> torch.Tensor:
    """``x @ w.T`` with a scale for each 128 x 128 of w, accumulated in fp32 on the matrix cores, rounded once.

    Args:
        x: [m, k] bf16 or fp16, k a multiple of 128, the last dim contiguous, rows at multiples of 16 bytes.
        w: [n, k] the target's own fp8, rows at multiples of 16 bytes.
        w_scale: [n / 128, k / 128] fp32, per 128 x 128, rounded up.
        dtype: that of x; bf16 when None. It is not looked at where y is given.
        y: [m, n], written; made when None.
        prequant: each 128 columns of a row are made fp8, as ``x / s``, s a 448th (gfx942: a 240th) of their largest size, and the
            product is one of fp8; a row with an infinity or NaN gives NaN then.
        config, skip_reduce: None and False only.

    Returns:
        ``y``, or what was made.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a16w8_blockscale``.
    """
    refuse_gemm_a16w8_blockscale(config, skip_reduce)
    try:
        y = product(x, w, dtype, y)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_a16w8_blockscale", error) from error
    _gemm_a16w8_blockscale(x, w, w_scale, y, prequant)
    return y
