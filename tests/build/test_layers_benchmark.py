"""``benchmarks/layers.py`` runs and says what it is asked to say. No figure is judged here: that would be a timed test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("torch")


@pytest.mark.parametrize(("model", "calls", "dearest"), [("llama3", 10, 6), ("gptoss", 9, 7)])
def test_the_table_of_a_layer(model: str, calls: int, dearest: int) -> None:
    """Every call of the layer by its name, with launches, and what AITER's costs or why that is not known."""
    assert bundles("gfx942", "ck-free"), "what the benchmark reads is built"
    command = [
        sys.executable,
        str(ROOT / "benchmarks/layers.py"),
        "--model",
        model,
        "--target",
        "gfx942",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    (group,) = {row["group"] for row in rows}
    assert group.startswith(f"{model}, one layer's decode step, gfx942: {calls} calls, ")
    named = [row for row in rows if " launches" in row["note"]]
    assert (
        len(named) == dearest and sum(int((row["what"].split(" x")[1:] or [1])[0]) for row in named) == calls
    )
    assert all("AITER" in row["note"] for row in named), "a figure, or why there is none"
    barred = {row["what"].strip(): row for row in rows if row["bar"] is not None}
    assert set(barred) == {"a call, all of it", "the rest of a call"}
    assert all(row["bar"] == 0.35 and row["value"] > 0 for row in barred.values())
    # A missed bar is said, and is the exit status.
    assert done.returncode == int(any(not row["met"] for row in barred.values()))
