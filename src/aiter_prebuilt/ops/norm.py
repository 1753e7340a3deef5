"""RMS normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output, refuse
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_rms_norm = operator("rms_norm")
_rmsnorm2d_fwd = operator("rmsnorm2d_fwd")
_rmsnorm2d_fwd_with_add = operator("rmsnorm2d_fwd_with_add")


@traced
def rms_norm(
    input: torch.Tensor, weight: torch.Tensor, epsilon: float, use_model_sensitive_rmsnorm: int = 0
) -> torch.Tensor:
    """``input / sqrt(mean(input**2) + epsilon) * weight`` over the last dim, accumulated in fp32.

    Args:
        input: [..., N] bf16 or fp16; rows may be strided. weight: [N] of the same type.
        use_model_sensitive_rmsnorm: only 0 is covered.

    Returns:
        A new contiguous tensor like ``input``.

    Raises:
        UnsupportedError: the model-sensitive mode. ArgumentError, NoKernelError: the call does not fit.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization; AITER ``rms_norm``.
    """
    if use_model_sensitive_rmsnorm:
        raise refuse("rms_norm", "use_model_sensitive_rmsnorm", use_model_sensitive_rmsnorm, "0")
    try:
        out = like(input)
    except NOT_A_TENSOR as error:
        raise no_output("rms_norm", error) from error
    _rms_norm(input, weight, out, epsilon)
    return out


@traced
def rmsnorm2d_fwd(
    input: torch.Tensor, weight: torch.Tensor, epsilon: float, use_model_sensitive_rmsnorm: int = 0
) -> torch.Tensor:
    """As :func:`rms_norm`; Composable Kernel's kernel comes first where its bundle is installed."""
    if use_model_sensitive_rmsnorm:
        raise refuse("rmsnorm2d_fwd", "use_model_sensitive_rmsnorm", use_model_sensitive_rmsnorm, "0")
    try:
        out = like(input)
    except NOT_A_TENSOR as error:
        raise no_output("rmsnorm2d_fwd", error) from error
    _rmsnorm2d_fwd(input, weight, out, epsilon)
    return out


@traced
def rmsnorm2d_fwd_with_add(
    out: torch.Tensor,
    input: torch.Tensor,
    residual_in: torch.Tensor,
    residual_out: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    gemma_norm: bool = False,
    use_model_sensitive_rmsnorm: int = 0,
) -> None:
    """``residual_out = input + residual_in`` (rounded to the input type); ``out = rms_norm(residual_out)``. Out of place.

    Args:
        out, input, residual_in, residual_out: [..., N] bf16 or fp16, one type; rows may be strided; the first and
            the last of them are written.
        weight: [N] of the same type. epsilon: added to the mean square. gemma_norm: multiply by ``weight + 1``.
        use_model_sensitive_rmsnorm: only 0 is covered.

    Raises:
        UnsupportedError: the model-sensitive mode. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``rmsnorm2d_fwd_with_add``.
    """
    if use_model_sensitive_rmsnorm:
        raise refuse(
            "rmsnorm2d_fwd_with_add", "use_model_sensitive_rmsnorm", use_model_sensitive_rmsnorm, "0"
        )
    _rmsnorm2d_fwd_with_add(out, input, residual_in, residual_out, weight, epsilon, gemma_norm)
