"""On a machine with an NVIDIA GPU that has a bundle: the benchmark measures, and its results are right. Elsewhere skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.gpu


def test_every_row_of_decoding_is_right(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip(
        "aiter_prebuilt._native", reason="the runtime wheel is not installed in this environment"
    )
    output = tmp_path / "bench.json"
    words = [str(ROOT / "ci" / "gpu_bench.py"), "ops", "--group", "decode", "--json", str(output)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    document = json.loads(output.read_text())
    assert document["version"] == 1 and document["rows"]
    assert [row["what"] for row in document["rows"] if row["ratio"] == 0.0] == []
    assert done.returncode == (0 if all(row["met"] for row in document["rows"]) else 1), done.stderr
