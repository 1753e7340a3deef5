"""The report of a compile, and what is left when something ends it early."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.compiling import TOOLS, Backend, job, separate_job, write

from build_tools.compile import compile as stage
from build_tools.compile.backends.built import Built
from build_tools.compile.compile import as_report, compile_jobs
from build_tools.compile.store import Store
from build_tools.errors import JobFailedError
from build_tools.files.reproducible import table_text
from build_tools.records import CompileJob, CompileResult


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    monkeypatch.setattr(stage, "BACKENDS", {"hip": made})
    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the children."""
    made: list[str] = []
    monkeypatch.setattr(stage, "kill_all", lambda: made.append("killed"))
    monkeypatch.setattr(stage, "allow", lambda: made.append("allowed"))
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.hip").write_text("kernel")
    return tmp_path


def result(name: str, **words: Any) -> CompileResult:
    return replace(CompileResult(job=job(name), key=f"key of {name}", ok=True), **words)


def test_a_report_has_a_row_for_each_job_sorted(tmp_path: Path) -> None:
    path = tmp_path / "00ff"
    path.write_bytes(b"twelve bytes")
    results = [
        result(
            "b",
            path=path,
            symbol="k.kd",
            threads=64,
            seconds=1.23456,
            extra={"lds": "16"},
            cached=True,
            peak=9,
        ),
        result("a", ok=False, seconds=0.0004, command="cc", exit_code=3, log="no"),
        result("d", path=path, ok=False, log="gone"),
        result("c", log="ok, and nowhere"),
    ]
    usual = {"cached": False, "seconds": 0.0}
    assert as_report(results, TOOLS, 7) == {
        "version": 3, "toolchain": {"toolchain": "made up"}, "planned": 7, "failed": 2, "cached": 1,
        "jobs": [
            {"id": "a", "key": "key of a", "ok": False, **usual, "command": "cc", "exit_status": 3, "log": "no"},
            {"id": "b", "key": "key of b", "ok": True, "cached": True, "seconds": 1.235, "symbol": "k.kd", "threads": 64,
             "size": 12, "sha256": "00ff", "extra": {"lds": "16"}, "peak_bytes": 9},
            {"id": "c", "key": "key of c", "ok": True, **usual, "command": "", "exit_status": 0,
             "log": "ok, and nowhere"},
            {"id": "d", "key": "key of d", "ok": False, **usual, "command": "", "exit_status": 0, "log": "gone"},
        ],
    }  # fmt: skip


def test_the_report_is_written_where_it_is_asked_for(root: Path, backend: Backend, told: list[str]) -> None:
    report = root / "report.json"
    jobs = [separate_job("a"), separate_job("b")]
    compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, report=report)
    text = report.read_text()
    assert text == table_text(json.loads(text)) and text.count('\n{"id": ') == 2, "a line for each job"
    rows = json.loads(text)
    assert (rows["planned"], rows["failed"], rows["cached"]) == (2, 0, 0)
    assert [row["sha256"] for row in rows["jobs"]] == [
        hashlib.sha256(f"the code of {name}".encode()).hexdigest() for name in "ab"
    ]
    compile_jobs(jobs, TOOLS, Store(root / "s"), root=root)
    assert report.read_text() == text and told == ["allowed", "allowed"]
    compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, report=report)
    assert json.loads(report.read_text())["cached"] == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a mistake here")])
def test_an_end_from_outside_ends_children_first_and_starts_nothing_more(
    root: Path, backend: Backend, told: list[str], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """After the compile that ends it at most one more has started."""
    killed = threading.Event()
    freed: list[bool] = []

    def kill() -> None:
        told.append("killed")
        killed.set()

    def work(job: CompileJob, workdir: Path) -> Built:
        if len(backend.asked) == 2:
            raise error
        if len(backend.asked) == 3:
            freed.append(killed.wait(10))  # as a compile whose child is killed
            raise JobFailedError(f"compile {job.id}", "ended by signal SIGKILL", "c")
        return write(job, workdir)

    backend.work = work
    monkeypatch.setattr(stage, "kill_all", kill)
    report = root / "report.json"
    jobs = [separate_job(str(number)) for number in range(6)]
    with pytest.raises(type(error)):
        compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, workers=1, report=report)
    assert told == ["killed", "allowed"]
    assert backend.asked in (["0", "1"], ["0", "1", "2"]) and all(freed)
    rows = json.loads(report.read_text())
    assert rows["planned"] == 6 and [row["id"] for row in rows["jobs"]] in ([], ["0"])
