"""AITER's own Python in this process, with operators that do nothing: what is left is what its functions cost their caller.

AITER imports the module of an operator by name when ``AITER_JIT_DIR`` is set; a finder of ours answers with modules whose
functions return at once. So nothing is compiled, and neither a GPU nor ROCm is asked. Launches of its Triton kernels are left
out, too. AITER's import wants pandas, einops and psutil in the environment, and Triton.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: Where a client finds a function that is not in the package itself.
_HOMES: Final = {
    "act_mul_and_fp8_group_quant": "aiter.ops.triton.activation",
    "fused_add_rmsnorm_pad": "aiter.ops.triton.fused_add_rmsnorm_pad",
    "fused_moe": "aiter.fused_moe",
    "fused_qk_rope_reshape_and_cache": "aiter.ops.triton.fused_kv_cache",
    "fused_rms_fp8_group_quant": "aiter.ops.triton.fused_fp8_quant",
    "fused_topk": "aiter.fused_moe",
    "gemm_a16w16": "aiter.ops.triton.gemm_a16w16",
    "mla_decode_fwd": "aiter.mla",
    "tgemm": "aiter.tuned_gemm",
    "unified_attention": "aiter.ops.triton.unified_attention",
}
_KINDS: Final = {
    "ActivationType": ("Silu", "Gelu", "Swiglu", "No"),
    "QuantType": ("No", "per_Tensor", "per_Token", "per_1x32", "per_1x128", "per_128x128", "per_256x128", "per_1024x128"),
}  # fmt: skip
#: Operators whose answer AITER's Python computes with.
_ANSWERS: Final[dict[str, Callable[..., Any]]] = {"get_padded_m": lambda rows, *_: rows}
_UNITS: Final = 304
#: AITER asks hipconfig for ROCm's version when it is imported, and rocminfo for the GPU.
_PROGRAMS: Final = {"hipconfig": "echo 7.0.51831-0", "rocminfo": 'echo "  Name: $GPU_ARCHS"'}


class _Kind:
    """A member of an enumeration as pybind11 makes them: it is an int where one is wanted."""

    def __init__(self, value: int, name: str = "") -> None:
        self.value, self.name = value, name

    def __index__(self) -> int:
        return self.value

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        return self.value == getattr(other, "value", other)

    def __hash__(self) -> int:
        return hash(self.value)


def _kinds(names: tuple[str, ...]) -> type[_Kind]:
    made = type("Kind", (_Kind,), {"__doc__": "Members:"})
    for value, name in enumerate(names):
        setattr(made, name, made(value, name))
    return made


class _Module(types.ModuleType):
    """The module of operators ``name``: every one is there, and does nothing."""

    kinds: Final = {name: _kinds(names) for name, names in _KINDS.items()}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        kind = self.kinds.get(name)

        # Each is an object of its own, which carries the word below.
        made: Callable[..., Any] = partial(_ANSWERS.get(name, _nothing) if kind is None else kind)
        made.__doc__ = "Members:"  # AITER then has no types to compare at the first call
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        ours = fullname.startswith("module_")
        return importlib.machinery.ModuleSpec(fullname, self, origin="stub") if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        made = _Module(spec.name)
        made.__file__ = "stub"
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def unpacked(folder: Path) -> Path:
    """The Python side of the pinned tree below ``folder``, or the checkout that ``AITER_DIR`` names."""
    from build_tools.tools.tree import tree_of

    tree = tree_of("aiter", ROOT)
    found = tree.fetched()
    if not tree.pinned:
        return found
    place = folder / "aiter"
    if not place.is_dir():
        with zipfile.ZipFile(next(found.glob("*.whl"))) as wheel:
            names = wheel.namelist()
            wheel.extractall(
                place, [name for name in names if name.startswith(("aiter/", "aiter_meta/csrc/cpp_itfs/"))]
            )
    return place


def load(tree: Path, folder: Path, target: str) -> None:
    """Import AITER from ``tree``, as on a GPU of ``target``; ``folder`` is for what it wants to write.

    Raises:
        Exception: whatever stands in its way.
    """
    programs = folder / "rocm" / "bin"
    for place in (programs, folder / "jit"):
        place.mkdir(parents=True, exist_ok=True)
    for name, line in _PROGRAMS.items():
        path = programs / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    os.environ.update(
        AITER_JIT_DIR=str(folder / "jit"), ROCM_HOME=str(programs.parent), GPU_ARCHS=target, CU_NUM=str(_UNITS),
        HOME=str(folder), AITER_LOG_MORE="0",
    )  # fmt: skip
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    sys.meta_path.insert(0, _Finder())
    meta = tree / "aiter_meta"  # a wheel has what stands at the top of a checkout there
    sys.path[:0] = [str(place) for place in (tree, tree / "aiter" / "jit" / "utils", meta) if place.is_dir()]
    _no_gpu(target)
    importlib.import_module("aiter")
    importlib.import_module("logging").getLogger("aiter").setLevel("ERROR")


def _no_gpu(target: str) -> None:
    """Triton's active driver is one of ``target`` that launches nothing; AITER's dummies for torch are on the processor."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Active:
        def get_current_target(self) -> GPUTarget:
            return GPUTarget("hip", target, 64)

    driver.set_active(Active())
    kernel: Any = JITFunction
    kernel.run = _nothing
    # A product that AITER leaves to torch becomes the allocation of its result.
    products: Any = torch.nn.functional
    products.linear = _product
    device: Any = torch.cuda
    device.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=_UNITS, warp_size=64)
    guard = importlib.import_module("torch_guard")
    original = guard.torch_compile_guard
    vars(guard)["torch_compile_guard"] = lambda *args, **keywords: original(
        *args, **{**keywords, "device": "cpu"}
    )


def _nothing(*args: Any, **keywords: Any) -> None:
    pass


def _product(x: Any, weight: Any, bias: Any = None) -> Any:
    del bias
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def find(name: str) -> Callable[..., Any] | None:
    """AITER's function that a client calls ``name``, or None: this tree has it not."""
    stock = importlib.import_module("aiter")
    if name == "get_hip_quant()":
        found: Callable[..., Any] = stock.get_hip_quant(stock.QuantType.per_1x128)
        return found
    first, *rest = name.split(".")
    try:
        value: Any = getattr(importlib.import_module(_HOMES.get(first, "aiter")), first, None)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("aiter"):
            raise
        return None
    for part in rest:
        value = getattr(value, part, None)
    return value if callable(value) else None


def adapted(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as AITER wants them: its ``fused_moe`` takes members of enumerations alone, ours their numbers, too."""
    if name != "fused_moe":
        return args, keywords
    stock = importlib.import_module("aiter")
    given = list(args)
    named = dict(keywords)
    for place, key, kind in ((6, "activation", stock.ActivationType), (7, "quant_type", stock.QuantType)):
        if key in named:
            named[key] = kind(named[key])
        elif place < len(given):
            given[place] = kind(given[place])
    return tuple(given), named
