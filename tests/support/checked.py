"""One launch in a process of its own: the embedded device reads its environment once, and a fault poisons the context."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.assembly import code_object
from support.emulator import VARIABLE, library_path

#: argv: library, code object, bytes of the buffer, workgroups, work items, dynamic LDS. Prints JSON.
_DRIVER = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
size, grid, block, lds = map(int, sys.argv[3:7])
image = open(sys.argv[2], "rb").read()
module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
def call(name, *arguments):
    status = getattr(lib, name)(*arguments)
    assert status == 0, (name, status)
call("hipInit", 0)
call("hipModuleLoadData", ctypes.byref(module), image)
call("hipModuleGetFunction", ctypes.byref(function), module, b"kernel")
call("hipMalloc", ctypes.byref(data), ctypes.c_size_t(size))
words = (ctypes.c_uint32 * (size // 4))(*range(size // 4))
call("hipMemcpy", data, words, ctypes.c_size_t(size), 1)
argument = ctypes.c_void_p(data.value)
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p))
dims = [ctypes.c_uint(v) for v in (grid, 1, 1, block, 1, 1, lds)]
status = lib.hipModuleLaunchKernel(function, *dims, None, arguments, None)
status = status or lib.hipDeviceSynchronize()
if status == 0:
    call("hipMemcpy", words, data, ctypes.c_size_t(size), 2)
print(json.dumps({"status": status, "address": data.value, "words": list(words)}))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``status``: HIP's error code of the launch. ``log``: standard error. ``words``: the buffer afterwards."""

    status: int
    log: str
    words: tuple[int, ...]
    address: int


def launch(
    folder: Path,
    target: str,
    body: str,
    *,
    checks: str = "all",
    known: str = "",
    size: int = 4096,
    grid: int = 1,
    block: int = 64,
    lds: int = 0,
) -> Outcome:
    """Runs ``body`` as a kernel whose argument is a buffer of ``size`` bytes that holds 0, 1, 2, ... as u32."""
    image = folder / "kernel.co"
    image.write_bytes(code_object(target, body, lds))
    environment = {
        **os.environ,
        VARIABLE: str(library_path()),
        "AITER_PREBUILT_EMULATOR": target,
        "AITER_PREBUILT_EMULATOR_CHECKS": checks,
        "AITER_PREBUILT_EMULATOR_KNOWN": known,
        "AITER_PREBUILT_EMULATOR_LOG": "error",
    }
    numbers = [str(number) for number in (size, grid, block, 0)]
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, str(library_path()), str(image), *numbers],
        capture_output=True, text=True, check=False, env=environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return Outcome(answer["status"], done.stderr, tuple(answer["words"]), answer["address"])
