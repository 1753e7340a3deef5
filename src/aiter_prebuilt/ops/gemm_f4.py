"""Products of MXFP4 matrices in the forms of AITER's Triton functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, no_output
from aiter_prebuilt.ops._products import product
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.gemm_f4 import (
    refuse_gemm_a16wfp4,
    refuse_gemm_afp4wfp4,
    refuse_gemm_afp4wfp4_pre_quant,
    refuse_gemm_afp4wfp4_preshuffle,
)

if TYPE_CHECKING:
    import torch

_gemm_afp4wfp4 = operator("gemm_afp4wfp4")
_gemm_afp4wfp4_preshuffle = operator("gemm_afp4wfp4_preshuffle")
_gemm_a16wfp4 = operator("gemm_a16wfp4")
_gemm_afp4wfp4_pre_quant = operator("gemm_afp4wfp4_pre_quant")


@traced
def gemm_afp4wfp4(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scales: torch.Tensor,
    w_scales: torch.Tensor,
    dtype: torch.dtype | None = None,
    y: torch.Tensor | None = None,
    config: str | None = None,
    skip_reduce: bool | None = False,
) -> torch.Tensor:
    """``dequant(x) @ dequant(w).T``, MXFP4 in, accumulated in fp32 on the matrix cores and rounded once.

    Args:
        x: [m, k / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), k a multiple of 32, the last dim contiguous,
            rows at multiples of 16 bytes.
        w: [n, k / 2], the same.
        x_scales: [m, k / 32] e8m0 (torch's, or bytes), in any strides. w_scales: [n, k / 32], the same.
        dtype: bf16 (None) or fp16. It is not looked at where y is given.
        y: [m, n], the last dim contiguous, written; made when None.
        config, skip_reduce: None and False only.

    Returns:
        ``y``, or what was made.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_afp4wfp4``.
    """
    refuse_gemm_afp4wfp4(config, skip_reduce)
    try:
        y = product(x, w, dtype, y)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_afp4wfp4", error) from error
    _gemm_afp4wfp4(codes(x, "fp4x2"), codes(w, "fp4x2"), codes(x_scales, "e8m0"), codes(w_scales, "e8m0"), y)
    return y


@traced
def gemm_afp4wfp4_preshuffle(
    x_fp4: torch.Tensor,
    w_preshuf: torch.Tensor,
    x_scales: torch.Tensor,
    w_scales: torch.Tensor,
    dtype: torch.dtype | None = None,
    y: torch.Tensor | None = None,
    config: str | None = None,
    skip_reduce: bool | None = False,
) -> torch.Tensor:
    """As :func:`gemm_afp4wfp4`, the weight and scales in AITER's layouts.

    Args:
        x_fp4: [m, k / 2] pairs of fp4 (torch's, or bytes), k a multiple of 64, rows at multiples of 16 bytes.
        w_preshuf: [n / 16, 8 k]: ``shuffle_weight(w, (16, 16)).view(n // 16, -1)``, n a multiple of 16, contiguous.
        x_scales: of fewer than 32 rows [m, k / 32] e8m0 (torch's, or bytes); else [rows / 32, k]: what ``e8m0_shuffle`` gives,
            rows a multiple of 32. Contiguous.
        w_scales: [rows / 32, k]: what ``e8m0_shuffle`` gives of those of w.
        dtype, y, config, skip_reduce: as :func:`gemm_afp4wfp4`.

    Returns:
        ``y``, or what was made.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_afp4wfp4_preshuffle``.
    """
    refuse_gemm_afp4wfp4_preshuffle(config, skip_reduce)
    try:
        y = product(x_fp4, w_preshuf, dtype, y, high=16)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_afp4wfp4_preshuffle", error) from error
    given = (
        codes(x_fp4, "fp4x2"),
        codes(w_preshuf, "fp4x2"),
        codes(x_scales, "e8m0"),
        codes(w_scales, "e8m0"),
    )
    _gemm_afp4wfp4_preshuffle(*given, y)
    return y


@traced
def gemm_a16wfp4(
    x: torch.Tensor,
    w: torch.Tensor,
    w_scales: torch.Tensor,
    atomic_add: bool | None = False,
    dtype: torch.dtype | None = None,
    y: torch.Tensor | None = None,
    config: str | None = None,
) -> torch.Tensor:
    """``dequant(mxfp4(x)) @ dequant(w).T``: each 32 columns of a row of x are made MXFP4 as they are read.

    The scale is ``2 ** (e - 2)``, where ``2 ** e`` is the largest size of the 32 rounded to a power of two, from 1.75 of one on
    to the next; the codes are ``x / scale``, rounded to the nearest, away from zero halfway, and 6 at most.

    Args:
        x: [m, k] bf16 or fp16, k a multiple of 32, the last dim contiguous, rows at multiples of 16 bytes. 32 columns with an
            infinity or NaN are NaN.
        w: [n, k / 2] pairs of fp4 (torch's, or bytes), rows at multiples of 16 bytes.
        w_scales: [n, k / 32] e8m0 (torch's, or bytes), in any strides.
        atomic_add: how AITER adds parts of k, to a y of zeros; here one workgroup adds all of it, and y may hold anything.
        dtype: bf16 (None) or fp16. It is not looked at where y is given.
        y: [m, n], the last dim contiguous, written; made when None.
        config: None only.

    Returns:
        ``y``, or what was made.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a16wfp4``.
    """
    del atomic_add
    refuse_gemm_a16wfp4(config)
    try:
        y = product(x, w, dtype, y)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_a16wfp4", error) from error
    _gemm_a16wfp4(x, codes(w, "fp4x2"), codes(w_scales, "e8m0"), y)
    return y


@traced
def gemm_afp4wfp4_pre_quant(
    x: torch.Tensor,
    w: torch.Tensor,
    w_scales: torch.Tensor,
    dtype: torch.dtype | None = None,
    y: torch.Tensor | None = None,
    config: str | None = None,
) -> torch.Tensor:
    """As :func:`gemm_a16wfp4`, whose older name it is; AITER adds to a y of zeros.

    Args:
        x, w, w_scales, dtype, y, config: as :func:`gemm_a16wfp4`.

    Returns:
        ``y``, or what was made.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_afp4wfp4_pre_quant``.
    """
    refuse_gemm_afp4wfp4_pre_quant(config)
    try:
        y = product(x, w, dtype, y)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_afp4wfp4_pre_quant", error) from error
    _gemm_afp4wfp4_pre_quant(x, codes(w, "fp4x2"), codes(w_scales, "e8m0"), y)
    return y
