"""Programs and tests of ``tests/emulator`` in a child whose torch is that of the embedded device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.emulator import bundles, library_path

_ROOT = Path(__file__).resolve().parents[2]
_FOLDER = _ROOT / "tests" / "emulator"
_RUNNER = "aiter_prebuilt_emulator.torch"


def run_program(name: str, *targets: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``tests/emulator/<name>_program.py`` on a device of each target, with the targets' ck-free bundles."""
    return _run(["-m", _RUNNER, str(_file(name))], targets, environment)


def run_tests(name: str, folder: Path, *targets: str, **environment: str) -> str:
    """Run the tests in ``tests/emulator/<name>_program.py`` in the same way: each passes. Returns pytest's last line."""
    words = ["-m", "pytest", "-p", _RUNNER, "-q", "-p", "no:cacheprovider", "--noconftest"]
    done = _run([*words, "-c", os.devnull, "--rootdir", str(folder), str(_file(name))], targets, environment)
    said = done.stdout[-6000:] + done.stderr[-2000:]
    last = (done.stdout.splitlines() or [""])[-1]
    assert done.returncode == 0 and " passed" in last and "skipped" not in last, said
    return last


def _file(name: str) -> Path:
    return _FOLDER / f"{name}_program.py"


def _run(
    words: list[str], targets: tuple[str, ...], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch")
    paths = [str(path) for target in targets for path in bundles(target, "ck-free")]
    settings = {
        "PYTHONPATH": str(_ROOT / "src"),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": ",".join(targets),
        "AITER_PREBUILT_BUNDLES": os.pathsep.join(paths),
    }
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | settings | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
