"""vLLM 0.33 on stock AITER through the bridge: its own wrappers (``vllm/_aiter_ops.py``, of the wheel's Python files) on the
embedded device, while its JIT monitor makes a compile an error. ``CLIENT_WHEELS`` names a folder with vLLM's wheel (336 MB,
``nox -s servers`` fetches it); what vLLM needs that is not AITER is stood in for (``vllm_stand_in.py``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from emulator import test_bridge
from emulator.test_bridge import ANSWERS, World, kind_of
from support.emulator import library_path

pytestmark = test_bridge.pytestmark
tree, world = test_bridge.tree, test_bridge.world  # its fixtures

SETTINGS = {"VLLM_ROCM_USE_AITER": "1", "AITER_PREBUILT_BRIDGE": "strict"}
#: Wrappers whose call ends in a kernel of AITER's that ours do not cover, by how they end. A compile of Triton's is the
#: monitor's error; the rest ends in AITER's own Python, which finds no GPU here.
LEFT = {
    "rocm_aiter_fused_rms_gated_fp8_group_quant": "ValueError",
    "hipb_mm_fp8": "RuntimeError",
    "triton_gemm_a8w8_blockscale_preshuffle": "CompileRefusedError",
    "gather_kv_b_proj": "CompileRefusedError",
    "rocm_aiter_triton_rotary_embedding": "CompileRefusedError",
}
#: And of FP4: AITER's Triton refuses it on gfx942.
LEFT_OF_FP4 = {
    "gfx942": {"gemm_a8wfp4": "AssertionError", "batched_gemm_a16wfp4": "AssertionError"},
    "gfx950": {"gemm_a8wfp4": "CompileRefusedError", "batched_gemm_a16wfp4": "CompileRefusedError"},
}
#: vLLM 0.33 asks for what the tree of November 2025 has not: no such name, or a function without the argument.
TOO_OLD = {
    "rocm_aiter_fused_rms_gated_fp8_group_quant": "ImportError",
    "fused_mla_dual_rms_norm": "ModuleNotFoundError",
    "fused_mla_dual_rms_norm_per_token_quant": "ModuleNotFoundError",
    "fused_mla_dual_rms_norm_group_quant": "ModuleNotFoundError",
    "batched_gemm_a16wfp4": "ModuleNotFoundError",
    "triton_gemm_a8w8_blockscale_preshuffle": "ImportError",
    "topk_gating": "ImportError",
    "gather_kv_b_proj": "ModuleNotFoundError",
    "fp8_attn_wrapper": "TypeError",
    "rocm_aiter_triton_rotary_embedding": "ModuleNotFoundError",
    "fused_qk_norm_rope_and_cache": "ModuleNotFoundError",
}
#: Operators that vLLM registers beside those that are called here, and why they are not.
NOT_CALLED = {
    "vllm::rocm_aiter_sparse_attn_indexer": "vLLM's own kernels",
    "vllm::rocm_aiter_fused_allreduce_rmsnorm": "of several ranks, which vLLM's groups make",
    "vllm::rocm_aiter_fused_allreduce_rmsnorm_quant_per_group": "of several ranks",
    "vllm::rocm_aiter_fused_allreduce_rmsnorm_quant_per_group_with_bf16_norm": "of several ranks",
}
#: What vLLM reads from AITER's signatures; a function without one turns the feature off.
READ = {
    "fused_moe_supports_gate_mode", "fused_moe_supports_quant_dtype_a", "topk_softmax_supports_fused_sigmoid",
    "mla_decode_supports_fp8", "mla_decode_supports_non_causal",
}  # fmt: skip


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Python files of vLLM's wheel."""
    found = sorted(Path(os.environ.get("CLIENT_WHEELS", "/none")).glob("vllm-*.whl"))
    if not found:
        pytest.skip("CLIENT_WHEELS names no folder with vLLM's wheel")
    folder = tmp_path_factory.mktemp("vllm")
    with zipfile.ZipFile(found[-1]) as archive:
        names = [name for name in archive.namelist() if name.startswith("vllm/") and name.endswith(".py")]
        archive.extractall(folder, [name for name in names if "/model_executor/models/" not in name])
    return folder


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_wrappers_are_right_and_the_monitor_is_quiet(
    tree: Path, world: World, vllm: Path, target: str
) -> None:
    report, _ = world.run(tree, target, "vllm", str(vllm), **SETTINGS)
    ended = {name: row["state"] for name, row in report["calls"].items() if row["state"] != "right"}
    checkout = kind_of(tree) == "checkout"
    wheel = {"hipb_mm_fp8": "RuntimeError", "gemm_a8wfp4": LEFT_OF_FP4[target]["gemm_a8wfp4"], **TOO_OLD}
    assert ended == (LEFT | LEFT_OF_FP4[target] if checkout else wheel), report["calls"]
    assert len(report["calls"]) - len(ended) == (44 if checkout else 38)
    # Refused by the bridge before Triton starts: the monitor has nothing to say.
    assert not [name for name in ended if "Triton kernel JIT compilation" in report["calls"][name]["why"]]


def test_every_operator_is_registered_with_torch(tree: Path, world: World, vllm: Path) -> None:
    """Fakes included: the calls above ask them. Each is called, or there is a reason."""
    report, _ = world.run(tree, "gfx942", "vllm", str(vllm), "rms_norm", **SETTINGS)
    assert len(report["registered"]) == 42 and NOT_CALLED.keys() <= {*report["registered"]}


def test_vllm_reads_our_signatures(tree: Path, world: World, vllm: Path) -> None:
    report, _ = world.run(tree, "gfx942", "vllm", str(vllm), "rms_norm", **SETTINGS)
    off = {name for name in READ if report["thinks"][name] is not True}
    assert off == ({*()} if kind_of(tree) == "checkout" else {"mla_decode_supports_non_causal"}), report[
        "thinks"
    ]
    assert all(
        report["thinks"][name] is True for name in ("is_enabled", "is_fused_moe_enabled", "is_mla_enabled")
    )


def test_without_the_bridge_the_monitor_is_not_quiet(
    tree: Path, world: World, vllm: Path, tmp_path: Path
) -> None:
    """The same call, AITER's own way: programs answer what its import asks, and AITER_JIT_DIR has its first module."""
    jit = tmp_path / "modules"
    settings = {"AITER_PREBUILT_HIP": str(library_path()), "AITER_PREBUILT_EMULATOR": "gfx942"}
    path = f"{world.environment['PYTHONPATH']}{os.pathsep}{tree}"
    subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt", "bridge", "folder", str(jit)],
        env=world.environment | settings | {"PYTHONPATH": path}, check=True, capture_output=True,
    )  # fmt: skip
    for name, says in ANSWERS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{says}\n")
    off = {
        "AITER_JIT_DIR": str(jit),
        "AITER_ROOT_DIR": str(tmp_path),
        **SETTINGS,
        "AITER_PREBUILT_BRIDGE": "0",
    }
    name = "triton_gemm_a8w8_blockscale"
    told: Any = world.start(tree, "gfx942", "vllm", str(vllm), name, **off)[0]["calls"][name]
    assert (
        told["state"] == "RuntimeError" and "Triton kernel JIT compilation during inference" in told["why"]
    ), told
    world.told.unlink(missing_ok=True)  # without the bridge AITER starts what it likes
    told = world.run(tree, "gfx942", "vllm", str(vllm), name, **SETTINGS)[0]["calls"][name]
    assert told["state"] == "right", told
