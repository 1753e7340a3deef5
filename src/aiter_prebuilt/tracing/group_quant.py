"""What Dynamo traces of the functions of ``ops/norm_group_quant.py``, ``ops/activation.py``, ``ops/mxfp_quant.py`` and
``ops/mxfp.py``: as ``calls``.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.ops._common import codes, like
from aiter_prebuilt.ops._current import fp8_name
from aiter_prebuilt.ops._mxfp import is_fp8, of_rows, rows, wants_fp8
from aiter_prebuilt.ops._pairs import of_pairs, scale_sizes
from aiter_prebuilt.tracing.library import NAMESPACE

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
    made = x.new_empty((rows, width), dtype=_fp8(x.device.index) if dtype_quant is None else dtype_quant)
    scales = x.new_empty((rows, (width + group_size - 1) // group_size), dtype=torch.float32)
    _OPS.act_mul_and_fp8_group_quant.default(made, scales, x, activation, group_size)
    return made, scales


def silu_and_mul_quant(
    out: Any, input: Any, scale: Any, group_size: int, limit: float, shuffle_scale: bool
) -> None:
    """Of ``aiter_prebuilt.silu_and_mul_quant``."""
    if of_pairs(out):
        silu_and_mul_quant_fp4(out, input, scale, group_size, limit, shuffle_scale)
    else:
        _OPS.silu_and_mul_quant.default(out, input, scale, group_size, limit, shuffle_scale)


def silu_and_mul_quant_fp4(
    out: Any, input: Any, scale: Any, group_size: int, limit: float, shuffle_scale: bool
) -> None:
    """Of ``aiter_prebuilt.silu_and_mul_quant_fp4``."""
    stored = (codes(out, "fp4x2"), input, codes(scale, "e8m0"))
    _OPS.silu_and_mul_quant_fp4.default(*stored, group_size, limit, shuffle_scale)


def act_mul_and_mxfp4_quant(
    x: Any, activation: str, shuffle: bool, scale_shuffle_padding: bool
) -> tuple[Any, Any]:
    """Of ``aiter_prebuilt.act_mul_and_mxfp4_quant``."""
    rows, width = x.shape
    made = x.new_empty((rows, width // 4), dtype=torch.uint8)
    sizes = scale_sizes(rows, width // 2, shuffle or scale_shuffle_padding)
    scales = x.new_empty(sizes, dtype=torch.uint8)
    _OPS.act_mul_and_mxfp4_quant.default(made, scales, x, activation, shuffle)
    return made, scales


def fused_rms_fp8_group_quant(
    inp1: Any, inp1_weight: Any, inp1_epsilon: float, inp2: Any, inp2_weight: Any, inp2_epsilon: float | None, group_size: int,
    dtype_quant: Any, res1: Any, output_unquantized_inp1: bool, transpose_scale: bool, is_x_scale_strided: bool,
) -> tuple[tuple[Any, Any], Any, Any, Any]:  # fmt: skip
    """Of ``aiter_prebuilt.fused_rms_fp8_group_quant``."""
    rows, width = inp1.shape
    groups = (width + group_size - 1) // group_size
    made = inp1.new_empty(
        (rows, width), dtype=_fp8(inp1.device.index) if dtype_quant is None else dtype_quant
    )
    scales = inp1.new_empty((rows, groups), dtype=torch.float32)
    normed = like(inp1) if output_unquantized_inp1 else None
    second = None if inp2 is None else like(inp2)
    total = None if res1 is None else like(inp1)
    _OPS.fused_rms_fp8_group_quant.default(
        made, scales, normed, second, total, inp1, inp1_weight, inp2, inp2_weight, res1,
        inp1_epsilon, 0.0 if inp2_epsilon is None else inp2_epsilon, group_size, transpose_scale,
    )  # fmt: skip
    if transpose_scale and is_x_scale_strided:
        scales = scales.view(groups, rows).t()
    return (made, scales), normed, second, total


def fused_rms_fp8_per_tensor_static_quant(
    inp1: Any, inp1_weight: Any, inp1_epsilon: float, inp1_scale: Any, inp2: Any, inp2_weight: Any, inp2_epsilon: float | None,
    dtype_quant: Any, res1: Any, output_unquantized_inp1: bool, rmsnorm_convert_to_inp1_type: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Of ``aiter_prebuilt.fused_rms_fp8_per_tensor_static_quant``."""
    made = inp1.new_empty(inp1.shape, dtype=_fp8(inp1.device.index) if dtype_quant is None else dtype_quant)
    normed = like(inp1) if output_unquantized_inp1 else None
    second = None if inp2 is None else like(inp2)
    total = None if res1 is None else like(inp1)
    _OPS.fused_rms_fp8_per_tensor_static_quant.default(
        made, normed, second, total, inp1, inp1_weight, inp1_scale, inp2, inp2_weight, res1,
        inp1_epsilon, 0.0 if inp2_epsilon is None else inp2_epsilon, rmsnorm_convert_to_inp1_type,
    )  # fmt: skip
    return made, normed, second, total


