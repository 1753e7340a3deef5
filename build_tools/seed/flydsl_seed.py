"""Child process: ``python -m build_tools.seed.flydsl_seed REQUEST.json ANSWER.json`` calls functions of AITER that launch FlyDSL
kernels, and keeps what FlyDSL compiles for them.

No GPU is needed: tensors have sizes and no memory (torch's fake ones), and FlyDSL compiles without running (``COMPILE_ONLY``).
AITER is imported as it is, through the bridge, which answers what it asks the machine. Nothing is pickled: of FlyDSL's object the
lowered module's text is kept, which holds no path; its own cache would have the launcher before it was lowered, too, with paths.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from aiter_prebuilt.contract.flydsl_key import build_of, cache_key, parts_of
from aiter_prebuilt_bridge import flydsl_cache, lookup_log, machine
from build_tools.compile.backends.flydsl_compile import write_linker
from build_tools.compile.store import Store

_PREFIXES: Final = ("FLYDSL_", "MLIR_", "LLVM_", "AITER_")
_LEVEL: Final = 9


class Kept:
    """The kernels that FlyDSL compiled, each once, by its key.

    ``now``: the keys of the call that is being made.
    """

    def __init__(self, store: Store, salt: str) -> None:
        self.store, self._salt = store, salt
        self.parts: dict[str, dict[str, Any]] = {}
        self.failed: dict[str, str] = {}
        self.now: list[str] = []
        self.compiled, self.seconds = 0, 0.0

    def stored(self, key: str) -> str:
        """Its name in the store: what is in the key, and the tools beside FlyDSL."""
        return hashlib.sha256(f"{self._salt}\n{key}".encode()).hexdigest()

    def put(self, key: str, artifact: Any, seconds: float) -> None:
        """Keep what was compiled, unless it needs more than its text."""
        self.compiled, self.seconds = self.compiled + 1, self.seconds + seconds
        needs = [
            name
            for name in ("_link_libs", "_post_load_processors", "_uses_explicit_module")
            if getattr(artifact, name)
        ]
        if needs:
            self.failed[key] = f"it needs {', '.join(needs)} of FlyDSL's, which an entry has not"
            return
        data = zlib.compress(artifact.ir.encode(), _LEVEL)
        job = f"bridge {self.parts[key]['function']}"
        self.store.put(
            self.stored(key),
            data,
            job=job,
            symbol=self.parts[key]["function"].rpartition(".")[2],
            threads=0,
            seconds=seconds,
            extra={},
        )


def collecting(jit: Any, kept: Kept) -> type:
    """In the place of FlyDSL's class of a launcher's cache: nothing is written to a folder, and nothing is read from one."""

    class Manager(jit.JitCacheManager):  # type: ignore[misc]
        def load_all(self) -> int:
            return 0

        def get(self, call: str) -> Any:
            asked, key = flydsl_cache.launcher_of_call(jit), cache_key(self.cache_dir.name, call)
            if asked is None or call in self.memory_cache:
                return self.memory_cache.get(call)
            kept.now.append(key)
            kept.parts.setdefault(key, parts_of(asked, jit))
            return flydsl_cache.artifact("", asked) if kept.store.get(kept.stored(key)) else None

        @contextmanager
        def compile_lock(self, call: str, **_: Any) -> Iterator[Any]:
            started = time.monotonic()

            def write(artifact: Any) -> None:
                self.memory_cache[call] = artifact
                kept.put(cache_key(self.cache_dir.name, call), artifact, time.monotonic() - started)

            yield None, write

    return Manager


def prepare(request: dict[str, Any], scratch: Path) -> None:
    """Prepare the environment of a compile for the target.

    AITER can be imported on it.
    """
    for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
        del os.environ[name]
    target, units = request["target"], str(request["compute_units"])
    write_linker(scratch / "rocm", request["linker"])
    os.environ |= {
        "ARCH": target, "FLYDSL_GPU_ARCH": target, "GPU_ARCHS": target, "CU_NUM": units, "COMPILE_ONLY": "1",
        "FLYDSL_RUNTIME_CACHE_DIR": str(scratch / "none"), "ROCM_PATH": str(scratch / "rocm"), "HOME": str(scratch),
        "ZIG_GLOBAL_CACHE_DIR": str(scratch / "zig"), "ZIG_LOCAL_CACHE_DIR": str(scratch / "zig"),
    }  # fmt: skip
    torch: Any = importlib.import_module("torch")
    triton: Any = importlib.import_module("triton")
    gpu = SimpleNamespace(
        multi_processor_count=int(units), gcnArchName=f"{target}:sramecc+:xnack-", name=target, warp_size=64,
        total_memory=1 << 37, major=9, minor=4,
    )  # fmt: skip
    torch.version.hip = "7.0.0"
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.get_device_properties = lambda *_: gpu
    torch.cuda.current_stream = lambda *_, **__: SimpleNamespace(cuda_stream=0)
    torch.cuda.device = _Nothing
    kind = importlib.import_module("triton.backends.compiler").GPUTarget("hip", target, 64)
    triton.runtime.driver.set_active(
        SimpleNamespace(
            is_active=lambda: True, get_current_target=lambda: kind, get_current_device=lambda: 0,
            get_active_torch_device=lambda: torch.device("cpu"),
        )
    )  # fmt: skip
    setattr(machine, "gpus", lambda: (machine.Gpu(target, int(units)),))  # noqa: B010  # a cached function
    sys.path.insert(0, request["tree"])


class _Nothing:
    """``with torch.cuda.device(0):`` where none is."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def value(given: Any) -> Any:
    """Return an argument of a request."""
    torch: Any = importlib.import_module("torch")
    if "dims" in given:
        kind = getattr(torch, given["dtype"])
        if given["strides"] is None:
            return torch.empty(given["dims"], dtype=kind, device="cpu")
        return torch.empty_strided(given["dims"], given["strides"], dtype=kind, device="cpu")
    if "stream" in given:
        return importlib.import_module("flydsl.expr").Stream(given["stream"])
    return getattr(torch, given["type"]) if "type" in given else given["value"]


