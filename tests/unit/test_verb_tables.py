"""Tables of ``python -m build_tools`` in a pipe: 80 columns where all words fit, and no word in two."""

from __future__ import annotations

import pytest

from build_tools.verbs.output import print_table

NAME = "gfx942-ck-free.tree.apb"
COLUMNS = [
    "file",
    "entries",
    "code objects",
    "raw KiB",
    "KiB",
    "ratio",
    "core seconds",
    "with MiB",
    "not proved",
]


def test_words_that_fit_80_columns_are_wrapped_within_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("calls", ["call", "why"], [("a", "no kernel takes it, since the width is odd " * 4)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5 and max(map(len, lines)) <= 80


def test_a_name_stays_whole_where_80_columns_do_not_fit_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("bundles", COLUMNS, [(NAME, 2, 2, 10, 3, "3.6x", 0, 83, "")])
    lines = capsys.readouterr().out.splitlines()
    assert sum(NAME in line for line in lines) == 1 and max(map(len, lines)) <= 120
    print_table("tools", ["from", "sha256"], [("/site-packages/" * 5, "7c61" * 16)])
    lines = capsys.readouterr().out.splitlines()
    assert any("7c61" * 16 in line for line in lines) and max(map(len, lines)) <= 160
