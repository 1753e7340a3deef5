"""What users import: lazily, with AITER's signatures, documented, and every error class with its three parts."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import aiter_prebuilt
from aiter_prebuilt import errors

ROOT = Path(__file__).resolve().parents[2]

#: Parameter names in order, as AITER has them: clients bind by name and by position.
SIGNATURES = {
    "fused_add_rmsnorm_pad": "x weight epsilon res x_pad_to_multiple",
    "fused_rms_fp8_per_tensor_static_quant": "inp1 inp1_weight inp1_epsilon inp1_scale inp2 inp2_weight inp2_epsilon dtype_quant "
    "res1 output_unquantized_inp1 rmsnorm_convert_to_inp1_type",
    "fused_rms_fp8_group_quant": "inp1 inp1_weight inp1_epsilon inp2 inp2_weight inp2_epsilon group_size dtype_quant res1 "
    "output_unquantized_inp1 transpose_scale is_x_scale_strided",
    "act_mul_and_fp8_group_quant": "x activation group_size dtype_quant",
    "cp_gather_indexer_k_quant_cache": "kv_cache dst_k dst_scale block_table cu_seq_lens preshuffle",
    "dynamic_per_group_scaled_quant": "out input scales group_size shuffle_scale num_rows num_rows_factor scale_layout_m32k4",
    "quant_mxfp4": "inp out_packed out_scale group_size round_mode e8m0_shuffle a16w4_shuffle gate_up shuffle_weight",
    "dynamic_per_group_scaled_quant_fp4": "out input scales group_size shuffle_scale num_rows num_rows_factor",
    "exponential": "out lambd generator eps",
    "batched_gemm_a8w8": "XQ WQ x_scale w_scale out bias splitK",
    "batched_gemm_a8w8_CK": "XQ WQ x_scale w_scale bias dtype splitK",
    "batched_gemm_bf16": "XQ WQ out bias splitK",
    "batched_gemm_bf16_CK": "XQ WQ bias dtype splitK",
    "gemm_a8w8": "XQ WQ x_scale w_scale bias dtype splitK y config skip_reduce",
    "gemm_a8w8_CK": "XQ WQ x_scale w_scale bias dtype splitK",
    "gemm_a8w8_blockscale": "XQ WQ x_scale w_scale dtype isBpreshuffled y config skip_reduce kernel_type backend",
    "gemm_a8w8_blockscale_bpreshuffle": "XQ WQ x_scale w_scale dtype out",
    "indexer_k_quant_and_cache": "k kv_cache slot_mapping quant_block_size scale_fmt preshuffle",
    "mixed_sample": "out input temperature lambd generator eps",
    "moe_fused_gate": "input bias topk_weights topk_ids num_expert_group topk_group topk n_share_experts_fusion "
    "routed_scaling_factor",
    "partial_transpose": "out input num_rows",
    "random_sample": "out input temperatures lambd generator eps",
    "gelu_fast": "out input",
    "reshape_and_cache_flash": "key value key_cache value_cache slot_mapping kv_cache_dtype k_scale v_scale",
    "reshape_and_cache_with_pertoken_quant": "key value key_cache value_cache k_dequant_scales v_dequant_scales slot_mapping "
    "asm_layout clamp_scale",
    "reshape_and_cache_with_block_quant": "key value key_cache value_cache k_dequant_scales v_dequant_scales slot_mapping "
    "asm_layout",
    "reshape_and_cache_with_block_quant_for_asm_pa": "key value key_cache value_cache k_dequant_scales v_dequant_scales "
    "slot_mapping asm_layout ori_block_size",
    "fused_qk_norm_rope_cache_block_quant_shuffle": "qkv num_heads_q num_heads_k num_heads_v head_dim eps qw kw cos_sin_cache "
    "is_neox_style pos_ids k_cache v_cache slot_mapping cu_q_len kv_cache_dtype k_scale v_scale max_tokens_per_batch",
    "fused_qk_rope_concat_and_cache_mla": "q_nope q_pe kv_c k_pe kv_cache q_out slot_mapping k_scale q_scale positions cos_cache "
    "sin_cache is_neox is_nope_first compute_all_q_rope",
    "fused_qk_rmsnorm_group_quant": "q_out_quantized q_out_scale q q_weight q_epsilon q_out_unquantized k_out q_res_out k "
    "k_weight k_epsilon q_residual group_size transpose_scale gemma_norm",
    "fused_qk_rmsnorm_per_token_quant": "q_out_quantized q_out_scale q q_weight q_epsilon q_out_unquantized k_out q_res_out "
    "k k_weight k_epsilon q_residual gemma_norm",
    "add_rmsnorm_quant": "out input residual_in residual_out scale weight epsilon group_size shuffle_scale gemma_norm",
    "rmsnorm": "out input weight epsilon gemma_norm",
    "add_rmsnorm": "out input residual_in residual_out weight epsilon gemma_norm",
    "rmsnorm_quant": "out input scale weight epsilon group_size shuffle_scale gemma_norm",
    "fused_qk_rmsnorm_plain": "q_out q q_weight q_eps k_out k k_weight k_eps",
    "fused_qk_norm_rope_cache_quant_shuffle": "q k v num_heads_q num_heads_k num_heads_v head_dim eps qw kw cos_sin_cache "
    "is_neox_style pos_ids k_cache v_cache slot_mapping kv_cache_dtype k_scale v_scale",
    "fused_qk_norm_rope_cache_pts_quant_shuffle": "qkv qw kw cos_sin positions num_tokens num_heads_q num_heads_k num_heads_v "
    "head_size is_neox_style eps q_out k_cache v_cache slot_mapping per_tensor_k_scale per_tensor_v_scale k_out v_out return_kv "
    "use_shuffle_layout block_size x rotary_dim",
    "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle": "qkv qw kw cos_sin positions num_tokens num_heads_q num_heads_k "
    "num_heads_v head_size is_neox_style mrope_section_ is_interleaved eps q_out k_cache v_cache slot_mapping "
    "per_tensor_k_scale per_tensor_v_scale k_out v_out return_kv use_shuffle_layout block_size x rotary_dim gemma_norm",
    "fused_kv_norm_rope_group_quant": "kv kv_weight positions slot_mapping cos_cache sin_cache eps k_nope_scale_buff k_rope_buff "
    "is_neox quant_group_size scale_dtype",
    "inverse_rope_group_quant": "o positions cos_cache sin_cache num_groups quant_group_size scale_layout x_fp8 x_scale",
    "fused_qk_norm_rope_group_quant": "q kv k_weight positions cos_cache sin_cache eps is_neox q_out_dtype q_nope_scale_buff "
    "q_rope_buff k_nope_scale_buff k_rope_buff q_weight quant_group_size scale_dtype swa_nope_scale_buff swa_rope_buff "
    "swa_block_tables swa_dest_row swa_block_size batch_id_per_token",
    "minimax_qk_norm_rope": "qkv q_weight k_weight cos_sin_cache positions num_heads_q num_heads_k head_dim rotary_dim eps "
    "is_neox_style q_out k_out v_out",
    "fused_qknorm_idxrqknorm": "qkv q_norm_weight k_norm_weight cos_sin_cache positions num_heads num_kv_heads rotary_dim eps "
    "index_q_norm_weight index_k_norm_weight num_index_heads slot_mapping kv_cache_k kv_cache_v index_cache block_size q_out "
    "index_q_out index_slot_mapping kv_cache_dtype index_cache_dtype k_scale v_scale asm_layout",
    "fused_qk_norm_rope_1way": "q k w_q w_k cos_sin batch_size num_tokens num_heads_q num_heads_k head_size is_interleaved eps "
    "out_q out_k",
    "fused_qk_norm_rope_2way": "q0 k0 q1 k1 w_q0 w_k0 w_q1 w_k1 cos_sin0 cos_sin1 batch_size num_tokens0 num_tokens1 num_heads_q "
    "num_heads_k head_size is_interleaved eps out_q01 out_k01",
    "fused_qk_rope_cat_and_cache_mla": "q_nope q_pe k_nope k_pe kv_cache slot_mapping pos cos sin k_scale is_neox "
    "num_decode_toks_for_zeros apply_scale q_out decode_q_pe_out k_pe_out q_out_dtype shuffled_kv_cache upcast_operand",
    "fused_qk_rope_reshape_and_cache": "q k v key_cache value_cache slot_mapping pos cos sin k_scale v_scale is_neox "
    "flash_layout apply_scale offs q_out k_out output_zeros zeros_out upcast_operand",
    "concat_and_cache_mla": "kv_c k_pe kv_cache slot_mapping kv_cache_dtype scale",
    "rope_fwd_impl": "output input freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_fwd_impl": "output input cos sin rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_fwd_impl": "output input cos sin positions rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_offsets_fwd_impl": "output input cos sin positions offsets rotate_style reuse_freqs_front_part "
    "nope_first",
    "rope_2c_fwd_impl": "output_x output_y input_x input_y freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_2c_fwd_impl": "output_x output_y input_x input_y cos sin rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_2c_fwd_impl": "output_x output_y input_x input_y cos sin positions rotate_style "
    "reuse_freqs_front_part nope_first",
    "rope_cached_positions_offsets_2c_fwd_impl": "output_x output_y input_x input_y cos sin positions offsets rotate_style "
    "reuse_freqs_front_part nope_first",
    "rope_thd_fwd_impl": "output input cu_seqlens freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_2d_fwd_impl": "output input cos_h sin_h cos_w sin_w img_height img_width rotate_style reuse_freqs_front_part "
    "nope_first",
    "rope_bwd_impl": "input_grads output_grads freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_bwd_impl": "input_grads output_grads cos sin rotate_style reuse_freqs_front_part nope_first",
    "rope_2c_bwd_impl": "input_grads_x input_grads_y output_grads_x output_grads_y freqs rotate_style reuse_freqs_front_part "
    "nope_first",
    "rope_cached_2c_bwd_impl": "input_grads_x input_grads_y output_grads_x output_grads_y cos sin rotate_style "
    "reuse_freqs_front_part nope_first",
    "rope_thd_bwd_impl": "input_grads output_grads cu_seqlens freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_2d_bwd_impl": "input_grads output_grads cos_h sin_h cos_w sin_w img_height img_width rotate_style "
    "reuse_freqs_front_part nope_first",
    "rotary_embedding_fwd": "positions query key head_size cos_cache sin_cache is_neox is_nope_first",
    "batched_rotary_embedding": "positions query key head_size cos_cache sin_cache is_neox is_nope_first rot_dim "
    "cos_sin_cache_offsets",
    "greedy_sample": "out input",
    "top_k_renorm_probs": "probs maybe_top_k_arr top_k_val",
    "top_p_sampling_from_probs": "probs indices maybe_top_p_arr top_p_val deterministic generator",
    "top_k_top_p_sampling_from_probs": "probs indices maybe_top_k_arr top_k_val maybe_top_p_arr top_p_val deterministic "
    "generator",
    "random_sample_outer_exponential": "out input exponentials temperatures eps",
    "mixed_sample_outer_exponential": "out input exponentials temperatures eps",
    "static_per_tensor_quant": "out input scale",
    "smooth_per_token_scaled_quant": "out input scales smooth_scale smooth_scale_map shuffle_scale num_rows num_rows_factor",
    "moe_sum": "input output",
    "moe_sorting_fwd": "topk_ids topk_weights sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids moe_buf "
    "num_experts unit_size local_expert_mask num_local_tokens dispatch_policy",
    "moe_align_block_size": "topk_ids num_experts block_size sorted_token_ids experts_ids token_nums num_tokens_post_pad",
    "grouped_topk": "gating_output topk_weights topk_ids num_expert_group topk_group need_renorm is_softmax "
    "routed_scaling_factor",
    "biased_grouped_topk_hip": "gating_output correction_bias topk_weights topk_ids num_expert_group topk_grp need_renorm "
    "routed_scaling_factor",
    "layernorm2d_fwd": "input weight bias epsilon x_bias",
    "layernorm2d_fwd_with_add": "out input residual_in residual_out weight bias epsilon x_bias",
    "layernorm2d_fwd_with_smoothquant": "out input xscale yscale weight bias epsilon x_bias",
    "layernorm2d_fwd_with_add_smoothquant": "out input residual_in residual_out xscale yscale weight bias epsilon x_bias",
    "rmsnorm2d_fwd_with_smoothquant": "out input xscale yscale weight epsilon use_model_sensitive_rmsnorm",
    "rmsnorm2d_fwd_with_add_smoothquant": "out input residual_in residual_out xscale yscale weight epsilon out_before_quant "
    "use_model_sensitive_rmsnorm",
    "rmsnorm2d_fwd_with_dynamicquant": "out input yscale weight epsilon use_model_sensitive_rmsnorm group_size shuffle_scale",
    "rmsnorm2d_fwd_with_add_dynamicquant": "out input residual_in residual_out yscale weight epsilon use_model_sensitive_rmsnorm "
    "group_size shuffle_scale",
    "silu": "out input",
    "chunk_gated_delta_rule": "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel cu_seqlens",
    "fused_gdn_gating_and_sigmoid": "A_log a b dt_bias softplus_beta softplus_threshold",
    "fused_recurrent_gated_delta_rule": "q k v g gk gv beta scale initial_state output_final_state use_qk_l2norm_in_kernel "
    "cu_seqlens",
    "fused_recurrent_gated_delta_rule_update": "q k v g beta scale initial_state inplace_final_state cu_seqlens "
    "ssm_state_indices num_accepted_tokens use_qk_l2norm_in_kernel state_layout",
    "fused_sigmoid_gating_delta_rule_update": "A_log a dt_bias softplus_beta softplus_threshold q k v b initial_state_source "
    "initial_state_indices scale use_qk_l2norm_in_kernel cu_seqlens state_layout",
    "causal_conv1d_update": "x conv_state weight bias out use_silu cache_seqlens conv_state_indices pad_slot_id",
    "causal_conv1d_fn": "x weight bias conv_states query_start_loc seq_lens_cpu cache_indices has_initial_state activation "
    "pad_slot_id validate_data out metadata",
    "causal_conv1d_update_in_place": "x conv_state weight bias activation cache_seqlens conv_state_indices num_accepted_tokens "
    "intermediate_conv_window pad_slot_id metadata validate_data query_start_loc max_query_len",
    "top_k_per_row_decode": "logits next_n seqLens indices numRows stride0 stride1 k stable",
    "top_k_per_row_prefill": "logits rowStarts rowEnds indices values numRows stride0 stride1 k stable",
    "sigmoid": "input",
    "tanh": "input",
    "add": "input other",
    "add_": "input other",
    "sub": "input other",
    "sub_": "input other",
    "mul": "input other",
    "mul_": "input other",
    "div": "input other",
    "binary_mixed": "input other op",
    "div_": "input other",
    "dynamic_per_tensor_quant": "out input scale",
    "rms_norm": "input weight epsilon use_model_sensitive_rmsnorm",
    "LLMM1": "in_a in_b out_c rows_per_block",
    "wvSpltK": "in_a in_b out_c N_in CuCount",
    "wv_splitk_small_fp16_bf16": "in_a in_b out_c N_in CuCount",
    "wvSplitKQ": "in_a in_b out_c scale_a scale_b CuCount",
    "rms_norm_cu": "out input weight epsilon",
    "fused_add_rms_norm_cu": "input residual_in weight epsilon",
    "rmsnorm2d_fwd": "input weight epsilon use_model_sensitive_rmsnorm",
    "rmsnorm2d_fwd_with_add": "out input residual_in residual_out weight epsilon gemma_norm use_model_sensitive_rmsnorm",
    "gemm_a16w16": (
        "A B bias otype scale_a scale_b scale_c dtype y config activation skip_reduce kernel_type backend"
    ),
    "gemm_a16w16_fp32": "A B bias y",
    "gemm_a16w16_shuffled": "A B out bias",
    "fmha_v3_fwd": "q k v dropout_p softmax_scale is_causal window_size_left window_size_right return_softmax_lse "
    "return_dropout_randval how_v3_bf16_cvt out bias alibi_slopes gen",
    "fmha_v3_bwd": "dout q k v out softmax_lse dropout_p softmax_scale is_causal window_size_left window_size_right "
    "deterministic is_v3_atomic_fp32 how_v3_bf16_cvt dq dk dv alibi_slopes rng_state gen",
    "fmha_v3_varlen_bwd": "dout q k v out softmax_lse cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p "
    "softmax_scale zero_tensors is_causal window_size_left window_size_right deterministic is_v3_atomic_fp32 how_v3_bf16_cvt "
    "dq dk dv alibi_slopes rng_state gen cu_seqlens_q_padded cu_seqlens_k_padded",
    "fmha_v3_varlen_fwd": "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k min_seqlen_q dropout_p softmax_scale "
    "logits_soft_cap zero_tensors is_causal window_size_left window_size_right return_softmax_lse return_dropout_randval "
    "how_v3_bf16_cvt out block_table bias alibi_slopes gen",
    "mha_bwd": "dout q k v out softmax_lse dropout_p softmax_scale is_causal window_size_left window_size_right deterministic "
    "dq dk dv dbias bias alibi_slopes rng_state gen sink d_sink",
    "mha_varlen_bwd": "dout q k v out softmax_lse cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p softmax_scale "
    "zero_tensors is_causal window_size_left window_size_right deterministic dq dk dv alibi_slopes rng_state gen "
    "cu_seqlens_q_padded cu_seqlens_k_padded sink d_sink",
    "mha_fwd": "q k v dropout_p softmax_scale is_causal window_size_left window_size_right return_softmax_lse "
    "return_dropout_randval cu_seqlens_q cu_seqlens_kv out bias alibi_slopes gen",
    "mha_varlen_fwd": "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k min_seqlen_q dropout_p softmax_scale "
    "logits_soft_cap zero_tensors is_causal window_size_left window_size_right return_softmax_lse return_dropout_randval "
    "out block_table bias alibi_slopes gen cu_seqlens_q_padded cu_seqlens_k_padded",
    "gemm_a4w4": "A B A_scale B_scale bias dtype alpha beta bpreshuffle apreshuffle global_A_scale "
    "global_B_scale",
    "gemm_a4w4_asm": "A B A_scale B_scale out kernelName bias alpha beta bpreshuffle log2_k_split",
    "gemm_a4w4_blockscale": "XQ WQ x_scale w_scale Out splitK",
    "gemm_a16w16_asm": "A B out bias splitK kernelName bpreshuffle",
    "gemm_a8w8_ASM": "XQ WQ x_scale w_scale bias dtype check",
    "mi350_a8w8_blockscale_asm": "XQ WQ x_scale w_scale out",
    "flatmm_a8w8_blockscale_ASM": "XQ WQ x_scale w_scale dtype",
    "pa_fwd_asm": "Q K V block_tables context_lens block_tables_stride0 max_qlen K_QScale V_QScale out_ qo_indptr "
    "high_precision kernelName",
    "mla_decode_stage1_asm_fwd": "Q KV qo_indptr kv_indptr kv_page_indices kv_last_page_lens num_kv_splits_indptr work_meta_data "
    "work_indptr work_info_set max_seqlen_q page_size nhead_kv softmax_scale splitData splitLse output lse q_scale kv_scale "
    "g_kv_indptr cp_world_size cp_rank valid_split_count use_valid_split_count_reduce causal",
    "mla_prefill_asm_fwd": "Q KV qo_indptr kv_indptr kv_page_indices kv_last_page_lens max_seqlen_q softmax_scale "
    "splitData splitLse",
    "get_mla_metadata_v1": "seqlens_qo_indptr seqlens_kv_indptr kv_last_page_lens num_heads_per_head_k num_heads_k is_causal "
    "work_metadata_ptrs work_info_set work_indptr reduce_indptr reduce_final_map reduce_partial_map page_size kv_granularity "
    "max_seqlen_qo uni_seqlen_qo fast_mode topk max_split_per_batch intra_batch_mode is_cp_round_robin mla_version dtype_q_nope "
    "dtype_q_rope dtype_kv_nope dtype_kv_rope dtype_q dtype_kv",
    "get_mla_metadata_info_v1": "batch_size max_seqlen_qo num_head_qo q_dtype kv_dtype is_sparse fast_mode num_kv_splits "
    "intra_batch_mode max_split_per_batch",
    "get_ps_metadata_v1": "seqlens_qo_indptr pages_kv_indptr context_lens gqa_ratio num_heads_k work_metadata_ptrs work_indptr "
    "work_info reduce_indptr reduce_final_map reduce_partial_map qhead_granularity qlen_granularity kvlen_granularity "
    "block_size is_causal need_lse",
    "get_ps_metadata_info_v1": "batch_size num_head_k max_qlen qlen_granularity",
    "mla_prefill_ps_asm_fwd": "Q K V qo_indptr kv_indptr kv_page_indices work_indptr work_info_set max_seqlen_q softmax_scale "
    "is_causal splitData splitLse output q_scale k_scale v_scale",
    "mla_reduce_v1": "partial_output partial_lse reduce_indptr reduce_final_map reduce_partial_map max_seqlen_q num_kv_splits "
    "final_output final_lse",
    "gated_rmsnorm_fp8_group_quant": "out scale x z weight epsilon group_size transpose_scale",
    "gated_rmsnorm_fp8_per_token_quant": "out scale x z weight epsilon",
    "mhc_post": "out x residual post_layer_mix comb_res_mix store_nt",
    "mhc_pre_gemm_sqrsum": "out sqrsum x fn tile_k is_fn_pack_bf16",
    "mhc_pre_big_fuse": "post_mix comb_mix layer_input gemm_out_mul gemm_out_sqrsum hc_scale hc_base residual rms_eps hc_pre_eps "
    "hc_sinkhorn_eps hc_post_mult_value sinkhorn_repeat",
    "mhc_pre_big_fuse_rmsnorm": "post_mix comb_mix out gemm_out_mul gemm_out_sqrsum hc_scale hc_base residual norm_weight "
    "rms_eps hc_pre_eps hc_sinkhorn_eps norm_eps hc_post_mult_value sinkhorn_repeat",
    "mhc_fused_post_pre_gemm_sqrsum": "gemm_out_mul gemm_out_sqrsum next_residual layer_input residual_in post_layer_mix "
    "comb_res_mix fn tile_m tile_n tile_k is_fn_pack_bf16",
    "mla_decode_fwd": "q kv_buffer o qo_indptr kv_indptr kv_indices kv_last_page_lens max_seqlen_q page_size nhead_kv "
    "sm_scale logit_cap num_kv_splits num_kv_splits_indptr work_meta_data work_indptr work_info_set reduce_indptr "
    "reduce_final_map reduce_partial_map q_scale kv_scale intra_batch_mode return_logits return_lse g_kv_indptr cp_world_size "
    "cp_rank causal",
    "mla_prefill_fwd": "q kv_buffer o qo_indptr kv_indptr kv_indices kv_last_page_lens max_seqlen_q sm_scale logit_cap "
    "num_kv_splits",
    "gemm_a8w8_bpreshuffle": "XQ WQ x_scale w_scale bias dtype check",
    "flash_attn_func": "q k v dropout_p softmax_scale causal window_size bias alibi_slopes deterministic return_lse "
    "return_attn_probs how_v3_bf16_cvt cu_seqlens_q cu_seqlens_kv sink_ptr num_splits",
    "flash_attn_varlen_func": "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k min_seqlen_q dropout_p softmax_scale "
    "logits_soft_cap causal window_size bias alibi_slopes deterministic return_lse return_attn_probs how_v3_bf16_cvt "
    "block_table out cu_seqlens_q_padded cu_seqlens_k_padded sink_ptr",
    "unified_attention": "q k v out cu_seqlens_q max_seqlen_q seqused_k max_seqlen_k softmax_scale causal window_size "
    "block_table softcap q_descale k_descale v_descale q_scales alibi_slopes output_scale qq_bias sinks shuffled_kv_cache "
    "skip_reduce",
    "extend_attention_fwd": "q_extend k_extend v_extend o_extend k_buffer v_buffer qo_indptr kv_indptr kv_indices custom_mask "
    "is_causal mask_indptr max_len_extend sm_scale logit_cap skip_prefix_custom_mask config",
    "context_attention_fwd": "q k v o b_start_loc b_seq_len max_input_len is_causal",
    "flash_attn_fp8_pertensor_func": "q k v q_descale k_descale v_descale causal window_size softmax_scale sink_ptr",
    "flash_attn_varlen_fp8_pertensor_func": "q k v q_descale k_descale v_descale cu_seqlens_q cu_seqlens_k max_seqlen_q "
    "max_seqlen_k min_seqlen_q logits_soft_cap causal window_size softmax_scale sink_ptr",
    "paged_attention_v1": "out workspace_buffer query key_cache value_cache scale block_tables cu_query_lens context_lens "
    "max_context_len alibi_slopes kv_cache_dtype kv_cache_layout logits_soft_cap k_scale v_scale fp8_out_scale partition_size "
    "mtp sliding_window",
    "paged_attention_ragged": "out workspace_buffer query key_cache value_cache scale kv_indptr kv_page_indices "
    "kv_last_page_lens block_size max_num_partitions alibi_slopes kv_cache_dtype kv_cache_layout logits_soft_cap k_scale v_scale "
    "fp8_out_scale partition_size mtp",
    "unified_attention_sparse_mla": "q kv out cu_seqlens_q max_seqlen_q seqused_k max_seqlen_k softmax_scale topk_indices "
    "block_table kv_lora_rank",
    "fp8_mqa_logits": "Q KV kv_scales weights cu_starts cu_ends clean_logits",
    "deepgemm_fp8_paged_mqa_logits": "q_fp8 kv_cache weights out_logits context_lens kv_indices max_model_len Preshuffle "
    "KVBlockSize ChunkK TotalCuCount WavePerEU VarCtxSchedule",
    "mha_batch_prefill": "q k v cu_seqlens_q kv_indptr kv_page_indices max_seqlen_q max_seqlen_k dropout_p softmax_scale "
    "logits_soft_cap zero_tensors is_causal window_size_left window_size_right sink_size return_softmax_lse "
    "return_dropout_randval out bias alibi_slopes q_descale k_descale v_descale kv_block_descale kv_last_page_lens block_table "
    "seqlen_k sink_ptr gen",
    "mha_batch_prefill_func": "q k v cu_seqlens_q kv_indptr kv_page_indices max_seqlen_q max_seqlen_k dropout_p softmax_scale "
    "logits_soft_cap causal window_size alibi_slopes deterministic return_lse return_attn_probs out kv_last_page_lens "
    "block_table seqlen_k q_descale k_descale v_descale kv_block_descale sink_ptr sink_size",
    "silu_and_mul": "out input limit",
    "scaled_silu_and_mul": "out input scale",
    "silu_and_mul_bias": "out input expert_ids bias",
    "gelu_and_mul_bias": "out input expert_ids bias",
    "swiglu_and_mul_bias": "out input expert_ids bias",
    "silu_and_mul_quant": "out input scale group_size limit shuffle_scale",
    "silu_and_mul_quant_fp4": "out input scale group_size limit shuffle_scale",
    "act_mul_and_mxfp4_quant": "x activation scaling_mode shuffle scale_shuffle_padding",
    "gelu_and_mul": "out input",
    "gelu_tanh_and_mul": "out input",
    "swiglu_and_mul": "out input",
    "smoothquant_fwd": "out input x_scale y_scale",
    "dynamic_per_token_scaled_quant": "out input scales scale_ub shuffle_scale num_rows num_rows_factor",
    "reshape_and_cache": "key value key_cache value_cache slot_mapping kv_cache_dtype k_scale v_scale asm_layout",
    "softmax": "x",
    "fmoe_g1u1": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk input_scale fc1_scale "
    "fc2_scale kernelName fc2_smooth_scale activation",
    "fmoe_g1u1_tkw1": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk input_scale "
    "fc1_scale fc2_scale kernelName fc2_smooth_scale activation",
    "fmoe_int8_g1u0": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk input_scale "
    "fc1_scale fc2_scale fc2_smooth_scale activation",
    "fmoe_g1u1_a16": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk fc1_scale "
    "fc2_scale fc1_smooth_scale fc2_smooth_scale activation",
    "fmoe_g1u1_mxfp4": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk input_scale "
    "fc1_scale fc2_scale kernelName fc2_smooth_scale activation",
    "fmoe_int8_g1u0_a16": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk fc1_scale "
    "fc2_scale fc1_smooth_scale fc2_smooth_scale",
    "fmoe": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk",
    "fmoe_fp8_blockscale_g1u1": "out input gate down sorted_token_ids sorted_weights sorted_expert_ids num_valid_ids topk "
    "input_scale fc1_scale fc2_scale kernelName fc_scale_blkn fc_scale_blkk fc2_smooth_scale activation",
    "moe_stage1_g1u1": "input w1 w2 sorted_token_ids sorted_expert_ids num_valid_ids out inter_dim kernelName block_m ksplit "
    "activation quant_type a1_scale w1_scale sorted_weights",
    "ck_moe_stage1_fwd": "hidden_states w1 w2 sorted_token_ids sorted_expert_ids num_valid_ids out topk kernelName w1_scale "
    "a1_scale block_m sorted_weights quant_type activation",
    "ck_moe_stage2_fwd": "inter_states w1 w2 sorted_token_ids sorted_expert_ids num_valid_ids out topk kernelName w2_scale "
    "a2_scale block_m sorted_weights quant_type activation",
    "fused_experts": "hidden_states w1 w2 topk_weight topk_ids expert_mask num_local_tokens activation doweight_stage1 "
    "w1_shuffled w2_shuffled bias1 bias2 swiglu_limit",
    "fused_experts_a8w8": "hidden_states w1 w2 topk_weight topk_ids a1_scale w1_scale w2_scale a2_scale expert_mask "
    "num_local_tokens bias1 bias2 activation doweight_stage1 w1_shuffled w2_shuffled block_scaled swiglu_limit dtype",
    "fused_experts_a8w8_tensor": "hidden_states w1 w2 topk_weight topk_ids a1_scale w1_scale w2_scale expert_mask "
    "num_local_tokens bias1 bias2 activation doweight_stage1 w1_shuffled w2_shuffled swiglu_limit dtype",
    "asm_moe_tkw1": "hidden_states w1 w2 topk_weight topk_ids fc1_scale fc2_scale fc1_smooth_scale fc2_smooth_scale a16 "
    "per_tensor_quant_scale expert_mask activation",
    "moe_sorting": "topk_ids topk_weights num_experts model_dim moebuf_dtype block_size expert_mask num_local_tokens "
    "dispatch_policy return_local_topk_ids accumulate flat output_aux",
    "fused_experts_a16w4": "hidden_states w1 w2 topk_weight topk_ids w1_scale w2_scale expert_mask num_local_tokens activation "
    "doweight_stage1 w1_shuffled w2_shuffled interleaved bias1 bias2 swiglu_limit hidden_pads intermediate_pads",
    "fused_experts_mxfp4": "hidden_states w1 w2 topk_weight topk_ids w1_scale w2_scale expert_mask num_local_tokens activation "
    "activation_bits doweight_stage1 w1_shuffled w2_shuffled interleaved bias1 bias2 swiglu_limit hidden_pads intermediate_pads",
    "peer_all_reduce": "out input data0 data1 signals0 signals1 rank data2 data3 data4 data5 data6 data7 "
    "signals2 signals3 signals4 signals5 signals6 signals7",
    "peer_all_gather": "out input data0 data1 signals0 signals1 rank data2 data3 data4 data5 data6 data7 "
    "signals2 signals3 signals4 signals5 signals6 signals7",
    "peer_reduce_scatter": "out input data0 data1 signals0 signals1 rank data2 data3 data4 data5 data6 data7 "
    "signals2 signals3 signals4 signals5 signals6 signals7",
    "peer_all_reduce_codes": "out input data0 data1 signals0 signals1 rank bits data2 data3 data4 data5 data6 data7 "
    "signals2 signals3 signals4 signals5 signals6 signals7",
    "peer_all_reduce_rmsnorm": "out residual_out input residual_in weight epsilon data0 data1 signals0 signals1 rank "
    "data2 data3 data4 data5 data6 data7 signals2 signals3 signals4 signals5 signals6 signals7 gemma_norm",
    "moe_routing_lists": "logits n_expts_act block_m gather_indx scatter_indx gate_scal hist token_offs_raw token_offs_pad "
    "block_pid_map sm_first",
    "moe_routing_hash_lists": "router_logits tid2eid input_ids n_expts_act block_m gather_indx scatter_indx gate_scal hist "
    "token_offs_raw token_offs_pad block_pid_map renorm routed_scaling_factor",
    "moe_gemm_gathered": "out x w w_scales hist token_offs_raw block_pid_map topk block_m bias gather_indx scatter_indx gammas "
    "swizzled apply_swiglu alpha limit residual gate_valid",
    "moe_gemm_gathered_fp8": "out x w w_scales hist token_offs_raw block_pid_map topk block_m x_scales x_scale quant_scale bias "
    "gather_indx scatter_indx gammas swizzled apply_swiglu alpha limit residual gate_valid",
    "moe_gemm_gathered_fp4": "out x w x_scales w_scales hist token_offs_raw block_pid_map topk block_m bias gather_indx "
    "scatter_indx gammas swizzled apply_swiglu alpha limit residual gate_valid",
    "routing": "logits n_expts_act sm_first",  # and later trees' by name alone
    "routing_from_hash": "router_logits tid2eid input_ids n_expts_act block_m",  # and three by name alone
    "moe_gemm_a4w4": "x w x_scales w_scales bias routing_data gather_indx scatter_indx gammas swizzle_mx_scale "
    "preshuffle_weights out_dtype apply_swiglu alpha limit swiglu_add_residual unpadded_N unpadded_K backend",
    "moe_gemm_a8w4": "x w x_scales w_scales x_static_scale quant_static_scale bias routing_data gather_indx scatter_indx gammas "
    "swizzle_mx_scale out_dtype apply_swiglu alpha limit swiglu_add_residual preshuffled unpadded_N unpadded_K out_mx_quant "
    "residual backend",
    "moe_gemm_a16w4": "x w x_scales w_scales x_static_scale quant_static_scale bias routing_data gather_indx scatter_indx gammas "
    "swizzle_mx_scale out_dtype apply_swiglu alpha limit swiglu_add_residual unpadded_N unpadded_K backend",
    "fused_moe": "hidden_states w1 w2 topk_weight topk_ids expert_mask activation quant_type doweight_stage1 w1_scale w2_scale "
    "a1_scale a2_scale block_size_M num_local_tokens moe_sorting_dispatch_policy dtype hidden_pad intermediate_pad bias1 bias2 "
    "splitk swiglu_limit beta linear_beta gate_mode shared_w1 shared_w2 shared_w1_scale shared_w2_scale shared_expert_id "
    "stage2_scatter",
    "topk_softmax_asm": "topk_weights topk_indices token_expert_indices gating_output need_renorm",
    "topk_softmax": "topk_weights topk_indices token_expert_indices gating_output need_renorm num_shared_experts "
    "shared_expert_scoring_func",
    "topk_gating": "topk_weights topk_indices gating_output correction_bias need_renorm routed_scaling_factor score_func "
    "num_shared_experts",
    "moe_cktile2stages_gemm1": "XQ WQ Y sorted_ids sorted_expert_ids max_token_ids topk n_padded_zeros k_padded_zeros "
    "topk_weight x_scale w_scale exp_bias block_m",
    "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant": "X WQ w_scale group_size bias dtype splitK YQ "
    "transpose_bm transpose_bm_in config",
    "gemm_a16w8_blockscale": "x w w_scale dtype y prequant config skip_reduce",
    "gemm_afp4wfp4": "x w x_scales w_scales dtype y config skip_reduce",
    "gemm_afp4wfp4_preshuffle": "x_fp4 w_preshuf x_scales w_scales dtype y config skip_reduce",
    "gemm_a16wfp4": "x w w_scales atomic_add dtype y config",
    "gemm_afp4wfp4_pre_quant": "x w w_scales dtype y config",
    "deepgemm": "XQ WQ Y group_layout x_scale w_scale",
    "topk_sigmoid": "topk_weights topk_indices gating_output",
    "topk_plain": "x topk_ids topk_out topk largest rowStarts rowEnds stride0 stride1",
    "topk": "x k",
    "moe_smoothquant_fwd": "out input x_scale topk_ids y_scale",
    "shuffle_weight": "x layout use_int4 is_guinterleave gate_up pad_k_to",
    "biased_grouped_topk": "gating_output correction_bias topk_weights topk_ids num_expert_group topk_group need_renorm "
    "routed_scaling_factor",
    "fused_topk": "hidden_states gating_output topk renormalize topk_ids topk_weights",
    "rope_fwd": "input freqs rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_fwd": "input cos sin rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_positions_fwd": "input cos sin positions rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_positions_offsets_fwd": "input cos sin positions offsets "
    "rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_thd_fwd": "input cu_seqlens freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_2d_fwd": "input cos_h sin_h cos_w sin_w img_height img_width rotate_style reuse_freqs_front_part nope_first",
    "rope_fwd_inplace": "input freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_2c_fwd_inplace": "input_x input_y freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_fwd_inplace": "input cos sin rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_2c_fwd_inplace": "input_x input_y cos sin rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_fwd_inplace": "input cos sin positions rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_2c_fwd_inplace": "input_x input_y cos sin positions rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_offsets_fwd_inplace": "input cos sin positions offsets "
    "rotate_style reuse_freqs_front_part nope_first",
    "rope_cached_positions_offsets_2c_fwd_inplace": "input_x input_y cos sin positions offsets "
    "rotate_style reuse_freqs_front_part nope_first",
    "rope_thd_fwd_inplace": "input cu_seqlens freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_2d_fwd_inplace": "input cos_h sin_h cos_w sin_w img_height img_width rotate_style reuse_freqs_front_part nope_first",
    "rope_bwd": "output_grads freqs rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_2c_bwd": "output_grads_x output_grads_y freqs rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_bwd": "output_grads cos sin rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_2c_bwd": "output_grads_x output_grads_y cos sin "
    "rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_thd_bwd": "output_grads cu_seqlens freqs rotate_style reuse_freqs_front_part nope_first",
    "rope_2d_bwd": "output_grads cos_h sin_h cos_w sin_w img_height img_width rotate_style reuse_freqs_front_part nope_first",
    "rope_2c_fwd": "input_x input_y freqs rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_2c_fwd": "input_x input_y cos sin rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_positions_2c_fwd": "input_x input_y cos sin positions "
    "rotate_style reuse_freqs_front_part nope_first transpose_output",
    "rope_cached_positions_offsets_2c_fwd": "input_x input_y cos sin positions offsets "
    "rotate_style reuse_freqs_front_part nope_first transpose_output",
    "upcast_from_mxfp": "tensor scale dtype axis",
    "upcast_from_mxfp8": "tensor scale dtype axis",
    "downcast_to_mxfp": "src_tensor out_quant_type axis DEQUANT_SCALE_ROUNDING_MODE",
    "l2norm_fwd": "x eps output_dtype need_rstd",
    "downcast_to_mxfp8": "src_tensor out_quant_type axis DEQUANT_SCALE_ROUNDING_MODE",
    "copy_blocks": "key_caches value_caches block_mapping",
    "swap_blocks": "src dst block_mapping",
    "init_custom_qr": "rank world_size qr_max_size",
    "qr_all_reduce": "fa inp out quant_level cast_bf2half",
    "qr_all_reduce_rmsnorm": "fa inp residual_inp residual_out out weight eps hidden_dim quant_level cast_bf2half",
    "qr_destroy": "fa",
    "qr_get_handle": "fa out_ptr",
    "qr_max_size": "",
    "qr_open_handles": "fa handle_ptrs",
    "dynamic_mxfp4_quant": "x scaling_mode shuffle",
    "get_hip_quant": "qType",
    "get_torch_quant": "qType",
    "get_triton_quant": "qType",
    "fused_silu_mul": "x out",
    "_fused_qk_rmsnorm": "q_out q q_weight q_eps k_out k k_weight k_eps",
    "fused_qk_rmsnorm": "q_out_quantized q_out_scale q q_weight q_epsilon q_out_unquantized k_out q_res_out k k_weight k_epsilon "
    "q_residual gemma_norm quant_type group_size transpose_scale",  # and an older tree's three by name alone
    "downcast_to_static_fp8": "x scale",
    "downcast_to_static_fp8_3d": "x scale",
    "per_tensor_quant_hip": "x scale quant_dtype num_rows num_rows_factor",
    "per_token_quant_hip": "x scale quant_dtype num_rows num_rows_factor",
    "per_group_quant_hip": "x scale quant_dtype group_size transpose_scale num_rows num_rows_factor scale_type",
    "per_1x32_mx_quant_hip": "x scale quant_dtype shuffle num_rows num_rows_factor scale_type",
    "per_1x32_f4_quant_hip": "x scale quant_dtype shuffle num_rows num_rows_factor",
    "pertoken_quant": "x scale x_scale scale_dtype quant_dtype dtypeMax",
    "per_tensor_quant": "x scale scale_dtype quant_dtype dtypeMax",
    "per_1x32_f4_quant": "x scale quant_dtype shuffle pack_dim round_mode",
    "e8m0_shuffle": "scale",
    "shuffle_scale": "src experts_cnt is_guinterleave gate_up",
    "shuffle_scale_a16w4": "src experts_cnt gate_up",
    "moe_shuffle_scale": "src experts_cnt is_guinterleave gate_up",
    "shuffle_weight_a16w4": "src NLane gate_up",
    "moe_shuffle_weight": "src experts_cnt is_guinterleave gate_up layout",
}
#: Public names that are no functions: AITER's enumerations, and an object with a method.
NO_FUNCTIONS = {"ActivationType", "CustomAllreduce", "GateMode", "QuantType", "tgemm"}


def _functions() -> dict[str, ast.FunctionDef]:
    found = {}
    for path in sorted((ROOT / "src/aiter_prebuilt/ops").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and (
                node.name in SIGNATURES or not node.name.startswith("_")
            ):
                found[node.name] = node
    return found


def test_homes_are_what_is_promised() -> None:
    promised = {*aiter_prebuilt._HOMES, *aiter_prebuilt.ops.HOMES}
    assert (
        promised == set(aiter_prebuilt.__all__) - {"__version__"} == {*SIGNATURES, *NO_FUNCTIONS, "preload"}
    )
    assert set(SIGNATURES) <= set(_functions())


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_signature_is_aiters(name: str) -> None:
    node = _functions()[name]
    assert [arg.arg for arg in node.args.args] == SIGNATURES[name].split()
    assert not node.args.vararg and not node.args.kwarg


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_docstring_says_shapes_errors_and_source(name: str) -> None:
    text = ast.get_docstring(_functions()[name]) or ""
    for word in ("Args:", "Raises:", "Source:"):
        assert word in text or "Arguments and errors as" in text or text.startswith("As :func:"), (name, word)


@pytest.mark.parametrize("name", sorted(set(aiter_prebuilt.__all__) - NO_FUNCTIONS - {"__version__"}))
def test_every_public_function_is_typed_and_documented(name: str) -> None:
    """What ``aiter_prebuilt.__all__`` promises is there, has a type at every parameter, and a docstring that says what, with
    which arguments, and which errors; the package ships its types.
    """
    function = getattr(aiter_prebuilt, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
    text = inspect.getdoc(function) or ""
    assert len(text.splitlines()[0]) > 20
    referring = re.search(r"As :func:`(\w+)`|Arguments and errors as :func:`(\w+)`", text)
    if referring:
        other = inspect.getdoc(getattr(aiter_prebuilt, referring[1] or referring[2])) or ""
        text += other
    assert "Raises:" in text and "Error" in text
    documented = [parameter for parameter in signature.parameters if re.search(rf"\b{parameter}\b", text)]
    starred = [
        parameter
        for parameter in signature.parameters
        if re.search(rf"{parameter.rsplit('_', 1)[0]}_\*", text)
    ]
    assert set(signature.parameters) <= {*documented, *starred}, set(signature.parameters) - {
        *documented,
        *starred,
    }
    assert (ROOT / "src/aiter_prebuilt/py.typed").is_file()


def test_the_stub_names_what_the_extension_has() -> None:
    """``_native.pyi`` and the extension: the same functions, classes and methods, each with a docstring."""
    native = pytest.importorskip("aiter_prebuilt._native")
    tree = ast.parse((ROOT / "src/aiter_prebuilt/_native.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef) and not node.bases}
    public = {name for name in vars(native) if not name.startswith("_")}
    assert public == functions | set(classes)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            assert ast.get_docstring(node), node.name
    for name, node in classes.items():
        stub = {item.name for item in node.body if isinstance(item, ast.FunctionDef) and item.name[0] != "_"}
        assert stub == {item for item in vars(getattr(native, name)) if item[0] != "_"}


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fused_everything'"):
        aiter_prebuilt.fused_everything  # noqa: B018


def test_import_loads_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import aiter_prebuilt; "
        "print(sorted({n.split('.')[0] for n in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    assert done.stdout.strip() == "['aiter_prebuilt']"


def test_every_error_has_three_parts_and_a_text() -> None:
    classes = [
        value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert len(classes) > 20
    for kind in classes:
        assert issubclass(kind, errors.AiterPrebuiltError)
        error = kind("asked", "found", "fix")
        assert (error.asked, error.found, error.fix) == ("asked", "found", "fix")
        assert str(error) == "asked: found. Fix."
        assert kind.__doc__
    reasons = errors.NoKernelError("a", "b", "c", ["row: too long", "loop: misaligned"])
    assert str(reasons).splitlines()[1:] == ["  row: too long", "  loop: misaligned"]


def test_argument_errors_are_the_builtin_ones_too() -> None:
    assert issubclass(errors.ArgumentDTypeError, TypeError) and issubclass(
        errors.ArgumentShapeError, ValueError
    )
    assert issubclass(errors.UnsupportedError, NotImplementedError) and issubclass(
        errors.NativeError, ImportError
    )


@pytest.mark.parametrize("count", [12, 13, 40])
def test_many_refusals_are_told_by_reason(count: int) -> None:
    """Up to a dozen candidates each have a line; of more, every reason has one, in their order. Nothing is lost."""
    lines = [f"row[{place}]: {'too long' if place % 3 else 'misaligned: 3 bytes'}" for place in range(count)]
    error = errors.NoKernelError("op", f"all {count} candidates were refused", "mend it", lines)
    said = str(error).splitlines()[1:]
    assert error.reasons == tuple(lines)
    if count == 12:
        assert said == [f"  {line}" for line in lines]
    else:
        few = len(range(0, count, 3))
        assert said == [
            f"  {few} of {count} candidates (row[0], ...): misaligned: 3 bytes",
            f"  {count - few} of {count} candidates (row[1], ...): too long",
        ]
