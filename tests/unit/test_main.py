"""The command line's exits: its own codes, its own words, no traceback."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import click
import pytest

from build_tools import __main__ as main
from build_tools.errors import WheelError
from build_tools.verbs import environment

ROOT = Path(__file__).resolve().parents[2]


def _exit(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["build_tools", *words])
    try:
        main.main()
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (WheelError("pack", "no bundle", "build first"), 12, "error: pack: no bundle. Build first."),
        (click.UsageError("two of them"), 2, "Error: two of them"),
        (
            NotADirectoryError(20, "Not a directory", "README.md"),
            13,
            "error: [Errno 20] Not a directory: 'README.md'",
        ),
        (ModuleNotFoundError("No module named 'rich'", name="rich"), 13, "needs the Python package 'rich'"),
    ],
)
def test_errors(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setitem(main.cli.commands, "failing", failing)
    assert _exit(monkeypatch, "failing") == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "Aborted" not in shown


def test_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit(monkeypatch, "--help") == 0
    assert "report" in capsys.readouterr().out
    assert _exit(monkeypatch, "plam") == 2
    assert "No such command 'plam'" in capsys.readouterr().err
    assert _exit(monkeypatch, "report", "coverage", "--profile", "foo") == 2
    assert "'foo': not a profile" in capsys.readouterr().err


def test_without_its_environment_it_says_the_command_that_makes_it() -> None:
    """No package is there but the standard library's: ``-S`` reads no site-packages."""
    command = [sys.executable, "-S", "-m", "build_tools", "build", "--target", "gfx942"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env={})
    assert done.returncode == 13 and done.stdout == ""
    assert done.stderr.startswith(
        "error: the build needs the Python package 'click', which is not installed. Run: "
    )
    steps = done.stderr.rstrip("\n").partition("Run: ")[2].split(" && ")
    # nox is not there either: the command brings it first.
    assert [step.partition(" ")[2] for step in steps][:2] in (
        ["-m pip install -r build_tools/locks/nox.txt", "-m nox -s toolchain"],
        [
            "-m pip install --user --break-system-packages -r build_tools/locks/nox.txt",
            "-m nox -s toolchain",
        ],
    )
    assert steps[2:] == [".nox/toolchain/bin/python -m build_tools build --target gfx942"]


def test_with_a_part_of_its_environment_it_says_the_command_too(tmp_path: Path) -> None:
    """click came with something else, and rich did not: verbs import rich before they run."""
    (tmp_path / "click").symlink_to(Path(click.__file__).parent)
    command = [sys.executable, "-S", "-m", "build_tools", "plan"]
    found = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=found)
    assert done.returncode == 13 and done.stdout == ""
    assert done.stderr.startswith("error: the build needs the Python package 'rich', which is not installed.")
    assert done.stderr.endswith(".nox/toolchain/bin/python -m build_tools plan\n")


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("build", "interrupted: what was finished is in the store, the next build goes on from there\n"),
        ("report", "interrupted\n"),
    ],
)
def test_only_a_verb_that_compiles_says_that_its_results_are_kept(
    verb: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(main.cli.commands, verb, stopped)
    assert _exit(monkeypatch, verb) == 130
    assert capsys.readouterr().err.lstrip("\n") == said


def test_a_log_hears_of_a_verb_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error is no terminal: `report shapes` said nothing for minutes."""
    monkeypatch.setattr(main, "PATIENCE_IN_A_LOG", 0.05)

    @click.command()
    def slow() -> None:
        time.sleep(0.3)

    monkeypatch.setitem(main.cli.commands, "report", slow)
    assert _exit(monkeypatch, "report") == 0
    shown = capsys.readouterr()
    assert not shown.out and shown.err.startswith("report ...\nreport: 0.")


@pytest.mark.parametrize(
    ("nox", "guarded", "own", "first"),
    [
        (True, True, False, "-m nox -s toolchain"),
        (False, False, False, "-m pip install -r build_tools/locks/nox.txt"),
        (False, True, False, "-m pip install --user --break-system-packages -r build_tools/locks/nox.txt"),
        (False, True, True, "-m pip install -r build_tools/locks/nox.txt"),
    ],
)
def test_the_command_fits_the_machine(
    nox: bool, guarded: bool, own: bool, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian guards its Python against pip; a virtual environment's is free; nox may be there or not."""
    if guarded:
        (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
    monkeypatch.setattr(environment, "find_spec", lambda _name: object() if nox else None)
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "prefix", "/home/me/.venv" if own else "/usr")
    steps = environment.same_verb(["build", "--root", "a b"]).split(" && ")
    assert steps[0].partition(" ")[2] == first
    assert steps[-1] == ".nox/toolchain/bin/python -m build_tools build --root 'a b'"
