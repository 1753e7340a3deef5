"""Sentences of a report fit 80 columns in a pipe, and keep their names whole."""

from __future__ import annotations

import io

from rich.console import Console

from build_tools.report.lines import say


def _said(text: str) -> list[str]:
    out = io.StringIO()
    say(Console(file=out, width=80), text)
    return out.getvalue().splitlines()


def test_a_long_sentence_is_folded_between_words() -> None:
    text = "module_cache: not served: " + "the host asks the driver for a copy " * 6
    lines = _said(text)
    assert len(lines) > 2 and max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == text.strip()


def test_lines_go_on_with_an_indent_of_four_more() -> None:
    first, second, *_ = _said("  name: " + "word " * 40)
    assert first.startswith("  name: ") and second.startswith("      word")


def test_a_name_longer_than_a_line_stays_whole() -> None:
    name = "aiter.ops.triton.gemm-" + "long-name-" * 10
    assert _said(f"{name} is left out")[0] == name


def test_brackets_are_no_markup() -> None:
    assert _said("fmoe[32x128] has [bold]no caller") == ["fmoe[32x128] has [bold]no caller"]
