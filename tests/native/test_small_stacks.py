"""Small stacks, and arguments that call the operator again for ever: both in processes of their own, which a fault would kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from native.conftest import ROOT

#: What a call may take of a stack, Python's and ctypes' part included, beyond an empty Python function on the same thread: the
#: smallest thread that Python makes has 32 KiB, and a thousand calls inside each other, Python's limit, must fit 8 MiB.
MOST = 4096
WAYS = ("raw", "capsule")


def child(native: ModuleType, stub: Path, *words: str) -> list[str]:
    assert native.__file__ is not None
    folders = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-m", "native.stack_meter", words[0], words[1], native.__file__, str(stub)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout.split()


@pytest.mark.parametrize("way", WAYS)
def test_what_a_call_takes(native: ModuleType, stub_path: Path, way: str) -> None:
    found = child(native, stub_path, "measure", way)
    depths = dict(zip(found[::2], map(int, found[1::2]), strict=True))
    assert list(depths) == ["cold", "hit", "miss"] and max(depths.values()) < MOST, depths


@pytest.mark.parametrize("way", WAYS)
def test_the_smallest_stack_that_python_allows(native: ModuleType, stub_path: Path, way: str) -> None:
    assert child(native, stub_path, "small", way) == ["ArgumentDeviceError", "6"]


@pytest.mark.parametrize(
    "way", ["__dlpack__", "__dlpack_device__", "__index__", "__float__", "data_ptr", "__getattr__"]
)
def test_an_argument_that_calls_the_operator_for_ever(native: ModuleType, stub_path: Path, way: str) -> None:
    assert child(native, stub_path, "endless", way) == [
        "RecursionError",
        "cold",
        "RecursionError",
        "warm",
        "2",
    ]
