"""The reference of commands equals the parsers, and each verb has an example that its parser accepts."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import click
import pytest

import aiter_prebuilt.__main__ as runtime
import aiter_prebuilt_emulator.__main__ as emulator
from aiter_prebuilt.commands import VERBS
from build_tools.__main__ import cli
from build_tools.errors import UsageError
from build_tools.generate import command_pages, outputs
from build_tools.verbs.examples import example_of, leaves, problems

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import cli_reference  # noqa: E402

BUILD = dict(leaves(cli))


def test_the_pages_are_generated(tmp_path: Path) -> None:
    assert cli_reference.main([str(tmp_path)]) == 0
    found = {Path(name): (tmp_path / name).read_text() for name in command_pages.PAGES}
    assert found == command_pages.files()
    assert all(outputs.COMMAND in text.partition("\n")[0] for text in found.values())


def test_a_verb_without_an_example_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(BUILD["wheels"], "epilog", None)
    monkeypatch.setattr(BUILD["farm worker"], "epilog", None)
    assert cli_reference.main([str(tmp_path)]) == 1
    worker, wheels = capsys.readouterr().out.splitlines()
    assert worker.startswith(
        "build_tools/verbs/farm.py: the verb 'farm worker' has no example. Write @example("
    )
    assert wheels.startswith("build_tools/verbs/wheels.py: the verb 'wheels' has no example.")
    assert cli.commands["wheels"].get_help(click.Context(cli.commands["wheels"], info_name="wheels"))


def test_a_page_that_cannot_be_written_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print('build_tools/verbs/x.py: no example'); sys.exit(1)")
    monkeypatch.setattr(command_pages, "PROGRAM", str(program))
    with pytest.raises(UsageError, match=r"verbs/x\.py: no example"):
        command_pages.files.__wrapped__()


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
    assert problems(cli) == []
    assert all(str(example_of(command)).startswith(words) for words, command in BUILD.items())


@pytest.mark.parametrize("words", BUILD)
def test_options_of_a_build_example_exist(words: str) -> None:
    command = BUILD[words]
    options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    given = {word for word in shlex.split(str(example_of(command))) if word.startswith("--")}
    assert given - options == set()


def test_every_argument_of_every_verb_has_a_meaning() -> None:
    empty = [
        f"{name}: {row}"
        for name, text in cli_reference.pages().items()
        for row in re.findall(r"^\| `[^`]*` \| *\|$", text, re.MULTILINE)
        if not re.match(r"\| `\[?[A-Z]", row)  # a word in capitals of the verb's own text
    ]
    assert empty == []
