"""Mutants of a C++ file by a small table, compiled, and the suites that belong to the file."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from mutate import covered
from mutate.mutant import Mutant, Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE: Final = Path(__file__).resolve().parent
#: Name, what is replaced, by what. Spaces around an operator tell it from a template's bracket, a pointer and a sign.
TABLE: Final = (
    ("== to !=", r" == ", " != "),
    ("!= to ==", r" != ", " == "),
    ("< to <=", r" < ", " <= "),
    ("<= to <", r" <= ", " < "),
    ("> to >=", r" > ", " >= "),
    (">= to >", r" >= ", " > "),
    ("and to or", r" && ", " || "),
    ("or to and", r" \|\| ", " && "),
    ("no not", r"(?<=[( ])!(?=[a-zA-Z_(])", ""),
    ("+ to -", r" \+ ", " - "),
    ("- to +", r" - ", " + "),
    ("* to +", r" \* (?=[a-z0-9])", " + "),
    ("true to false", r"\breturn true;", "return false;"),
    ("false to true", r"\breturn false;", "return true;"),
    ("0 to 1", r"(?<=[ (])0(?=[;,)])", "1"),
    ("1 to 2", r"(?<=[ (])1(?=[;,)])", "2"),
    ("++ to --", r"\+\+", "--"),
    ("no break", r"\bbreak;", ";"),
)
_LIMIT: Final = 600.0
_SKIPPED: Final = ("//", "#", "static_assert", "template")


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All of a file; preprocessor lines, comments and texts stay."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith(_SKIPPED) or not bare:
            continue
        code = _without_texts(line)
        for name, pattern, new in TABLE:
            for match in re.finditer(pattern, code):
                changed = line[: match.start()] + new + line[match.end() :]
                whole = "".join([*lines[:at], changed, *lines[at + 1 :]])
                yield Mutant(file, name, at + 1, bare, changed.strip(), whole)


def _without_texts(line: str) -> str:
    """The line with texts and a comment blanked, as long as before."""
    blank = re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: '"' + "_" * (len(match[0]) - 2) + '"', line)
    start = blank.find("//")
    return blank if start < 0 else blank[:start] + "_" * (len(blank) - start)


class Native:
    """The extension of a copy, compiled again for each mutant."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        table = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))
        self._suites: list[tuple[str, list[str]]] = [(row["files"], row["tests"]) for row in table["suite"]]

    def prepare(self) -> None:
        """Compile everything once, so that a mutant compiles one file.

        Raises:
            SystemExit: the sources do not compile without any mutant.
        """
        if words := self._compile():
            raise SystemExit(f"{words} before anything is changed")

    def verdict(self, mutant: Mutant) -> Verdict:
        """Compile and run the suites."""
        if words := self._compile():
            return Verdict(mutant, True, words, stillborn=True)
        fitting = (tests for files, tests in self._suites if fnmatch(mutant.file, files))
        tests = next(fitting, ["tests/native"])
        words = covered.failed(self._copy, tests, _LIMIT)
        return Verdict(mutant, bool(words), words or f"{', '.join(tests)} pass")

    def _compile(self) -> str:
        code = (
            "from pathlib import Path; from build_tools.pack.runtime_wheel import compile_extension;"
            " compile_extension(Path.cwd())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self._copy,
            env=covered.environment(self._copy),
            capture_output=True,
            text=True,
        )
        return "" if done.returncode == 0 else "does not compile"
