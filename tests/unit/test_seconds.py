"""The choice of test files for ``nox -s quick``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import seconds


def test_takes_the_fastest_files_within_the_budget() -> None:
    took = {"a": 5.0, "b": 1.0, "c": 2.0, "d": 30.0}
    assert seconds.fastest(took, took, (), 8.0) == ["a", "b", "c"]
    assert seconds.fastest(took, took, (), 7.9) == ["b", "c"]


def test_takes_changed_and_new_files_first() -> None:
    took = {"a": 5.0, "b": 1.0, "d": 30.0}
    assert seconds.fastest([*took, "new"], took, ["d"], 31.0) == ["b", "d", "new"]
    assert seconds.fastest([*took, "new"], took, ["d"], 1.0) == ["d", "new"]


def test_adds_up_phases_and_keeps_files_that_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seconds, "ROOT", tmp_path)
    for name in ("one.py", "two.py"):
        (tmp_path / name).touch()
    file = tmp_path / "seconds.json"
    file.write_text(json.dumps({"gone.py": 9.0, "two.py": 3.0}))
    plugin = seconds.Seconds(file)
    for duration in (0.25, 1.0):
        report: Any = SimpleNamespace(nodeid="one.py::test", duration=duration)
        plugin.pytest_runtest_logreport(report)
    plugin.pytest_sessionfinish()
    assert seconds.recorded(file) == {"one.py": 1.2, "two.py": 3.0}


def test_counts_seconds_of_a_core_and_processes_and_no_waiting() -> None:
    plugin, report = seconds.Cores(), pytest.TestReport("n", ("f", 0, "n"), {}, "passed", None, "call")
    for code, least, most in (
        ("import time; time.sleep(0.4)", 0.0, 0.4),
        ("sum(range(2 * 10**7))", 0.1, 60.0),
    ):
        phase = plugin.pytest_runtest_makereport()
        next(phase)
        subprocess.run([sys.executable, "-c", code], check=True)
        with pytest.raises(StopIteration):
            phase.send(report)
        noted = vars(report)
        assert least <= noted["cores"] < most and noted["started"] == 1


def test_shows_the_dearest_files_first(tmp_path: Path) -> None:
    plugin, lines = seconds.Seconds(tmp_path / "seconds.json"), list[str]()
    for name, cores in (("cheap.py", 0.5), ("dear.py", 7.0)):
        report: Any = SimpleNamespace(nodeid=f"{name}::test", duration=99.0, cores=cores, started=3)
        plugin.pytest_runtest_logreport(report)
    shown: Any = SimpleNamespace(write_line=lines.append)
    plugin.pytest_terminal_summary(shown)
    assert [line.split() for line in lines] == [
        ["7.0", "s", "3", "processes", "dear.py"],
        ["0.5", "s", "3", "processes", "cheap.py"],
    ]


def test_knows_the_files_of_this_repository() -> None:
    known = seconds.recorded()
    assert all((seconds.ROOT / path).is_file() for path in known)
    assert sum(1 for path in known if path.startswith(seconds.FOLDERS)) > 100
