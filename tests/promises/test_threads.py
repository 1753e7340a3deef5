"""32 threads, first use at once, on two devices of the embedded device: every module loaded once, every result right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from promises.conftest import ROOT, emulated, environment, python


@pytest.mark.parametrize("devices", ["gfx942", "gfx942,gfx950", "gfx950,gfx950"])
def test_32_threads_use_kernels_for_the_first_time_at_once(
    extension_path: Path, slow_hip: Path, devices: str
) -> None:
    program = str(Path(__file__).with_name("storm.py"))
    variables = emulated(devices)
    variables |= {"SLOW_HIP": variables["AITER_PREBUILT_HIP"], "AITER_PREBUILT_HIP": str(slow_hip)}
    done = python([program, "32"], environment(ROOT / "src", **variables))
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert not answer["wrong"], answer["wrong"]
    assert answer["loaded"] == answer["different"] >= 4 * len(devices.split(",")), (
        "one load per module and device"
    )
