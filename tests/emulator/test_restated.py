"""Calls that are said with other tensors, since no kernel walks theirs, on torch of the embedded device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_same_as_with_dense_tensors(target: str) -> None:
    library_path()
    (path,) = bundles(target, "ck-free")
    done = subprocess.run(
        [
            sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(Path(__file__).with_name("restated_program.py")),
        ],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": target, "AITER_PREBUILT_BUNDLES": str(path),
        },
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
