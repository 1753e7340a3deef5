"""Attention with dropout, on torch of the embedded device, beside float64 with the mask of its random bytes."""

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
def test_dropout_is_that_of_its_bytes(target: str) -> None:
    """Results and gradients, shares of each row, column and head, equal masks for equal states, refusals."""
    library_path()
    (path,) = bundles(target, "ck-free")
    program = Path(__file__).with_name("dropout_program.py")
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(program)],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"),
            "AITER_PREBUILT_EMULATOR": target,
            "AITER_PREBUILT_BUNDLES": str(path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
