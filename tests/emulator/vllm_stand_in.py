"""What vLLM's ``_aiter_ops`` needs that is not AITER: a platform that says it is ROCm, and no compiled module. Its Python files
are the wheel's own, in a folder; nothing else of vLLM is executed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from types import ModuleType
from typing import Any


def put(folder: str, target: str) -> None:
    """Make ``import vllm._aiter_ops`` possible, from ``folder``, on a processor that stands in for ``target``."""
    torch: Any = importlib.import_module("torch")
    sys.path.insert(0, folder)
    sys.modules.setdefault("regex", re)
    platforms = _module(
        "vllm.platforms",
        current_platform=_platform(torch, target),
        vllm_version_matches_substr=lambda part: part == "rocm",
    )
    platforms.__path__ = []
    _module(
        "vllm.platforms.rocm",
        get_cdna_version=lambda: 4 if target == "gfx950" else 3,
        on_gfx950=lambda: target == "gfx950",
        on_gfx942=lambda: target == "gfx942",
        on_mi3xx=lambda: True,
        on_gfx9=lambda: True,
        on_rdna4=lambda: False,
        on_gfx11=lambda: False,
    )
    _module("vllm._custom_ops")
    # Beside its operators around AITER's norms the package has others, for other GPUs.
    kernels = _module("vllm.kernels")
    kernels.__path__ = [f"{folder}/vllm/kernels"]
    # Its logger asks whether this is the first of several processes.
    distributed = _module("vllm.distributed")
    distributed.__path__ = []
    _module("vllm.distributed.parallel_state", is_local_first_rank=lambda: True)
    # vLLM's own kernels for sparse attention, which bring its whole scheduler; they are not AITER's.
    _module(
        "vllm.v1.attention.ops.rocm_aiter_mla_sparse",
        rocm_aiter_sparse_attn_indexer=_indexer(torch),
        rocm_aiter_sparse_attn_indexer_fake=_indexer(torch),
    )


def arm(mode: str) -> None:
    """vLLM's JIT monitor, as a server arms it once it has warmed up: ``error`` makes a compile an error."""
    # A test's Triton has the driver that the test gave it; vLLM counts those that find a GPU, unless none may be seen.
    before = os.environ.get("HIP_VISIBLE_DEVICES")
    os.environ["HIP_VISIBLE_DEVICES"] = ""
    monitor: Any = importlib.import_module("vllm.utils.jit_monitor")
    if before is None:
        del os.environ["HIP_VISIBLE_DEVICES"]
    else:
        os.environ["HIP_VISIBLE_DEVICES"] = before
    assert monitor.HAS_TRITON
    monitor.activate(mode=mode)
    assert monitor.is_active()


def _module(name: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    return made


def _platform(torch: Any, target: str) -> Any:
    class Platform:
        """What is asked of it, by name: another question is an error."""

        dispatch_key = "CPU"

        def is_rocm(self) -> bool:
            return True

        def is_cuda_alike(self) -> bool:
            return True

        def is_pin_memory_available(self) -> bool:
            return False

        def fp8_dtype(self) -> Any:
            return torch.float8_e4m3fn if target == "gfx950" else torch.float8_e4m3fnuz

        def is_fp8_fnuz(self) -> bool:
            return target == "gfx942"

        def import_kernels(self) -> None:
            return None

    return Platform()


def _indexer(torch: Any) -> Any:
    def indexer(topk_indices_buffer: Any, candidate_blocks: Any) -> Any:
        raise NotImplementedError

    indexer.__annotations__ = {
        "topk_indices_buffer": torch.Tensor,
        "candidate_blocks": torch.Tensor,
        "return": None,
    }
    return indexer
