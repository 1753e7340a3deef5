"""Rows as codes with a scale for each group of columns, in tensors that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import codes, number
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.mxfp import refuse_dynamic_per_group_scaled_quant, refuse_quant_mxfp4

if TYPE_CHECKING:
    import torch

_dynamic_per_group_scaled_quant = operator("dynamic_per_group_scaled_quant")
_quant_mxfp4 = operator("quant_mxfp4")


@traced
def dynamic_per_group_scaled_quant(
    out: torch.Tensor,
    input: torch.Tensor,
    scales: torch.Tensor,
    group_size: int = 32,
    shuffle_scale: bool = True,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
    scale_layout_m32k4: bool = False,
) -> None:
    """Rows as codes with a scale for each ``group_size`` columns; ``out`` and ``scales`` say by their types which.

    Args:
        out: written, contiguous: [..., N] the target's own fp8 or int8, or [..., N / 2] pairs of fp4 (torch's, or bytes), the
            lower half the first. Rounded to nearest even, cut at the largest code.
        input: [..., N] bf16 or fp16, rows may be strided.
        scales: written, contiguous, of any shape of so many. fp32 (fp8, int8): amax of the group / qmax, amax 1e-10 at least
            for fp8, the scale 1 for zeros in int8; NaN is left out. e8m0 (torch's, or bytes; fp8, fp4): the smallest power of two
            of which amax is at most qmax (448 of e4m3fn, 240 of e4m3fnuz, 6 of fp4), 0 for zeros; 255 with NaN or an infinity
            in the group, whose codes are NaN, or 0 in fp4.
        group_size: 32, 64 or 128; N is a multiple of it.
        shuffle_scale: e8m0 of groups of 32 as AITER's ``e8m0_shuffle`` has them, with rows up to a multiple of 32 and columns
            of 8, of which those behind stay as they are; all other scales as [groups, rows that are done].
        num_rows: one int32 on the device; only ``num_rows * num_rows_factor`` rows are done.
        scale_layout_m32k4: False only: a layout of gfx1250.

    Raises:
        UnsupportedError: another group size or layout, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``dynamic_per_group_scaled_quant``.
    """
    refuse_dynamic_per_group_scaled_quant(group_size, scale_layout_m32k4)
    _dynamic_per_group_scaled_quant(
        codes(out, "fp4x2"),
        input,
        codes(scales, "e8m0"),
        num_rows,
        group_size,
        shuffle_scale,
        num_rows_factor,
    )


@traced
def quant_mxfp4(
    inp: torch.Tensor,
    out_packed: torch.Tensor,
    out_scale: torch.Tensor,
    group_size: int = 32,
    round_mode: Any = 0,
    e8m0_shuffle: bool = False,
    a16w4_shuffle: bool = False,
    gate_up: bool = False,
    shuffle_weight: bool = False,
) -> None:
    """MXFP4 of a matrix: codes ``inp / scale`` with a power of two for each 32 columns, rounded to nearest even and cut at 6.

    Args:
        inp: [M, N] bf16 or fp16, contiguous, N a multiple of 32.
        out_packed: [M, N / 2] pairs of fp4 (torch's, or bytes), written: the lower half is the first.
        out_scale: e8m0 (torch's, or bytes), written: [M, N / 32]; the byte 0 for zeros, 255 where one of 32 is NaN or infinite.
        group_size: 32 only, as in AITER.
        round_mode: how the scale follows from the largest size. 0: a quarter of its power of two; 1: the smallest power of
            which it is at most 6; 2: a quarter of it rounded to a power, from 1.75 of one on to the next; 3: rounded up; 4: as
            2, with codes rounded away from zero halfway, which is ours for what AITER's Triton kernels do.
        e8m0_shuffle: scales as AITER's function of this name has them, rows up to a multiple of 32 and columns of 8; those
            behind stay as they are.
        a16w4_shuffle: scales as ``shuffle_scale_a16w4`` has them for one expert; M is a multiple of 32 and N of 256.
        gate_up: with ``a16w4_shuffle``: rows of gate and of up, which become neighbours by 16.
        shuffle_weight: codes as ``shuffle_weight`` has them; with one of the other shuffles alone, M a multiple of 16, N of 64
            (128 with ``a16w4_shuffle``).

    Raises:
        UnsupportedError: another group size or way, or a tensor that requires grad. ArgumentError, NoKernelError: the call does
            not fit.

    Source: AITER ``quant_mxfp4``.
    """
    mode = number(round_mode)
    refuse_quant_mxfp4(group_size, mode)
    _quant_mxfp4(
        inp, codes(out_packed, "fp4x2"), codes(out_scale, "e8m0"), mode, e8m0_shuffle, a16w4_shuffle, gate_up, shuffle_weight
    )  # fmt: skip
