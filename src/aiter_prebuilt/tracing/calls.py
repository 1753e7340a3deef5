"""Traced forms of the hand-written functions of ``ops``.

Their options are checked before: these allocate outputs and call the operator.

Imported by a trace and by nothing else. Parameters and refusals are generated (``generated``), from the manifests.
"""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.errors import ArgumentKindError
from aiter_prebuilt.ops import _mla, _moe
from aiter_prebuilt.ops._blocks import layers
from aiter_prebuilt.ops._common import WITHOUT_ASSEMBLY, codes, refuse, scale_of, splits, window_of
from aiter_prebuilt.ops._sequence_lists import most_queries
from aiter_prebuilt.tracing import attention, binary, ck, delta, gemm, group_quant, prefill, rope, sampling
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)

add, sub, mul, div = binary.add, binary.sub, binary.mul, binary.div
binary_mixed = binary.binary_mixed
add_, sub_, mul_, div_ = binary.add_, binary.sub_, binary.mul_, binary.div_
flash_attn_func, unified_attention = attention.flash_attn_func, attention.unified_attention
mha_fwd, mha_varlen_fwd = attention.mha_fwd, attention.mha_varlen_fwd
mha_bwd, mha_varlen_bwd = attention.mha_bwd, attention.mha_varlen_bwd
flash_attn_varlen_func = attention.flash_attn_varlen_func
extend_attention_fwd = prefill.extend_attention_fwd
mha_batch_prefill = prefill.mha_batch_prefill
mha_batch_prefill_func = prefill.mha_batch_prefill_func
flash_attn_fp8_pertensor_func = attention.flash_attn_fp8_pertensor_func
flash_attn_varlen_fp8_pertensor_func = attention.flash_attn_varlen_fp8_pertensor_func
paged_attention_v1 = attention.paged_attention_v1
paged_attention_ragged = attention.paged_attention_ragged
mla_decode_fwd, get_ps_metadata_v1 = attention.mla_decode_fwd, attention.get_ps_metadata_v1
fused_qk_rmsnorm_plain = rope.fused_qk_rmsnorm_plain
minimax_qk_norm_rope = rope.minimax_qk_norm_rope
fused_qk_norm_rope_group_quant = rope.fused_qk_norm_rope_group_quant
inverse_rope_group_quant = rope.inverse_rope_group_quant
fused_kv_norm_rope_group_quant = rope.fused_kv_norm_rope_group_quant
fused_qk_rmsnorm_group_quant = rope.fused_qk_rmsnorm_group_quant
fused_qk_rmsnorm_per_token_quant = rope.fused_qk_rmsnorm_per_token_quant
fused_qk_rope_cat_and_cache_mla = rope.fused_qk_rope_cat_and_cache_mla
fused_qk_rope_concat_and_cache_mla = rope.fused_qk_rope_concat_and_cache_mla
fused_qk_norm_mrope_3d_cache_pts_quant_shuffle = rope.fused_qk_norm_mrope_3d_cache_pts_quant_shuffle
fused_qknorm_idxrqknorm = rope.fused_qknorm_idxrqknorm
fused_qk_norm_rope_cache_pts_quant_shuffle = rope.fused_qk_norm_rope_cache_pts_quant_shuffle
fused_qk_rope_reshape_and_cache = rope.fused_qk_rope_reshape_and_cache
act_mul_and_fp8_group_quant = group_quant.act_mul_and_fp8_group_quant
act_mul_and_mxfp4_quant = group_quant.act_mul_and_mxfp4_quant
silu_and_mul_quant = group_quant.silu_and_mul_quant
silu_and_mul_quant_fp4 = group_quant.silu_and_mul_quant_fp4
dynamic_per_group_scaled_quant = group_quant.dynamic_per_group_scaled_quant
quant_mxfp4 = group_quant.quant_mxfp4
upcast_from_mxfp, upcast_from_mxfp8 = group_quant.upcast_from_mxfp, group_quant.upcast_from_mxfp8
downcast_to_mxfp, downcast_to_mxfp8 = group_quant.downcast_to_mxfp, group_quant.downcast_to_mxfp8
fused_rms_fp8_group_quant = group_quant.fused_rms_fp8_group_quant
fused_rms_fp8_per_tensor_static_quant = group_quant.fused_rms_fp8_per_tensor_static_quant
fused_add_rmsnorm_pad = group_quant.fused_add_rmsnorm_pad
gemm_a16w8_blockscale = gemm.gemm_a16w8_blockscale
gemm_afp4wfp4, gemm_afp4wfp4_preshuffle = gemm.gemm_afp4wfp4, gemm.gemm_afp4wfp4_preshuffle
gemm_a16wfp4, gemm_afp4wfp4_pre_quant = gemm.gemm_a16wfp4, gemm.gemm_afp4wfp4_pre_quant
gemm_a4w4, gemm_a4w4_asm = gemm.gemm_a4w4, gemm.gemm_a4w4_asm
batched_gemm_a8w8, batched_gemm_bf16 = gemm.batched_gemm_a8w8, gemm.batched_gemm_bf16
batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant = (
    gemm.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant
)
random_sample, mixed_sample = sampling.random_sample, sampling.mixed_sample
exponential, top_k_renorm_probs = sampling.exponential, sampling.top_k_renorm_probs
top_p_sampling_from_probs = sampling.top_p_sampling_from_probs
top_k_top_p_sampling_from_probs = sampling.top_k_top_p_sampling_from_probs
deepgemm, moe_cktile2stages_gemm1 = ck.deepgemm, ck.moe_cktile2stages_gemm1
ck_moe_stage1_fwd, ck_moe_stage2_fwd = ck.ck_moe_stage1_fwd, ck.ck_moe_stage2_fwd

