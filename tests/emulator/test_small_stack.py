"""The embedded device executes on the thread that launches; where its stack is small, on one with room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_smallest_stack_that_python_allows(threads: str) -> None:
    (path,) = bundles("gfx942", "ck-free")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": "gfx942",
        "AITER_PREBUILT_EMULATOR_THREADS": threads,
        "AITER_PREBUILT_BUNDLES": str(path),
    }
    command = [sys.executable, "-m", "emulator.small_stack_program"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr[-4000:]
