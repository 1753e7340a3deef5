"""The compile stage with backends that are made up: what is taken from the store, batches, failures, the report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.compiling import TOOLS, Backend, Many, job, triton

from build_tools.compile import compile as stage
from build_tools.compile.compile import compile_jobs
from build_tools.compile.store import Store
from build_tools.files import progress
from build_tools.files.progress import Done


class Watched:
    """A progress display that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Done] = []
        self.totals: list[int] = []

    @contextmanager
    def show(self, total: int) -> Iterator[Watched]:
        self.totals.append(total)
        yield self

    def done(self, what: Done) -> None:
        self.told.append(what)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    monkeypatch.setattr(stage, "BACKENDS", {"hip": made})
    return made


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Many:
    made = Many()
    monkeypatch.setattr(stage, "COMPILE_MANY", {"triton": made})
    return made


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched()
    monkeypatch.setattr(progress, "show", made.show)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("k.hip", "t.py", "u.py"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_job_without_its_source_fails_alone(root: Path, backend: Backend) -> None:
    lost, good = compile_jobs([job("x", source="none.hip"), job("y")], TOOLS, Store(root / "s"), root=root)
    assert (lost.ok, lost.key, lost.seconds, lost.exit_code, lost.path) == (False, "", 0.0, 1, None)
    assert "none.hip" in lost.log and lost.log.startswith("compile x: ") and good.ok
    assert backend.asked == ["y"]


def test_jobs_of_one_source_share_a_child(root: Path, many: Many, backend: Backend) -> None:
    jobs = [triton("t0"), job("h"), triton("u", "u.py"), triton("t1", symbol="bad"), triton("t2")]
    results = compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, workers=1)
    assert sorted(many.asked) == [["t0", "t1", "t2"], ["u"]] and backend.asked == ["h"]
    assert [result.ok for result in results] == [True, True, True, False, True]
    assert [round(result.seconds, 3) for result in results if result.job.backend == "triton"] == [
        1.5,
        1.5,
        2.5,
        3.5,
    ]
    assert results[3].log == "a: b. c." and results[4].symbol == "t2.kd"


def test_a_batch_that_answers_too_little_is_an_error(
    root: Path, many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "COMPILE_MANY", {"triton": lambda *words: many(*words)[:1]})
    with pytest.raises(ValueError, match="shorter"):
        compile_jobs([triton("t0"), triton("t1")], TOOLS, Store(root / "s"), root=root, workers=1)


def test_without_a_number_there_is_a_compile_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda process: {0, 1, 2} if process == 0 else {5}, raising=False
    )
    assert stage._cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for known, expected in ((5, 5), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda known=known: known)
        assert stage._cores() == expected
