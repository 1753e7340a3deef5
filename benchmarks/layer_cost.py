"""What each call of one layer's decode step costs on the host, ours and AITER's, on a stub driver.

Run by ``layers.py`` in a process of its own for each model and target. Prints JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import layer_calls
import stock_aiter
from host_cost import rebadge
from layer_calls import Call
from rows import middle

SAMPLES: Final = 21
CALLS: Final = 200
WARM: Final = 2
Loop = Callable[[range], int]
_CLOCK: Final = time.thread_time_ns


def loop(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Loop:
    """Nanoseconds of so many calls, as a client writes them: arguments by place and by name, nothing unpacked."""
    names = [f"a{place}" for place in range(len(args))]
    written = ", ".join((*names, *(f"{key}=k_{key}" for key in keywords)))
    given = ", ".join(("f", *names, *(f"k_{key}" for key in keywords)))
    source = (
        f"def make({given}):\n"
        f"    def run(times):\n"
        f"        start = clock()\n"
        f"        for _ in times:\n"
        f"            f({written})\n"
        f"        return clock() - start\n"
        f"    return run\n"
    )
    space: dict[str, Any] = {"clock": _CLOCK}
    exec(compile(source, "<loop>", "exec"), space)  # noqa: S102  # the source is made above
    made: Loop = space["make"](function, *args, **{f"k_{key}": value for key, value in keywords.items()})
    return made


def empty(args: tuple[Any, ...], keywords: dict[str, Any]) -> Loop:
    """The same of a function that does nothing with as many arguments."""
    names = ", ".join((*(f"a{place}" for place in range(len(args))), *keywords))
    space: dict[str, Any] = {}
    exec(f"def nothing({names}): pass", space)  # noqa: S102  # names of parameters
    return loop(space["nothing"], args, keywords)


def medians(loops: dict[str, Loop]) -> dict[str, float]:
    """Nanoseconds of one call of each, samples interleaved, so that a busy moment hits all alike."""
    times = range(CALLS)
    samples: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(SAMPLES + WARM):
        for name, run in loops.items():
            spent = run(times)
            if turn >= WARM:
                samples[name].append(spent / CALLS)
    return {name: middle(values) for name, values in samples.items()}


class Machine:
    """The stub driver and torch's table, as this process sees them."""

    def __init__(self, stub: str, exchange: str, target: str) -> None:
        self._driver = ctypes.CDLL(stub)
        self._driver.stub_set_arch(f"{target}:sramecc+:xnack-".encode())
        self._torch = rebadge(exchange)
        for name in ("workspaces_made", "last_workspace", "allocate_workspaces"):
            getattr(self._torch, name).restype = ctypes.c_int64
        self._torch.allocate_workspaces.argtypes = [ctypes.c_int64, ctypes.c_int]
        # A tensor on the processor has no ordinal that says what device it is on: it says so itself.
        setattr(torch.Tensor, "target", target)  # noqa: B010  # torch's types know no such attribute

    def counts(self) -> tuple[int, int]:
        """Launches and workspaces so far."""
        return int(self._driver.stub_launches()), self.workspaces()

    def workspaces(self) -> int:
        """So far."""
        return int(self._torch.workspaces_made())

    def workspace_bytes(self) -> int:
        """What torch allocates for one like the last."""
        return int(self._torch.last_workspace()) + 256  # as rebadge.c does

    def workspace_cost(self) -> float:
        """Nanoseconds of one like the last, made and given back by torch's allocator from C."""
        size = self._torch.last_workspace()
        return middle(float(self._torch.allocate_workspaces(size, CALLS)) for _ in range(SAMPLES))


def ours(call: Call, machine: Machine) -> dict[str, Any]:
    """What one call of ours is made of."""
    call.function(*call.args, **call.keywords)
    before = machine.counts()
    call.function(*call.args, **call.keywords)
    launches, workspaces = (now - then for now, then in zip(machine.counts(), before, strict=True))
    made = layer_calls.allocated(call, machine)
    loops = {"empty": empty(call.args, call.keywords), "ours": loop(call.function, call.args, call.keywords)}
    loops |= {f"made {place}": loop(*layer_calls.allocation(size), {}) for place, size in enumerate(made)}
    found = medians(loops)
    allocations = sum(ns for name, ns in found.items() if name.startswith("made"))
    if workspaces:
        allocations += workspaces * machine.workspace_cost()
    return {
        "name": call.name, "launches": launches, "allocations": len(made) + workspaces,
        "ns": found["ours"] - found["empty"], "allocating_ns": allocations,
    }  # fmt: skip


def theirs(call: Call) -> dict[str, Any]:
    """The same call of AITER's, or why there is no figure."""
    try:
        function = stock_aiter.find(call.name)
        if function is None:
            return {"aiter_ns": None, "aiter_note": "not in this tree of AITER"}
        args, keywords = stock_aiter.adapted(call.name, call.args, call.keywords)
        function(*args, **keywords)
        loops = {"empty": empty(args, keywords), "aiter": loop(function, args, keywords)}
        found = medians(loops)
    except FileNotFoundError:
        return {"aiter_ns": None, "aiter_note": "AITER compiles C++ for it (cpp_itfs), which is left out"}
    except Exception as error:  # noqa: BLE001  # whatever AITER raises is the answer
        said = (str(error).splitlines() or [""])[0]
        return {"aiter_ns": None, "aiter_note": f"AITER: {type(error).__name__}: {said}"[:110]}
    return {"aiter_ns": found["aiter"] - found["empty"], "aiter_note": ""}


def main() -> int:
    words = SimpleNamespace(**json.loads(sys.argv[1]))
    machine = Machine(words.stub, words.exchange, words.target)
    torch.set_grad_enabled(False)
    with torch.inference_mode():
        calls = layer_calls.recorded(words.model)
        found = [ours(call, machine) for call in calls]
        missing = ""
        if words.aiter:
            try:
                stock_aiter.load(Path(words.aiter), Path(words.scratch), words.target)
            except Exception as error:  # noqa: BLE001  # an import that is AITER's
                missing = f"AITER was not imported: {type(error).__name__}: {error}"
        for row, call in zip(found, calls, strict=True):
            unknown = {"aiter_ns": None, "aiter_note": missing or "AITER was not asked for"}
            row.update(unknown if missing or not words.aiter else theirs(call))
    print(json.dumps(found), flush=True)
    os._exit(0)  # torch.library of some versions cannot take AITER's operators back


if __name__ == "__main__":
    sys.exit(main())
