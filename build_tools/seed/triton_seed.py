"""Child process: ``python -m build_tools.seed.triton_seed REQUEST.json ANSWER.json`` calls functions of AITER that launch
Triton kernels, and compiles what they would launch.

No GPU is needed: tensors have sizes and no memory (torch's ``meta`` device), Triton's driver names the target, and a launch is
written down. Each kernel that was launched is then compiled, unless the store has it, apart from the others (``child.py``).
Its key is the one that Triton looks for where nobody has set a variable of Triton's: line numbers are not written, since they
hold paths, and the key does not say so.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from aiter_prebuilt.contract.triton_key import CompileInputs, base32, parts_of
from build_tools.compile.backends.child import answer_each
from build_tools.compile.store import Store

#: Packages of AITER's of which only modules below are wanted: their own code imports all of it.
_BARE: Final = ("aiter", "aiter.ops", "aiter.jit", "aiter.utility")
#: AITER's names of element types; its own module of them asks the machine, and has its compiled part loaded.
_TYPES: Final = {
    "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32",
    "u32": "uint32", "i64": "int64", "u64": "uint64", "fp8_e8m0": "float8_e8m0fnu", "fp4x2": "float4_e2m1fn_x2",
}  # fmt: skip


class RefusedError(Exception):
    """A kernel that may not ship; the message is all there is to say."""


class _Driver:
    """Triton's driver where no GPU is: it knows the target, and times nothing."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def is_active(self) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._target

    def get_active_torch_device(self) -> Any:
        return importlib.import_module("torch").device("meta")

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        del device
        return 0

    def get_device_interface(self) -> Any:
        return importlib.import_module("torch").cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def once(call: Callable[[], object], **_: object) -> list[float]:
            call()
            return [1.0, 1.0, 1.0]

        return once


class Launched:
    """The kernels that were launched, each once, in the place of Triton's compiler."""

    def __init__(self, environments: list[dict[str, str]], builds: list[str]) -> None:
        self.found: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {}
        self.aliases: dict[str, list[str]] = {}
        self.now: list[str] = []
        self._environments, self._builds = environments, builds

    def compile(self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None) -> Any:
        """Compile as ``triton.compiler.compile`` does.

        The result is launched, and that is all.
        """
        del _env_vars
        cache: Any = importlib.import_module("triton.runtime.cache")
        backend: Any = importlib.import_module("triton.compiler.compiler").make_backend(target)
        parsed = backend.parse_options(dict(options or {}, **src.parse_options()))
        texts = [cache.get_cache_key(src, backend, parsed, each) for each in ({}, *self._environments)]
        own = cache.triton_key()
        key, *aliases = (
            base32(hashlib.sha256(text.replace(own, build, 1).encode()).hexdigest())
            for build in self._builds
            for text in texts
        )
        self.aliases[key] = aliases
        if key not in self.found:
            self.found[key] = (
                src,
                target,
                dict(options or {}),
                parts_of(CompileInputs(src, backend, parsed, {}), cache),
            )
        self.now.append(key)
        return SimpleNamespace(
            run=lambda *_: None, function=None, packed_metadata=None, launch_metadata=lambda *_: None
        )


def builds_of(own: str, same: list[list[str]]) -> list[str]:
    """List the build strings under which the kernels are the same.

    ``own`` comes first; others differ in the hash of one library. ``same``: groups of such hashes.
    """
    others = [own.replace(here, other) for group in same for here in group if here in own for other in group]
    return list(dict.fromkeys([own, *others]))


def number(build: str) -> str:
    """Return the index's name of a build."""
    return hashlib.sha256(build.encode()).hexdigest()


def prepare(tree: str, target: str, fp8: str, compute_units: int) -> None:
    """Make AITER's Triton modules in ``tree`` importable, on a machine that looks like one with GPUs of ``target``, whose own fp8
    torch calls ``fp8``.
    """
    torch: Any = importlib.import_module("torch")
    os.environ.update(GPU_ARCHS=target, CU_NUM=str(compute_units))
    sys.path[:0] = [tree, f"{tree}/aiter/jit/utils"]
    for name in _BARE:
        module = ModuleType(name)
        module.__path__ = [f"{tree}/{name.replace('.', '/')}"]
        sys.modules[name] = module
        home, _, last = name.rpartition(".")
        if home:
            setattr(sys.modules[home], last, module)
    gpu = SimpleNamespace(
        multi_processor_count=compute_units, gcnArchName=f"{target}:sramecc+:xnack-", name=target, warp_size=64,
        total_memory=1 << 37, major=9, minor=4,
    )  # fmt: skip
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_properties = lambda *_: gpu
    torch.cuda.current_stream = lambda *_: SimpleNamespace(cuda_stream=0)
    torch.cuda.synchronize = lambda *_: None
    types = ModuleType("aiter.utility.dtypes")
    vars(types).update({name: getattr(torch, word, torch.uint8) for name, word in _TYPES.items()})
    vars(types)["fp8"] = getattr(torch, fp8)
    sys.modules[types.__name__] = types
    for home in ("aiter", "aiter.utility"):
        vars(sys.modules[home])["dtypes"] = types


