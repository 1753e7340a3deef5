"""Prepare a process for one project's tests before the first import: paths, packages that stand in, names of compiled parts.

Nothing here changes a test, or what AITER or the project computes.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

#: Namespaces of ``torch.ops`` and modules that a project's own build compiles. A checkout without a build has none of them.
COMPILED: Final[Mapping[str, re.Pattern[str]]] = {
    "vllm": re.compile(
        r"_OpNamespace' '(_C|_C_\w+|_rocm_C|_moe_C)' object has no attribute"
        r"|No module named 'vllm\.(_\w*C\w*|vllm_flash_attn\w*)'"
    ),
}

#: Models whose shape a test asks the hub for. It loads no weights.
MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Qwen/Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "vocab_size": 151936,
        "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True, "attention_bias": False,
    },
}  # fmt: skip


def not_built(text: str) -> bool:
    """Tell whether an error says that a compiled part of the project is missing.

    Args:
        text: its name and message.
    """
    pattern = COMPILED.get(os.environ.get("PEER_PROJECT", ""))
    return pattern is not None and pattern.search(text) is not None


def prepare(file: Path) -> None:
    """Put the checkouts on the path and install what stands in.

    Args:
        file: the test's file.
    """
    sys.modules["flydsl"] = None  # type: ignore[assignment]  # AITER knows how to do without
    key = os.environ.get("PEER_PROJECT", "")
    called = [os.environ["AITER_DIR"]] if os.environ.get("AITER_DIR") else []
    sys.path[:0] = [*called, str(file.parent)] if not key else [os.environ["PEER_FOLDER"], *called]
    _PREPARATIONS.get(key, lambda: None)()


def amdsmi(target: str) -> ModuleType:
    """Make a module with the functions of AMD's system management library that vLLM asks for the one emulator.

    Args:
        target: gfx942 or gfx950.
    """
    name, device = (
        ("AMD Instinct MI300X", "0x74a1") if target == "gfx942" else ("AMD Instinct MI350X", "0x75a0")
    )
    functions: dict[str, Callable[..., Any]] = {
        "amdsmi_init": lambda *_: None,
        "amdsmi_shut_down": lambda: None,
        "amdsmi_get_processor_handles": lambda: [0],
        "amdsmi_get_gpu_asic_info": lambda _: {
            "market_name": name,
            "device_id": device,
            "target_graphics_version": target,
        },
        "amdsmi_get_gpu_device_uuid": lambda _: "embedded-0",
        "amdsmi_get_gpu_memory_total": lambda *_: 16 << 30,
        "amdsmi_topo_get_link_type": lambda *_: {"hops": 0, "type": 0},
        "amdsmi_topo_get_numa_node_number": lambda _: 0,
    }
    module: Any = ModuleType("amdsmi")
    module.__spec__ = importlib.machinery.ModuleSpec("amdsmi", None)
    module.AmdSmiException = type("AmdSmiException", (Exception,), {})
    module.AmdSmiMemoryType = type("AmdSmiMemoryType", (), {"VRAM": 0})
    vars(module).update(functions)
    made: ModuleType = module
    return made


def keep_configs(hub: Path) -> None:
    """Write the configurations of :data:`MODELS` as the hub's client keeps them: without a network it asks there.

    Args:
        hub: folder of the client's cache.
    """
    for name, config in MODELS.items():
        folder = hub / f"models--{name.replace('/', '--')}"
        snapshot = folder / "snapshots" / ("0" * 40)
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0" * 40, encoding="utf-8")
        (snapshot / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _vllm() -> None:
    """VLLM finds its platform through amdsmi. Nothing is fetched, and nothing reported."""
    target = os.environ["AITER_PREBUILT_EMULATOR"].partition(",")[0]
    sys.modules["amdsmi"] = amdsmi(target)
    keep_configs(Path(os.environ["HOME"]) / ".cache" / "huggingface" / "hub")
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1"}


_PREPARATIONS: Final[Mapping[str, Callable[[], None]]] = {"vllm": _vllm}
