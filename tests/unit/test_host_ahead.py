"""The host's compiles beside a build's: both run, both are waited for, and neither outlives a failure."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from build_tools.errors import WheelError
from build_tools.files.run import run
from build_tools.pack import precompile
from build_tools.verbs import build as build_verb

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_both_run_beside_the_work_and_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together, done = threading.Barrier(3), []

    def compiled(root: Path) -> None:
        assert root == tmp_path
        together.wait(60)
        done.append(root)

    monkeypatch.setattr(precompile, "COMPILES", (compiled, compiled))
    with precompile.host_ahead(tmp_path):
        together.wait(60)
    assert done == [tmp_path, tmp_path]


def test_a_compile_that_fails_is_told_after_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(root: Path) -> None:
        raise WheelError("a", "b", "c")

    monkeypatch.setattr(precompile, "COMPILES", (failing, lambda root: None))
    worked = False
    with pytest.raises(WheelError, match="a: b"), precompile.host_ahead(tmp_path):
        worked = True
    assert worked


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_work_that_fails_ends_the_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    started, outcomes = threading.Event(), []

    def long(root: Path) -> None:
        started.set()
        outcomes.append(run(SLEEP))

    monkeypatch.setattr(precompile, "COMPILES", (long,))

    def fails() -> None:
        started.wait(60)
        time.sleep(0.2)
        raise error

    with pytest.raises(error), precompile.host_ahead(tmp_path):
        fails()
    assert not outcomes[0].ok
    assert run([sys.executable, "-c", ""]).ok, "children start again after it"


def test_the_verb_asks_for_it_only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def compiled(root: Path) -> None:
        asked.append(root)
        raise WheelError("compile the runtime", "no compiler", "get one")

    monkeypatch.setattr(precompile, "COMPILES", (compiled,))
    told = CliRunner().invoke(build_verb.build, ["--operator", "no_such_operator"])
    assert told.exit_code and not asked
    told = CliRunner().invoke(build_verb.build, ["--operator", "no_such_operator", "--host"])
    assert told.exit_code and asked
