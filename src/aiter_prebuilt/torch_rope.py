"""What Dynamo traces of the functions of ``ops/fused_kv_cache.py``: as ``torch_calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._caches import keys_of, values_of
from aiter_prebuilt.ops._common import like
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def fused_qk_rope_reshape_and_cache(
    q: Any, k: Any, v: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, pos: Any, cos: Any, sin: Any,
    k_scale: Any, v_scale: Any, is_neox: bool, flash_layout: bool, apply_scale: bool, offs: Any, q_out: Any, k_out: Any,
    output_zeros: bool, zeros_out: Any,
) -> Any:  # fmt: skip
    """Of ``aiter_prebuilt.fused_qk_rope_reshape_and_cache``."""
    q_out = like(q) if q_out is None else q_out
    k_out = like(k) if k_out is None else k_out
    if zeros_out is None and output_zeros:
        zeros_out = like(q)
    given = (q, k, v, keys_of(key_cache, flash_layout), values_of(value_cache, flash_layout), slot_mapping)
    scales = (k_scale, v_scale) if apply_scale else (None, None)
    made = (q_out, k_out, zeros_out)
    _OPS.fused_qk_rope_reshape_and_cache.default(*given, pos, cos, sin, *scales, offs, *made, is_neox)
    back = (q_out, k_out, key_cache, value_cache)
    return back if zeros_out is None else (*back, zeros_out)
