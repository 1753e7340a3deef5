"""Run the commands that the pages print, as printed, where installed wheels and no GPU are enough."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.installed import Environment, make_environment

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import pages  # noqa: E402

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Words of a page that stand for a program of the reader's: any program will do.
STAND_IN = re.compile(r"\bCOMMAND\b|\bpython (?:prog|serve|script)\.py\b")
PROGRAMS = ("aiter-prebuilt", "aiter-prebuilt-emulator")
#: Commands of ours that cannot run here, and why.
NOT_HERE = {
    "aiter-prebuilt bridge folder FOLDER": "needs AITER; tests/unit/test_bridge_folder.py",
    "aiter-prebuilt verify --release": "needs a signed release; tests/unit/test_release.py",
    "aiter-prebuilt verify --key": "needs signed bundles; tests/native/test_signed.py",
    "aiter-prebuilt-emulator debug": "waits for a person; tests/emulator/test_debugger.py",
    "-- aiter-prebuilt verify --execute": "minutes; nox -s demo runs it",
    "-m aiter_prebuilt_emulator.torch": "needs torch; tests/emulator/test_torch_bridge.py",
}
#: Verbs that end with 2 where no GPU is: nothing is wrong, and nothing was executed.
NO_GPU = ("doctor", "preload", "verify --execute")


def commands() -> dict[str, str]:
    """Return each command of ours on a page, without its comment, with the page that has it."""
    found: dict[str, str] = {}
    for name in pages.pages(pages.MEASURED):
        for language, block in BLOCK.findall((ROOT / name).read_text()):
            for line in block.splitlines() if not language else ():
                words = re.sub(r"\s+#.*", "", line).strip()
                if program_of(words) in PROGRAMS:
                    found.setdefault(words, name)
    return found


def program_of(words: str) -> str:
    """Return the first word that sets no variable."""
    return next((word for word in words.split() if not re.match(r"[A-Z_]+=", word)), "")


def runnable() -> Iterator[tuple[str, str]]:
    """Yield each command that can run here, with its page."""
    for words, page in commands().items():
        if not any(part in words for part in NOT_HERE):
            yield words, page


@pytest.fixture(scope="module")
def everything(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment as the pages ask for it, without torch and without AITER."""
    made = make_environment(tmp_path_factory.mktemp("pages"))
    made.install("aiter-prebuilt[gfx942,gfx950,emulator,bridge]", places=(dist,))
    return made


def test_pages_have_commands_and_each_exception_is_needed() -> None:
    assert len(list(runnable())) >= 10
    for part in NOT_HERE:
        assert any(part in words for words in commands()), f"no page has {part!r} any more"


@pytest.mark.parametrize(("words", "page"), [*runnable()], ids=lambda text: str(text)[:60])
def test_command_runs_as_printed(everything: Environment, tmp_path: Path, words: str, page: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", STAND_IN.sub("true", words)],
        cwd=tmp_path,
        env={
            "PATH": f"{everything.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    ours = shlex.join(shlex.split(words)[-3:])
    codes = {0, 2} if any(verb in ours for verb in NO_GPU) and "emulator" not in words else {0}
    assert done.returncode in codes, f"{page}: {words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr, f"{page}: {words}\n{done.stderr[-2000:]}"
