"""A child of ``test_face.py``: captures every operator's reference case into a graph, on every device that it has."""

from __future__ import annotations

import ctypes
import json
import math
from typing import Any

import aiter_prebuilt
from aiter_prebuilt import device, dispatch
from aiter_prebuilt.device_memory import DeviceMemory
from aiter_prebuilt.errors import CaptureError
from aiter_prebuilt.execute.cases import Case, cases
from aiter_prebuilt.execute.numbers import decode
from aiter_prebuilt.execute.run import _raw, _size

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


def replay(case: Case, facts: device.DeviceFacts, memory: DeviceMemory) -> dict[str, Any]:
    """Refused, preloaded as the refusal says, captured, launched twice, compared."""
    hip = Hip(memory.library)
    stream = hip.handle("hipStreamCreateWithFlags", 1)
    tensors = [tensor and _raw(tensor, facts, memory) for tensor in case.tensors]
    operator = dispatch.operator(case.operator)

    def call() -> None:
        operator(*tensors, *case.attributes, stream=stream.value)

    empty, said = capture(hip, stream, call)
    hip("hipGraphDestroy", empty)
    before = operator.stats()
    preloaded = eval(said.partition(" call ")[2], {"aiter_prebuilt": aiter_prebuilt}) if said else 0
    loaded = operator.stats()
    graph, again = capture(hip, stream, call)
    captured = operator.stats()
    made = hip.handle("hipGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
    untouched = [
        tensor.values is None and set(memory.download(raw[0], _size(tensor))) <= {0xFF, 0x7F}
        for tensor, raw in zip(case.tensors, tensors, strict=True)
        if tensor and raw and tensor.values is None
    ]
    for _ in range(2):
        hip("hipGraphLaunch", made, stream)
    hip("hipStreamSynchronize", stream)
    now = [
        decode(tensor.kind, memory.download(raw[0], _size(tensor))) if tensor and raw else None
        for tensor, raw in zip(case.tensors, tensors, strict=True)
    ]
    worst = case.check(now)
    return {
        "operator": case.operator, "target": facts.target, "said": said, "preloaded": preloaded, "again": again,
        "loaded_by_preload": loaded["modules_loaded"] - before["modules_loaded"], "launched_by_preload":
        loaded["launches"] - before["launches"], "loaded_by_capture": captured["modules_loaded"] - loaded["modules_loaded"],
        "ran_at_capture": not all(untouched), "error": worst if math.isfinite(worst) else None,
    }  # fmt: skip


def main() -> None:
    """One JSON line for each operator and device."""
    driver = device.probe("amd")
    for facts in driver.devices:
        for case in cases(facts.target):
            memory = DeviceMemory(facts, driver.path)
            print(json.dumps(replay(case, facts, memory)), flush=True)
            memory.close()


if __name__ == "__main__":
    main()
