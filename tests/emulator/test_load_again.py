"""A device without memory for a code object refuses the call; when memory is free again, the same call is served."""

from __future__ import annotations

import subprocess
import sys

from support import proof
from support.emulator import bundles, library_path

_PROGRAM = """
import ctypes, sys
import aiter_prebuilt
from aiter_prebuilt import errors
from aiter_prebuilt.devices import device
library = ctypes.CDLL(sys.argv[1])
def allocated(size):
    out = ctypes.c_uint64()
    assert library.hipMalloc(ctypes.byref(out), ctypes.c_size_t(size)) == 0
    return out.value
given = ("amd", 0)
out, x = allocated(4096), allocated(4096)
tensors = (out, "bf16", (2, 64), None, given), (x, "bf16", (2, 128), None, given)
held = []
for size in (1 << 20, 1 << 16, 4096):
    while True:
        place = ctypes.c_uint64()
        if library.hipMalloc(ctypes.byref(place), ctypes.c_size_t(size)):
            break
        held.append(place.value)
for _ in range(2):
    try:
        aiter_prebuilt.silu_and_mul(*tensors)
        print("served")
    except errors.LoadError as error:
        print("hipErrorOutOfMemory" in str(error) and "refused")
for place in held:
    assert library.hipFree(ctypes.c_uint64(place)) == 0
aiter_prebuilt.silu_and_mul(*tensors)
print("served")
"""


def test_a_kernel_is_loaded_when_memory_is_free_again() -> None:
    library = library_path()
    environment = proof.surroundings(library, bundles("gfx942", "ck-free"), "gfx942:memory=16M")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(library)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["refused", "refused", "served"]
