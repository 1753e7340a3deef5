"""One measurement of the bridge in a fresh process; prints a JSON object. ``bridge.py`` runs it.

The first one runs isolated, in an interpreter that has loaded nothing: nothing is imported here that it would have to pay for.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HERE = __file__.rpartition("/")[0]
_SRC = f"{_HERE}/../src"
_ASKED = 10_000


def sample_start(line: str) -> dict[str, Any]:
    """Milliseconds of the line that each start of Python executes, what it imports, and nanoseconds of one question."""
    import os  # noqa: F401  # site, which is off here, has imported it before it reads any .pth

    before = set(sys.modules)
    start = time.perf_counter()
    exec(line)  # noqa: S102  # as site does
    spent = time.perf_counter() - start
    tops = {name.split(".")[0] for name in set(sys.modules) - before}
    find = sys.meta_path[0].find_spec
    begin = time.perf_counter()
    for _ in range(_ASKED):
        find("some_package.some_module", None)
    asked = (time.perf_counter() - begin) / _ASKED
    return {"ms": spent * 1e3, "others": sorted(tops - {"aiter_prebuilt_bridge_hook"}), "ask_ns": asked * 1e9}


def sample_folder(place: str) -> dict[str, Any]:
    """Write AITER's first module, as an image that was built with it has it, so that no bridge is needed to import AITER."""
    from pathlib import Path

    Path(place, "build").mkdir(parents=True, exist_ok=True)
    text = "from aiter_prebuilt_bridge.core import fill\nfill(globals())\n"
    for name in ("core", "enum"):
        Path(place, f"module_aiter_{name}.py").write_text(text)
    activation = (
        "from aiter_prebuilt_bridge.folder import fill\n"
        "fill(globals(), {'silu_and_mul': 'silu_and_mul'}, '')\n"
    )
    Path(place, "module_activation.py").write_text(activation)
    return {}


def _ready() -> Any:
    """Torch, and a Triton driver: what AITER finds on a machine with a GPU."""
    import importlib

    torch = importlib.import_module("torch")
    triton = importlib.import_module("triton")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("hip", "gfx942", 64)
    names = {"is_active": lambda _: True, "get_current_target": lambda _: target}
    names |= {"get_active_torch_device": lambda _: torch.device("cpu"), "get_current_device": lambda _: 0}
    triton.runtime.driver.set_active(type("Driver", (), names)())
    importlib.import_module("pandas")
    sys.modules["flydsl"] = None  # type: ignore[assignment]  # another version than AITER's breaks its import
    return torch


def sample_import() -> dict[str, Any]:
    """Seconds of ``import aiter``."""
    import importlib
    import os

    import aiter_prebuilt_bridge_hook as hook

    _ready()
    sys.path.insert(0, os.environ["TREE"])
    start = time.perf_counter()
    hook.install()
    importlib.import_module("aiter")
    return {"s": time.perf_counter() - start}


def sample_calls(stub: str, exchange: str) -> dict[str, float]:
    """Nanoseconds of a call through each path, above an empty one."""
    import importlib
    import os

    del stub
    torch = _ready()
    import host_cost

    host_cost.rebadge(exchange)
    import aiter_prebuilt_bridge_hook as hook

    sys.path.insert(0, os.environ["TREE"])
    hook.install()
    aiter: Any = importlib.import_module("aiter")  # noqa: A001  # its own name
    import aiter_prebuilt

    out, x, weight = (
        torch.zeros(*shape, dtype=torch.bfloat16) for shape in ((16, 4096), (16, 8192), (8192,))
    )
    pairs = (out, x)
    with torch.inference_mode():
        calls: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "an empty Python call": (lambda *_: None, pairs),
            "ours: silu_and_mul": (aiter_prebuilt.silu_and_mul, pairs),
            "aiter.silu_and_mul": (aiter.silu_and_mul, pairs),
            "torch.ops.aiter.silu_and_mul": (torch.ops.aiter.silu_and_mul, pairs),
            "ours: rms_norm": (aiter_prebuilt.rms_norm, (x, weight, 1e-6)),
            "aiter.rms_norm": (aiter.rms_norm, (x, weight, 1e-6)),
        }
        found = {name: _middle(call, arguments) for name, (call, arguments) in calls.items()}
    empty = found.pop("an empty Python call")
    return {name: spent - empty for name, spent in found.items()}


def sample_own(exchange: str) -> dict[str, float | None]:
    """The same through AITER's own stub, whose module is ours in AITER_JIT_DIR; None where it asks torch.cuda for a stream."""
    import importlib
    import os

    torch = _ready()
    import host_cost

    host_cost.rebadge(exchange)
    sys.path.insert(0, os.environ["TREE"])
    aiter: Any = importlib.import_module("aiter")  # noqa: A001  # its own name
    pairs = (torch.zeros(16, 4096, dtype=torch.bfloat16), torch.zeros(16, 8192, dtype=torch.bfloat16))
    try:
        with torch.inference_mode():
            return {"ns": _middle(aiter.silu_and_mul, pairs) - _middle(lambda *_: None, pairs)}
    except AssertionError:
        return {"ns": None}


def _middle(call: Any, arguments: tuple[Any, ...], samples: int = 31, times: int = 1000) -> float:
    spent = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(times):
            call(*arguments)
        spent.append((time.perf_counter() - start) / times * 1e9)
    return sorted(spent)[samples // 2]


if __name__ == "__main__":
    sys.path.insert(0, _SRC)
    sys.path.append(_HERE)
    function, *words = sys.argv[1:]
    result = globals()[f"sample_{function}"](*words)
    import json
    import os

    print(json.dumps(result), flush=True)
    os._exit(0)  # trees before torch 2.13 break its cleaning up
