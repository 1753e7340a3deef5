"""Gradients of packed sequences of which one holds no finite number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import proof
from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", proof.TARGETS)
def test_a_sequence_of_nan_reaches_no_other_gradient(target: str) -> None:
    (path,) = bundles(target, "ck-free")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": target,
        "AITER_PREBUILT_BUNDLES": str(path),
    }
    command = [sys.executable, "-m", "emulator.poisoned_sequences_program"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr[-4000:]
