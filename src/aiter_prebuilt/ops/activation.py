"""Gated activations to MXFP4, and to fp8 under the name that AITER has for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, element_type, no_output
from aiter_prebuilt.ops._pairs import of_pairs, scale_sizes
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.activation import (
    refuse_act_mul_and_mxfp4_quant,
    refuse_silu_and_mul_quant,
    refuse_silu_and_mul_quant_fp4,
)

if TYPE_CHECKING:
    import torch

_silu_and_mul_quant = operator("silu_and_mul_quant")
_silu_and_mul_quant_fp4 = operator("silu_and_mul_quant_fp4")
_act_mul_and_mxfp4_quant = operator("act_mul_and_mxfp4_quant")


@traced
def silu_and_mul_quant(
    out: torch.Tensor,
    input: torch.Tensor,
    scale: torch.Tensor,
    group_size: int,
    limit: float = 0.0,
    shuffle_scale: bool = False,
) -> None:
    """Apply gated SiLU and quantise groups to fp8.

    ``v = silu(input[..., :d]) * input[..., d:]``, computed in fp32, as codes with a scale for each ``group_size`` columns.

    Args:
        out: [..., d] the target's own fp8, or [..., d / 2] pairs of fp4 (torch's, or bytes), written; rows may be strided.
        input: [..., 2 * d] bf16 or fp16, d a multiple of group_size; rows may be strided, each at a multiple of 16 bytes.
        scale: written. Of fp8: fp32, [rows, d / group_size] or any shape of so many, ``max(amax, 1e-10) / qmax`` of each group.
            Of pairs of fp4: see :func:`silu_and_mul_quant_fp4`.
        group_size: 32, 64 or 128.
        limit: above 0 the gate is cut at it and the other half at +-limit.
        shuffle_scale: scales of fp8 lie group by group, those of fp4 as AITER's ``e8m0_shuffle`` has them.

    Raises:
        UnsupportedError: another group size, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``silu_and_mul_quant``.
    """
    refuse_silu_and_mul_quant(group_size)
    if of_pairs(out):
        silu_and_mul_quant_fp4(out, input, scale, group_size, limit, shuffle_scale)
    else:
        _silu_and_mul_quant(out, input, scale, group_size, limit, shuffle_scale)


@traced
def silu_and_mul_quant_fp4(
    out: torch.Tensor,
    input: torch.Tensor,
    scale: torch.Tensor,
    group_size: int,
    limit: float = 0.0,
    shuffle_scale: bool = False,
) -> None:
    """Apply gated SiLU and quantise groups to fp4.

    ``v = silu(input[..., :d]) * input[..., d:]``. The ``scale`` of each ``group_size`` columns is the smallest power of two with
    ``6 * scale >= amax(|v|)``; ``out = v / scale``, rounded to nearest even.

    Args:
        out: [..., d / 2] pairs of fp4 (torch's, or bytes), written: the lower half is the first; rows may be strided.
        input: [..., 2 * d], as of :func:`silu_and_mul_quant`. A group with NaN or an infinity has a scale of NaN (255), and all
            its codes are 0.
        scale: e8m0 (torch's, or bytes), contiguous, written: the smallest power of two of which 6 times are the largest size of
            the group, 1e-10 at least, or more. [rows, d / group_size] or any shape of so many; shuffled: room for rows up to a
            multiple of 32 and columns of 8, and what belongs to no group stays as it is.
        group_size: 32, 64 or 128.
        limit: above 0 the gate is cut at it and the other half at +-limit.
        shuffle_scale: scales lie as AITER's ``e8m0_shuffle`` has them.

    Raises:
        UnsupportedError: another group size, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``silu_and_mul_quant`` to ``torch.float4_e2m1fn_x2``.
    """
    refuse_silu_and_mul_quant_fp4(group_size)
    stored = (codes(out, "fp4x2"), input, codes(scale, "e8m0"))
    _silu_and_mul_quant_fp4(*stored, group_size, limit, shuffle_scale)


@traced
def act_mul_and_mxfp4_quant(
    x: torch.Tensor,
    activation: str,
    scaling_mode: str = "even",
    shuffle: bool = False,
    scale_shuffle_padding: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Apply a gated activation and quantise to MXFP4.

    ``v = act(x[:, :d]) * x[:, d:]``. The scale of each 32 columns is a power of two, ``2 ** (exponent of amax rounded - 2)``; the
    codes are ``v / scale``, rounded to nearest even, 6 at most.

    A scale is ``2 ** (e - 2)``, where ``2 ** e`` is the largest size of its columns rounded to a power of two, from 1.75 on
    upwards; codes are rounded to nearest even, 6 at most.

    Args:
        x: [m, 2 * d] bf16 or fp16, the gate first, d even; rows may be strided. Rows of multiples of 8 at aligned addresses are
            the fast ones. 32 columns with NaN or an infinity have a scale of NaN (255), and all their codes are 0.
        activation: "silu", "gelu" (by erf) or "gelu_tanh".
        scaling_mode: "even".
        shuffle: scales lie as AITER's ``e8m0_shuffle`` has them; up to whole 32 rows and 8 columns they are 1, the rest is not
            written.
        scale_shuffle_padding: scales have room for that in any case.

    Returns:
        codes [m, d / 2], bytes of two, the lower half is the first, and scales [m, ceil(d / 32)], bytes of e8m0, with rows up to
        a multiple of 256 and columns of 8 where they are shuffled or padded; both new and contiguous.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``act_mul_and_mxfp4_quant``.
    """
    refuse_act_mul_and_mxfp4_quant(activation, scaling_mode)
    try:
        rows, width = x.shape
        kind = element_type(x, "u8")
        made = x.new_empty((rows, width // 4), dtype=kind)
        scales = x.new_empty(scale_sizes(rows, width // 2, shuffle or scale_shuffle_padding), dtype=kind)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("act_mul_and_mxfp4_quant", error) from error
    _act_mul_and_mxfp4_quant(made, scales, x, activation, shuffle)
    return made, scales
