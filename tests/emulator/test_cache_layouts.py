"""Caches as vLLM lays them out, several heads of keys in a latent cache, scales without dims: whole functions on torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


def test_caches_as_clients_lay_them_out() -> None:
    library_path()
    (path,) = bundles("gfx942", "ck-free")
    program = Path(__file__).with_name("cache_layouts_program.py")
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(program)],
        env=os.environ
        | {"PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": "gfx942", "AITER_PREBUILT_BUNDLES": str(path)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-3000:]
