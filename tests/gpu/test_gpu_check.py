"""On a machine with a GPU that has a bundle: the operators against references. Elsewhere skipped, with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.gpu


def test_operators_match_their_references() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU here")
    pytest.importorskip(
        "aiter_prebuilt._native", reason="the runtime wheel is not installed in this environment"
    )
    done = subprocess.run(
        [sys.executable, str(ROOT / "ci" / "gpu_check.py")], capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
