"""Every public function through the embedded device's torch, unpatched, as a user's program calls it: eager and in a graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import repository
from support.emulator import bundles, library_path

pytest.importorskip("torch")

from emulator import composed_calls

import aiter_prebuilt

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950")
#: Every public function.
PUBLIC = {
    name
    for name in aiter_prebuilt.__all__
    if callable(getattr(aiter_prebuilt, name)) and not isinstance(getattr(aiter_prebuilt, name), type)
}
#: Of Composable Kernel alone, and with no instance in the sample that tests have.
NOT_SAMPLED = {
    operator.name
    for family in repository.manifest().families.values()
    for operator in family.operators
    if all(kernel.sets.get("sample") == [] for kernel in operator.kernels)
}


def test_every_function_runs_and_is_right() -> None:
    library_path()
    files = {target: dict.fromkeys(bundles(target, "ck-full")) for target in TARGETS}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_")}
    done = subprocess.run(
        [
            sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(Path(__file__).with_name("functions_program.py")),
            *(f"{target}={path.with_suffix('.calls')}" for target in TARGETS for path in files[target]),
        ],
        env=kept | {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT))),
            "AITER_PREBUILT_EMULATOR": ",".join(TARGETS),
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(str(path) for target in TARGETS for path in files[target]),
        },
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    rows = json.loads(done.stdout.splitlines()[-1])
    wrong = [row for row in rows if row["problems"]]
    assert not wrong, wrong[:8]
    called = {row["operator"] for row in rows}
    assert PUBLIC - called == {*composed_calls.ELSEWHERE} | NOT_SAMPLED, "each of the others has its reason"
    assert not called - PUBLIC
    for name, file in composed_calls.ELSEWHERE.items():
        assert f"ap.{name}(" in (ROOT / file).read_text(encoding="utf-8"), name
    assert {row["way"] for row in rows} == {"first", "again", "captured"}
