"""Results of every function that allocates have the shapes, dtypes and strides of AITER's, behind one to four dims."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

import aiter_prebuilt

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950")
_GIVEN: Final = "it returns the tensor that the caller gave"
_SIZES: Final = "it returns numbers, no tensor"
_MIXTURE: Final = "a mixture of experts of one form of weights: fused_moe has its shape, and its test another"
_GOLDEN: Final = "its results have one form; golden calls compare it with the shapes that AITER's Python has"
#: Functions whose results are no matter of the table, and why.
ELSEWHERE: Final = {
    **dict.fromkeys(
        (
            "add_", "sub_", "mul_", "div_", "batched_gemm_a8w8", "batched_gemm_bf16", "causal_conv1d_update_in_place",
            "ck_moe_stage1_fwd", "ck_moe_stage2_fwd", "deepgemm", "fused_kv_norm_rope_group_quant", "gemm_a4w4_asm",
            "gemm_a4w4_blockscale", "gemm_a16w16_asm", "mi350_a8w8_blockscale_asm", "moe_cktile2stages_gemm1",
            "moe_fused_gate", "paged_attention_ragged", "paged_attention_v1",
        ),
        _GIVEN,
    ),
    **dict.fromkeys(
        ("preload", "get_mla_metadata_info_v1", "get_ps_metadata_info_v1", "init_custom_qr", "qr_get_handle", "qr_max_size"),
        _SIZES,
    ),
    **dict.fromkeys(
        (
            "asm_moe_tkw1", "fused_experts", "fused_experts_a8w8", "fused_experts_a8w8_tensor", "fused_experts_a16w4",
            "fused_experts_mxfp4", "moe_gemm_a4w4", "moe_gemm_a8w4", "moe_gemm_a16w4",
        ),
        _MIXTURE,
    ),
    **dict.fromkeys(
        (
            "flatmm_a8w8_blockscale_ASM", "fused_qk_norm_rope_group_quant", "fused_qk_rmsnorm", "fused_qk_rmsnorm_plain",
            "fused_qk_rope_cat_and_cache_mla", "fused_qk_rope_reshape_and_cache", "fused_recurrent_gated_delta_rule_update",
            "fused_sigmoid_gating_delta_rule_update", "gemm_a8w8_ASM", "gemm_a16w16_fp32", "gemm_afp4wfp4_preshuffle",
            "inverse_rope_group_quant", "minimax_qk_norm_rope", "mla_decode_fwd", "mla_prefill_fwd", "routing",
            "routing_from_hash",
        ),
        _GOLDEN,
    ),
    # AITER's log of sums is a scratch of [sequences, heads, rows], of which the first matrix is written: ours is that matrix.
    "mha_varlen_bwd": "AITER's softmax_d has a dim of sequences that nothing reads", "fmha_v3_varlen_bwd": "as mha_varlen_bwd",
}  # fmt: skip


def allocating() -> set[str]:
    """Public functions that return something."""
    names = set()
    for name in aiter_prebuilt.__all__:
        function: Any = getattr(aiter_prebuilt, name)
        if inspect.isfunction(function) and inspect.signature(function).return_annotation not in (
            None,
            "None",
        ):
            names.add(name)
    return names


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What the program printed."""
    library_path()
    files = [path for target in TARGETS for path in bundles(target, "ck-full")]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_")}
    done = subprocess.run(
        [
            sys.executable, "-m", "aiter_prebuilt_emulator.torch",
            str(Path(__file__).with_name("result_shapes_program.py")), *TARGETS,
        ],
        env=kept | {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT))),
            "AITER_PREBUILT_EMULATOR": ",".join(TARGETS),
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, dict.fromkeys(files))),
        },
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_results_are_those_of_aiter(rows: list[dict[str, Any]]) -> None:
    wrong = [row for row in rows if row["problems"]]
    assert not wrong, wrong[:8]
    assert {row["target"] for row in rows} == set(TARGETS)


def test_every_function_that_allocates_is_asked(rows: list[dict[str, Any]]) -> None:
    asked = {row["name"] for row in rows} - {"tgemm"}
    assert asked.isdisjoint(ELSEWHERE)
    assert asked | set(ELSEWHERE) == allocating()
