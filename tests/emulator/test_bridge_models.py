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
#: The class of November 2025 has other methods: it stays AITER's.
COLLECTIVE = "CustomAllreduce."
#: What the tree of November 2025 has not, or otherwise than its clients of a year later call it.
LEFT_OF_WHEEL = {
    "sglang_add_norm_quant", "sglang_gemm_triton", "sglang_head_norm_rope_cache", "sglang_latent_norms",
    "sglang_moe_gemm_a8w4_parallel", "sglang_norm_quant", "sglang_ps_works", "atom_moe_gemm_a4w4", "vllm_add_norm",
    "vllm_latent_decode", "vllm_latent_decode_works", "vllm_latent_norms", "vllm_latent_norms_group_quant", "vllm_latent_works",
    "vllm_moe_gemm_a16w4", "vllm_moe_gemm_a16w4_parallel", "vllm_ps_info", "vllm_ps_prefill", "vllm_ps_reduce", "vllm_ps_works",
    "vllm_quick_all_reduce_norm", "vllm_routing", "vllm_topk_gating", "vllm_topk_gating_shared",
    "vllm_head_norm_rope_cache", "vllm_head_norm_rope_cache_tiles", "vllm_unified", "vllm_unified_fp8", "vllm_unified_window",
    "vllm_rope", "vllm_paged_common", "vllm_paged_common_fp8",
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
    if kind == "checkout":
        assert not others
    left = {row["form"] for row in others if not row["function"].startswith(COLLECTIVE)}
    assert left <= LEFT_OF_WHEEL, [row for row in others if row["form"] in left]
    named = {row["through"] for row in ours}
    assert "torch.ops.aiter.top_k_renorm_probs" in named and any(each.startswith("aiter.") for each in named)