def call_each(calls: list[dict[str, Any]], kept: Kept, tree: Path) -> list[dict[str, Any]]:
    """Make every call: which kernels it launched, or why it could not be made."""
    fake: Any = importlib.import_module("torch._subclasses.fake_tensor")
    rows = []
    for call in calls:
        kept.now = []
        row: dict[str, Any] = {"label": call["label"], "name": call["name"], "error": ""}
        try:
            make = _tuned(call, tree) if "tuned" in call else _function(call)
            with fake.FakeTensorMode(allow_non_fake_inputs=True):
                make()
        except Exception as error:  # noqa: BLE001  # whatever AITER's function raises is this call's
            row["error"] = f"{type(error).__name__}: {error}"[:600]
        rows.append(row | {"keys": list(dict.fromkeys(kept.now))})
    return rows


def _function(call: dict[str, Any]) -> Callable[[], Any]:
    for place in call["modules"]:
        try:
            found = getattr(importlib.import_module(place), call["function"], None)
        except ModuleNotFoundError as error:
            if place != error.name and not place.startswith(f"{error.name}."):
                raise
            continue
        if found is not None:
            return lambda: found(
                *map(value, call["positional"]), **{k: value(v) for k, v in call["keywords"].items()}
            )
    raise LookupError("this tree has no such function")


def _tuned(call: dict[str, Any], tree: Path) -> Callable[[], None]:
    """Rows of a table of AITER's that name kernels of FlyDSL's, as AITER itself compiles them ahead of time."""
    ahead: Any = importlib.import_module("aiter.aot.flydsl.gemm")
    target = os.environ["ARCH"]
    jobs = [
        job
        for job in ahead.parse_csv(str(tree / "aiter" / "configs" / call["tuned"]))
        if job["gfx"] == target
    ]
    if not jobs:
        raise LookupError(f"{call['tuned']} has no kernel of FlyDSL's for {target}")

    def make() -> None:
        for job in jobs:
            told = ahead.compile_one_config(**job)
            if told.get("compile_time") is None:
                raise RuntimeError(f"{told.get('shape')}: {told.get('error', 'not compiled')}")

    return make


def answer_of(kept: Kept, jit: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the answer that the parent reads.

    The FlyDSL that it was, and of each key its parts and its name in the store, or why it has none.
    """
    build = build_of(jit)
    return {
        "flydsl": {"version": build["version"], "key": build["flydsl"]},
        "calls": rows,
        "kernels": {key: kept.stored(key) for key in kept.parts if key not in kept.failed},
        "parts": kept.parts,
        "failed": kept.failed,
        "compiled": kept.compiled,
        "seconds": kept.seconds,
    }


def main(argv: list[str]) -> int:
    """Do the request."""
    request, answer = json.loads(Path(argv[0]).read_text(encoding="utf-8")), Path(argv[1])
    prepare(request, answer.parent)
    import aiter_prebuilt_bridge_hook as hook

    hook.install()
    lookup_log.LOGGER.setLevel(logging.ERROR)  # each compile would be told
    kept = Kept(Store(Path(request["store"])), request["salt"])
    importlib.import_module("aiter")
    jit: ModuleType = importlib.import_module(flydsl_cache.MODULE)
    setattr(jit, "JitCacheManager", collecting(jit, kept))  # noqa: B010  # FlyDSL's class
    rows = call_each(request["calls"], kept, Path(request["tree"]))
    answer.write_text(json.dumps(answer_of(kept, jit, rows), sort_keys=True), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
