"""Two HIP runtimes in one process: memory of the one is not handed to the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, sys
import aiter_prebuilt
loaded = [ctypes.CDLL(path) for path in sys.argv[1:]]
for runtime in loaded:
    address = ctypes.c_void_p()
    assert runtime.hipInit(0) == 0 and runtime.hipMalloc(ctypes.byref(address), ctypes.c_size_t(8192)) == 0
    gate_up = (address.value, "bf16", (2, 64), (64, 1), ("amd", 0))
    out = (address.value + 4096, "bf16", (2, 32), (32, 1), ("amd", 0))
    try:
        aiter_prebuilt.silu_and_mul(out, gate_up)
        print("launched", runtime.hipDeviceSynchronize())
    except aiter_prebuilt.errors.ArgumentDeviceError as error:
        print(error)
"""


def test_refuses_memory_of_the_other_runtime(tmp_path: Path) -> None:
    paths = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        paths.append(str(shutil.copy(library_path(), tmp_path / name / "libamdhip64.so")))
    (bundle,) = bundles("gfx942", "ck-free")
    environment = {
        "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": "gfx942", "AITER_PREBUILT_BUNDLES": str(bundle),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths],
        env={key: value for key, value in os.environ.items() if key != "AITER_PREBUILT_HIP"} | environment,
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    launched, refused = done.stdout.splitlines()
    assert launched == "launched 0"
    assert f"has memory of the HIP runtime {paths[1]}, but kernels are launched through {paths[0]}" in refused
