"""Quantisation to MXFP4 by AITER's kernel, which writes tensors that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import codes
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.quant import refuse_dynamic_per_group_scaled_quant_fp4

if TYPE_CHECKING:
    import torch

_dynamic_per_group_scaled_quant_fp4 = operator("dynamic_per_group_scaled_quant_fp4")


@traced
def dynamic_per_group_scaled_quant_fp4(
    out: torch.Tensor,
    input: torch.Tensor,
    scales: torch.Tensor,
    group_size: int | None = 32,
    shuffle_scale: bool = True,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
) -> None:
    """MXFP4: the scale of a group is a power of two, the codes are ``input / scale``, rounded to nearest even.

    The scale is ``2 ** (e - 2)``, where ``2 ** e`` is the largest size of the group (1e-10 at least) rounded to a power of two,
    from 1.5 on upwards.

    Args:
        out: [M, N / 2] pairs of fp4 (torch's, or bytes), written: the lower half is the first.
        input: [M, N] bf16 or fp16, the first dim may be strided; finite, and below 1.5 * 2**127. Each row begins at
            a multiple of 4 bytes.
        scales: e8m0 (torch's, or bytes), any shape, contiguous, written: [M, N / group_size], or as AITER's ``e8m0_shuffle`` has
            it, with rows up to a multiple of 32 and columns a multiple of 8. What belongs to no group stays as it is.
        group_size: 32, 64 or 128; N is a multiple of it.
        shuffle_scale: the layout of ``scales``; N is then a multiple of 8 * group_size.
        num_rows: one int32 on the device; only ``num_rows * num_rows_factor`` rows are done, which must not be more than
            there are: the kernel reads that many.

    Raises:
        UnsupportedError: another group size, or a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``dynamic_per_group_scaled_quant_fp4``; ``per_1x32_f4_quant_hip`` calls it.
    """
    refuse_dynamic_per_group_scaled_quant_fp4(group_size)
    _dynamic_per_group_scaled_quant_fp4(
        codes(out, "fp4x2"),
        input,
        codes(scales, "e8m0"),
        num_rows,
        group_size,
        shuffle_scale,
        num_rows_factor,
    )
