"""Tab completes verbs, options and the names that are installed, in each shell that has a script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.bundles import small_bundle

from aiter_prebuilt.__main__ import main
from aiter_prebuilt.commands import VERBS, completion

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def one_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gfx942-ck-free.apb").write_bytes(small_bundle()[0])
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ([""], sorted(VERBS)),
        (["do"], ["doctor"]),
        (["--v"], ["--version"]),
        (["list", "--ta"], ["--target"]),
        (["list", "--js"], ["--json"]),
        (["list", "--target", ""], ["gfx942"]),
        (["explain", "on"], ["once"]),
        (["explain", "once", ""], []),
        (["list", "--operator", "o"], ["once"]),
        (["coverage", "--model", "ll"], ["llama3"]),
        (["coverage", "--engine", ""], ["sglang", "vllm"]),
        (["bridge", ""], ["folder", "status"]),
        (["completion", "f"], ["fish"]),
        (["nonsense", ""], []),
    ],
)  # fmt: skip
def test_what_a_word_may_become(
    typed: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "words", *typed]) == 0
    words = capsys.readouterr().out.split()
    assert [word for word in words if not word.startswith("--") or typed[-1]] == found


def test_a_damaged_bundle_completes_nothing(one_bundle: Path) -> None:
    (one_bundle / "gfx950-ck-free.apb").write_bytes(b"")
    assert completion.candidates(["explain", ""]) == ["once", "twice"]


def program(folder: Path) -> dict[str, str]:
    """An environment with the command on its path."""
    file = folder / "bin" / "aiter-prebuilt"
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -m aiter_prebuilt "$@"\n')
    file.chmod(0o755)
    path = f"{file.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(("typed", "found"), [(["do"], ["doctor"]), (["list", "--target", "gf"], ["gfx942"])])
def test_bash_completes(typed: list[str], found: list[str], tmp_path: Path) -> None:
    words = " ".join(json.dumps(word) for word in ["aiter-prebuilt", *typed])
    script = (
        f'eval "$(aiter-prebuilt completion bash)"\nCOMP_WORDS=({words})\nCOMP_CWORD={len(typed)}\n'
        "_aiter_prebuilt\nprintf '%s\\n' \"${COMPREPLY[@]}\"\ncomplete -p aiter-prebuilt\n"
    )
    done = subprocess.run(
        ["bash", "-c", script], env=program(tmp_path), capture_output=True, text=True, check=True
    )
    *shown, registered = done.stdout.splitlines()
    assert shown == found and "_aiter_prebuilt" in registered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "aiter-prebuilt completion words" in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} to read it")
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
