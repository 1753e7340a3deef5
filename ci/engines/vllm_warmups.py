"""Warm-ups of vLLM that import torchvision for models that are not run here. torchvision needs a build of torch of its own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Final

_NAMES: Final = ("minimax_m3_msa_warmup", "qwen_vl_triton_warmup", "step5_dsa_warmup")


def _nothing(*_: object, **__: object) -> None:
    return None


def install() -> None:
    """Put functions that do nothing in their place."""
    for name in _NAMES:
        module = ModuleType(f"vllm.model_executor.warmup.{name}")
        setattr(module, name, _nothing)
        sys.modules[module.__name__] = module
