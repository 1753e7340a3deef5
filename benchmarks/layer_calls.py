"""The calls that one layer of a model in ``examples/`` makes in a decode step, recorded as it makes them.

What is recorded is what the client wrote: the function, its arguments by place and by name. Nothing is executed: the driver is a
stub, so that values mean nothing and shapes are all there is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("examples", "src")]

MODELS: Final = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
TARGETS: Final = ("gfx942", "gfx950")
#: Operators of torch that make memory.
_ALLOCATE: Final = (
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "zeros",
    "clone",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the client wrote it. ``name`` is the path below the package (``tgemm.mm``)."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]


class Recorder:
    """Stands where a client has the package: hands every call on, and keeps it."""

    def __init__(self, wrapped: Any, path: str, calls: list[Call]) -> None:
        self._wrapped, self._path, self._calls = wrapped, path, calls

    def __getattr__(self, name: str) -> Any:
        return self._shown(getattr(self._wrapped, name), f"{self._path}.{name}".lstrip("."))

    def _shown(self, found: Any, path: str) -> Any:
        if not callable(found):
            return Recorder(found, path, self._calls)

        def call(*args: Any, **keywords: Any) -> Any:
            self._calls.append(Call(path, found, args, keywords))
            made = found(*args, **keywords)
            return (
                self._shown(made, f"{path}()")
                if callable(made) and not isinstance(made, torch.Tensor)
                else made
            )

        return call


def recorded(model: str) -> list[Call]:
    """The calls of a decode step of the first layer; ``model`` is one of :data:`MODELS`."""
    import aiter_prebuilt

    module: ModuleType = import_module(model)
    step = import_module("step")
    calls: list[Call] = []
    vars(module)["aiter"] = Recorder(aiter_prebuilt, "", calls)
    described = module.MODEL
    random = torch.Generator().manual_seed(0)
    longest = max(described.prompts) + 1
    sequences = step.Sequences(len(described.prompts), longest, described.page)
    layer = described.layer(described.weights(random, 0), sequences.stored, longest)
    sequences.step(described.prompts)  # the prompts are there already
    batch = sequences.step([1] * len(described.prompts))
    tokens = len(described.prompts)
    calls.clear()  # what loading the model took
    layer(described.added(random, tokens), described.states(random, tokens), batch)
    return calls


class _Watch(TorchDispatchMode):
    """Keeps the tensors that torch makes for Python, not those that the native side asks it for."""

    def __init__(self, workspaces: Callable[[], int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch says no types
        self._workspaces, self._before = workspaces, workspaces()
        self.made: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        count = self._workspaces()
        if count == self._before and str(func.__name__).split(".")[0] in _ALLOCATE:
            self.made.append(result)
        self._before = count
        return result


def allocated(call: Call, workspaces: Callable[[], int]) -> list[torch.Tensor]:
    """What a call has torch allocate from Python; ``workspaces`` says how many the native side has asked torch for so far."""
    watch = _Watch(workspaces)
    with watch:
        call.function(*call.args, **call.keywords)
    return watch.made
