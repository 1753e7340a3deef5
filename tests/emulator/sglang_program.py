"""SGLang's layers that call AITER, on the embedded device: what ``bridge_program.py ... sglang FOLDER`` reports. FOLDER holds the
Python files of SGLang's wheel, of which four are executed; whatever else of SGLang they import is stood in for.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from emulator.client_tools import EPS, Calls, Tools

#: What is executed: files that call AITER.
_OWN: Final = (
    "sglang.srt.layers.layernorm",
    "sglang.srt.layers.activation",
    "sglang.srt.layers.quantization.fp8_utils",
    "sglang.srt.layers.rocm_linear_utils",
)


def report(folder: str, target: str) -> dict[str, list[str]]:
    """What is wrong with the result of each call; "not imported" where a file cannot be."""
    torch: Any = importlib.import_module("torch")
    os.environ["SGLANG_USE_AITER"] = "1"
    finder: Any = _Finder(folder, _answers(torch, target))
    sys.meta_path.insert(0, finder)
    said: dict[str, list[str]] = {}
    for name, call in _calls(Tools(target)).items():
        try:
            said[name] = call(None)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            said[name] = [f"{type(error).__name__}: {error}"[:300]]
    return said


def _answers(torch: Any, target: str) -> dict[str, Any]:
    """What SGLang's layers ask of the rest of SGLang, by name; all other questions are answered with no."""

    class Operator(torch.nn.Module):
        """A layer without the choice between its forward methods."""

    def registered(function: Any = None, **_: Any) -> Any:
        return (lambda given: given) if function is None else function

    return {
        "is_hip": lambda: True,
        "is_gfx942_supported": lambda: target == "gfx942",
        "is_gfx95_supported": lambda: target == "gfx950",
        "get_hip_version": lambda: (7, 2, 0),
        "get_bool_env_var": lambda name, default="false": os.environ.get(name, default) in ("1", "true"),
        "BaseFusedOp": Operator,
        "register_custom_op": registered,
        "torch_release": (2, 13),
        "get_device_capability": lambda: (9, 4),
        "smallm_fp8_blockscale_gfx950": SimpleNamespace(try_smallm_fp8_bs_linear=lambda *_: None),
        "fp8_dtype": Tools(target).fp8,
    }


class _No:
    """An answer that is no, however it is asked: called, looked into, or as the base of a class."""

    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> _No:
        return self

    def __getattr__(self, name: str) -> _No:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[_No]:
        return iter(())

    def __or__(self, other: object) -> _No:
        return self

    __ror__ = __or__


class _StandIn(ModuleType):
    """A module of SGLang's that is not executed."""

    answers: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.answers.get(name, _No())


class _Finder:
    """Modules of SGLang's, and of what it needs beside: the listed ones are its files, the others stand-ins."""

    def __init__(self, folder: str, answers: dict[str, Any]) -> None:
        self._folder, self._answers = folder, answers

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """As the import system asks."""
        del path, target
        if name.split(".")[0] not in ("sglang", "sgl_kernel", "transformers"):
            return None
        if name in _OWN:
            return importlib.util.spec_from_file_location(name, f"{self._folder}/{name.replace('.', '/')}.py")
        loader: Any = self
        return ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that answers."""
        made = _StandIn(spec.name)
        made.answers = self._answers
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is executed."""


def _calls(t: Tools) -> Calls:
    torch = t.torch
    x, residual, weight = t.bf16(7, 512), t.bf16(7, 512), t.bf16(512)
    total = (x.float() + residual.float()).bfloat16()

    def norm(_: Any) -> list[str]:
        layer: Any = importlib.import_module(_OWN[0])
        made = layer.RMSNorm(512, eps=EPS)
        made.weight.data = weight
        alone = made.forward_aiter(x.clone())
        out, added = made.forward_aiter(x.clone(), residual.clone())
        return (
            t.far("alone", alone, t.norm(x, weight))
            + t.far("out", out, t.norm(total, weight))
            + t.far("residual", added, total, 2**-8)
        )

    def activation(_: Any) -> list[str]:
        out = importlib.import_module(_OWN[1]).SiluAndMul().forward_aiter(x)
        gate, up = x.double().chunk(2, -1)
        return t.far("out", out, torch.nn.functional.silu(gate) * up)

    def linear(_: Any) -> list[str]:
        layer: Any = importlib.import_module(_OWN[2])
        w, blocks = t.quantised(256, 512), t.scales(2, 4)
        # SGLang puts the weights of gfx950 in AITER's order when it loads them.
        shuffle: Any = importlib.import_module("aiter.ops.shuffle").shuffle_weight
        given = shuffle(w) if t.target == "gfx950" else w
        out = layer.aiter_w8a8_block_fp8_linear(x, given, [128, 128], blocks)
        wide = blocks.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        return t.far("out", out, x.double() @ (w.double() * wide).t(), 0.05)

    def router(_: Any) -> list[str]:
        w = t.bf16(64, 512)
        out = importlib.import_module(_OWN[3]).aiter_dsv3_router_gemm(x, w)
        return t.far("out", out, x.double() @ w.double().t(), 2**-6)

    return {
        "RMSNorm.forward_aiter": norm,
        "SiluAndMul.forward_aiter": activation,
        "aiter_w8a8_block_fp8_linear": linear,
        "aiter_dsv3_router_gemm": router,
    }
