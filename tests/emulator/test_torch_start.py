"""``aiter-prebuilt-emulator run --torch``: the devices are there in each Python that a program starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import library_path

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(__file__).with_name("torch_start_program.py"))


def run(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    library_path()
    places = [str(ROOT / "src"), *([str(path)] if path else [])]
    command = [
        sys.executable,
        "-m",
        "aiter_prebuilt_emulator",
        "run",
        "--devices",
        "gfx942,gfx950",
        "--torch",
        "--",
        *words,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_children_have_the_devices_too_and_a_hidden_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("HIDDEN = 'ran'\n")
    done = run(sys.executable, PROGRAM, path=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "here": 2, "spawned": 2, "shell": "cuda:0", "hidden": "ran",
    }  # fmt: skip


def test_a_python_without_the_emulator_keeps_its_torch(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("cuda = None\n")
    # -I reads no PYTHONPATH: the folder of the hook alone is on the path, as in an environment that has no emulator.
    start = ROOT / "src" / "aiter_prebuilt_emulator" / "torch_start"
    line = f"import sys; sys.path[:0] = [{str(start)!r}, {str(tmp_path)!r}]; import sitecustomize, torch; print(torch.cuda)"
    done = subprocess.run([sys.executable, "-I", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
