"""``torch.compile`` on the emulator: public functions are operators of whole graphs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


def test_public_functions_in_whole_graphs(tmp_path: Path) -> None:
    (path,) = bundles("gfx942", "ck-free")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": "gfx942",
        "AITER_PREBUILT_BUNDLES": str(path),
    }
    program = Path(__file__).with_name("torch_compile_program.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "aiter_prebuilt_emulator.torch", "-q", "-p", "no:cacheprovider", "--noconftest",
         "-c", os.devnull, "--rootdir", str(tmp_path), str(program)],
        env=environment, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0 and "13 passed" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
