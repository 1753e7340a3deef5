"""Codes of fp8 with a scale for each group of columns, and what is computed before them in the same kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.group_quant import refuse_act_mul_and_fp8_group_quant

if TYPE_CHECKING:
    import torch

_act_mul_and_fp8_group_quant = operator("act_mul_and_fp8_group_quant")


@traced
def act_mul_and_fp8_group_quant(
    x: torch.Tensor, activation: str, group_size: int, dtype_quant: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """``v = act(x[:, :i]) * x[:, i:]`` as fp8 codes with a scale for each ``group_size`` columns, computed in fp32.

    Args:
        x: [tokens, 2 * i] bf16 or fp16, the gate first; rows may be strided. Rows of multiples of 16 at aligned addresses, and
            groups of 128, are the fast ones.
        activation: "silu", "gelu" (by erf) or "gelu_tanh".
        group_size: 128 or 64; the last group may have fewer columns.
        dtype_quant: the fp8 of the device: torch.float8_e4m3fnuz on gfx942, torch.float8_e4m3fn on gfx950; that when None.

    Returns:
        codes [tokens, i] and scales [tokens, ceil(i / group_size)] fp32, new and contiguous: ``v`` is about codes * scales. A
        scale is the largest size in its group, at least 1e-10, divided by the largest code (240 or 448); NaN is left out of it,
        and has the lowest code.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``act_mul_and_fp8_group_quant``.
    """
    refuse_act_mul_and_fp8_group_quant(activation, group_size)
    try:
        rows, width = x.shape[0], x.shape[1] // 2
        codes = x.new_empty((rows, width), dtype=fp8_of(x) if dtype_quant is None else dtype_quant)
        scales = x.new_empty((rows, -(-width // group_size)), dtype=element_type(x, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("act_mul_and_fp8_group_quant", error) from error
    _act_mul_and_fp8_group_quant(codes, scales, x, activation, group_size)
    return codes, scales
