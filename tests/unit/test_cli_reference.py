"""The reference of commands equals the parsers, and each verb has an example that its parser accepts."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import aiter_prebuilt.__main__ as runtime
import aiter_prebuilt_emulator.__main__ as emulator
from aiter_prebuilt.commands import VERBS
from build_tools.__main__ import cli
from build_tools.verbs.examples import EXAMPLES, leaves

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import cli_reference  # noqa: E402

BUILD = dict(leaves(cli))


def test_pages_equal_the_parsers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_reference.main(["--check"]) == 0, capsys.readouterr().out


def test_a_stale_page_is_named_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cli.md").write_text(cli_reference.pages()["docs/cli.md"] + "more")
    monkeypatch.setattr(cli_reference, "ROOT", tmp_path)
    assert cli_reference.main(["--check"]) == 1
    assert "docs/cli.md is stale. Run: python ci/cli_reference.py" in capsys.readouterr().out
    assert cli_reference.main([]) == 0
    assert cli_reference.main(["--check"]) == 0


def test_every_verb_has_a_section_with_an_example() -> None:
    pages = cli_reference.pages()
    wanted = [f"aiter-prebuilt {verb}" for verb in VERBS]
    wanted += [f"aiter-prebuilt-emulator {verb}" for verb in emulator.build_parser()[1]]
    assert sorted(re.findall(r"^## (.*)$", pages["docs/cli.md"], re.MULTILINE)) == sorted(wanted)
    assert re.findall(r"^## (.*)$", pages["docs/cli-build.md"], re.MULTILINE) == sorted(BUILD)
    for text in pages.values():
        assert len(re.findall(r"^```$", text, re.MULTILINE)) == 2 * len(
            re.findall(r"^## ", text, re.MULTILINE)
        )


@pytest.mark.parametrize("verb", VERBS)
def test_parser_of_the_runtime_accepts_its_example(verb: str) -> None:
    parser, verbs = runtime.build_parser()
    words = shlex.split(str(verbs[verb].epilog).removeprefix("example: "))
    assert words[:2] == ["aiter-prebuilt", verb]
    assert parser.parse_args(words[1:]).verb == verb
    assert f"example: {shlex.join(words)}" in verbs[verb].format_help()


@pytest.mark.parametrize("verb", emulator.EXAMPLES)
def test_parser_of_the_emulator_accepts_its_example(verb: str) -> None:
    words = shlex.split(emulator.EXAMPLES[verb])
    assert words[:2] == ["aiter-prebuilt-emulator", verb]
    assert emulator.build_parser()[0].parse_args(words[1:]).verb == verb


def test_build_examples_are_for_every_verb_and_begin_with_it() -> None:
    assert sorted(EXAMPLES) == sorted(BUILD)
    for words, example in EXAMPLES.items():
        assert example.startswith(words)


@pytest.mark.parametrize("words", EXAMPLES)
def test_options_of_a_build_example_exist(words: str) -> None:
    options = {option for each in BUILD[words].params for option in (*each.opts, *each.secondary_opts)}
    given = {word for word in shlex.split(EXAMPLES[words]) if word.startswith("--")}
    assert given - options == set()


def test_every_argument_of_every_verb_has_a_meaning() -> None:
    empty = [
        f"{name}: {row}"
        for name, text in cli_reference.pages().items()
        for row in re.findall(r"^\| `[^`]*` \| *\|$", text, re.MULTILINE)
        if not re.match(r"\| `\[?[A-Z]", row)  # a word in capitals of the verb's own text
    ]
    assert empty == []
