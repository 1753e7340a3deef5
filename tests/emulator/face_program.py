"""A child of ``test_face.py``: captures a golden call of every operator into a graph, on every device that it has.

Arguments: TARGET=FILE, the golden calls of each target.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from pathlib import Path
from typing import Any

import aiter_prebuilt
from aiter_prebuilt.bundles.opening import decompress
from aiter_prebuilt.contract.calls import Call, read
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import CaptureError
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.explain import explain
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.execute.run import judged, uploaded

GLOBAL, ACTIVE = 0, 1


class Hip:
    """Checked HIP calls on the driver that the runtime opened."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name} answered {status}"

    def handle(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        out = ctypes.c_void_p()
        self(name, ctypes.byref(out), *arguments)
        return out


def capture(hip: Hip, stream: ctypes.c_void_p, call: Any) -> tuple[ctypes.c_void_p, str]:
    """(graph, the error's text or ""): the capture is still alive after an error, and ends well."""
    hip("hipStreamBeginCapture", stream, GLOBAL)
    text, state = "", ctypes.c_int(-1)
    try:
        call()
    except CaptureError as error:
        text = error.fix
    hip("hipStreamIsCapturing", stream, ctypes.byref(state))
    assert state.value == ACTIVE, f"the capture is in state {state.value}"
    graph = ctypes.c_void_p()
    hip("hipStreamEndCapture", stream, ctypes.byref(graph))
    return graph, text


def replay(call: Call, facts: device.DeviceFacts, memory: DeviceMemory) -> dict[str, Any]:
    """Refused, preloaded as the refusal says, captured, launched twice, compared."""
    hip = Hip(memory.library)
    stream = hip.handle("hipStreamCreateWithFlags", 1)
    arguments = {name: uploaded(value, memory) for name, value in call.arguments.items()}
    handed: list[tuple[Any, list[Any], list[Any]]] = []
    function = getattr(aiter_prebuilt, call.operator)
    # A tensor without a framework goes to the default stream, which cannot be captured: the native call gets another one.
    with instead(function, lambda *native: handed.append(native)):
        result = function(**arguments)
    ((operator, tensors, attributes),) = handed
    # Where operands broadcast, the native call gets views, which are no tensors: those that they are of are given or returned.
    results = result if isinstance(result, tuple) else (result,)
    whole = (*tensors, *arguments.values(), *results)
    known = {id(tensor): tensor for tensor in whole if isinstance(tensor, DeviceArray)}
    before = {key: tensor.read() for key, tensor in known.items()}

    def launch() -> None:
        operator(*tensors, *attributes, stream=stream.value)

    empty, said = capture(hip, stream, launch)
    hip("hipGraphDestroy", empty)
    start = operator.stats()
    preloaded = eval(said.partition(" call ")[2], {"aiter_prebuilt": aiter_prebuilt}) if said else 0
    loaded = operator.stats()
    graph, again = capture(hip, stream, launch)
    captured = operator.stats()
    made = hip.handle("hipGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
    ran = any(tensor.read() != before[key] for key, tensor in known.items())
    for _ in range(2):  # each time from the start: some operators write what they read
        for key, tensor in known.items():
            memory.write(tensor.base, before[key])
        hip("hipGraphLaunch", made, stream)
        hip("hipStreamSynchronize", stream)
    worst, problems = judged(call, arguments, result)
    return {
        "operator": call.operator, "target": facts.target, "launches": explain(call, facts.target).launched,
        "said": said, "preloaded": preloaded, "again": again,
        "loaded_by_preload": loaded["modules_loaded"] - start["modules_loaded"], "launched_by_preload":
        loaded["launches"] - start["launches"], "loaded_by_capture": captured["modules_loaded"] - loaded["modules_loaded"],
        "ran_at_capture": ran, "worst": worst if math.isfinite(worst) else None, "problems": problems,
    }  # fmt: skip


def main() -> None:
    """One JSON line for each operator and device."""
    driver = device.probe("amd")
    streams = dict(word.split("=", 1) for word in sys.argv[1:])
    for facts in driver.devices:
        with Path(streams[facts.target]).open("rb") as stream:
            calls = {call.operator: call for call in read(stream, decompress)}
        for call in calls.values():
            memory = DeviceMemory(facts, driver.path)
            print(json.dumps(replay(call, facts, memory)), flush=True)
            memory.close()


if __name__ == "__main__":
    main()
