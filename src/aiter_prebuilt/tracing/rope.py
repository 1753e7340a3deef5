"""Traced forms of the functions of ``ops/rope_cache_kv.py`` and ``ops/qk_norm.py``.

As in ``calls``.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._caches import blocks_of, keys_of, values_of
from aiter_prebuilt.ops._common import codes, like
from aiter_prebuilt.ops._index_caches import caches_of
from aiter_prebuilt.ops._norm_rope_caches import cache_of, codes_in, sections_of
from aiter_prebuilt.ops._rope_group_quant import inverse_results, norm_results
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def fused_qk_rope_reshape_and_cache(
    q: Any, k: Any, v: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, pos: Any, cos: Any, sin: Any,
    k_scale: Any, v_scale: Any, is_neox: bool, flash_layout: bool, apply_scale: bool, offs: Any, q_out: Any, k_out: Any,
    output_zeros: bool, zeros_out: Any,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_rope_reshape_and_cache``."""
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


def fused_kv_norm_rope_group_quant(
    kv: Any, kv_weight: Any, positions: Any, slot_mapping: Any, cos_cache: Any, sin_cache: Any, eps: float,
    k_nope_scale_buff: Any, k_rope_buff: Any, is_neox: bool, quant_group_size: int,
) -> tuple[Any, Any]:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_kv_norm_rope_group_quant``."""
    _OPS.fused_kv_norm_rope_group_quant.default(
        kv, kv_weight, positions, slot_mapping, cos_cache, sin_cache, k_nope_scale_buff, k_rope_buff, eps, is_neox,
        quant_group_size,
    )  # fmt: skip
    return k_nope_scale_buff, k_rope_buff


def fused_qk_norm_rope_group_quant(
    q: Any, kv: Any, k_weight: Any, positions: Any, cos_cache: Any, sin_cache: Any, eps: float, is_neox: bool, q_out_dtype: Any,
    q_nope_scale_buff: Any, q_rope_buff: Any, k_nope_scale_buff: Any, k_rope_buff: Any, q_weight: Any, quant_group_size: int,
    swa_nope_scale_buff: Any, swa_rope_buff: Any, swa_block_tables: Any, swa_dest_row: Any, swa_block_size: int | None,
    batch_id_per_token: Any,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_norm_rope_group_quant``."""
    results = norm_results(
        (q, kv, cos_cache), q_out_dtype, (q_nope_scale_buff, q_rope_buff, k_nope_scale_buff, k_rope_buff)
    )
    _OPS.fused_qk_norm_rope_group_quant.default(
        q, kv, k_weight, positions, cos_cache, sin_cache, *results, q_weight, swa_nope_scale_buff, swa_rope_buff,
        swa_block_tables, swa_dest_row, batch_id_per_token, eps, is_neox, quant_group_size,
        0 if swa_block_size is None else swa_block_size,
    )  # fmt: skip
    return results


