"""Rows of a mixture's sorted ids, smoothed for their experts and quantised."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_moe_smooth_per_token_scaled_quant_v2 = operator("moe_smooth_per_token_scaled_quant_v2")


@traced
def moe_smooth_per_token_scaled_quant_v2(
    out: torch.Tensor,
    input: torch.Tensor,
    scales: torch.Tensor,
    smooth_scale: torch.Tensor,
    sorted_token_ids: torch.Tensor,
    sorted_expert_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    block_m: int,
    shuffle_scale: bool = False,
    transpose_out: bool = False,
) -> None:
    """Smooth and quantise the rows of sorted ids.

    For choice k of token t, whose expert is e: ``v = input[t] * smooth_scale[e]``, or ``input[t, k]``; ``scales = max(amax(|v|),
    1e-10) / qmax``; ``out = v / scales``, rounded to nearest even and saturated.

    Args:
        out: [..., N] int8 or the target's own e4m3, written, contiguous, one row a token and choice: row ``t * choices + k``.
            Rows of no sorted id stay as they are. qmax is 127 for int8, 240 for e4m3fnuz (gfx942), 448 for e4m3fn (gfx950).
            AITER's kernel cuts codes of int8 off towards 0.
        input: [M, N], one row a token, or [M, choices, N]; bf16 or fp16, rows may be strided.
        scales: as many fp32 numbers as rows of ``out``, in any shape, written. NaN is left out of amax, and its code is -qmax.
        smooth_scale: [E, N] or [E, 1, N] fp32, per expert and column.
        sorted_token_ids: [P] int32, ``choice << 24 | token``, as ``moe_sorting`` makes them. Those of no token are padding.
        sorted_expert_ids: [blocks] int32, the expert of each block. A block of none is left out.
        num_valid_ids: int32; the first number says how many ids count.
        block_m: ids of a block.
        shuffle_scale: means nothing, as in AITER.
        transpose_out: row ``k * tokens + t`` of ``out`` and ``scales``.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``moe_smooth_per_token_scaled_quant_v2``.
    """
    del shuffle_scale
    each = input
    if len(input.shape) == 2:  # all choices of a token have one row
        rows, columns = input.shape
        each = input.unsqueeze(1).expand(rows, prod(out.shape) // max(rows * columns, 1), columns)
    _moe_smooth_per_token_scaled_quant_v2(
        out,
        each,
        scales,
        smooth_scale,
        sorted_token_ids,
        sorted_expert_ids,
        num_valid_ids,
        block_m,
        transpose_out,
    )
