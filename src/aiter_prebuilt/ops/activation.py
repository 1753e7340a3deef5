"""Gated activations: the first half of the last dim is activated, the second half multiplies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_silu_and_mul = operator("silu_and_mul")
_gelu_and_mul = operator("gelu_and_mul")
_gelu_tanh_and_mul = operator("gelu_tanh_and_mul")
_swiglu_and_mul = operator("swiglu_and_mul")


@traced
def silu_and_mul(out: torch.Tensor, input: torch.Tensor, limit: float = 0.0) -> None:
    """``out = silu(input[..., :d]) * input[..., d:]``, computed in fp32.

    Args:
        out: [..., d] bf16 or fp16, written; rows may be strided.
        input: [..., 2 * d] of the same type; rows may be strided.
        limit: above 0 the gate is cut at ``limit`` and the other half at ``+-limit``; 0 is off.

    Raises:
        ArgumentError: types, shapes, strides or device do not fit. NoKernelError: no candidate fits.

    Source: ``silu(v) = v / (1 + exp(-v))``; AITER ``silu_and_mul``.
    """
    _silu_and_mul(out, input, limit)


@traced
def gelu_and_mul(out: torch.Tensor, input: torch.Tensor) -> None:
    """``out = gelu(input[..., :d]) * input[..., d:]`` with the exact (erf) GELU, computed in fp32.

    Args:
        out: [..., d] bf16 or fp16, written; rows may be strided.
        input: [..., 2 * d] of the same type; rows may be strided.

    Raises:
        ArgumentError: types, shapes, strides or device do not fit. NoKernelError: no candidate fits.

    Source: ``gelu(v) = v / 2 * (1 + erf(v / sqrt(2)))``; AITER ``gelu_and_mul``.
    """
    _gelu_and_mul(out, input)


@traced
def gelu_tanh_and_mul(out: torch.Tensor, input: torch.Tensor) -> None:
    """``out = gelu_tanh(input[..., :d]) * input[..., d:]``, computed in fp32.

    Arguments and errors as :func:`gelu_and_mul`.

    Source: ``gelu_tanh(v) = v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v**3)))``; AITER ``gelu_tanh_and_mul``.
    """
    _gelu_tanh_and_mul(out, input)


@traced
def swiglu_and_mul(out: torch.Tensor, input: torch.Tensor) -> None:
    """gpt-oss' SwiGLU, computed in fp32: gate cut at 7, up at +-7, ``gate * sigmoid(1.702 * gate) * (up + 1)``.

    Arguments and errors as :func:`gelu_and_mul`.

    Source: the gpt-oss model card's reference; AITER ``swiglu_and_mul``.
    """
    _swiglu_and_mul(out, input)
