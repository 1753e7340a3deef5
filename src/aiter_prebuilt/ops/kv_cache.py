"""Writing new keys and values into the paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_reshape_and_cache = operator("reshape_and_cache")


@traced
def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    kv_cache_dtype: str,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    asm_layout: bool = False,
) -> None:
    """Scatter ``key`` and ``value`` into the cache, in place; a negative slot is skipped.

    Args:
        key, value: [tokens, heads, d] bf16 or fp16; tokens may be strided.
        key_cache: [blocks, heads, d / x, block_size, x] with x = 16 bytes / item size, written.
        value_cache: [blocks, heads, d, block_size], or with ``asm_layout`` [blocks, heads, block_size / x, d, x], written.
        slot_mapping: [tokens] int64: block * block_size + offset.
        kv_cache_dtype: "auto" (the type of ``key``) or "fp8" (the target's own e4m3: stored = value / scale, saturating).
        k_scale, v_scale: fp32 [1], or None for 1.

    Raises:
        ArgumentError: types, shapes, strides or device do not fit. NoKernelError: no candidate fits.

    Source: AITER ``reshape_and_cache``.
    """
    _reshape_and_cache(
        key, value, key_cache, value_cache, slot_mapping, k_scale, v_scale, kv_cache_dtype, asm_layout
    )
