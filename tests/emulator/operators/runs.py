"""Start workers and read what they print: the operator tests and the receipts share it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator.operators import worker

ROOT = Path(__file__).resolve().parents[3]
#: (target, profile): ck-full runs what ck-free has not shown.
RUNS = [(target, profile) for target in worker.UNITS for profile in ("ck-free", "ck-full")]


def run(
    library: Path, bundles: Sequence[Path], target: str, profile: str, seed: int
) -> tuple[list[dict[str, Any]], str]:
    """All cases of one run with every check on: (a line per case, what went to standard error)."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "AITER_PREBUILT_HIP": str(library),
        "AITER_PREBUILT_EMULATOR": worker.devices(target),
        "AITER_PREBUILT_EMULATOR_CHECKS": "all",
        "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, bundles)),
    }
    command = [sys.executable, "-m", "emulator.operators.worker", target, profile, str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr
