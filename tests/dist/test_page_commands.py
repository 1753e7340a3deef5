"""Run the commands that the pages print, as printed, where installed wheels and no GPU are enough."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import page_commands
from support.installed import Environment, make_environment

ROOT = Path(__file__).resolve().parents[2]
#: Words of a page that stand for a program of the reader's: any program will do.
STAND_IN = re.compile(r"\bCOMMAND\b|\bpython (?:prog|serve|script|kernels)\.py\b")
#: Verbs that end with 3 where no GPU is: nothing is wrong, and nothing was executed.
NO_GPU = ("doctor", "preload", "verify --execute")
#: Verbs that a page shows on a machine with a GPU.
NEED_DEVICE = ("aiter-prebuilt bench", "aiter-prebuilt tune")
EMULATED = "aiter-prebuilt-emulator run --devices gfx942 -- "


@pytest.fixture(scope="module")
def everything(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment as the pages ask for it, without torch and without AITER."""
    made = make_environment(tmp_path_factory.mktemp("pages"))
    made.install("aiter-prebuilt[gfx942,gfx950,emulator,bridge]", places=(dist,))
    return made


def shell(words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a folder, with nothing of this process's environment but what it needs."""
    return subprocess.run(
        ["/bin/sh", "-c", words],
        cwd=folder,
        env={"HOME": str(folder), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "page"), [*page_commands.runnable("installed")], ids=lambda text: str(text)[:60]
)
def test_command_of_the_wheels_runs_as_printed(
    everything: Environment, dist: Path, tmp_path: Path, words: str, page: str
) -> None:
    typed = STAND_IN.sub("true", words)
    if typed.startswith(NEED_DEVICE):
        typed = EMULATED + typed
    if "FILE.co" in typed:
        typed = re.sub(r"FILE\.co(?:\.\.\.)?", code_object(tmp_path), typed)
    if typed.startswith("pip "):  # the environment has no pip: this process's works on it
        python = everything.folder / "bin" / "python"
        pip = f"{shlex.quote(sys.executable)} -m pip --python {python}"
        # What the other commands need stays installed.
        typed = typed.replace("pip ", f"{pip} ", 1).replace("uninstall -y", "show")
        (tmp_path / "dist").symlink_to(dist)
    done = shell(typed, tmp_path, PATH=f"{everything.folder / 'bin'}:/usr/bin:/bin")
    ours = shlex.join(shlex.split(words)[-3:])
    codes = {0, 3} if any(verb in ours for verb in NO_GPU) and "emulator" not in words else {0}
    if "preload" in words:
        codes = {0, 3}
    assert done.returncode in codes, f"{page}: {words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr, f"{page}: {words}\n{done.stderr[-2000:]}"
    if typed.startswith("aiter-prebuilt "):
        assert [line for line in done.stdout.splitlines() if too_wide(line)] == []


def too_wide(line: str) -> bool:
    """Is a line of more than 80 columns no command to copy and no path?"""
    return len(line) > 80 and not line.startswith("    ") and len(max(line.split(), key=len)) < 60


def code_object(folder: Path) -> str:
    """Write a code object of the build's store to a file, and return its name."""
    for path in sorted((ROOT / "build" / "store" / "objects").rglob("*")):
        # The machine of an AMD GPU, 224, stands at byte 18 of an ELF.
        if path.is_file() and path.read_bytes()[:20][18:] == b"\xe0\x00":
            (folder / "FILE.co").write_bytes(path.read_bytes())
            return "FILE.co"
    pytest.skip("no code object is here: build first")


@pytest.mark.parametrize(
    ("words", "page"), [*page_commands.runnable("checkout")], ids=lambda text: str(text)[:60]
)
def test_command_of_a_checkout_runs_as_printed(tmp_path: Path, words: str, page: str) -> None:
    typed = words.replace("FOLDER", str(tmp_path)).replace("python ", f"{shlex.quote(sys.executable)} ", 1)
    if "new-tree" in typed:
        typed = typed.replace(str(tmp_path), str(tmp_path / "tree"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = shell(f"cd {shlex.quote(str(ROOT))} && {typed}", tmp_path, **environment)
    assert done.returncode == 0, f"{page}: {words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr


def test_other_programs_run_as_printed(tmp_path: Path) -> None:
    for words, page in page_commands.runnable("anywhere"):
        done = shell(words, tmp_path)
        assert done.returncode == 0, f"{page}: {words}\n{done.stderr}"
