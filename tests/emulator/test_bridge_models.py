"""The calls of four models' steps in stock AITER, as its clients write them: through which name each goes, and who answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from emulator import test_bridge
from emulator.test_bridge import SCHEMA, World, kind_of

from aiter_prebuilt.commands.output import JSON_VERSION

pytestmark = test_bridge.pytestmark
tree, world = test_bridge.tree, test_bridge.world  # its fixtures

MODELS = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
#: AITER's class keeps its memory, which ours shares otherwise: who wants ours makes ours.
COLLECTIVE = "CustomAllreduce."
#: What the tree of November 2025 has not, or otherwise than its clients of a year later call it.
LEFT_OF_WHEEL = {
    "vllm_add_norm", "vllm_add_norm_0", "sglang_add_norm", "sglang_norm_quant", "sglang_add_norm_quant", "vllm_unified",
    "vllm_unified_fp8", "vllm_unified_window", "sglang_unified", "sglang_head_norm_rope_cache", "vllm_topk_gating",
    "vllm_gemm_bias", "sglang_gemm_triton",
    "vllm_routing", "vllm_moe_gemm_a16w4", "vllm_moe_gemm_a16w4_parallel", "vllm_moe_gemm_a8w4", "sglang_moe_gemm_a8w4_parallel",
    "vllm_latent_norms", "sglang_latent_norms", "vllm_latent_norms_group_quant", "vllm_latent_works", "vllm_latent_decode",
    "vllm_latent_decode_works", "sglang_latent_decode", "sglang_latent_decode_fp8", "atom_moe_gemm_a4w4", "vllm_ps_info",
    "vllm_ps_works", "sglang_ps_works", "vllm_ps_prefill", "vllm_ps_reduce",
}  # fmt: skip


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_each_call_of_four_models(tree: Path, world: World, target: str) -> None:
    report, _ = world.run(tree, target, "model", *MODELS)
    schema = json.loads(SCHEMA.read_text())
    for model, said in report.items():
        jsonschema.validate({"version": JSON_VERSION, "verb": "bridge", **said}, schema)
        _judge(model, said["calls"], kind_of(tree))


def _judge(model: str, rows: list[dict[str, Any]], kind: str) -> None:
    assert len(rows) > 30, model
    ours = [row for row in rows if row["state"] in ("ours", "stub")]
    assert all(row["served"] is True and not row["why"] for row in ours), [
        row for row in ours if not row["served"]
    ]
    others = [row for row in rows if row not in ours]
    assert all(row["why"] and row["served"] is None for row in others)
    left = {row["form"] for row in others if not row["function"].startswith(COLLECTIVE)}
    assert left <= (LEFT_OF_WHEEL if kind == "wheel" else set()), [
        row for row in others if row["form"] in left
    ]
    named = {row["through"] for row in ours}
    assert "torch.ops.aiter.top_k_renorm_probs" in named and any(each.startswith("aiter.") for each in named)
