"""Memory lies on the device that it was asked for, whichever one the calling thread uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import library_path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, sys, threading
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
driver = device.probe("amd")
first, second = (DeviceMemory(facts, driver.path) for facts in driver.devices)
library = ctypes.CDLL(driver.path)

def place(address):
    number = ctypes.c_int(-1)
    attribute = 9  # HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    assert library.hipPointerGetAttribute(ctypes.byref(number), attribute, ctypes.c_uint64(address)) == 0
    return number.value

def use(found):
    for memory in (second, first, second):
        address = memory.upload(b"abcd")
        found.append((memory.device[1], place(address), memory.download(address, 4)))
        first.synchronize()

found = []
use(found)
thread = threading.Thread(target=use, args=(found,))  # a new thread begins with device 0
thread.start()
thread.join()
for memory in (first, second):
    memory.close()
assert [row[:2] for row in found] == [(1, 1), (0, 0), (1, 1)] * 2, found
assert all(row[2] == b"abcd" for row in found)
print("right")
"""


@pytest.mark.parametrize("devices", ["gfx942,gfx942", "gfx942,gfx950"])
def test_two_devices_and_two_threads(devices: str) -> None:
    settings = {
        "AITER_PREBUILT_HIP": str(library_path()), "AITER_PREBUILT_EMULATOR": devices, "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=kept | settings, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout == "right\n", done.stderr


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_counters_are_written_to_no_pipe(tmp_path: Path, kind: str) -> None:
    """Nobody reads it: the process ends all the same, and says so."""
    place = tmp_path / "counters"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    settings = {"AITER_PREBUILT_EMULATOR_COUNTERS": str(place), "AITER_PREBUILT_EMULATOR_LOG": "error"}
    code = f"import ctypes; ctypes.CDLL({str(library_path())!r}).hipInit(0)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "cannot write" in done.stderr, (done.returncode, done.stderr)
