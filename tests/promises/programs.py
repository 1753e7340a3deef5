"""What the processes of these tests start with: calls of operators on the embedded device, and a word on how they ended."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from promises.conftest import ROOT, emulated, environment, python

_START = """
import json, os, struct, sys
from aiter_prebuilt import errors
from aiter_prebuilt.devices import device
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator import memory
from aiter_prebuilt_emulator.memory import DeviceArray

def attempt(work):
    try:
        return ["ran", work()]
    except errors.AiterPrebuiltError as error:
        return [type(error).__name__, str(error), isinstance(error, errors.DriverError)]

def in_child(work):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writer, json.dumps(attempt(work)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.wait()
    return [status, *json.loads(os.fdopen(reader).read() or "[]")]

def softmax(ordinal=0, rows=2, columns=8):
    '''0.125 everywhere: the softmax of equal values.'''
    source = DeviceArray("f32", (rows, columns), struct.pack("<f", 1.0) * rows * columns, ordinal=ordinal)
    out = DeviceArray("f32", (rows, columns), ordinal=ordinal)
    dispatch.operator("softmax")(source.raw, out.raw, stream=0)
    return list(struct.unpack(f"<{rows * columns}f", out.read()))

def say(value):
    print(json.dumps(value), flush=True)
"""


def run(code: str, devices: str = "gfx942", **more: str) -> list[Any]:
    """What ``code`` says, line by line, in a process whose HIP is the embedded device with ``devices``."""
    return lines(code, emulated(devices, AITER_PREBUILT_EMULATOR_LOG="off") | more)


def lines(code: str, variables: dict[str, str]) -> list[Any]:
    """As :func:`run`, with the runtime's variables given."""
    done = process(code, variables)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-3000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def process(code: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The process itself, for who wants to see how it ended."""
    return python(["-c", _START + textwrap.dedent(code)], environment(ROOT / "src", **variables))


def paths(*files: Path) -> str:
    """As ``AITER_PREBUILT_BUNDLES`` takes them."""
    return os.pathsep.join(map(str, files))
