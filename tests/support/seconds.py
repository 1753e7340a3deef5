"""Record how long each test file takes, and choose the fastest ones for ``nox -s quick``.

``pytest --record-seconds`` writes the file that :func:`fastest` reads. It is committed, so that a fresh clone can choose, too.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "tests" / "data" / "seconds.json"
#: Folders whose tests need neither wheels nor the embedded device.
FOLDERS: Final = ("tests/unit", "tests/native")
#: Seconds of work for all processes together.
BUDGET: Final = 80.0


class Seconds:
    """A plugin that adds up the seconds of each file's tests and writes them when the run ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test; with several processes the controller sees all of them."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the seconds of this run over those of files that it ran."""
        known = recorded(self._file)
        known.update({path: round(took, 1) for path, took in self._seconds.items()})
        there = {path: took for path, took in sorted(known.items()) if (ROOT / path).is_file()}
        self._file.write_text(json.dumps(there, indent=1) + "\n", encoding="utf-8")


def recorded(file: Path = FILE) -> dict[str, float]:
    """Read the seconds of each test file; nothing if none were recorded."""
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def fastest(
    files: Collection[str], seconds: Mapping[str, float], changed: Collection[str], budget: float
) -> list[str]:
    """Choose test files: changed and new ones first, then the fastest until the budget is spent.

    Args:
        files: test files, relative to the repository.
        seconds: how long each took.
        changed: files that are run whatever they take.
        budget: seconds of work in all.

    Returns:
        The chosen files, sorted.
    """
    chosen = {path for path in files if path in changed or path not in seconds}
    left = budget - sum(seconds.get(path, 0.0) for path in chosen)
    for path in sorted(set(files) - chosen, key=lambda each: (seconds[each], each)):
        left -= seconds[path]
        if left < 0:
            break
        chosen.add(path)
    return sorted(chosen)


if __name__ == "__main__":  # the arguments are files that changed
    tests = [
        path.relative_to(ROOT).as_posix() for each in FOLDERS for path in (ROOT / each).glob("test_*.py")
    ]
    print("\n".join(fastest(tests, recorded(), sys.argv[1:], BUDGET)))
