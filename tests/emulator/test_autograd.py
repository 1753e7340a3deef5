"""Attention with gradients by torch's engine, on torch of the embedded device, beside autograd in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import proof
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", proof.TARGETS)
@pytest.mark.parametrize("checked", [False, True])
def test_gradients_are_those_of_float64(target: str, checked: bool) -> None:
    """Also where values are looked at before each launch."""
    library_path()
    (path,) = bundles(target, "ck-free")
    program = Path(__file__).with_name("autograd_program.py")
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(program)],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": target, "AITER_PREBUILT_BUNDLES": str(path),
        }
        | ({"AITER_PREBUILT_CHECK": "1"} if checked else {}),
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
