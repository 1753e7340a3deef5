"""Record the seconds of a core that each test file takes, and choose the fastest files for ``nox -s quick``.

``pytest --record-seconds`` writes the file that :func:`fastest` reads. It is committed, so that a fresh clone can choose, too.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import defaultdict
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "tests" / "data" / "seconds.json"
#: Folders whose tests need neither wheels nor the embedded device.
FOLDERS: Final = ("tests/unit", "tests/native")
#: Seconds of work for all processes together.
BUDGET: Final = 80.0
#: Dearest files that a run shows.
SHOWN: Final = 40
#: Events of Python's audit hooks for a new process.
_STARTS: Final = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen"})


class Cores:
    """A plugin of every process that notes the seconds of a core and the started processes of each phase of a test.

    The time on the clock depends on what else the machine does. Children count when they have ended.
    """

    def __init__(self) -> None:
        self._before, self._started = _of_a_core(), 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, _: tuple[object, ...]) -> None:
        self._started += event in _STARTS

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add ``cores`` and ``started`` to the report, which a process sends to the controller."""
        report = yield
        now = _of_a_core()
        report.__dict__ |= {"cores": now - self._before, "started": self._started}
        self._before, self._started = now, 0
        return report


def _of_a_core() -> float:
    """Return the seconds of a core that this process and its ended children took."""
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Seconds:
    """A plugin that adds up the seconds of each file's tests, shows the dearest files and writes all when the run ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: dict[str, float] = defaultdict(float)
        self._started: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test; with several processes the controller sees all of them."""
        path = report.nodeid.partition("::")[0]
        self._seconds[path] += getattr(report, "cores", report.duration)
        self._started[path] += getattr(report, "started", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the dearest files: seconds of a core, started processes."""
        for path, took in sorted(self._seconds.items(), key=lambda each: -each[1])[:SHOWN]:
            terminalreporter.write_line(f"{took:8.1f} s {self._started[path]:5} processes  {path}")

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
