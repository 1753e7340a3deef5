"""What Dynamo traces of the functions of ``ops/group_quant.py``: as ``torch_calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.contract.dtype import BY_NAME
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
