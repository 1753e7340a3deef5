"""Which tests execute a line, and how long each takes: coverage.py's contexts, measured once."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from coverage.numbits import numbits_to_nums

#: Suites that run in their own process, so that coverage sees what they execute, and need no built wheels. The native tests
#: come first: they want a process that has opened no driver.
SUITES: Final = ("tests/native", "tests/unit", "tests/build")
_LIMIT: Final = 3600.0
#: What a lot of tests that was stopped is called.
ENDLESS: Final = "did not end"


@dataclass(frozen=True, slots=True)
class Map:
    """File -> line -> tests, the quickest first. ``failing``: tests that fail with nothing changed, so they say nothing here."""

    lines: dict[str, dict[int, list[str]]]
    failing: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, text: str) -> Map:
        """What :meth:`text` wrote."""
        tests, lines, failing = json.loads(text)
        return cls(
            {
                file: {int(line): [tests[number] for number in numbers] for line, numbers in mine.items()}
                for file, mine in lines.items()
            },
            tuple(failing),
        )

    def text(self) -> str:
        """As JSON, each test's name once."""
        numbers: dict[str, int] = {}
        lines = {
            file: {
                line: [numbers.setdefault(name, len(numbers)) for name in tests]
                for line, tests in mine.items()
            }
            for file, mine in self.lines.items()
        }
        return json.dumps([list(numbers), lines, self.failing])

    def tests(self, file: str, line: int) -> list[str]:
        """Those that execute the line; when it only runs at import, those that execute any line of the file. First those of test
        files that are called like the file.
        """
        known = self.lines.get(file, {})
        found = known.get(line)
        if found is None:
            found = list(dict.fromkeys(name for tests in known.values() for name in tests))
        stem = PurePosixPath(file).stem
        return sorted(found, key=lambda name: stem not in name.partition("::")[0])

    def runs(self, file: str, line: int) -> bool:
        """Does any test execute this line, after the import?"""
        return line in self.lines.get(file, {})

    def deselected(self) -> list[str]:
        """Options for whole files of tests."""
        return [f"--deselect={name}" for name in self.failing]


def called_like(copy: Path, file: str) -> list[str]:
    """The files of tests that have the name of this one in theirs."""
    found = (copy / "tests/unit").glob(f"test_*{PurePosixPath(file).stem}*.py")
    return sorted(path.relative_to(copy).as_posix() for path in found)


def environment(copy: Path) -> dict[str, str]:
    """For children in the copy: its sources before everything else, and the packages that this process has."""
    path = os.pathsep.join(
        [str(copy / "src"), str(copy / "tests"), str(copy), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def failed(copy: Path, tests: Sequence[str], limit: float, **settings: str) -> str:
    """Which of ``tests`` fails first in ``copy``, in words; nothing when all pass. ``settings``: of the environment."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "-rfE",
        *tests,
    ]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment(copy) | settings, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return ENDLESS
    if done.returncode == 0:
        return ""
    words = (row for row in done.stdout.splitlines() if row.startswith(("FAILED", "ERROR")))
    return next(words, f"exit {done.returncode}")


def measure(copy: Path, jobs: int, *, lines: bool = True) -> Map:
    """Run the suites once, in ``jobs`` processes, under coverage when ``lines`` are asked for.

    Raises:
        SystemExit: the tests cannot be run at all.
    """
    report = copy / "durations.json"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutate.durations", "-n", str(jobs),
        "--dist", "loadfile", "--no-loadscope-reorder", *SUITES,
    ]  # fmt: skip
    if lines:
        command += [
            "--cov",
            "build_tools",
            "--cov",
            "src/aiter_prebuilt",
            "--cov-context",
            "test",
            "--cov-report",
            "",
        ]
    settings = {**environment(copy), "MUTATE_DURATIONS": str(report)}
    done = subprocess.run(command, cwd=copy, env=settings, capture_output=True, text=True, timeout=_LIMIT)
    if done.returncode not in (0, 1) or not report.is_file():
        raise SystemExit(f"the tests cannot be run before anything is changed:\n{done.stdout[-3000:]}")
    seen = json.loads(report.read_text())
    for name in seen["failed"]:
        print(f"left out, it fails with nothing changed: {name}", flush=True)
    found = read(copy / ".coverage", seen["seconds"], copy) if lines else {}
    return Map(without(found, set(seen["failed"])), tuple(seen["failed"]))


def without(lines: dict[str, dict[int, list[str]]], failing: set[str]) -> dict[str, dict[int, list[str]]]:
    """``lines`` and none of the tests in ``failing``."""
    return {
        file: {line: [name for name in tests if name not in failing] for line, tests in mine.items()}
        for file, mine in lines.items()
    }


def read(database: Path, seconds: dict[str, float], copy: Path) -> dict[str, dict[int, list[str]]]:
    """The lines in coverage's file."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "select file.path, context.context, line_bits.numbits from line_bits"
            " join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
            " where context.context like '%|run'"
        ).fetchall()
    lines: dict[str, dict[int, list[str]]] = {}
    for path, context, bits in rows:
        name = context.removesuffix("|run")
        mine = lines.setdefault(Path(path).relative_to(copy).as_posix(), {})
        for line in numbits_to_nums(bits):
            mine.setdefault(line, []).append(name)
    for mine in lines.values():
        for tests in mine.values():
            tests.sort(key=lambda name: seconds.get(name, 60.0))
    return lines
