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
from torch.profiler import ProfilerActivity, profile

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("examples", "src")]

MODELS: Final = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
TARGETS: Final = ("gfx942", "gfx950")


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


def allocated(call: Call, machine: Any) -> list[int]:
    """Bytes of each tensor that a call has torch allocate, as torch's profiler sees it, but for workspaces, which the native side
    asks torch for: ``machine`` says how many those are so far, and how large the last.
    """
    before = machine.workspaces()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watch:
        result = call.function(*call.args, **call.keywords)
    events = [
        event.nbytes() for event in watch.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    made = [bytes_ for bytes_ in events if bytes_ > 0]
    for _ in range(machine.workspaces() - before):
        made.remove(machine.workspace_bytes())
    del result
    return made


def allocation(size: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function that has torch allocate so many bytes as a tensor, as the runtime does it, and its arguments."""
    guards: Any = getattr(getattr(vars(torch)["_C"], "_dynamo", None), "guards", None)
    near = getattr(guards, "_empty_strided_cpu", None)
    if near is None:
        return torch.empty_like, (torch.empty(size, dtype=torch.uint8),)
    return near, ((size,), (1,), torch.uint8)
