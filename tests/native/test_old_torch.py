"""Whose tensors an operator takes: torch with and without the exchange API, DLPack arrays, NumPy, and no framework at all.

The operators are the shipped ones, executed by the embedded device and checked by values.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "part", ["raw", "numpy", "cupy", "refusals", "old_torch", "new_torch", "old_torch_refusals", "compiled"]
)
def test_frameworks(part: str) -> None:
    """One part of ``native.frameworks``, in a process that has opened nothing yet."""
    needs = {"raw": "ctypes", "cupy": "ctypes", "refusals": "ctypes", "numpy": "numpy"}.get(part, "torch")
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": "gfx942",
        "AITER_PREBUILT_BUNDLES": str(bundles("gfx942", "ck-free")[0]),
    }
    command = [sys.executable, "-m", "native.frameworks", part]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == f"{part}: done\n", done.stdout + done.stderr[-4000:]