causal_conv1d_fn = delta.causal_conv1d_fn
causal_conv1d_update_in_place = delta.causal_conv1d_update_in_place
fused_gdn_gating_and_sigmoid = delta.fused_gdn_gating_and_sigmoid
chunk_gated_delta_rule = delta.chunk_gated_delta_rule
fused_recurrent_gated_delta_rule = delta.fused_recurrent_gated_delta_rule
l2norm_fwd = delta.l2norm_fwd
fused_recurrent_gated_delta_rule_update = delta.fused_recurrent_gated_delta_rule_update
fused_sigmoid_gating_delta_rule_update = delta.fused_sigmoid_gating_delta_rule_update


def written(function: str, held: Any, made: Any) -> Any:
    """``held``, the memory that a caller gave for the result ``made``, with its values: eager calls write it themselves.

    Raises:
        ArgumentKindError: it is not what would have been made.
    """
    if (held.dtype, held.shape) != (made.dtype, made.shape) or not held.is_contiguous():
        raise ArgumentKindError(
            function,
            f"its result needs a contiguous {made.dtype} {list(made.shape)}, got {held.dtype} {list(held.shape)} "
            f"with strides {list(held.stride())}",
            "Pass such a tensor, or None",
        )
    return held.copy_(made)


def gemm_a16w16_asm(
    A: Any, B: Any, out: Any, bias: Any, splitK: int | None, kernelName: str | None, bpreshuffle: bool
) -> Any:
    """Trace ``aiter_prebuilt.gemm_a16w16_asm``."""
    parts = splits("gemm_a16w16_asm", splitK)
    kind = getattr(out, "dtype", None)
    if not bpreshuffle and bias is None and kind != torch.bfloat16:
        _OPS.gemm_a16w16_asm.default(A, B, out, None, parts, kernelName)
        return out
    if kernelName:
        raise refuse("gemm_a16w16_asm", "kernelName", kernelName, WITHOUT_ASSEMBLY)
    if bpreshuffle:
        _OPS.gemm_a16w16_shuffled.default(A, B, out, bias)
        return out
    product = _OPS.gemm_a16w16 if kind == torch.bfloat16 else _OPS.gemm_a16w16_fp32
    written("gemm_a16w16_asm", out, product.default(A, B, bias))
    return out


def mi350_a8w8_blockscale_asm(XQ: Any, WQ: Any, x_scale: Any, w_scale: Any, out: Any) -> Any:
    """Trace ``aiter_prebuilt.mi350_a8w8_blockscale_asm``."""
    _OPS.mi350_a8w8_blockscale_asm.default(XQ, WQ, x_scale, w_scale, out)
    return out


