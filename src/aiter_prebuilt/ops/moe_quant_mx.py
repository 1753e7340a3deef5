"""Scales of MX formats in the order of a mixture's sorted ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import codes
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.moe_quant import refuse_fused_dynamic_mx_quant_moe_sort_hip

if TYPE_CHECKING:
    import torch

_mxfp4_moe_sort_hip = operator("mxfp4_moe_sort_hip")
_fused_dynamic_mx_quant_moe_sort_hip = operator("fused_dynamic_mx_quant_moe_sort_hip")


@traced
def mxfp4_moe_sort_hip(
    out_scale: torch.Tensor,
    scale: torch.Tensor,
    sorted_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    token_num: int,
    cols: int,
) -> None:
    """Sort scales of MXFP4 or MXFP8 for a mixture of experts.

    Row i of the result has the scales of sorted id i, in the layout of ``e8m0_shuffle``.

    Args:
        out_scale: e8m0 (torch's, or bytes), written, contiguous: as many rows as ids at least, up to a multiple of 32, and
            ``cols / 32`` columns, up to a multiple of 8. Of each 32 rows with one that counts all bytes are written, 0 where
            there is no token or group. Other rows stay as they are.
        scale: e8m0 (torch's, or bytes): [token_num, cols / 32], or [token_num, choices, cols / 32]; a dim less is the same.
        sorted_ids: [P] int32, ``choice << 24 | token``, as ``moe_sorting`` makes them. Those of no token are padding.
        num_valid_ids: int32; the first number says how many ids count.
        token_num: tokens.
        cols: columns of the tensor whose scales these are.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mxfp4_moe_sort_hip``.
    """
    _mxfp4_moe_sort_hip(
        codes(out_scale, "e8m0"), codes(scale, "e8m0"), sorted_ids, num_valid_ids, token_num, cols
    )


@traced
def fused_dynamic_mx_quant_moe_sort_hip(
    out: torch.Tensor,
    scales: torch.Tensor,
    input: torch.Tensor,
    sorted_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    token_num: int,
    block_m: int,
    group_size: int = 32,
    sorted_weights: torch.Tensor | None = None,
) -> None:
    """Quantise rows to MXFP4 or MXFP8 and sort their scales.

    Codes stay in the order of ``input``. Row i of the scales is that of sorted id i, in the layout of ``e8m0_shuffle``.

    Args:
        out: written, contiguous: [..., N] the target's own fp8, or [..., N / 2] pairs of fp4 (torch's, or bytes), the lower half
            the first. Rounded to nearest even, cut at the largest code. All rows are written, those of no sorted id, too.
        scales: e8m0 (torch's, or bytes), written as ``mxfp4_moe_sort_hip`` writes them, with ``N / group_size`` columns up to a
            multiple of 8: the smallest power of two of which amax, 1e-10 at least, is at most qmax (448 of e4m3fn, 240 of
            e4m3fnuz, 6 of fp4). 255 with NaN or an infinity in the group, whose codes are NaN, or 0 in fp4. 0 where the id's
            weight is 0; AITER's kernel makes the codes of such a row 0, too.
        input: [..., N] bf16 or fp16, one row a token, or one a token and choice; rows may be strided.
        sorted_ids: [P] int32, ``choice << 24 | token``, as ``moe_sorting`` makes them. Those of no token are padding.
        num_valid_ids: int32; the first number says how many ids count.
        token_num: tokens.
        block_m: means nothing here.
        group_size: 32, 64 or 128; N is a multiple of it.
        sorted_weights: [P] fp32, the weight of each id, or None.

    Raises:
        UnsupportedError: another group size, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_dynamic_mx_quant_moe_sort_hip``.
    """
    del block_m
    refuse_fused_dynamic_mx_quant_moe_sort_hip(group_size)
    _fused_dynamic_mx_quant_moe_sort_hip(
        codes(out, "fp4x2"), codes(scales, "e8m0"), input, sorted_ids, num_valid_ids, sorted_weights, token_num, group_size
    )  # fmt: skip
