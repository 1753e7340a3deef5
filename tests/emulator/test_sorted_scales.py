"""Rows and MX scales in the order of a mixture's sorted ids, on torch of the embedded device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("sorted_scales_program.py")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_sorted_rows_and_scales_equal_the_host(target: str) -> None:
    library_path()
    (path,) = bundles(target, "ck-free")
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(PROGRAM)],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": target, "AITER_PREBUILT_BUNDLES": str(path),
        },
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "scales are sorted", "codes are made and scales sorted", "rows are smoothed",
    ]  # fmt: skip
