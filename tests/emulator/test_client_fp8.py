"""The calls of vLLM's ``--quantization fp8``, singly, on torch of the embedded device: ``client_fp8_program.py``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_each_call_beside_float64(tmp_path: Path) -> None:
    library_path()
    paths = [str(path) for target in ("gfx942", "gfx950") for path in bundles(target, "ck-free")]
    program = Path(__file__).with_name("client_fp8_program.py")
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "aiter_prebuilt_emulator.torch", "-q", "-p", "no:cacheprovider", "--noconftest",
            "-c", os.devnull, "--rootdir", str(tmp_path), str(program),
        ],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"),
            "AITER_PREBUILT_EMULATOR": "gfx942,gfx950",
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(paths),
        },
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed and "skipped" not in done.stdout, (
        done.stdout[-6000:] + done.stderr[-2000:]
    )
