"""Mutants of a C++ file by a small table, compiled, and the suites that belong to the file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from native.conftest import host_compiler, native_sources

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
    """The extension of a copy, compiled again for each mutant, by the compiler that the native tests use."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._folder = copy / "build" / "mutated"
        table = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))
        self._suites: list[tuple[str, list[str]]] = [(row["files"], row["tests"]) for row in table["suite"]]

    def prepare(self) -> None:
        """Compile everything once, so that a mutant compiles one file.

        Raises:
            SystemExit: the sources do not compile without any mutant.
        """
        tools = [f"-DCMAKE_{word}_COMPILER={';'.join(host_compiler(word))}" for word in ("C", "CXX")]
        configure = ["cmake", "-S", str(self._copy), "-B", str(self._folder), "-G", "Ninja", *tools]
        if words := self._ran(configure) or self._compile():
            raise SystemExit(f"{words} before anything is changed")

    def verdict(self, mutant: Mutant, failing: Sequence[str]) -> Verdict:
        """Compile and run the suites, but for the tests in ``failing``."""
        if words := self._compile():
            return Verdict(mutant, True, words, stillborn=True)
        fitting = (tests for files, tests in self._suites if fnmatch(mutant.file, files))
        tests = next(fitting, ["tests/native"])
        left_out = [f"--deselect={name}" for name in failing]
        library = str(self._folder / "_native.abi3.so")
        words = covered.failed(self._copy, [*tests, *left_out], _LIMIT, AITER_PREBUILT_NATIVE=library)
        return Verdict(mutant, bool(words), words or f"{', '.join(tests)} pass")

    def _compile(self) -> str:
        return self._ran(["cmake", "--build", str(self._folder)])

    def _ran(self, command: list[str]) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        settings = covered.environment(self._copy) | native_sources() | {"PATH": path}
        done = subprocess.run(command, env=settings, capture_output=True, text=True)
        return f"does not compile: {done.stderr[-300:] or done.stdout[-1000:]}" if done.returncode else ""
