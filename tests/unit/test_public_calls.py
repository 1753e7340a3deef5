"""Every option of a function reaches the native operator as it was said, or as its default.

No kernel runs: a stand-in takes what would go to the native operator.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from support.handed import handed, zeros

import aiter_prebuilt
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.tracing import signatures

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")


#: Options that are numbers of two values.
CHOSEN: dict[str, Any] = {"use_model_sensitive_rmsnorm": 1}
#: Options that are one of few numbers, and one of them that is no default.
ONE_OF = {("fused_dynamic_mx_quant_moe_sort_hip", "group_size"): 64}


def value(spec: signatures.Attribute, place: int) -> Any:
    """A value of an attribute that no default is."""
    if spec.kind == "enum":
        return spec.values[-1]
    return {"bool": spec.default != "true", "int": 40 + place, "float": 1.5 + place, "text": "a name"}[
        spec.kind
    ]


#: What AITER's functions turn into other arguments of the operator; the tests above, or the refusals, are about them.
TURNED = {
    "flash_attn_func": {"softmax_scale"},
    "gemm_a16w16_asm": {"splitK"},
    "gemm_a4w4_asm": {"log2_k_split", "bpreshuffle", "beta"},
    "gemm_a4w4": {"bpreshuffle", "beta"},
    "fmha_v3_fwd": {"how_v3_bf16_cvt"},
    "fmha_v3_varlen_fwd": {"how_v3_bf16_cvt"},
    "mha_fwd": {"window_size_left", "window_size_right"},
    "mha_varlen_fwd": {"window_size_left", "window_size_right"},
    "fmha_v3_bwd": {"window_size_left", "window_size_right", "how_v3_bf16_cvt"},
    "mha_bwd": {"window_size_left", "window_size_right"},
    "mha_varlen_bwd": {"window_size_left", "window_size_right"},
    "flash_attn_varlen_func": {"softmax_scale"},
    "mha_batch_prefill": {"window_size_left", "window_size_right"},
    "mha_batch_prefill_func": {"softmax_scale"},
    "extend_attention_fwd": {"sm_scale"},
    "flash_attn_fp8_pertensor_func": {"softmax_scale"},
    "flash_attn_varlen_fp8_pertensor_func": {"softmax_scale"},
    "fmha_v3_varlen_bwd": {"how_v3_bf16_cvt"},
    "fused_experts": {"activation"},
    "fused_experts_a8w8": {"activation"},
    "fused_experts_a8w8_tensor": {"activation"},
    "fused_experts_a16w4": {"activation"},
    "fused_experts_mxfp4": {"activation", "activation_bits"},
    "fmoe_g1u1": {"activation"},
    "fmoe_g1u1_tkw1": {"activation"},
    "fmoe_int8_g1u0": {"activation"},
    "fmoe_fp8_blockscale_g1u1": {"activation"},
    "fmoe_g1u1_a16": {"activation"},
    "fmoe_g1u1_mxfp4": {"activation"},
    "moe_stage1_g1u1": {"activation", "quant_type"},
    "ck_moe_stage1_fwd": {"activation", "quant_type"},
    "ck_moe_stage2_fwd": {"quant_type"},
    "mla_decode_fwd": {"sm_scale", "cp_world_size", "cp_rank"},  # test_mla_plans.py
    "mla_prefill_fwd": {"sm_scale"},
    "pa_fwd_asm": {"max_qlen", "high_precision"},
    "act_mul_and_fp8_group_quant": {"group_size"},
    "peer_all_reduce_codes": {"bits"},
    "silu_and_mul_quant": {"group_size"},
    "silu_and_mul_quant_fp4": {"group_size"},
    "fused_rms_fp8_group_quant": {"group_size", "inp2_epsilon"},
    "fused_rms_fp8_per_tensor_static_quant": {"inp2_epsilon"},
    "fused_qk_rmsnorm_group_quant": {"k_epsilon"},
    "fused_qk_rmsnorm_per_token_quant": {"k_epsilon"},
    "dynamic_per_group_scaled_quant_fp4": {"group_size"},
    "dynamic_per_group_scaled_quant": {"group_size"},
    "quant_mxfp4": {"round_mode"},
    "fused_kv_norm_rope_group_quant": {"quant_group_size"},
    "fused_qknorm_idxrqknorm": {"index_cache_dtype"},  # None: as kv_cache_dtype says
    "gated_rmsnorm_fp8_group_quant": {"group_size"},
    "fused_qk_norm_rope_group_quant": {"swa_block_size"},
    "inverse_rope_group_quant": {"quant_group_size"},
    **{
        name: {"DEQUANT_SCALE_ROUNDING_MODE"} for name in ("downcast_to_mxfp", "downcast_to_mxfp8")
    },  # test_mxfp_downcast.py
    "binary_mixed": {"op"},  # tests/unit/test_broadcast.py
    "moe_fused_gate": {"num_expert_group"},
    "chunk_gated_delta_rule": {"scale"},
    "fused_recurrent_gated_delta_rule": {"scale"},
    "fused_recurrent_gated_delta_rule_update": {"scale"},
    "fused_sigmoid_gating_delta_rule_update": {"scale"},
    **{name: {"rotate_style"} for name in signatures.load() if name.startswith("rope_")},
}
#: Required options of which not any value will do.
SERVED: dict[str, dict[str, Any]] = {
    "fmha_v3_fwd": {
        "dropout_p": 0.0, "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False,
        "return_dropout_randval": False, "how_v3_bf16_cvt": 1,
    },
    "fmha_v3_varlen_fwd": {
        "max_seqlen_q": 4, "max_seqlen_k": 4, "min_seqlen_q": 1, "dropout_p": 0.0, "logits_soft_cap": 0.0, "zero_tensors": False,
        "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False, "return_dropout_randval": False,
        "how_v3_bf16_cvt": 1,
    },
    "unified_attention": {"window_size": (-1, -1), "causal": True, "q_descale": None},
    "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle": {"mrope_section_": (1, 1, 0)},
    "paged_attention_v1": {"kv_cache_dtype": "auto", "kv_cache_layout": "NHD", "alibi_slopes": None, "sliding_window": 0},
    "paged_attention_ragged": {
        "kv_cache_dtype": "auto", "kv_cache_layout": "NHD", "alibi_slopes": None, "max_num_partitions": 3,
    },
    "mha_fwd": {
        "dropout_p": 0.0, "is_causal": False, "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False,
        "return_dropout_randval": False,
    },
    "mha_varlen_fwd": {
        "dropout_p": 0.0, "logits_soft_cap": 0.0, "zero_tensors": False, "is_causal": False,
        "window_size_left": -1, "window_size_right": -1, "return_softmax_lse": False, "return_dropout_randval": False,
    },
    "mha_batch_prefill": {
        "dropout_p": 0.0, "zero_tensors": False, "is_causal": False, "window_size_left": -1, "window_size_right": -1,
        "return_softmax_lse": False, "return_dropout_randval": False,
    },
    "mha_bwd": {"dropout_p": 0.0, "is_causal": False, "window_size_left": -1, "window_size_right": -1, "deterministic": True},
    "mha_varlen_bwd": {
        "dropout_p": 0.0, "zero_tensors": False, "is_causal": False, "window_size_left": -1, "window_size_right": -1,
        "deterministic": True,
    },
    "fmha_v3_bwd": {
        "dropout_p": 0.0, "window_size_left": -1, "window_size_right": -1, "deterministic": False, "how_v3_bf16_cvt": 1,
    },
    "fmha_v3_varlen_bwd": {
        "dropout_p": 0.0, "zero_tensors": False, "window_size_left": -1, "window_size_right": -1, "deterministic": False,
        "how_v3_bf16_cvt": 1,
    },
    "act_mul_and_fp8_group_quant": {"group_size": 64},
    "gated_rmsnorm_fp8_group_quant": {"group_size": 128},
    "gemm_a16w16_asm": {"out": zeros(4, 4, dtype=torch.float32)},
    "peer_all_reduce_codes": {"bits": 4},
    "silu_and_mul_quant": {"group_size": 64},
    "silu_and_mul_quant_fp4": {"group_size": 64},
    "act_mul_and_mxfp4_quant": {"x": zeros(4, 8)},
    "fused_rms_fp8_group_quant": {"inp1": zeros(4, 4)},
    "fused_rms_fp8_per_tensor_static_quant": {"inp1": zeros(4, 4)},
    "fused_add_rmsnorm_pad": {"x": zeros(4, 4)},
    "fused_qk_rmsnorm_group_quant": {"q": zeros(4, 4), "q_weight": zeros(4)},
    "inverse_rope_group_quant": {"o": zeros(4, 4, 4)},
    "causal_conv1d_fn": {"x": zeros(4, 4), "seq_lens_cpu": (4,)},
    "causal_conv1d_update_in_place": {"x": zeros(4, 4, 4)},
    "fused_recurrent_gated_delta_rule": {"beta": zeros(4, 4, 4)},
    "fused_recurrent_gated_delta_rule_update": {"initial_state": zeros(4, 4, 4, 4), "ssm_state_indices": zeros(4, 1)},
    "moe_stage1_g1u1": {"quant_type": 2, "a1_scale": zeros(4), "w1_scale": zeros(4)},
    "mla_decode_fwd": {"num_kv_splits": 2, "page_size": 4},
    "moe_cktile2stages_gemm1": {"w_scale": zeros(4), "exp_bias": zeros(4)},
    "moe_fused_gate": {"num_expert_group": 8, "n_share_experts_fusion": 0},
    "indexer_k_quant_and_cache": {"quant_block_size": 128},
    **{name: {"rotate_style": 1} for name in signatures.load() if name.startswith("rope_")},
    **{name: {"generator": (5, 8)} for name in ("random_sample", "mixed_sample", "exponential")},
    **{f"top_{way}_sampling_from_probs": {"generator": (5, 8)} for way in ("p", "k_top_p")},
    "get_mla_metadata_v1": {"num_heads_k": 1},
    "mla_decode_stage1_asm_fwd": {"page_size": 1, "nhead_kv": 1},
    "get_ps_metadata_v1": {"work_metadata_ptrs": None},
    "mla_prefill_ps_asm_fwd": {"work_indptr": zeros(4), "work_info_set": zeros(4, 4)},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(signatures.load()))
def test_every_option_reaches_the_operator(name: str) -> None:
    """Each attribute of the operator that is a parameter of the function has the caller's value, and its default without one."""
    signature = signatures.load()[name]
    function = getattr(aiter_prebuilt, name)
    parameters = inspect.signature(function).parameters
    tensors = {
        parameter: zeros(*(4 for _ in range(4)), dtype=getattr(torch, BY_NAME["bf16"].torch))
        for parameter, facts in parameters.items()
        if facts.default is inspect.Parameter.empty and "Tensor" in str(facts.annotation)
    }
    required = {
        parameter: 0.5
        for parameter, facts in parameters.items()
        if facts.default is inspect.Parameter.empty and parameter not in tensors
    }
    specs = {spec.name: (place, spec) for place, spec in enumerate(signature.attributes)}
    for option, (place, spec) in specs.items():
        if option not in parameters or option in TURNED.get(name, ()):
            continue
        usual = {key: _usual(specs, key, value) for key, value in required.items()}
        words = {**usual, **tensors, **SERVED.get(name, {})}
        chosen = ONE_OF.get((name, option), CHOSEN.get(option, value(spec, place)))
        _, (_, _, attributes) = handed(lambda words=words: function(**{**words, option: chosen}), name)  # type: ignore[misc]  # noqa: B023
        assert attributes[place] == chosen, option
        default = parameters[option].default
        if default is not inspect.Parameter.empty:
            _, (_, _, attributes) = handed(lambda words=words: function(**words), name)  # type: ignore[misc]
            assert attributes[place] == default, f"the default of {option}"


def _usual(specs: dict[str, Any], name: str, other: Any) -> Any:
    return value(specs[name][1], specs[name][0]) if name in specs else other
