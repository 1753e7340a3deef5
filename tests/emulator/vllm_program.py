"""vLLM's wrappers around AITER (``vllm._aiter_ops.rocm_aiter_ops`` and the operators that it registers with torch), called on the
embedded device: what ``bridge_program.py ... vllm FOLDER`` reports. FOLDER holds the Python files of vLLM's wheel.

Each call is made while vLLM's own JIT monitor is armed in its error mode, as a server's is after its warm-up.
"""

from __future__ import annotations

import importlib
import time
import traceback
from typing import Any, Final

from emulator import vllm_stand_in
from emulator.client_tools import Tools
from emulator.template_calls import templates
from emulator.vllm_attention import attention, rope
from emulator.vllm_experts import experts, routing
from emulator.vllm_norms import norms
from emulator.vllm_products import layouts, products, quantising

_CALLS: Final = (norms, quantising, products, routing, experts, attention, rope, layouts, templates)


def report(folder: str, target: str, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """What became of each wrapper, or of those in ``only``: ``right``, ``wrong``, or how it ended; and what vLLM thinks."""
    vllm_stand_in.put(folder, target)
    wrappers: Any = importlib.import_module("vllm._aiter_ops").rocm_aiter_ops
    wrappers.register_ops_once()
    vllm_stand_in.arm("error")
    importlib.import_module("vllm.kernels.aiter_ops")
    tools = Tools(target)
    calls = {name: call for each in _CALLS for name, call in each(tools).items()}
    asked = {name: call for name, call in calls.items() if not only or name in only}
    assert asked
    return {
        "calls": {name: _one(call, wrappers) for name, call in asked.items()},
        "registered": _registered(),
        "thinks": _thinks(wrappers),
    }


def _one(call: Any, wrappers: Any) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        problems = call(wrappers)
        told = {"state": "wrong" if problems else "right", "why": "; ".join(problems)}
    except Exception as error:  # noqa: BLE001  # whatever it is, it is told
        frame = traceback.extract_tb(error.__traceback__)[-1]
        told = {
            "state": type(error).__name__,
            "why": f"{error} ({frame.filename.rpartition('/')[2]}:{frame.lineno})"[:400],
        }
    return {**told, "seconds": round(time.perf_counter() - started, 2)}


def _registered() -> list[str]:
    torch: Any = importlib.import_module("torch")
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith(("vllm::", "vllm_aiter::")))


def _thinks(wrappers: Any) -> dict[str, Any]:
    """vLLM asks AITER's signatures what they take, and turns a feature off where they do not say it."""
    asked = (
        "fused_moe_supports_gate_mode", "fused_moe_supports_quant_dtype_a", "topk_softmax_supports_fused_sigmoid",
        "mla_decode_supports_non_causal", "is_enabled", "is_fused_moe_enabled", "is_mla_enabled", "is_mha_enabled",
    )  # fmt: skip
    said: dict[str, Any] = {}
    for name in asked:
        try:
            said[name] = getattr(wrappers, name)()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            said[name] = f"{type(error).__name__}: {error}"[:200]
    module: Any = importlib.import_module("vllm._aiter_ops")
    said["mla_decode_supports_fp8"] = module._check_aiter_mla_fp8_support()
    return said