def function_of(modules: list[str], name: str) -> Any:
    """Find the function ``name`` in the first module that has it.

    None where this tree has none.
    """
    for place in modules:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if place != error.name and not place.startswith(f"{error.name}."):
                raise
            continue
        found = getattr(module, name, None)
        if found is not None:
            return found
    return None


def value(given: dict[str, Any]) -> Any:
    """Return an argument of a request."""
    torch: Any = importlib.import_module("torch")
    if "dims" in given:
        kind = getattr(torch, given["dtype"])
        if given["strides"] is None:
            return torch.empty(given["dims"], dtype=kind, device=given["device"])
        return torch.empty_strided(given["dims"], given["strides"], dtype=kind, device=given["device"])
    return getattr(torch, given["type"]) if "type" in given else given["value"]


def call_each(calls: list[dict[str, Any]], launched: Launched) -> list[dict[str, Any]]:
    """Make every call: which kernels it launched, or why it could not be made."""
    rows = []
    for call in calls:
        launched.now = []
        row: dict[str, Any] = {"label": call["label"], "name": call["name"], "error": ""}
        try:
            function = function_of(call["modules"], call["function"])
            if function is None:
                row["error"] = "this tree has no such function"
            else:
                function(
                    *map(value, call["positional"]), **{k: value(v) for k, v in call["keywords"].items()}
                )
        except Exception as error:  # noqa: BLE001 - whatever AITER's function raises is this call's
            row["error"] = f"{type(error).__name__}: {error}"[:600]
        rows.append(row | {"keys": list(dict.fromkeys(launched.now))})
    return rows


def compiled(key: str, launched: Launched, scratch: Path, compile: Callable[..., Any]) -> tuple[bytes, str]:
    """Return a kernel's code object and Triton's metadata.

    They are without this machine's paths.
    """
    src, target, options, _ = launched.found[key]
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        importlib.import_module("triton.knobs").cache.dir = folder
        kernel = compile(src, target=target, options=options)
        told = json.loads(
            next(Path(p) for n, p in kernel.metadata_group.items() if n.endswith(".json")).read_text()
        )
    if any(word in kernel.asm.get("llir", "") for word in ("@__ockl_hostcall", "@__ockl_dm_alloc")):
        raise RefusedError("the kernel prints or allocates on the device, which no kernel that ships may do")
    told["extern_libs"] = [[name, Path(path).name] for name, path in told.get("extern_libs") or []]
    told["hash"] = key
    return bytes(kernel.asm["hsaco"]), json.dumps(told, sort_keys=True)


def main(argv: list[str]) -> int:
    """Do the request."""
    request, answer = json.loads(Path(argv[0]).read_text(encoding="utf-8")), Path(argv[1])
    triton: Any = importlib.import_module("triton")
    compiler: Any = importlib.import_module("triton.compiler")
    importlib.import_module("triton.compiler.code_generator")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("hip", request["target"], 64)
    triton.runtime.driver.set_active(_Driver(target))
    prepare(request["tree"], request["target"], request["fp8"], request["compute_units"])
    cache: Any = importlib.import_module("triton.runtime.cache")
    builds = builds_of(cache.triton_key(), request["same"])
    store, own, launched = (
        Store(Path(request["store"])),
        compiler.compile,
        Launched(request["environments"], builds),
    )
    compiler.compile = launched.compile
    rows = call_each(request["calls"], launched)
    compiler.compile = own
    salt = request["salt"]

    def stored(key: str) -> str:
        return hashlib.sha256(f"{salt}\n{key}".encode()).hexdigest()

    def make(key: str) -> dict[str, Any]:
        started = time.monotonic()
        data, told = compiled(key, launched, answer.parent, own)
        store.put(
            stored(key), data, job=f"bridge {launched.found[key][3]['function']}", symbol=json.loads(told)["name"],
            threads=json.loads(told)["num_warps"] * 64, seconds=time.monotonic() - started, extra={"told": told},
        )  # fmt: skip
        return {"key": key}

    wanted = [key for key in launched.found if store.get(stored(key)) is None]
    answers = answer.with_suffix(".jsonl")
    answer_each(wanted, answers, make, RefusedError, apart=True)
    done = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    failed = {key: row["error"] for key, row in zip(wanted, done, strict=True) if not row["ok"]}
    answer.write_text(
        json.dumps(
            {
                "builds": [
                    {"version": triton.__version__, "key": number(build), "as": number(builds[0])}
                    for build in builds
                ],
                "calls": rows,
                "kernels": {key: stored(key) for key in launched.found if key not in failed},
                "aliases": launched.aliases,
                "parts": {key: launched.found[key][3] for key in launched.found},
                "failed": failed,
                "compiled": len(wanted) - len(failed),
                "seconds": sum(row["seconds"] for row in done),
            },
            sort_keys=True,
        ),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
