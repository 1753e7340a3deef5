"""explain and the live call are one code: for random operators, tables and shapes the driver sees what explain chooses."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.records import DIM_BIND
from native.conftest import Blob, Stub, raw
from native.synthetic import A, Op, R, S, T
from native.test_user_tables import row, table

if TYPE_CHECKING:
    from aiter_prebuilt._native import RawTensor, TunedTable

CONDITIONS = (
    "N % 2 == 0", "N <= 64", "M < N", "aligned(x, 16)", "k > 3", "row % 4 == 0", "given(b)", "mode == 'fast'", "CUS > 100",
    "N // k > 1",
)  # fmt: skip
COSTS = ("N", "cdiv(M, 16) * 3", "k", "N - M", "0", "CUS", "N // k", "max(M, N)")
GRIDS = ("M", "cdiv(N, 32)", "1", "M * N", "M - 3")


def random_operator(draw: random.Random, blob: Blob) -> Op:
    kernels = [f"k{place}" for place in range(draw.randint(1, 4))]
    recipes = [
        R(
            kernel=draw.choice(kernels), variant=f"v{place}", when=draw.sample(CONDITIONS, draw.randint(0, 3)),
            cost=draw.choice(COSTS), types=(draw.choice(("bf16", "f16")),), workspace=draw.choice(("", "M * 4", "k * 8")),
            steps=[S(f"s{place}_{step}", ["ptr x", "i32 N"], [draw.choice(GRIDS)]) for step in range(draw.randint(1, 2))],
            blob=blob(),
        )
        for place in range(draw.randint(1, 8))
    ]  # fmt: skip
    tuned: list[tuple[Any, ...]] = [
        (304, draw.randrange(len(recipes)), [draw.choice((8, 63, 64)), draw.randint(0, 9)]) for _ in range(4)
    ]
    tuned.append((304, draw.randrange(len(recipes)), [draw.randint(0, 63), 2], [64, 5]))
    tensors = [T("x", "T", ["*M", "N"], ["row", "1"]), T("b", "f32", ["N"], optional=True)]
    attributes = [A("k", "int", "5"), A("mode", "enum", "slow", ("slow", "fast"))]
    return Op(
        "o", tensors, attributes, {"T": ["bf16", "f16"]}, recipes, kernels, tuned_on=["N", "k"], tuned=tuned
    )


def random_table(draw: random.Random, op: Op) -> TunedTable:
    rows = []
    for line in range(2, draw.randint(2, 6)):
        recipe = draw.choice(op.recipes)
        variant = draw.choice((recipe.variant, recipe.variant, "gone"))
        values = (draw.choice((8, 63, 64)), draw.randint(0, 9))
        rows.append(row(line, 304, values, variant, recipe.types[0], recipe.kernel))
    return table(*rows, columns=("N", "k"))


def random_call(draw: random.Random) -> tuple[list[RawTensor | None], list[int | str]]:
    m, n = draw.choice((0, 1, 3, 17)), draw.choice((8, 63, 64))
    stride = n + draw.choice((0, 1, 4))
    x = raw(0x7F0000000000 + draw.choice((0, 2, 16)), draw.choice(("bf16", "f16")), (m, n), (stride, 1))
    b = draw.choice((None, raw(0x7F0000400000, "f32", (n,))))
    return [x, b], [draw.randint(0, 9), draw.choice(("slow", "fast"))]


@pytest.mark.parametrize("seed", range(12))
def test_explain_chooses_what_is_launched(
    native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path, seed: int
) -> None:
    from native import synthetic

    draw = random.Random(seed)
    op = random_operator(draw, blob)
    path = tmp_path / "random.apb"
    path.write_bytes(synthetic.bundle_bytes([op]))
    bundles, tables = (
        (native.Bundle(str(path)),),
        tuple(random_table(draw, op) for _ in range(draw.randint(0, 2))),
    )
    made = native.Operator("o", lambda vendor, ordinal: (bundles, 304, tables))
    launched = refused = 0
    for _ in range(60):
        tensors, attributes = random_call(draw)
        rows = made.explain(bundles, 304, tensors, attributes, tables)
        chosen = [found for found in rows if found["chosen"]]
        before = stub.launches()
        if not chosen:
            refused += 1
            with pytest.raises((errors.NoKernelError, errors.ArgumentDTypeError)):
                made(*tensors, *attributes)
            assert stub.launches() == before
            continue
        made(*tensors, *attributes)
        steps = [step for step in chosen[0]["steps"] if 0 not in step["grid"]]
        assert stub.launches() - before == len(steps)
        for place, step in enumerate(steps):
            record = stub.launch(place - len(steps))
            assert (record.symbol.decode(), list(record.grid), list(record.block), record.lds, record.kernarg_size) == (
                step["symbol"], step["grid"], step["block"], step["lds"], step["kernarg_size"]
            )  # fmt: skip
        launched += len(steps)
    assert launched or refused


#: 40 tokens of two choices out of four experts.
EXPERTS = {
    "T": "40", "N": "40", "E": "4", "D": "512", "I": "256", "P": "200", "NB": "7", "input_scales": "40", "fc1_scales": "2048",
    "fc2_scales": "2048", "smooth_scales": "1024", "topk": "2", "activation": "1",
}  # fmt: skip

SIXTEEN = {
    "T": "40", "E": "4", "D": "1024", "I": "512", "P": "200", "NB": "7", "fc1_scales": "4096", "fc2_scales": "4096",
    "first_scales": "4096", "second_scales": "2048", "topk": "2",
}  # fmt: skip

F4 = {
    "M": "40",
    "N": "128",
    "KB": "256",
    "R": "40",
    "SA": "64",
    "SB": "128",
    "SK": "16",
    "log2_k_split": "0",
}

#: One query of 16 heads for each of 8 contexts, which may be in two parts.
LATENT = {"T": "8", "H": "16", "B": "8", "kv_p": "576", "max_seqlen_q": "1"}
PARTS = {**LATENT, "S": "2", "RT": "8", "TQ": "bf16", "TK": "bf16"}

ROTARY = {"M": "40", "qn": "256", "kn": "64", "P": "128", "half": "32", "head_size": "64", "is_neox": "true"}
#: Of rotary embeddings of each layout: heads that are turned whole.
TURNED = {"D": "64", "f": "32", "rotate_style": "0", "reuse_freqs_front_part": "true", "nope_first": "false"}
TOKENS = {**TURNED, "S": "8", "B": "2", "P": "16"}
FEW = {"N": "1", "M": "40", "K": "256"}
GROUPS = {"M": "40", "E": "64", "K": "4", "num_expert_group": "8", "need_renorm": "true"}

#: Of mixtures of experts with weights in MXFP4.
EXPERTS_F4 = {
    "M": "7", "topk": "2", "E": "8", "masks": "8", "H": "128", "EB": "32", "w1_scales": "8192", "w2_scales": "8192",
}  # fmt: skip

#: Of Composable Kernel's mixtures of experts, as its sample has them.
STAGES = {
    "X": "bf16", "T": "40", "E": "4", "D": "512", "I": "256", "P": "200", "NB": "7", "topk": "2", "choices": "2", "block_m": "32",
    "quant_type": "0",
}  # fmt: skip

#: Keys in pages.
PAGES = {
    "SQ": "64", "HQ": "8", "HK": "2", "D": "128", "DV": "128", "NB": "30", "PS": "16", "MB": "8", "KD": "1", "VD": "1",
    "max_seqlen_q": "40",
}  # fmt: skip

#: Rows of logits.
TOP = {
    "R": "8", "N": "4096", "row": "4096", "S": "8", "E": "8", "I": "8", "W": "64", "k": "64", "numRows": "8", "stride0": "4096",
    "stride1": "1",
}  # fmt: skip

#: Two tensors of three dims that broadcast.
THREE = {"M": "3", "N": "8", "K": "1000", "BM": "3", "BN": "1", "BK": "1000", "b_k": "1"}

#: Sizes of a decoding step of a gated delta net.
DECODED_STATES: dict[str, str] = {
    "T": "bf16", "U": "f32", "B": "2", "L": "1", "M": "2", "H": "2", "HV": "4", "K": "128", "V": "64", "X": "128", "Y": "64",
    "S": "5", "N": "2", "state_layout": "hkv", "cu_seqlens": "none",
}  # fmt: skip
#: Where sizes drawn one by one never fit each other.
FITTING: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "gemm_a8w8_bpreshuffle": lambda s: {"K": "256", "KW": "256", "N": str(16 * int(s["M"]))},
    "reshape_and_cache": lambda s: {
        "C": s["T"], "k_scales": "1", "v_scales": "1", "d": "64", "x": "8", "groups": "8", "block_size": "16",
        "value_columns": "16",
        "value_rows": str(int(s["blocks"]) * int(s["h"]) * 64),
    },
    "reshape_and_cache_flash": lambda s: {
        "C": s["T"], "kv_cache_dtype": "auto", "k_scales": "1", "v_scales": "1", "h": "8", "d": "64", "block_size": "16",
    },
    "reshape_and_cache_with_pertoken_quant": lambda s: {
        "h": "8", "d": "64", "x": "16", "groups": "4", "block_size": "16", "blocks": "40", "value_rows": "20480",
        "value_columns": "16", "scale_rows": "8", "scale_columns": "640",
    },
    "reshape_and_cache_with_block_quant": lambda s: {
        "batch": "1", "seq": "5", "slots": "5", "h": "8", "d": "64", "x": "16", "groups": "4", "block_size": "16", "blocks": "40",
        "value_rows": "20480", "value_columns": "16", "scale_rows": "8", "scale_columns": "40",
    },
    "reshape_and_cache_with_block_quant_for_asm_pa": lambda s: {
        "batch": "1", "seq": "5", "slots": "5", "h": "8", "d": "64", "x": "16", "groups": "4", "block_size": "16", "blocks": "40",
        "value_rows": "20480", "value_columns": "16", "scale_rows": "8", "scale_columns": "5", "ori_block_size": "128",
    },
    "fused_qk_rope_concat_and_cache_mla": lambda s: {
        "T": "bf16", "C": "bf16", "Q": "bf16", "tokens": "5", "rows": "5", "k_rows": "5", "p_rows": "5", "positions_given": "5",
        "H": "16", "R": "512", "half": "32", "P": "50", "slots": "64", "k_scales": "1", "q_scales": "1", "qn_t": "8192",
        "qn_h": "512", "qp_t": "1024", "qp_h": "64", "HK": "1", "c_row": "576", "o_t": "9216", "o_h": "576",
    },
    **dict.fromkeys(
        ("fused_qk_rmsnorm_group_quant", "fused_qk_rmsnorm_per_token_quant"),
        lambda s: {"T": "bf16", "M": "5", "N": "256", "q_row": "320"},
    ),
    "rmsnorm_quant": lambda s: {"T": "bf16", "M": "5", "N": "256", "G": "2", "group_size": "128"},
    "add_rmsnorm_quant": lambda s: {"T": "bf16", "M": "5", "N": "256", "G": "1", "group_size": "0"},
    "fused_qk_rmsnorm_plain": lambda s: {
        "T": "bf16", "M": "5", "N": "64", "KN": "32", "q_row": "96", "k_row": "96",
    },
    "fused_qk_norm_rope_cache_quant_shuffle": lambda s: {
        "T": "bf16", "C": "bf16", "tokens": "5", "num_heads_q": "4", "num_heads_k": "2", "num_heads_v": "2", "head_dim": "128",
        "WD": "128", "qn": "512", "kn": "256", "vn": "256", "rot": "128", "P": "9", "NB": "3", "KH": "2", "G": "16",
        "PS": "16", "x": "8", "v_rows": "768", "v_last": "16", "k_scales": "1", "v_scales": "1", "q_row": "512", "k_row": "256",
        "v_row": "256",
    },
    "fused_qk_norm_rope_cache_block_quant_shuffle": lambda s: {
        "T": "bf16", "C": "bf16", "kv_cache_dtype": "auto", "tokens": "5", "num_heads_q": "4", "num_heads_k": "2",
        "num_heads_v": "2", "head_dim": "128", "WD": "128", "last": "1024", "rot": "128", "P": "9", "NB": "3", "KH": "2",
        "G": "16", "PS": "16", "x": "8", "v_rows": "768", "v_last": "16", "k_scales": "6", "v_scales": "6", "row": "1024",
    },
    "fused_qk_norm_rope_cache_pts_quant_shuffle": lambda s: {
        "T": "bf16", "C": "bf16", "num_tokens": "5", "num_heads_q": "4", "num_heads_k": "2", "num_heads_v": "2",
        "head_size": "128", "WD": "128", "rows": "5", "last": "1024", "rot": "128", "rotary_dim": "0", "P": "9",
        "positions_given": "5",
        "slots_given": "5", "o_rows": "5", "o_last": "512", "KNB": "6", "KH": "2", "KG": "1", "KPS": "16", "KX": "128",
        "VNB": "6", "VH": "2", "VC": "16", "VX": "1", "block_size": "16",
        "use_shuffle_layout": "0", "x": "8", "ko_rows": "5", "ko_last": "256", "vo_rows": "5",
        "vo_last": "256",
    },
    "fused_kv_norm_rope_group_quant": lambda s: {
        "T": "bf16", "C": "fp8", "M": "5", "D": "512", "WD": "512", "half": "32", "P": "9", "NB": "3", "PS": "4", "E": "512",
        "positions_given": "5", "slots_given": "5", "kv_row": "512", "c_row": "32", "k_b": "2048", "k_s": "512", "r_b": "256",
        "r_s": "64",
    },
    "inverse_rope_group_quant": lambda s: {
        "T": "bf16", "S": "5", "H": "4", "hd": "128", "half": "16", "P": "9", "positions_given": "5", "num_groups": "2", "G": "2",
        "D": "256", "quant_group_size": "64", "scale_layout": "row", "A": "5", "B": "2", "C": "4", "o_s": "512", "o_h": "128",
        "c_row": "16",
    },
    "fused_qk_norm_rope_group_quant": lambda s: {
        "T": "bf16", "C": "fp8", "Q": "bf16", "M": "5", "H": "2", "D": "512", "WD": "512", "half": "32", "P": "9", "E": "512",
        "QE": "512", "positions_given": "5", "q_t": "1024", "q_h": "512", "kv_row": "512", "c_row": "32",
    },
    "minimax_qk_norm_rope": lambda s: {
        "T": "bf16", "W": "f32", "M": "5", "num_heads_q": "2", "num_heads_k": "1", "head_dim": "64", "QW": "128", "KW": "64",
        "N": "256", "rotary_dim": "32", "rot": "32", "P": "9", "positions_given": "5", "in_row": "256", "c_row": "32",
        "is_neox_style": "1",
    },
    "fused_qknorm_idxrqknorm": lambda s: {
        "T": "bf16", "C": "bf16", "I": "bf16", "tokens": "5", "width": "1408", "row": "1408", "num_heads": "4",
        "num_kv_heads": "2", "num_index_heads": "2", "rot": "64", "rotary_dim": "64", "P": "9", "positions_given": "5",
        "slots_given": "5", "index_slots_given": "5", "KNB": "6", "KH": "2", "KG": "1", "KPS": "16", "KX": "128", "VNB": "6",
        "VH": "2", "VC": "16", "VD": "128", "VX": "1", "block_size": "16", "index_size": "12288", "o_rows": "5",
        "o_last": "512", "io_rows": "5", "io_last": "256", "asm_layout": "0",
        **dict.fromkeys(("q_size", "k_size", "iq_size", "ik_size"), "128"),
    },
    "mhc_post": lambda s: {
        "T": "bf16", "M": "3", "S": "4", "H": "64", "x_row": "64", "r_row": "256", "r_stream": "64", "posts": "12",
        "combs": "48",
    },
    "mhc_pre_gemm_sqrsum": lambda s: {
        "T": "bf16", "rows": "3", "columns": "64", "x_row": "64", "N": "24", "K": "64", "fn_row": "64", "P": "6", "Q": "6",
        "o_row": "32",
    },
    "mhc_pre_big_fuse": lambda s: {
        "T": "bf16", "M": "3", "S": "4", "H": "64", "P": "6", "Q": "6", "N": "24", "g_row": "32", "r_row": "256",
        "r_stream": "64", "posts": "12", "combs": "48", "scales": "3", "bases": "24", "sinkhorn_repeat": "20",
    },
    "mhc_pre_big_fuse_rmsnorm": lambda s: {
        "T": "bf16", "M": "3", "S": "4", "H": "64", "P": "6", "Q": "6", "N": "24", "g_row": "32", "r_row": "256",
        "r_stream": "64", "posts": "12", "combs": "48", "scales": "3", "bases": "24", "sinkhorn_repeat": "20", "WH": "64",
    },
    "mhc_fused_post_pre_gemm_sqrsum": lambda s: {
        "T": "bf16", "M": "3", "S": "4", "H": "64", "K": "256", "P": "6", "Q": "6", "N": "24", "o_row": "32", "x_row": "64",
        "r_row": "256", "r_stream": "64", "fn_row": "256", "posts": "12", "combs": "48",
    },
    "gated_rmsnorm_fp8_group_quant": lambda s: {
        "T": "bf16", "M": "3", "H": "2", "D": "128", "WD": "128", "codes": "768", "scales": "6",
        **dict.fromkeys(("x_token", "z_token"), "256"), **dict.fromkeys(("x_head", "z_head"), "128"),
    },
    "gated_rmsnorm_fp8_per_token_quant": lambda s: {
        "T": "bf16", "M": "3", "H": "2", "D": "128", "WD": "128", "codes": "768", "scales": "3",
        **dict.fromkeys(("x_token", "z_token"), "256"), **dict.fromkeys(("x_head", "z_head"), "128"),
    },
    "fused_qk_norm_rope_1way": lambda s: {
        "T": "bf16", "F": "f32", "batch_size": "2", "num_tokens": "3", "rows": "3", "num_heads_q": "2", "num_heads_k": "1",
        "head_size": "64", "QD": "64", "KD": "64", "q_rows": "12", "k_rows": "6", "oq_rows": "12", "ok_rows": "6", "q_last": "64",
        "k_last": "64", "last": "64", "oq_last": "64", "ok_last": "64", "is_interleaved": "0",
    },
    "fused_qk_norm_rope_2way": lambda s: {
        "T": "bf16", "F": "bf16", "batch_size": "2", "num_tokens0": "3", "rows0": "3", "num_tokens1": "2", "rows1": "2",
        "num_heads_q": "2", "num_heads_k": "1", "head_size": "64", "q0_rows": "12", "k0_rows": "6", "q1_rows": "8",
        "k1_rows": "4", "oq_rows": "20", "ok_rows": "10", "is_interleaved": "0",
        **dict.fromkeys(("QD0", "KD0", "QD1", "KD1", "q0_last", "k0_last", "q1_last", "k1_last"), "64"),
        **dict.fromkeys(("last0", "last1", "oq_last", "ok_last"), "64"),
    },
    "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle": lambda s: {
        "T": "bf16", "C": "bf16", "num_tokens": "5", "num_heads_q": "4", "num_heads_k": "2", "num_heads_v": "2",
        "head_size": "128", "WD": "128", "rows": "5", "last": "1024", "rot": "128", "rotary_dim": "0", "P": "9",
        "positions_given": "5",
        "slots_given": "5", "o_rows": "5", "o_last": "512", "KNB": "6", "KH": "2", "KG": "1", "KPS": "16", "KX": "128",
        "VNB": "6", "VH": "2", "VC": "16", "VX": "1", "block_size": "16",
        "use_shuffle_layout": "0", "x": "8", "ko_rows": "5", "ko_last": "256", "vo_rows": "5",
        "vo_last": "256", "p_axis": "5", "p_token": "1", "section_t": "24", "section_h": "20", "section_w": "20",
        "is_interleaved": "0",
    },
    "fused_rms_fp8_per_tensor_static_quant": lambda s: {
        "T": "bf16", "M": "5", "N": "256", "in_row": "256", "rmsnorm_convert_to_inp1_type": "0",
    },
    "fused_add_rmsnorm_pad": lambda s: {"T": "bf16", "M": "5", "N": "256", "columns": "256", "x_row": "256"},
    "fused_rms_fp8_group_quant": lambda s: {
        "T": "bf16", "M": "5", "N": "256", "groups": "2", "in_row": "256", "group_size": "128", "transpose_scale": "0",
    },
    **dict.fromkeys(
        ("fused_recurrent_gated_delta_rule", "chunk_gated_delta_rule"),
        lambda s: {
            "T": "bf16", "U": "f32", "B": "2", "L": "3", "H": "2", "HV": "4", "K": "128", "V": "128", "N": "2", "F": "2",
            "cu_seqlens": "none",
        },
    ),
    "fused_recurrent_gated_delta_rule_update": lambda s: DECODED_STATES | {"P": "1"},
    "fused_sigmoid_gating_delta_rule_update": lambda s: DECODED_STATES,
    "fused_gdn_gating_and_sigmoid": lambda s: {"D": "f32", "S": "5", "H": "32"},
    "causal_conv1d_update": lambda s: {
        "W": s["T"], "B": "4", "D": "64", "L": "1", "S": "8", "K": "3", "width": "4", "BIAS": "64", "LENS": "0", "SLOTS": "4",
    },
    "causal_conv1d_update_in_place": lambda s: {
        "W": s["T"], "B": "4", "D": "64", "L": "1", "S": "8", "K": "3", "width": "4", "N": "4", "A": "4", "windows": "8",
        "steps": "1", "places": "3", "query_start_loc": "none",
    },
    "causal_conv1d_fn": lambda s: {
        "W": s["T"], "D": "64", "L": "40", "starts": "3", "S": "8", "K": "3", "width": "4", "longest": "30",
    },
    "silu_and_mul_quant": lambda s: {"M": "7", "d": "128", "scale_rows": "7", "scale_columns": "2", "group_size": "64"},
    "silu_and_mul_quant_fp4": lambda s: {
        "M": "7", "half": "64", "scale_rows": "7", "scale_columns": "2", "group_size": "64", "shuffle_scale": "0",
    },
    "act_mul_and_mxfp4_quant": lambda s: {
        "T": "bf16", "M": "5", "half": "64", "scale_rows": "5", "scale_columns": "4", "in_row": "256", "activation": "silu",
        "shuffle": "0",
    },
    "act_mul_and_fp8_group_quant": lambda s: {
        "T": "bf16", "M": "5", "I": "256", "groups": "2", "in_row": "512", "activation": "silu", "group_size": "128",
    },
    "fused_qk_rope_cat_and_cache_mla": lambda s: {
        "T": "bf16", "C": "bf16", "Q": "bf16", "M": "5", "MK": "5", "HQ": "16", "HK": "1", "R": "512", "E": "64", "F": "32",
        "P": "50", "NB": "64", "PS": "1", "Z": "0", "slots_given": "5", "positions_given": "5", "qn_t": "8192", "qn_h": "512",
        "qp_t": "1024", "qp_h": "64", "kn_t": "512", "kn_h": "512", "kp_t": "64", "kp_h": "64", "c_b": "576", "c_h": "576",
        "c_row": "32",
        "num_decode_toks_for_zeros": "0", "shuffled_kv_cache": "0",
    },
    "fused_qk_rope_reshape_and_cache": lambda s: {
        "T": "bf16", "C": "bf16", "M": "5", "HQ": "4", "HK": "2", "D": "128", "F": "64", "P": "9", "NB": "3", "PS": "16",
        "G": "1", "x": "128", "VC": "16", "VX": "1", "slots_given": "5", "positions_given": "5", "q_t": "512", "q_h": "128",
        "k_t": "256", "k_h": "128", "v_t": "256", "v_h": "128",
        "kb": "4096", "kh": "128", "kg": "4096", "ks": "256", "vb": "4096", "vh": "128", "vc": "256", "vd": "1", "c_row": "64",
    },
    "concat_and_cache_mla": lambda s: {
        "C": s["T"], "kv_cache_dtype": "auto", "scales": "1", "tokens": "40", "c_rows": "40", "p_rows": "40", "rank": "512",
        "pe": "64", "blocks": "8", "block_size": "16",
    },
    "rotary_embedding_fwd": lambda s: ROTARY,
    "batched_rotary_embedding": lambda s: {**ROTARY, "rot_dim": "64"},
    **dict.fromkeys(
        (
            *("rope_fwd_impl", "rope_cached_fwd_impl", "rope_bwd_impl", "rope_cached_bwd_impl"),
            *("rope_cached_positions_fwd_impl", "rope_cached_positions_offsets_fwd_impl"),
        ),
        lambda s: {**TOKENS, "H": "4"},
    ),
    **dict.fromkeys(
        (
            *("rope_2c_fwd_impl", "rope_cached_2c_fwd_impl", "rope_2c_bwd_impl", "rope_cached_2c_bwd_impl"),
            *("rope_cached_positions_2c_fwd_impl", "rope_cached_positions_offsets_2c_fwd_impl"),
        ),
        lambda s: {**TOKENS, "HX": "4", "HY": "2"},
    ),
    **dict.fromkeys(
        ("rope_thd_fwd_impl", "rope_thd_bwd_impl"),
        lambda s: {**TURNED, "N": "16", "H": "4", "P": "16", "C": "3"},
    ),
    **dict.fromkeys(
        ("rope_2d_fwd_impl", "rope_2d_bwd_impl"),
        lambda s: {
            **TURNED, "S": "8", "B": "2", "H": "4", "f": "16", "PH": "2", "PW": "4", "img_height": "2", "img_width": "4",
        },
    ),
    "LLMM1": lambda s: FEW,
    "wvSpltK": lambda s: {**FEW, "N_in": "1"},
    "wv_splitk_small_fp16_bf16": lambda s: {**FEW, "N_in": "1"},
    "wvSplitKQ": lambda s: {**FEW, "scales_a": "1", "scales_b": "1"},
    "greedy_sample": lambda s: {"M": "8", "N": "16384"},
    "random_sample_outer_exponential": lambda s: {"N": "4096"},
    "mixed_sample_outer_exponential": lambda s: {"N": "4096"},
    **dict.fromkeys(("top_p_sampling_from_probs", "top_k_top_p_sampling_from_probs"), lambda s: {"M": "8", "I": "8", "B": "8"}),
    "dynamic_per_token_scaled_quant": lambda s: {
        "M": "8", "N": "1024", "R": "8", "G": "1024", "scale_rows": "8", "scale_columns": "1", "ub": "1", "counts": "1",
    },
    "indexer_k_quant_and_cache": lambda s: {
        "tokens": "8", "d": "128", "blocks": "3", "block_size": "16", "width": "132", "preshuffle": "0",
    },
    "cp_gather_indexer_k_quant_cache": lambda s: {
        "tokens": "8", "d": "128", "blocks": "3", "block_size": "16", "width": "132", "batch": "2", "table_columns": "3",
        "scale_columns": "1" if s["S"] == "f32" else "4", "preshuffle": "0",
    },
    **dict.fromkeys(
        ("peer_all_gather", "peer_reduce_scatter"),
        lambda s: {"M": "3", "K": "64", "WORLD1": "3", "WORLD2": "2", "G": "8", "R": "4096", "rank": "1"},
    ),
    "peer_all_reduce_codes": lambda s: {
        "M": "3", "N": "40", "bits": "8", "WORLD1": "3", "G": "4", "R": "4096", "rank": "1",
    },
    "moe_fused_gate": lambda s: {"E": "256", "K": "8", "num_expert_group": "8", "topk_group": "4", "topk": "8"},
    **dict.fromkeys(
        ("gemm_a8w8", "gemm_a8w8_CK", "gemm_a8w8_blockscale", "gemm_a8w8_blockscale_bpreshuffle"),
        lambda s: {"M": "40", "N": "128", "K": "1024", "C": "bf16"},
    ),
    **dict.fromkeys(
        ("batched_gemm_a8w8", "batched_gemm_a8w8_CK", "batched_gemm_bf16", "batched_gemm_bf16_CK"),
        lambda s: {"L": "2", "M": "40", "N": "128", "K": "1024", "C": "bf16"},
    ),
    "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant": lambda s: {
        "L": "2", "M": "40", "N": "128", "K": "256", "w_scales": "1",
    },
    "gemm_a16w8_blockscale": lambda s: {"M": "40", "N": "128", "K": "256"},
    "gemm_afp4wfp4": lambda s: {"M": "40", "N": "128", "KB": "128"},
    "gemm_afp4wfp4_preshuffle": lambda s: {
        "M": "40", "N": "128", "KB": "128", "XS": "2", "XSK": "256", "SB": "4", "SK": "256",
    },
    **dict.fromkeys(("gemm_a16wfp4", "gemm_afp4wfp4_pre_quant"), lambda s: {"M": "40", "N": "128", "K": "256", "KB": "128"}),
    "static_per_tensor_quant": lambda s: {"scales": "1"},
    "smooth_per_token_scaled_quant": lambda s: {"N": "1024", "experts": "1", "counts": "1"},
    "moe_cktile2stages_gemm1": lambda s: {
        "T": "40", "E": "4", "K": "512", "KB": "256", "I": "256", "P": "200", "NB": "7", "topk": "2", "choices": "2",
        "block_m": "32", "w_scales": "32768", "biases": "2048",
    },
    "deepgemm": lambda s: {
        "G": "3", "M": "40", "N": "128", "K": "512",
        **({"x_scale": "none", "w_scale": "none"} if s["X"] in ("bf16", "f16") else {"x_scales": "120", "w_scales": "384"}),
    },
    "moe_smoothquant_fwd": lambda s: {"M": "8", "N": "256", "choices": "2", "rows": "16", "scales": "16"},
    "moe_align_block_size": lambda s: {
        "n": "13", "num_experts": "8", "block_size": "4", "padded": "37", "blocks": "10",
    },
    "fused_experts_a8w8": lambda s: {
        "M": "7", "topk": "2", "E": "8", "masks": "8", "H": "128", "EI": "64", "a1_scales": "7", "w1_scales": "1024",
        "w2_scales": "1024", "a2_scales": "1",
    },
    "fused_experts_a8w8_tensor": lambda s: {
        "M": "7", "topk": "2", "E": "8", "masks": "8", "H": "128", "EI": "64", "a1_scales": "1", "w1_scales": "8",
        "w2_scales": "8",
    },
    "fused_experts": lambda s: {"M": "7", "topk": "2", "E": "8", "masks": "8", "H": "128", "EI": "64"},
    "fused_experts_a16w4": lambda s: EXPERTS_F4,
    "fused_experts_mxfp4": lambda s: {**EXPERTS_F4, "activation_bits": "8"},
    "moe_routing_lists": lambda s: {
        "M": "7", "P": "14", "E": "8", "E1": "9", "NB": "8", "n_expts_act": "2", "block_m": "16",
    },
    "moe_routing_hash_lists": lambda s: {
        "M": "7", "P": "14", "V": "9", "K": "2", "E": "8", "E1": "9", "NB": "8", "n_expts_act": "2", "block_m": "16",
    },
    "moe_gemm_gathered": lambda s: {
        "X": "7", "O": "14", "E": "8", "E1": "9", "N": "64", "NO": "64", "K": "128", "KB": "64", "SN": "64", "SK": "4",
        "NB": "14", "topk": "2", "block_m": "16", "G": "14", "scatter_indx": "none",
    },
    "moe_gemm_gathered_fp8": lambda s: {
        "X": "7", "R": "14", "E": "8", "E1": "9", "N": "64", "NO": "64", "K": "128", "KB": "64", "SN": "64", "SK": "4",
        "NB": "14", "topk": "2", "block_m": "16", "G": "14", "XK": "4", "scatter_indx": "none", "quant_scale": "none",
        "T": "bf16",
    },
    "moe_gemm_gathered_fp4": lambda s: {
        "X": "7", "R": "14", "E": "8", "E1": "9", "N": "64", "NO": "64", "KB": "64", "SN": "64", "SK": "4", "NB": "14",
        "topk": "2", "block_m": "16", "G": "14", "XK": "4", "scatter_indx": "none", "gate_valid": "none",
    },
    "moe_sorting_fwd": lambda s: {
        "T": "13", "topk": "2", "num_experts": "8", "masks": "8", "unit_size": "4", "P": "56", "weights": "56", "NB": "14",
    },
    "grouped_topk": lambda s: {**GROUPS, "topk_group": "3"},
    "biased_grouped_topk_hip": lambda s: {**GROUPS, "topk_grp": "3"},
    "gemm_a4w4_asm": lambda s: F4,
    "gemm_a4w4": lambda s: {name: value for name, value in F4.items() if name not in ("log2_k_split", "R")},
    "gemm_a4w4_blockscale": lambda s: (
        {name: value for name, value in F4.items() if name not in ("log2_k_split", "SK")} | {"KB": "384"}
    ),
    "gemm_a16w16_asm": lambda s: {"N": "128", "K": "4096", "splitK": "0"},
    "fmha_v3_fwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "B": "2", "is_causal": "1",
        "how_v3_bf16_cvt": "1",
    },
    "fmha_v3_varlen_fwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "S1": "3", "is_causal": "1",
        "how_v3_bf16_cvt": "1",
    },
    "flash_attn_varlen_func": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "NB": "1", "SK": "100", "S1": "3", "max_seqlen_q": "40",
        "MB": "2", "block_table": "none",
    },
    "flash_attn_varlen_fp8_pertensor_func": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "S1": "3", "QD": "1", "KD": "1", "VD": "1",
        "max_seqlen_q": "40",
    },
    "flash_attn_fp8_pertensor_func": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "B": "2", "QD": "1", "KD": "1", "VD": "1",
    },
    "unified_attention": lambda s: {**PAGES, "C": s["T"], "S": "3", "bt_s": "8", "max_seqlen_k": "100"},
    "paged_attention_v1": lambda s: {
        **{name: size for name, size in PAGES.items() if name != "max_seqlen_q"}, "C": s["T"], "S": "3", "bt_s": "8",
        "max_context_len": "100", "kv_cache_dtype": "auto", "kv_cache_layout": "NHD",
    },
    "paged_attention_ragged": lambda s: {
        **{name: size for name, size in PAGES.items() if name not in ("max_seqlen_q", "SQ")}, "C": s["T"], "S": "3",
        "most_keys": "100", "kv_cache_dtype": "auto", "kv_cache_layout": "NHD",
    },
    "mha_batch_prefill_func": lambda s: {**PAGES, "C": s["T"], "Q": s["T"], "S1": "4", "QD": "1"},
    "mha_batch_prefill": lambda s: {
        **PAGES, "S1": "4", "QD": "1", "Q": s["T"], "X": "8", "KG": "16", "VG": "2",
    },
    "extend_attention_fwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "S1": "3", "NB": "90", "KI": "70", "max_len_extend": "40",
        "MS": "1", "MI": "1", "custom_mask": "none", "mask_indptr": "none",
    },
    "context_attention_fwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "S": "3", "max_input_len": "40",
    },
    "fmha_v3_bwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "B": "2", "window_size_left": "-1",
        "window_size_right": "-1", "is_v3_atomic_fp32": "1", "how_v3_bf16_cvt": "1",
    },
    "fmha_v3_varlen_bwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "S1": "3", "is_causal": "1",
        "max_seqlen_q": "64", "max_seqlen_k": "64", "is_v3_atomic_fp32": "1", "how_v3_bf16_cvt": "1",
    },
    "mha_bwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "B": "2", "window_size_left": "-1",
        "window_size_right": "0",
    },
    "mha_varlen_bwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "S1": "3", "max_seqlen_q": "64",
        "max_seqlen_k": "100", "window_size_left": "-1", "window_size_right": "0",
    },
    "mha_fwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "B": "2", "window_size_left": "-1",
        "window_size_right": "0", "cu_seqlens_q": "none", "cu_seqlens_kv": "none",
    },
    "mha_varlen_fwd": lambda s: {
        "D": "128", "DV": "128", "HQ": "8", "HK": "2", "SQ": "64", "SK": "100", "S1": "3", "window_size_left": "-1",
        "window_size_right": "0", "max_seqlen_q": "64", "max_seqlen_k": "100", "min_seqlen_q": "0", "cu_seqlens_q_padded": "none",
        "cu_seqlens_k_padded": "none",
    },
    "pa_fwd_asm": lambda s: {
        "D": "128", "HQ": "16", "HK": "2", "S": "8", "MB": "40", "bt_s": "40", "block_tables_stride0": "40", "NB": "64",
        "C": s["T"], "X": "8", "BS": "16", "R": "8", "K_QScale": "none", "V_QScale": "none", "qo_indptr": "none", "max_qlen": "1",
    },
    "mla_decode_stage1_asm_fwd": lambda s: {**PARTS, "R": "f32"},
    "mla_decode_fwd": lambda s: {
        **PARTS, "LH": "16", "FT": "8", "FH": "16", "splits": "2", "fold": "1", "PS": "1", "kv_s": "576", "TO": "bf16",
        "capped": "0", "logs": "0", "causal": "1", "N": "64",
    },
    "mla_prefill_asm_fwd": lambda s: LATENT,
    "mla_prefill_fwd": lambda s: LATENT,
    "get_mla_metadata_v1": lambda s: {
        "B1": "9", "W1": "41", "NW": "60", "G1": "9", "M": "60", "num_heads_per_head_k": "16", "page_size": "1",
        "kv_granularity": "16", "uni_seqlen_qo": "1", "topk": "-1", "max_split_per_batch": "-1", "fold": "1", "tiles": "1",
    },
    "get_ps_metadata_v1": lambda s: {
        "B": "3", "W1": "41", "NW": "60", "G1": "9", "M": "60", "num_heads_k": "2", "qhead_granularity": "1",
        "qlen_granularity": "256", "kvlen_granularity": "16", "block_size": "1", "is_causal": "1",
    },
    "mla_prefill_ps_asm_fwd": lambda s: {
        "HQ": "4", "HK": "4", "N": "64", "P": "64", "W1": "41", "k_p": "768", "k_h": "192", "v_p": "512", "v_h": "128",
    },
    "mi350_a8w8_blockscale_asm": lambda s: {"M": "40", "N": "256", "K": "512"},
    "mla_reduce_v1": lambda s: {"H": "16", "N": "8", "D": "512", "num_kv_splits": "0"},
    "topk_softmax_asm": lambda s: {"M": "40", "E": "256", "K": "8"},
    "topk_gating": lambda s: {"T": "bf16", "E": "64", "K": "8"},
    "topk_sigmoid": lambda s: {"T": "bf16", "E": "64", "K": "8"},
    "unified_attention_sparse_mla": lambda s: {
        "M": "5", "H": "16", "D": "576", "R": "512", "kv_lora_rank": "512", "NB": "40", "PS": "64", "B": "2", "K": "2048",
        "BB": "2", "MB": "16", "q_s": "9216", "q_h": "576", "kv_p": "36864", "kv_s": "576", "o_s": "8192", "o_h": "512",
        "t_s": "2048",
    },
    "fp8_mqa_logits": lambda s: {
        "M": "8", "N": "1000", "H": "64", "D": "128", "q_s": "8192", "q_h": "128", "k_s": "128", "w_s": "64",
    },
    "deepgemm_fp8_paged_mqa_logits": lambda s: {
        "B": "8", "next_n": "1", "H": "64", "D": "128", "ID": "132", "NB": "100", "PS": "64", "MB": "8", "W": "512",
        "max_model_len": "512", "KVBlockSize": "64", "Preshuffle": "0", "page": "8448", "q_b": "8192", "q_n": "8192",
        "q_h": "128", "w_s": "64", "o_s": "512", "t_s": "8", "C": "u8",
    },
    "top_k_per_row_prefill": lambda s: TOP,
    "upcast_from_mxfp": lambda s: {"M": "8", "KB": "64"},
    "upcast_from_mxfp8": lambda s: {"M": "8", "K": "128"},
    "downcast_to_mxfp": lambda s: {"M": "8", "K": "128"},
    "downcast_to_mxfp8": lambda s: {"M": "8", "K": "128"},
    "l2norm_fwd": lambda s: {"M": "8", "N": "128"},
    "dynamic_per_group_scaled_quant": lambda s: {
        "M": "8", "N": "128", "W": "128", "Q": "i8", "S": "f32", "scale_rows": "8", "scale_columns": "4", "num_rows": "none",
    },
    "quant_mxfp4": lambda s: {"M": "8", "N": "128", "scale_rows": "8", "scale_columns": "4"},
    "copy_blocks": lambda s: {
        "L": "2", "B": "4", "N": "64", "pairs": "2", "k_layer": "256", "v_layer": "256", "k_block": "64", "v_block": "64",
    },
    "topk_plain": lambda s: {"M": "8", "N": "256", "K": "16", "topk": "16"},
    "top_k_per_row_decode": lambda s: {
        **{name: size for name, size in TOP.items() if name not in ("E", "S")}, "next_n": "1", "B": "8",
    },
    "binary_mixed": lambda s: THREE | {"AM": "3", "AN": "8", "AK": "1000", "op": "1"},
    **dict.fromkeys(("add", "sub", "mul", "div"), lambda s: THREE | {"AM": "3", "AN": "8", "AK": "1000"}),
    **dict.fromkeys(("add_", "sub_", "mul_", "div_"), lambda s: THREE),
    "fmoe_g1u1": lambda s: EXPERTS,
    "fmoe_g1u1_tkw1": lambda s: EXPERTS,
    "fmoe_int8_g1u0": lambda s: {
        **EXPERTS, "N": "80", "D": "768", "input_scales": "80", "fc1_scales": "1024", "fc2_scales": "3072",
    },
    "fmoe_g1u1_a16": lambda s: {**SIXTEEN, "activation": "1"},
    "fmoe_int8_g1u0_a16": lambda s: {**SIXTEEN, "fc1_scales": "2048"},
    "fmoe_g1u1_mxfp4": lambda s: {
        "T": "40", "E": "4", "D": "512", "KB": "256", "IB": "128", "P": "200", "NB": "7", "input_scales": "3584",
        "fc1_scales": "32768", "fc2_scales": "16384", "topk": "2", "activation": "1",
    },
    "fmoe": lambda s: {"T": "40", "E": "4", "D": "1024", "I": "512", "P": "200", "NB": "7", "topk": "2"},
    "fmoe_fp8_blockscale_g1u1": lambda s: {
        "T": "40", "E": "4", "D": "512", "I": "256", "P": "200", "NB": "7", "input_scales": "160", "fc1_scales": "64",
        "fc2_scales": "32", "smooth_scales": "1024", "topk": "2", "activation": "1",
    },
    "moe_stage1_g1u1": lambda s: {
        "T": "40", "E": "4", "D": "512", "I": "256", "P": "200", "NB": "7", "topk": "2", "inter_dim": "256", "block_m": "32",
        "activation": "1", "sorted_weights": "none",
        **({"R": "42", "quant_type": "4", "a1_scales": "160", "w1_scales": "64"} if s["O"] == "u8" else
           {"R": "40", "quant_type": "2", "a1_scales": "40", "w1_scales": "2048"}),
    },
    "ck_moe_stage1_fwd": lambda s: {
        **STAGES, "activation": "0", "sorted_weights": "none",
        **({"w1_scale": "none", "a1_scale": "none"} if s["X"] == "bf16" else
           {"X": s["X"], "quant_type": "2", "a1_scales": "40", "w1_scales": "2048"}),
    },
    "ck_moe_stage2_fwd": lambda s: {
        **STAGES,
        **({"w2_scale": "none", "a2_scale": "none"} if s["X"] == "bf16" else
           {"X": s["X"], "I": "512", "quant_type": "2", "a2_scales": "80", "w2_scales": "2048"}),
    },
}  # fmt: skip


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_shipped_bundles_launch_what_explain_says(
    native: ModuleType, stub: Stub, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Random shapes of every real operator, described as on the command line: its choice is the stub driver's record."""
    from support.emulator import bundles

    from aiter_prebuilt.bundles import locate
    from aiter_prebuilt.inspection import decisions

    stub.set_arch(target.encode())
    paths = bundles(target, "ck-full")
    monkeypatch.setenv(locate.VARIABLE, ":".join(map(str, paths)))
    monkeypatch.delenv("AITER_PREBUILT_TUNED", raising=False)
    serving = locate.installed()
    opened = tuple(native.Bundle(str(path)) for path in paths)
    launched = dict.fromkeys(sorted({name for bundle in opened for name in bundle.names}), 0)
    find = decisions.find_operator
    for name in launched:
        draw = random.Random(f"{target} {name}")  # of its own: another operator's draws move none of them
        # Read once: to read an operator's records for each of its explanations is most of the time.
        read = find(name, serving)
        monkeypatch.setattr(decisions, "find_operator", lambda *_, read=read: read)
        block = read[0]
        made = native.Operator(name, lambda vendor, ordinal: (opened, 256))
        symbols = {
            block.slots[dim.slot] for tensor in block.tensors for dim in tensor.dims if dim.kind == DIM_BIND
        }
        for attempt in range(200):
            if attempt >= 30 and launched[name]:
                break
            settings = {
                symbol: str(draw.choice((1, 2, 3, 8, 16, 40, 64, 128, 1000, 4096)))
                for symbol in sorted(symbols)
            }
            for variable in block.type_variables:
                settings[variable.name] = BY_NUMBER[draw.choice(variable.allowed)].name
            if name in FITTING and draw.random() < 0.8:
                settings |= FITTING[name](settings)
            settings |= {
                tensor.name: "none" for tensor in block.tensors if tensor.optional and draw.random() < 0.5
            }
            absent = {tensor.name for tensor in block.tensors if settings.get(tensor.name) == "none"}
            bound = {
                block.slots[dim.slot]
                for tensor in block.tensors if tensor.name not in absent
                for dim in tensor.dims if dim.kind == DIM_BIND
            }  # fmt: skip
            settings = {key: value for key, value in settings.items() if key not in symbols - bound}
            tensors, attributes, _ = decisions.describe(block, settings)
            try:
                found = decisions.explain(name, settings, target, 256)
            except errors.ArgumentError as error:
                with pytest.raises(type(error)):
                    made(*tensors, *attributes)
                continue
            chosen = [row for row in found.decisions if row["chosen"]]
            before = stub.launches()
            if not chosen:
                with pytest.raises((errors.NoKernelError, errors.ArgumentDTypeError)):
                    made(*tensors, *attributes)
                continue
            made(*tensors, *attributes)
            steps = [step for step in chosen[0]["steps"] if 0 not in step["grid"]]
            assert stub.launches() - before == len(steps)
            launched[name] += len(steps)
            for place, step in enumerate(steps):
                record = stub.launch(place - len(steps))
                assert (record.symbol.decode(), list(record.grid), list(record.block), record.lds) == (
                    step["symbol"], step["grid"], step["block"], step["lds"]
                ), (name, settings)  # fmt: skip
    assert [name for name, count in launched.items() if not count] == []
