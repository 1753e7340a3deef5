"""The compile stage with backends that are made up: what is taken from the store, shared compiles, failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import amdgpu_elf
from support.compiling import TOOLS, Backend, Many, Work, job, separate_job, triton, write

from build_tools.compile import compile as stage
from build_tools.compile.backends.built import Built
from build_tools.compile.compile import compile_jobs
from build_tools.compile.place import object_name, place_at
from build_tools.compile.shared import SharedStore
from build_tools.compile.store import Store
from build_tools.errors import JobFailedError, NotStoredError, UsageError
from build_tools.files import progress
from build_tools.files.progress import Done
from build_tools.files.run import Watch
from build_tools.records import CompileJob


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


def test_what_is_missing_is_compiled_kept_and_taken_the_next_time(
    root: Path, backend: Backend, watched: Watched
) -> None:
    store = Store(root / "store")
    jobs = [separate_job("b"), separate_job("a"), separate_job("c")]
    first = compile_jobs(jobs[:2], TOOLS, store, root=root, workers=1)
    assert sorted(backend.asked) == ["a", "b"] and watched.totals == [2]
    for asked, result in zip(jobs[:2], first, strict=True):
        assert (result.job, result.ok, result.cached, result.symbol) == (asked, True, False, f"{asked.id}.kd")
        assert (result.threads, result.extra, result.exit_code, result.log, result.command) == (
            128, {"lds": "16"}, 0, "", ""
        )  # fmt: skip
        assert result.path is not None and result.path.read_bytes() == f"the code of {asked.id}".encode()
        assert 0 <= result.seconds < 5 and len(result.key) == 64
    assert sorted((done.name, done.ok, done.silent) for done in watched.told) == [
        ("a", True, False), ("b", True, False)
    ]  # fmt: skip
    again = compile_jobs(jobs, TOOLS, store, root=root)
    assert backend.asked[2:] == ["c"] and watched.totals == [2, 1]
    assert [(result.job.id, result.cached) for result in again] == [("b", True), ("a", True), ("c", False)]
    taken, fresh = again[0], first[0]
    assert replace(taken, cached=False, seconds=fresh.seconds) == fresh
    assert abs(taken.seconds - fresh.seconds) <= 0.001


def test_nothing_is_compiled_where_only_the_store_may_answer(root: Path, backend: Backend) -> None:
    store = Store(root / "store")
    jobs = [separate_job("b"), separate_job("a"), separate_job("c")]
    first = compile_jobs(jobs[:2], TOOLS, store, root=root, workers=1)
    assert len(backend.asked) == 2
    taken = compile_jobs(jobs[:2], TOOLS, store, root=root, stored_only=True)
    assert [(result.job, result.path) for result in taken] == [
        (result.job, result.path) for result in first
    ] and all(result.cached for result in taken)
    report = root / "compile.json"
    with pytest.raises(
        NotStoredError, match=r"c: not in the store\n.*: 1 of them are not in .*/store\. Lay"
    ) as refused:
        compile_jobs(jobs, TOOLS, store, root=root, stored_only=True, report=report)
    assert refused.value.jobs == ("c",) and len(backend.asked) == 2 and not report.exists()
    # An object with other bytes than its name is not there, either.
    assert first[0].path is not None
    first[0].path.write_bytes(b"swapped")
    with pytest.raises(NotStoredError) as refused:
        compile_jobs(jobs[:2], TOOLS, store, root=root, stored_only=True)
    assert refused.value.jobs == ("b",)


def test_what_is_damaged_where_several_share_it_is_told(root: Path, backend: Backend) -> None:
    store = SharedStore(
        Store(root / "store"), place_at(f"file://{root}/mount"), None, lambda _data, _name: "x"
    )
    (built,) = compile_jobs([separate_job("a")], TOOLS, store, root=root, workers=1)
    assert built.path is not None
    name = object_name(built.path.name)
    (root / "mount" / name).write_bytes(b"other")
    other = SharedStore(Store(root / "other"), store.place)
    with pytest.raises(NotStoredError) as refused:
        compile_jobs([separate_job("a")], TOOLS, other, root=root, stored_only=True)
    assert f"damaged in file://{root}/mount: {name}" in str(refused.value)
    assert "Lay the stores" not in str(refused.value)


def test_a_job_without_its_source_fails_alone(root: Path, backend: Backend) -> None:
    lost, good = compile_jobs([job("x", source="none.hip"), job("y")], TOOLS, Store(root / "s"), root=root)
    assert (lost.ok, lost.key, lost.seconds, lost.exit_code, lost.path) == (False, "", 0.0, 1, None)
    assert "none.hip" in lost.log and lost.log.startswith("Cannot compile x: ") and good.ok
    assert backend.asked == ["y"]


def failing(error: Exception) -> Work:
    def work(job: CompileJob, workdir: Path) -> Built:
        if job.id.startswith("bad"):
            raise error
        return write(job, workdir)

    return work


@pytest.mark.parametrize(
    ("error", "command", "status", "log"),
    [
        (JobFailedError("compile x", "exit code 3", "Mend it", command="cc x", status=3, log="\n1: no\n"), "cc x", 3,
         "Cannot compile x: exit code 3. Mend it.\n1: no"),
        (JobFailedError("compile x", "exit code 3", "Mend it", command="cc x", status=3, log=" \n"), "cc x", 3,
         "Cannot compile x: exit code 3. Mend it."),
        (JobFailedError("compile x", "no: 1", "Mend it", log="no: 1\n"), "", 1, "Cannot compile x: no: 1. Mend it."),
        (UsageError("a", "b", "c"), "", 1, "a: b. C."),
        (OSError(28, "No space left"), "", 1, "Cannot compile bad: [Errno 28] No space left. See to it and build again."),
    ],
)  # fmt: skip
def test_a_failure_has_the_words_of_its_compiler(
    root: Path, backend: Backend, watched: Watched, error: Exception, command: str, status: int, log: str
) -> None:
    backend.work = failing(error)
    jobs = [separate_job("bad"), separate_job("good")]
    failed, good = compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, workers=1)
    assert (failed.ok, failed.command, failed.exit_code, failed.log) == (False, command, status, log)
    assert (failed.path, failed.symbol, failed.cached, len(failed.key)) == (None, "", False, 64)
    assert 0 <= failed.seconds < 5 and good.ok
    assert not isinstance(error, OSError) or failed.seconds == 0.0, "nobody knows when it began"
    assert sorted((done.name, done.ok) for done in watched.told) == [("bad", False), ("good", True)]


def linked(*names: str) -> Work:
    """A compiler whose code object has kernels of these names, whatever it was asked for."""
    rows = [
        {"metadata": {".name": name, ".symbol": f"{name}.kd"}, "symbol": {"name": f"{name}.kd"}}
        for name in names
    ]

    def work(job: CompileJob, workdir: Path) -> Built:
        path = workdir / "linked.co"
        path.write_bytes(
            amdgpu_elf.write({"kernels": [{**row, "metadata": METADATA | row["metadata"]} for row in rows]})
        )
        return Built(path, job.symbol, 256, {"lds": "8"})

    return work


METADATA = {
    ".kernarg_segment_size": 0, ".kernarg_segment_align": 8, ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0,
    ".max_flat_workgroup_size": 64, ".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8,
}  # fmt: skip


def test_kernels_of_one_source_are_one_compile(root: Path, backend: Backend, watched: Watched) -> None:
    """Each job has its own kernel of the same code object; one that is not in it fails alone."""
    backend.work = linked("a", "b", "_Z1cPf")
    jobs = [job("a"), job("b"), job("gone"), job("c")]
    results = compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, workers=1)
    assert backend.asked == ["a"]
    assert [(result.job.id, result.ok, result.symbol) for result in results] == [
        ("a", True, "a"), ("b", True, "b"), ("gone", False, ""), ("c", True, "_Z1cPf")
    ]  # fmt: skip
    assert len({result.path for result in results if result.ok}) == 1
    assert {(result.threads, *result.extra.items()) for result in results if result.ok} == {
        (256, ("lds", "8"))
    }
    assert len({result.seconds for result in results}) == 1 and len({result.key for result in results}) == 4
    assert "find kernel 'gone'" in results[2].log and results[2].exit_code == 1
    assert sorted(done.name for done in watched.told) == ["a", "b", "c", "gone"]


def test_where_the_first_compile_fails_the_next_job_tries_its_own(root: Path, backend: Backend) -> None:
    whole = linked("bad", "k", "l")

    def work(job: CompileJob, workdir: Path) -> Built:
        failing(UsageError("a", "b", "c"))(job, workdir)
        return whole(job, workdir)

    backend.work = work
    jobs = [job("bad"), job("bad2"), job("k"), job("l")]
    results = compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, workers=1)
    assert backend.asked == ["bad", "bad2", "k"]
    assert [result.ok for result in results] == [False, False, True, True]
    assert results[0].log == results[1].log == "a: b. C."


@pytest.mark.parametrize("asked", [{"workers": 3}, {}])
def test_as_many_compiles_at_once_as_asked_for_or_cores(
    root: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr(stage, "cores", lambda: 2 if asked else 3)
    meet = threading.Barrier(3)

    def together(job: CompileJob, workdir: Path) -> Built:
        meet.wait(20)
        return write(job, workdir)

    backend.work = together
    jobs = [separate_job(f"j{number}") for number in range(3)]
    results = compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, **asked)
    assert all(result.ok for result in results)


def test_jobs_of_one_source_share_a_child(
    root: Path, many: Many, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the time of a core that it took, its start too, as their own seconds are to each other."""

    @contextmanager
    def watched() -> Iterator[Watch]:
        yield Watch(peak=9, cpu=15.0)

    monkeypatch.setattr(stage, "watched", watched)
    jobs = [triton("t0"), job("h"), triton("u", "u.py"), triton("t1", symbol="bad"), triton("t2")]
    results = compile_jobs(jobs, TOOLS, Store(root / "s"), root=root, workers=1)
    assert sorted(many.asked) == [["t0", "t1", "t2"], ["u"]] and backend.asked == ["h"]
    assert [result.ok for result in results] == [True, True, True, False, True]
    assert [round(result.seconds, 3) for result in results if result.job.backend == "triton"] == [
        3.0,
        15.0,
        5.0,
        7.0,
    ]
    assert results[3].log == "a: b. C." and results[4].symbol == "t2.kd"


def test_a_batch_that_answers_too_little_is_an_error(
    root: Path, many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "COMPILE_MANY", {"triton": lambda *words: many(*words)[:1]})
    with pytest.raises(ValueError, match="shorter"):
        compile_jobs([triton("t0"), triton("t1")], TOOLS, Store(root / "s"), root=root, workers=1)
