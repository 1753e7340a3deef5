"""Names of ``torch.accelerator`` that engines use, and pinned memory that a device sees, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.emulator import library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    library_path()
    program = str(Path(__file__).with_name("torch_memory_program.py"))
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator.torch", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "ci" / "engines" / "stand_in"))),
            "AITER_PREBUILT_EMULATOR": "gfx942:memory=512M,gfx950:memory=2G",
        },
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_accelerator_is_the_emulators_device(told: dict[str, Any]) -> None:
    assert told["device"] == ["cuda", 2, 0] and told["inside"] == [1, "cuda:1"] and told["unchanged"] == 0
    assert told["info"] and told["backend"] == "native"


def test_an_event_of_any_accelerator_is_the_devices(told: dict[str, Any]) -> None:
    """``torch.Event``, which torch's own ``torch.cuda.Event`` is a kind of; one of the processor is torch's."""
    assert told["event"] == [True, True, False, "torch"]


def test_a_peak_outlives_what_made_it(told: dict[str, Any]) -> None:
    assert told["grew"] >= 1 << 20 and told["after"] < told["grew"]
    assert told["peak"] >= told["grew"] and told["stats"] == told["peak"]


def test_pinned_memory_is_seen_by_a_device(told: dict[str, Any]) -> None:
    assert told["shared"] == ["cuda:1", "cpu", [0, 1, 3, 4, 5, 6, 7, 8], False, True]
    assert told["kept"] == [33.0, "cuda:1"] and told["left"] == 0
    assert told["refused"].startswith("only a tensor in pinned memory")


def test_an_engine_is_told_of_the_same_devices(told: dict[str, Any]) -> None:
    assert told["smi"] == [["gfx942", 512 << 20], ["gfx950", 2 << 30]]