def gemm_a4w4_blockscale(XQ: Any, WQ: Any, x_scale: Any, w_scale: Any, Out: Any) -> Any:
    """Trace ``aiter_prebuilt.gemm_a4w4_blockscale``."""
    given = (codes(XQ, "fp4x2"), codes(WQ, "fp4x2"), codes(x_scale, "e8m0"), codes(w_scale, "e8m0"))
    _OPS.gemm_a4w4_blockscale.default(*given, Out)
    return Out


def dynamic_per_group_scaled_quant_fp4(
    out: Any,
    input: Any,
    scales: Any,
    group_size: int | None,
    shuffle_scale: bool,
    num_rows: Any,
    num_rows_factor: int,
) -> None:
    """Trace ``aiter_prebuilt.dynamic_per_group_scaled_quant_fp4``."""
    stored = (codes(out, "fp4x2"), input, codes(scales, "e8m0"), num_rows)
    _OPS.dynamic_per_group_scaled_quant_fp4.default(*stored, group_size, shuffle_scale, num_rows_factor)


def copy_blocks(key_caches: Any, value_caches: Any, block_mapping: Any) -> None:
    """Trace ``aiter_prebuilt.copy_blocks``."""
    for keys, values in layers(key_caches, value_caches):
        _OPS.copy_blocks.default(keys, values, block_mapping)


