"""AITER's ``flash_attn_func`` with lengths of padded batches."""

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
def test_padded_batches(target: str, tmp_path: Path) -> None:
    (path,) = bundles(target, "ck-free")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": target,
        "AITER_PREBUILT_BUNDLES": str(path),
    }
    program = Path(__file__).with_name("padded_batch_program.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "aiter_prebuilt_emulator.torch", "-q", "-p", "no:cacheprovider", "--noconftest",
         "-c", os.devnull, "--rootdir", str(tmp_path), str(program)],
        env=environment, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0 and "26 passed" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
