"""Every command of every page either runs in a test, or is named with the reason why it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import page_commands, sessions
from support.page_commands import NO_COMMANDS, NOT_CHECKOUT, NOT_INSTALLED, NOT_OURS

ROOT = Path(__file__).resolve().parents[2]
REASONS = {**NOT_INSTALLED, **NOT_CHECKOUT, **NOT_OURS}


def test_every_command_of_every_page_runs_here_or_says_why_not() -> None:
    unknown = [
        f"{page}: {line}"
        for line, page in page_commands.commands().items()
        if page_commands.reason(line) is None and not page_commands.place(line)
    ]
    assert unknown == [], "run these in tests/dist/test_page_commands.py, or name a reason"


def test_many_commands_run_and_each_place_has_some() -> None:
    counts = {where: len([*page_commands.runnable(where)]) for where in ("installed", "checkout", "anywhere")}
    assert counts["installed"] >= 25
    assert counts["checkout"] >= 6
    assert counts["anywhere"] == 3


@pytest.mark.parametrize("part", REASONS)
def test_each_reason_is_of_a_command_that_a_page_has(part: str) -> None:
    lines = [page_commands.without_variables(line) for line in page_commands.commands()]
    assert any(part in f"{line} " for line in lines), f"no page has {part!r} any more"


@pytest.mark.parametrize("why", sorted(set(REASONS.values())))
def test_the_test_or_session_that_a_reason_names_exists(why: str) -> None:
    for name in re.findall(r"tests/\S+\.py", why):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"nox -s (\w+)", why):
        assert name in sessions.names(), name


def test_pictures_and_output_are_still_on_their_pages() -> None:
    for name, starts in NO_COMMANDS.items():
        text = (ROOT / name).read_text()
        assert all(f"\n{start}" in text for start in starts), name


def test_a_backslash_joins_lines() -> None:
    assert page_commands.joined("a b \\\n    -c\nd\n") == ["a b -c", "d"]


def test_a_new_command_is_noticed() -> None:
    assert page_commands.reason("python -m build_tools frobnicate") is None
    assert page_commands.place("python -m build_tools frobnicate") == "checkout"
    assert page_commands.reason("make install") is None
    assert page_commands.place("make install") == ""
    assert page_commands.reason("A=1 python serve.py") == NOT_OURS["python serve.py"]
