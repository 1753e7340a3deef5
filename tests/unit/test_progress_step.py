"""Steps that cannot be counted: silent while they are fast, lines of their own when they are not."""

from __future__ import annotations

import threading
import time

import pytest

from build_tools.files.progress import step


def test_a_fast_step_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with step("pack a"):
        pass
    assert capsys.readouterr() == ("", "") and threading.active_count() == before


def test_a_slow_step_says_when_it_begins_goes_on_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with step("compile b", patience=0.05, interval=0.05):
        time.sleep(0.4)
    out, err = capsys.readouterr()
    first, *between, last = err.splitlines()
    assert not out and first == "compile b ..." and last.startswith("compile b: 0.") and last.endswith(" s")
    assert between and all(
        line.startswith("compile b ... ") and line.endswith(" s so far") for line in between
    )


def _interrupted() -> None:
    with step("compile c", patience=0.01):
        time.sleep(0.2)
        raise KeyboardInterrupt


def test_a_step_that_fails_does_not_say_that_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    assert capsys.readouterr().err == "compile c ...\n"