def topk_gating(
    topk_weights: Any, topk_indices: Any, gating_output: Any, correction_bias: Any, need_renorm: bool,
    routed_scaling_factor: float, score_func: str, num_shared_experts: int,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.topk_gating``."""
    bias = None if correction_bias is not None and correction_bias.shape == (0,) else correction_bias
    _OPS.topk_gating.default(
        topk_weights,
        topk_indices,
        gating_output,
        bias,
        need_renorm,
        routed_scaling_factor,
        score_func,
        num_shared_experts,
    )


def topk_plain(
    x: Any, topk_ids: Any, topk_out: Any, topk: int, largest: bool, stride0: int, stride1: int
) -> None:
    """Trace ``aiter_prebuilt.topk_plain``."""
    _OPS.topk_plain.default(x, topk_ids, topk_out, topk, largest, stride0, stride1)


def moe_fused_gate(
    input: Any, bias: Any, topk_weights: Any, topk_ids: Any, num_expert_group: int, topk_group: int, topk: int
) -> tuple[Any, Any]:
    """Trace ``aiter_prebuilt.moe_fused_gate``."""
    _OPS.moe_fused_gate.default(input, bias, topk_weights, topk_ids, num_expert_group, topk_group, topk)
    return topk_weights, topk_ids


def fmoe_g1u1_mxfp4(
    out: Any,
    input: Any,
    gate: Any,
    down: Any,
    sorted_token_ids: Any,
    sorted_weights: Any,
    sorted_expert_ids: Any,
    num_valid_ids: Any,
    topk: int,
    input_scale: Any,
    fc1_scale: Any,
    fc2_scale: Any,
    kernelName: str,
    activation: int,
) -> None:
    """Trace ``aiter_prebuilt.fmoe_g1u1_mxfp4``."""
    pairs = (codes(each, "fp4x2") for each in (input, gate, down))
    scales = (codes(each, "e8m0") for each in (input_scale, fc1_scale, fc2_scale))
    ids = (sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids)
    _OPS.fmoe_g1u1_mxfp4.default(out, *pairs, *ids, *scales, topk, activation, kernelName)


def fmha_v3_fwd(
    q: Any,
    k: Any,
    v: Any,
    softmax_scale: float,
    is_causal: bool,
    return_softmax_lse: bool,
    how_v3_bf16_cvt: int,
    out: Any,
) -> Any:
    """Trace ``aiter_prebuilt.fmha_v3_fwd``."""
    scale_of("fmha_v3_fwd", softmax_scale)
    result = q.new_empty((*q.shape[:3], v.shape[3])) if out is None else out
    lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_softmax_lse else None
    _OPS.fmha_v3_fwd.default(q, k, v, result, lse, softmax_scale, is_causal, how_v3_bf16_cvt)
    return result, lse, None, None


def fmha_v3_varlen_fwd(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    softmax_scale: float,
    is_causal: bool,
    return_softmax_lse: bool,
    how_v3_bf16_cvt: int,
    out: Any,
) -> Any:
    """Trace ``aiter_prebuilt.fmha_v3_varlen_fwd``."""
    scale_of("fmha_v3_varlen_fwd", softmax_scale)
    result = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
    lse_shape = (q.shape[1], q.shape[0])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_softmax_lse else None
    given = (q, k, v, cu_seqlens_q, cu_seqlens_k)
    _OPS.fmha_v3_varlen_fwd.default(*given, result, lse, softmax_scale, is_causal, how_v3_bf16_cvt)
    return result, lse, None, None


def pa_fwd_asm(
    Q: Any,
    K: Any,
    V: Any,
    block_tables: Any,
    context_lens: Any,
    block_tables_stride0: int,
    max_qlen: int,
    K_QScale: Any,
    V_QScale: Any,
    out_: Any,
    qo_indptr: Any,
    high_precision: int | None,
    kernelName: str | None,
) -> Any:
    """Trace ``aiter_prebuilt.pa_fwd_asm``."""
    result = Q.new_empty(Q.shape) if out_ is None else out_
    tensors = (Q, K, V, block_tables, context_lens, K_QScale, V_QScale, result, qo_indptr)
    queries = most_queries(max_qlen, qo_indptr)
    _OPS.pa_fwd_asm.default(*tensors, block_tables_stride0, queries, high_precision, kernelName)
    return result


def fmha_v3_bwd(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax_lse: Any,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    dq: Any,
    dk: Any,
    dv: Any,
) -> Any:
    """Trace ``aiter_prebuilt.fmha_v3_bwd``."""
    scale_of("fmha_v3_bwd", softmax_scale)
    made = attention.like(((dq, q), (dk, k), (dv, v)))
    delta = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    window = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
    given = (dout, q, k, v, out, softmax_lse, *made, delta)
    _OPS.fmha_v3_bwd.default(*given, softmax_scale, *window, is_v3_atomic_fp32, how_v3_bf16_cvt)
    return (*made, delta)


def fmha_v3_varlen_bwd(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax_lse: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    is_causal: bool,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    dq: Any,
    dk: Any,
    dv: Any,
) -> Any:
    """Trace ``aiter_prebuilt.fmha_v3_varlen_bwd``."""
    scale_of("fmha_v3_varlen_bwd", softmax_scale)
    made = attention.like(((dq, q), (dk, k), (dv, v)))
    delta = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    given = (dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, *made, delta)
    options = (max_seqlen_q, max_seqlen_k, softmax_scale, is_causal, is_v3_atomic_fp32, how_v3_bf16_cvt)
    _OPS.fmha_v3_varlen_bwd.default(*given, *options)
    return (*made, delta)


def mla_decode_stage1_asm_fwd(
    Q: Any,
    KV: Any,
    qo_indptr: Any,
    kv_indptr: Any,
    kv_page_indices: Any,
    kv_last_page_lens: Any,
    num_kv_splits_indptr: Any,
    work_indptr: Any,
    work_info_set: Any,
    max_seqlen_q: int,
    softmax_scale: float,
    splitData: Any,
    splitLse: Any,
    output: Any,
    q_scale: Any,
    kv_scale: Any,
) -> None:
    """Trace ``aiter_prebuilt.mla_decode_stage1_asm_fwd``."""
    scale_of("mla_decode_stage1_asm_fwd", softmax_scale)
    _OPS.mla_decode_stage1_asm_fwd.default(
        Q, KV, qo_indptr, kv_indptr, kv_page_indices, kv_last_page_lens, num_kv_splits_indptr, work_indptr,
        work_info_set, splitData, splitLse, output, q_scale, kv_scale, max_seqlen_q, softmax_scale,
    )  # fmt: skip


def mla_prefill_asm_fwd(
    Q: Any,
    KV: Any,
    qo_indptr: Any,
    kv_indptr: Any,
    kv_page_indices: Any,
    kv_last_page_lens: Any,
    max_seqlen_q: int,
    softmax_scale: float,
    splitData: Any,
    splitLse: Any,
) -> None:
    """Trace ``aiter_prebuilt.mla_prefill_asm_fwd``."""
    scale_of("mla_prefill_asm_fwd", softmax_scale)
    lists = (qo_indptr, kv_indptr, kv_page_indices, kv_last_page_lens)
    _OPS.mla_prefill_asm_fwd.default(Q, KV, *lists, splitData, splitLse, max_seqlen_q, softmax_scale)


def get_mla_metadata_v1(
    seqlens_qo_indptr: Any,
    seqlens_kv_indptr: Any,
    kv_last_page_lens: Any,
    num_heads_per_head_k: int,
    is_causal: bool,
    work_metadata_ptrs: Any,
    work_info_set: Any,
    work_indptr: Any,
    reduce_indptr: Any,
    reduce_final_map: Any,
    reduce_partial_map: Any,
    page_size: int,
    kv_granularity: int,
    max_seqlen_qo: int,
    uni_seqlen_qo: int,
    topk: int,
    max_split_per_batch: int,
) -> None:
    """Trace ``aiter_prebuilt.get_mla_metadata_v1``."""
    fold, tiles = _mla.contexts_of(num_heads_per_head_k, page_size, max_seqlen_qo, uni_seqlen_qo, topk)
    units, works = _mla.in_order(work_indptr, work_info_set)
    _OPS.get_mla_metadata_v1.default(
        seqlens_qo_indptr, seqlens_kv_indptr, kv_last_page_lens, _mla.addresses(work_metadata_ptrs), works, units,
        reduce_indptr, reduce_final_map, reduce_partial_map, num_heads_per_head_k, is_causal, page_size,
        kv_granularity, uni_seqlen_qo, topk, max_split_per_batch, fold, tiles,
    )  # fmt: skip


def mla_reduce_v1(
    partial_output: Any,
    partial_lse: Any,
    reduce_indptr: Any,
    reduce_final_map: Any,
    reduce_partial_map: Any,
    max_seqlen_q: int,
    num_kv_splits: int,
    final_output: Any,
    final_lse: Any,
) -> None:
    """Trace ``aiter_prebuilt.mla_reduce_v1``."""
    lists = (reduce_indptr, reduce_final_map, reduce_partial_map)
    sums = _mla.rows_of(partial_lse, partial_output)
    given = _mla.reduced_to(max_seqlen_q, num_kv_splits, final_output, final_lse)
    _OPS.mla_reduce_v1.default(partial_output, sums, *lists, *given)


def mla_prefill_fwd(
    q: Any,
    kv_buffer: Any,
    o: Any,
    qo_indptr: Any,
    kv_indptr: Any,
    kv_indices: Any,
    kv_last_page_lens: Any,
    max_seqlen_q: int,
    sm_scale: float | None,
) -> Any:
    """Trace ``aiter_prebuilt.mla_prefill_fwd``."""
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    scale_of("mla_prefill_fwd", scale, "sm_scale")
    lse = o.new_empty((o.shape[0], 1, o.shape[1], 1), dtype=torch.float32)
    lists = (qo_indptr, kv_indptr, kv_indices, kv_last_page_lens)
    _OPS.mla_prefill_fwd.default(q, kv_buffer, o, *lists, lse, max_seqlen_q, scale)
    return o, lse


def moe_stage1_g1u1(
    input: Any, w1: Any, w2: Any, sorted_token_ids: Any, sorted_expert_ids: Any, num_valid_ids: Any, out: Any,
    inter_dim: int, kernelName: str, block_m: int, activation: int, quant_type: Any, a1_scale: Any, w1_scale: Any,
    sorted_weights: Any,
) -> None:  # fmt: skip
    """Trace ``aiter_prebuilt.moe_stage1_g1u1``."""
    kind = _moe.quantised("moe_stage1_g1u1", quant_type)
    lists = (sorted_token_ids, sorted_expert_ids, num_valid_ids)
    _OPS.moe_stage1_g1u1.default(
        input, w1, w2, *lists, _moe.result(out, input), a1_scale, w1_scale, sorted_weights, inter_dim, block_m,
        activation, kind, kernelName,
    )  # fmt: skip
