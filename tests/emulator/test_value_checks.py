"""``AITER_PREBUILT_CHECK=1`` with whole functions on torch of the embedded device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("check", "code"), [("1", 0), ("0", 1)])
def test_an_index_map_is_no_mask(check: str, code: int) -> None:
    library_path()
    (path,) = bundles("gfx942", "ck-free")
    done = subprocess.run(
        [
            sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(Path(__file__).with_name("value_checks_program.py")),
        ],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": "gfx942", "AITER_PREBUILT_BUNDLES": str(path),
            "AITER_PREBUILT_CHECK": check,
        },
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr[-3000:]
    if check == "1":
        assert done.stdout == (
            "fused_moe(expert_mask=...): element 0 is -1. It must be 0 or 1, with 2 ones (found by AITER_PREBUILT_CHECK=1).\n"
        )
