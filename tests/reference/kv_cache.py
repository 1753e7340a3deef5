"""Torch reference of `reshape_and_cache`: new keys and values go to their slots of a paged cache (vLLM's layouts).

key_cache [blocks, h, d / x, block_size, x] with x = 16 / itemsize of the cache; value_cache [blocks, h, d, block_size], or
with asm_layout [blocks, h, block_size / x, d, x]. slot = block * block_size + offset; a negative slot is skipped.
"""

from __future__ import annotations

import torch

_FP8_MAX = {torch.float8_e4m3fnuz: 240.0, torch.float8_e4m3fn: 448.0}


def _to_cache(x: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """x / scale by the float32 reciprocal (AITER's arithmetic), saturating; other dtypes are copied."""
    qmax = _FP8_MAX.get(dtype)
    if qmax is None:
        return x.to(dtype)
    inverse = 1.0 if scale is None else 1.0 / scale.to(torch.float32)
    return (x.float() * inverse).clamp(-qmax, qmax).to(dtype)


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    kv_cache_dtype: str = "auto",
    asm_layout: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(key_cache, value_cache) after the write, as new tensors; key and value [T, h, d], slot_mapping [T].

    kv_cache_dtype "auto" copies (the cache has the key's dtype, scales are not read), "fp8" divides by the scales.
    """
    if (kv_cache_dtype == "auto") != (key_cache.dtype == key.dtype):
        raise ValueError(f"kv_cache_dtype {kv_cache_dtype!r} does not fit a cache of {key_cache.dtype}")
    blocks, h, groups, block_size, x = key_cache.shape
    d = groups * x
    keys = _to_cache(key, k_scale, key_cache.dtype)
    values = _to_cache(value, v_scale, value_cache.dtype)
    # Bytes, because index_put has no fp8.
    raw = torch.uint8 if key_cache.element_size() == 1 else torch.int16
    new_k = key_cache.view(raw).clone()
    new_v = value_cache.view(raw).clone()
    v_view = (
        new_v.view(blocks, h, block_size // x, d, x) if asm_layout else new_v.view(blocks, h, d, block_size)
    )
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot < 0:
            continue
        block, offset = divmod(slot, block_size)
        new_k[block, :, :, offset, :] = keys[token].contiguous().view(raw).view(h, groups, x)
        cells = values[token].contiguous().view(raw)
        if asm_layout:
            v_view[block, :, offset // x, :, offset % x] = cells
        else:
            v_view[block, :, :, offset] = cells
    return new_k.view(key_cache.dtype), new_v.view(value_cache.dtype)
