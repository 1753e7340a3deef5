"""What Dynamo traces of the functions of ``ops/group_quant.py``: as ``torch_calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.ops._common import like
from aiter_prebuilt.ops._current import fp8_name
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _fp8(ordinal: int | None) -> torch.dtype:
    kind: torch.dtype = getattr(torch, BY_NAME[fp8_name(ordinal)].torch)
    return kind


def act_mul_and_fp8_group_quant(
    x: Any, activation: str, group_size: int, dtype_quant: Any
) -> tuple[Any, Any]:
    """Of ``aiter_prebuilt.act_mul_and_fp8_group_quant``."""
    rows, width = x.shape[0], x.shape[1] // 2
    codes = x.new_empty((rows, width), dtype=_fp8(x.device.index) if dtype_quant is None else dtype_quant)
    scales = x.new_empty((rows, (width + group_size - 1) // group_size), dtype=torch.float32)
    _OPS.act_mul_and_fp8_group_quant.default(codes, scales, x, activation, group_size)
    return codes, scales


def fused_rms_fp8_group_quant(
    inp1: Any, inp1_weight: Any, inp1_epsilon: float, inp2: Any, inp2_weight: Any, inp2_epsilon: float | None, group_size: int,
    dtype_quant: Any, res1: Any, output_unquantized_inp1: bool, transpose_scale: bool, is_x_scale_strided: bool,
) -> tuple[tuple[Any, Any], Any, Any, Any]:  # fmt: skip
    """Of ``aiter_prebuilt.fused_rms_fp8_group_quant``."""
    rows, width = inp1.shape
    groups = (width + group_size - 1) // group_size
    codes = inp1.new_empty(
        (rows, width), dtype=_fp8(inp1.device.index) if dtype_quant is None else dtype_quant
    )
    scales = inp1.new_empty((rows, groups), dtype=torch.float32)
    normed = like(inp1) if output_unquantized_inp1 else None
    second = None if inp2 is None else like(inp2)
    total = None if res1 is None else like(inp1)
    _OPS.fused_rms_fp8_group_quant.default(
        codes, scales, normed, second, total, inp1, inp1_weight, inp2, inp2_weight, res1,
        inp1_epsilon, 0.0 if inp2_epsilon is None else inp2_epsilon, group_size, transpose_scale,
    )  # fmt: skip
    if transpose_scale and is_x_scale_strided:
        scales = scales.view(groups, rows).t()
    return (codes, scales), normed, second, total


def fused_rms_fp8_per_tensor_static_quant(
    inp1: Any, inp1_weight: Any, inp1_epsilon: float, inp1_scale: Any, inp2: Any, inp2_weight: Any, inp2_epsilon: float | None,
    dtype_quant: Any, res1: Any, output_unquantized_inp1: bool, rmsnorm_convert_to_inp1_type: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Of ``aiter_prebuilt.fused_rms_fp8_per_tensor_static_quant``."""
    codes = inp1.new_empty(inp1.shape, dtype=_fp8(inp1.device.index) if dtype_quant is None else dtype_quant)
    normed = like(inp1) if output_unquantized_inp1 else None
    second = None if inp2 is None else like(inp2)
    total = None if res1 is None else like(inp1)
    _OPS.fused_rms_fp8_per_tensor_static_quant.default(
        codes, normed, second, total, inp1, inp1_weight, inp1_scale, inp2, inp2_weight, res1,
        inp1_epsilon, 0.0 if inp2_epsilon is None else inp2_epsilon, rmsnorm_convert_to_inp1_type,
    )  # fmt: skip
    return codes, normed, second, total


def fused_add_rmsnorm_pad(x: Any, weight: Any, epsilon: float, res: Any, x_pad_to_multiple: int) -> Any:
    """Of ``aiter_prebuilt.fused_add_rmsnorm_pad``."""
    rows, width = x.shape
    columns = width if x_pad_to_multiple <= 0 else -(-width // x_pad_to_multiple) * x_pad_to_multiple
    out = x.new_empty((rows, columns))
    total = None if res is None else like(x)
    _OPS.fused_add_rmsnorm_pad.default(out, total, x, weight, res, epsilon)
    return out if total is None else (out, total)