def fused_add_rmsnorm_pad(x: Any, weight: Any, epsilon: float, res: Any, x_pad_to_multiple: int) -> Any:
    """Of ``aiter_prebuilt.fused_add_rmsnorm_pad``."""
    rows, width = x.shape
    columns = width if x_pad_to_multiple <= 0 else -(-width // x_pad_to_multiple) * x_pad_to_multiple
    out = x.new_empty((rows, columns))
    total = None if res is None else like(x)
    _OPS.fused_add_rmsnorm_pad.default(out, total, x, weight, res, epsilon)
    return out if total is None else (out, total)


def dynamic_per_group_scaled_quant(
    out: Any,
    input: Any,
    scales: Any,
    group_size: int,
    shuffle_scale: bool,
    num_rows: Any,
    num_rows_factor: int,
) -> None:
    """Of ``aiter_prebuilt.dynamic_per_group_scaled_quant``."""
    stored = (codes(out, "fp4x2"), input, codes(scales, "e8m0"), num_rows)
    _OPS.dynamic_per_group_scaled_quant.default(*stored, group_size, shuffle_scale, num_rows_factor)


def quant_mxfp4(inp: Any, out_packed: Any, out_scale: Any, round_mode: int, *layouts: bool) -> None:
    """Of ``aiter_prebuilt.quant_mxfp4``."""
    _OPS.quant_mxfp4.default(inp, codes(out_packed, "fp4x2"), codes(out_scale, "e8m0"), round_mode, *layouts)


def upcast_from_mxfp(tensor: Any, scale: Any, dtype: Any, axis: int) -> Any:
    """Of ``aiter_prebuilt.upcast_from_mxfp``."""
    given, scales, back = rows(tensor, scale, axis)
    called = _OPS.upcast_from_mxfp8 if is_fp8(tensor) else _OPS.upcast_from_mxfp
    return back(called.default(given, scales, dtype))


def upcast_from_mxfp8(tensor: Any, scale: Any, dtype: Any, axis: int) -> Any:
    """Of ``aiter_prebuilt.upcast_from_mxfp8``."""
    given, scales, back = rows(tensor, scale, axis)
    return back(_OPS.upcast_from_mxfp8.default(given, scales, dtype))


def downcast_to_mxfp(tensor: Any, kind: Any, axis: int, mode: int) -> Any:
    """Of ``aiter_prebuilt.downcast_to_mxfp``."""
    given, back = of_rows(tensor, axis)
    called = _OPS.downcast_to_mxfp8 if wants_fp8(tensor, kind) else _OPS.downcast_to_mxfp
    out, scale = called.default(given, mode, kind)
    return back(out), back(scale)


def downcast_to_mxfp8(tensor: Any, kind: Any, axis: int, mode: int) -> Any:
    """Of ``aiter_prebuilt.downcast_to_mxfp8``."""
    given, back = of_rows(tensor, axis)
    out, scale = _OPS.downcast_to_mxfp8.default(given, mode, kind)
    return back(out), back(scale)