def minimax_qk_norm_rope(
    qkv: Any, q_weight: Any, k_weight: Any, cos_sin_cache: Any, positions: Any, num_heads_q: int, num_heads_k: int,
    head_dim: int, rotary_dim: int, eps: float, is_neox_style: bool, q_out: Any, k_out: Any, v_out: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Trace ``aiter_prebuilt.minimax_qk_norm_rope``."""
    rows, widths = qkv.shape[0], (num_heads_q * head_dim, num_heads_k * head_dim)
    q_out = qkv.new_empty((rows, widths[0])) if q_out is None else q_out
    k_out = qkv.new_empty((rows, widths[1])) if k_out is None else k_out
    v_out = qkv.new_empty((rows, widths[1])) if v_out is None else v_out
    _OPS.minimax_qk_norm_rope.default(
        qkv, q_weight, k_weight, cos_sin_cache, positions, q_out, k_out, v_out, num_heads_q, num_heads_k, head_dim, rotary_dim,
        eps, is_neox_style,
    )  # fmt: skip
    return q_out, k_out, v_out


def inverse_rope_group_quant(
    o: Any, positions: Any, cos_cache: Any, sin_cache: Any, num_groups: int, quant_group_size: int, scale_layout: str,
    x_fp8: Any, x_scale: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Trace ``aiter_prebuilt.inverse_rope_group_quant``."""
    x_fp8, x_scale = inverse_results(o, num_groups, quant_group_size, scale_layout, x_fp8, x_scale)
    _OPS.inverse_rope_group_quant.default(
        o,
        positions,
        cos_cache,
        sin_cache,
        x_fp8,
        codes(x_scale, "e8m0"),
        num_groups,
        quant_group_size,
        scale_layout,
    )
    return x_fp8, x_scale


def fused_qk_norm_rope_cache_pts_quant_shuffle(
    qkv: Any, qw: Any, kw: Any, cos_sin: Any, positions: Any, num_tokens: int, num_heads_q: int, num_heads_k: int,
    num_heads_v: int, head_size: int, is_neox_style: bool, eps: float, q_out: Any, k_cache: Any, v_cache: Any,
    slot_mapping: Any, per_tensor_k_scale: float, per_tensor_v_scale: float, k_out: Any, v_out: Any, return_kv: bool,
    use_shuffle_layout: bool, block_size: int, x: int, rotary_dim: int,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_norm_rope_cache_pts_quant_shuffle``."""
    layout = (max(block_size, 1), x if use_shuffle_layout else 0)
    keys = keys_of(cache_of(k_cache, (num_heads_k, head_size), layout, keys=True), True)
    values = values_of(cache_of(v_cache, (num_heads_v, head_size), layout, keys=False), True)
    k_out = codes_in(k_out, keys) if k_out is not None and k_out.dtype != keys.dtype else k_out
    v_out = codes_in(v_out, values) if v_out is not None and v_out.dtype != values.dtype else v_out
    _OPS.fused_qk_norm_rope_cache_pts_quant_shuffle.default(
        qkv, qw, kw, cos_sin, positions, q_out, keys, values, slot_mapping, k_out, v_out, num_tokens, num_heads_q,
        num_heads_k, num_heads_v, head_size, is_neox_style, eps, per_tensor_k_scale, per_tensor_v_scale, return_kv,
        use_shuffle_layout, block_size, x, rotary_dim,
    )  # fmt: skip


def fused_qk_norm_mrope_3d_cache_pts_quant_shuffle(
    qkv: Any, qw: Any, kw: Any, cos_sin: Any, positions: Any, num_tokens: int, num_heads_q: int, num_heads_k: int,
    num_heads_v: int, head_size: int, is_neox_style: bool, mrope_section_: Any, is_interleaved: bool, eps: float, q_out: Any,
    k_cache: Any, v_cache: Any, slot_mapping: Any, per_tensor_k_scale: float, per_tensor_v_scale: float, k_out: Any, v_out: Any,
    return_kv: bool, use_shuffle_layout: bool, block_size: int, x: int, rotary_dim: int, gemma_norm: bool,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_norm_mrope_3d_cache_pts_quant_shuffle``."""
    sections = sections_of("fused_qk_norm_mrope_3d_cache_pts_quant_shuffle", mrope_section_)
    layout = (max(block_size, 1), x if use_shuffle_layout else 0)
    keys = keys_of(cache_of(k_cache, (num_heads_k, head_size), layout, keys=True), True)
    values = values_of(cache_of(v_cache, (num_heads_v, head_size), layout, keys=False), True)
    k_out = codes_in(k_out, keys) if k_out is not None and k_out.dtype != keys.dtype else k_out
    v_out = codes_in(v_out, values) if v_out is not None and v_out.dtype != values.dtype else v_out
    _OPS.fused_qk_norm_mrope_3d_cache_pts_quant_shuffle.default(
        qkv, qw, kw, cos_sin, positions, q_out, keys, values, slot_mapping, k_out, v_out, num_tokens, num_heads_q,
        num_heads_k, num_heads_v, head_size, is_neox_style, *sections, is_interleaved, eps, per_tensor_k_scale,
        per_tensor_v_scale, return_kv, use_shuffle_layout, block_size, x, rotary_dim, gemma_norm,
    )  # fmt: skip


def fused_qknorm_idxrqknorm(
    qkv: Any, q_norm_weight: Any, k_norm_weight: Any, cos_sin_cache: Any, positions: Any, num_heads: int, num_kv_heads: int,
    rotary_dim: int, eps: float, index_q_norm_weight: Any, index_k_norm_weight: Any, num_index_heads: int, slot_mapping: Any,
    kv_cache_k: Any, kv_cache_v: Any, index_cache: Any, block_size: int, q_out: Any, index_q_out: Any, index_slot_mapping: Any,
    kv_cache_dtype: str, index_cache_dtype: Any, k_scale: Any, v_scale: Any, asm_layout: bool,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qknorm_idxrqknorm``."""
    kinds = (kv_cache_dtype, index_cache_dtype)
    kv_cache_k, kv_cache_v, index_cache, index_kind = caches_of(kv_cache_k, kv_cache_v, index_cache, kinds)
    if kv_cache_k is not None and kv_cache_v is not None:
        kv_cache_k, kv_cache_v = keys_of(kv_cache_k, True), values_of(kv_cache_v, True)
    if index_slot_mapping is None:
        index_slot_mapping = slot_mapping
    _OPS.fused_qknorm_idxrqknorm.default(
        qkv, q_norm_weight, k_norm_weight, cos_sin_cache, positions, index_q_norm_weight, index_k_norm_weight, slot_mapping,
        kv_cache_k, kv_cache_v, index_cache, q_out, index_q_out, index_slot_mapping,
        k_scale, v_scale, num_heads, num_kv_heads, rotary_dim, eps, num_index_heads, block_size, kv_cache_dtype, index_kind,
        asm_layout,
    )  # fmt: skip


def fused_qk_rope_concat_and_cache_mla(
    q_nope: Any, q_pe: Any, kv_c: Any, k_pe: Any, kv_cache: Any, *more: Any
) -> None:
    """Trace ``aiter_prebuilt.fused_qk_rope_concat_and_cache_mla``."""
    keys = (each.unsqueeze(1) if each.dim() == 2 else each for each in (kv_c, k_pe))
    cache = kv_cache.unsqueeze(2) if kv_cache.dim() == 3 else kv_cache
    _OPS.fused_qk_rope_concat_and_cache_mla.default(q_nope, q_pe, *keys, cache, *more)


def fused_qk_rope_cat_and_cache_mla(
    q_nope: Any, q_pe: Any, k_nope: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, pos: Any, cos: Any, sin: Any, k_scale: Any,
    is_neox: bool, num_decode_toks_for_zeros: int, apply_scale: bool, q_out: Any, decode_q_pe_out: Any, k_pe_out: Any,
    q_out_dtype: Any, shuffled_kv_cache: bool,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_rope_cat_and_cache_mla``."""
    (rows, heads, rank), turned = q_nope.shape[:3], q_pe.shape[2]
    kind = q_nope.dtype if q_out_dtype is None else q_out_dtype
    few = (num_decode_toks_for_zeros, heads)
    q_out = q_nope.new_empty((rows, heads, rank + turned), dtype=kind) if q_out is None else q_out
    decode_q_pe_out = q_nope.new_empty((*few, turned)) if decode_q_pe_out is None else decode_q_pe_out
    k_pe_out = like(k_pe) if k_pe_out is None else k_pe_out
    made = (q_out, decode_q_pe_out, k_pe_out, q_nope.new_empty((*few, rank)))
    given = (q_nope, q_pe, k_nope, k_pe, blocks_of(kv_cache), slot_mapping, pos, cos, sin)
    _OPS.fused_qk_rope_cat_and_cache_mla.default(
        *given, k_scale if apply_scale else None, *made, is_neox, num_decode_toks_for_zeros, shuffled_kv_cache
    )
    return made


def fused_qk_rmsnorm_plain(
    q_out: Any, q: Any, q_weight: Any, q_eps: float, k_out: Any, k: Any, k_weight: Any, k_eps: float
) -> Any:
    """Trace ``aiter_prebuilt.fused_qk_rmsnorm_plain``."""
    q_out = like(q) if q_out is None else q_out
    k_out = like(k) if k_out is None else k_out
    _OPS.fused_qk_rmsnorm_plain.default(q_out, q, q_weight, k_out, k, k_weight, q_eps, k_eps)
    return q_out, k_out


def fused_qk_rmsnorm_group_quant(
    q_out_quantized: Any, q_out_scale: Any, q: Any, q_weight: Any, q_epsilon: float, q_out_unquantized: Any, k_out: Any,
    q_res_out: Any, k: Any, k_weight: Any, k_epsilon: float | None, q_residual: Any, group_size: int, transpose_scale: bool,
    gemma_norm: bool,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_rmsnorm_group_quant``."""
    tensors = (
        q_out_quantized,
        q_out_scale,
        q,
        q_weight,
        q_out_unquantized,
        k_out,
        q_res_out,
        k,
        k_weight,
        q_residual,
    )
    epsilons = (q_epsilon, q_epsilon if k_epsilon is None else k_epsilon)
    _OPS.fused_qk_rmsnorm_group_quant.default(*tensors, *epsilons, group_size, transpose_scale, gemma_norm)


def fused_qk_rmsnorm_per_token_quant(
    q_out_quantized: Any, q_out_scale: Any, q: Any, q_weight: Any, q_epsilon: float, q_out_unquantized: Any, k_out: Any,
    q_res_out: Any, k: Any, k_weight: Any, k_epsilon: float | None, q_residual: Any, gemma_norm: bool,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_qk_rmsnorm_per_token_quant``."""
    tensors = (
        q_out_quantized,
        q_out_scale,
        q,
        q_weight,
        q_out_unquantized,
        k_out,
        q_res_out,
        k,
        k_weight,
        q_residual,
    )
    epsilons = (q_epsilon, q_epsilon if k_epsilon is None else k_epsilon)
    _OPS.fused_qk_rmsnorm_per_token_quant.default(*tensors, *epsilons, gemma_norm)
