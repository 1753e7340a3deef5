"""What the tests of each project need before the first one is imported: paths, packages that stand in, and names of compiled parts.

Nothing here changes a test, or what AITER or the project computes.
"""

from __future__ import annotations

import importlib.machinery
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
    aiter = [os.environ["AITER_DIR"]] if os.environ.get("AITER_DIR") else []
    sys.path[:0] = [*aiter, str(file.parent)] if not key else [os.environ["PEER_FOLDER"], *aiter]
    _PREPARATIONS.get(key, lambda: None)()


def amdsmi(target: str) -> ModuleType:
    """Make a module with the functions of AMD's system management library that vLLM asks for the one embedded device.

    Args:
        target: gfx942 or gfx950.
    """
    name, device = ("AMD Instinct MI300X", "0x74a1") if target == "gfx942" else ("AMD Instinct MI350X", "0x75a0")
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


def _vllm() -> None:
    """VLLM finds its platform through amdsmi. Nothing is fetched, and nothing reported."""
    target = os.environ["AITER_PREBUILT_EMULATOR"].partition(",")[0]
    sys.modules["amdsmi"] = amdsmi(target)
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1"}


_PREPARATIONS: Final[Mapping[str, Callable[[], None]]] = {"vllm": _vllm}
