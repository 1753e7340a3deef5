"""A build farm without one: addresses, what travels, what a worker refuses, what it watches over."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.compiling import TOOLS, Backend, job, separate_job
from support.compiling import write as write_result

from build_tools.compile import compile as stage
from build_tools.compile.backends.built import Built
from build_tools.compile.compile import Batch, compile_jobs
from build_tools.compile.fingerprint import job_key
from build_tools.compile.memory import CLASSES, UNKNOWN, Peaks, record_of, recorded
from build_tools.compile.place import ObjectPlace, input_name, object_name, place_at
from build_tools.compile.store import Store
from build_tools.errors import (
    FarmError,
    InputMissingError,
    JobFailedError,
    KeyDiffersError,
    OpenFarmError,
    ToolsDifferError,
)
from build_tools.farm import address, guard, lead, worker
from build_tools.farm.address import Address
from build_tools.farm.guard import Guard
from build_tools.farm.perform import Bench
from build_tools.farm.unit import Answer, Failure, Refusal, StoredRow, Unit, unit_of
from build_tools.files import run
from build_tools.records import CompileJob, CompileResult
from build_tools.tools import pins

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("local:1", Address(local=1)), ("local:200", Address(local=200)), ("tcp://127.0.0.1:8786", Address("tcp://127.0.0.1:8786")),
        ("tls://[::1]:1", Address("tls://[::1]:1")), ("tls://farm.example:8786", Address("tls://farm.example:8786")),
    ],
)  # fmt: skip
def test_addresses(text: str, found: Address) -> None:
    assert address.parse(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "", "local", "local:0", "local:-1", "host:1", "http://host:1", "tls://host", "tls://a/b:1", "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:65536",
    ],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(FarmError, match="it is no address"):
        address.parse(text)
    with pytest.raises(FarmError, match="it is no address"):
        address.security(text, None)


@pytest.mark.parametrize(
    "url", ["tcp://192.0.2.1:8786", "tcp://0.0.0.0:8786", "tcp://[2001:db8::1]:1", "tls://127.0.0.1:8786"]
)
def test_without_certificates_nothing_leaves_the_loopback(url: str) -> None:
    with pytest.raises(OpenFarmError, match="whoever can send work there can run any program"):
        address.security(url, None)


@pytest.mark.parametrize(
    "url", ["tcp://127.0.0.1:8786", "tcp://127.9.8.7:1", "tcp://[::1]:8786", "tcp://localhost:1"]
)
def test_the_loopback_needs_none(url: str) -> None:
    assert address.security(url, None) is None


def test_certificates(tmp_path: Path) -> None:
    for name in (address.AUTHORITY, address.CERTIFICATE, address.KEY):
        with pytest.raises(FarmError, match=f"there is no {name}"):
            address.security("tls://farm:1", tmp_path)
        (tmp_path / name).touch()
    trusted = address.security("tls://farm:1", tmp_path)
    assert trusted.require_encryption is True and trusted.tls_ca_file == str(tmp_path / address.AUTHORITY)
    assert {trusted.tls_worker_key, trusted.tls_client_key, trusted.tls_scheduler_key} == {
        str(tmp_path / address.KEY)
    }
    with pytest.raises(FarmError, match="its address says tcp"):
        address.security("tcp://farm:1", tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "leader"
    for name in ("k.hip", "t.py", "u.py", pins.FILE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the text of {name}")
    return folder


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    monkeypatch.setattr(stage, "BACKENDS", {"hip": made})
    return made


class Tools:
    """The tools of either side."""

    kind = "hermetic"

    def __init__(self, name: str = "tools", **versions: str) -> None:
        self.name, self.versions = name, {"toolchain": "made up", **versions}

    def identity_of(self, backend: str) -> str:
        return f"{self.name} of {backend}"

    def provenance(self) -> dict[str, str]:
        return self.versions


@pytest.fixture
def place(tmp_path: Path) -> ObjectPlace:
    return place_at(f"file://{tmp_path}/place")


@pytest.fixture
def bench(tmp_path: Path, root: Path, place: ObjectPlace) -> Bench:
    """A worker whose tools are those of who leads the build."""
    tools: Any = TOOLS
    return Bench("there:1", root, place, tmp_path / "worker", {"hermetic": tools})


def sent(jobs: list[CompileJob], root: Path, place: ObjectPlace, tmp_path: Path) -> Unit:
    tools: Any = Tools()
    batch: Batch = [(each, job_key(each, tools, root)) for each in jobs]
    unit = unit_of(batch, tools, Store(tmp_path / "store"), root)
    lead._upload([unit], place, Store(tmp_path / "store"), root)
    return unit


def test_what_travels_holds_no_path(root: Path, place: ObjectPlace, tmp_path: Path) -> None:
    unit = sent([separate_job("a"), separate_job("b")], root, place, tmp_path)
    data = pickle.dumps(unit)
    assert pickle.loads(data) == unit and len(data) < 4000
    for word in (str(tmp_path), str(ROOT), sys.prefix, str(Path.home())):
        assert word.encode() not in data
    assert unit.inputs[0][0] == "k.hip" and len(unit.inputs) == 1


def test_a_worker_compiles_what_it_was_told_by_digest(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend
) -> None:
    seen: list[str] = []

    def work(asked: CompileJob, folder: Path) -> Built:
        unpacked = next((tmp_path / "worker" / "roots").iterdir())
        seen.extend(
            sorted(path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file())
        )
        return write_result(asked, folder)

    backend.work = work
    answer = bench.perform(sent([separate_job("a")], root, place, tmp_path))
    assert answer.refusal is None and not answer.failures and answer.worker == "there:1"
    assert seen == ["k.hip", pins.FILE], "a file that no job names is not there"
    (row,) = answer.rows
    assert (row.job, row.symbol, row.threads, row.extra, row.data) == (
        "a",
        "a.kd",
        128,
        (("lds", "16"),),
        None,
    )
    assert place.read(object_name(row.sha256)) == b"the code of a"
    assert not list((tmp_path / "place").glob("entries/*")), "entries are for who leads the build"


def test_a_compile_that_fails_is_an_answer(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend
) -> None:
    """So nobody tries it again: Dask does so for what raises, if for anything."""

    def work(asked: CompileJob, folder: Path) -> Built:
        raise JobFailedError("compile a", "exit code 3", "Mend it", command="cc a", status=3, log="a:1: no")

    backend.work = work
    answer = bench.perform(sent([separate_job("a")], root, place, tmp_path))
    (failure,) = answer.failures
    assert (failure.job, failure.command, failure.status) == ("a", "cc a", 3) and "a:1: no" in failure.log
    assert not answer.rows and backend.asked == ["a"]


def _refused(bench: Bench, unit: Unit, backend: Backend) -> Refusal:
    answer = bench.perform(unit)
    assert answer.refusal is not None and not answer.rows and not backend.asked
    return answer.refusal


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"versions": (("toolchain", "made up"), ("zig", "9"))}, "its tools are others: zig none and not 9"),
        ({"tools": "0" * 64}, "of the same versions, but with other bytes or flags"),
        ({"code": "0" * 64}, "its code of the backend hip is another"),
        ({"toolchain": "rocm"}, "its tools cannot be used"),
    ],
)
def test_a_worker_with_other_tools_refuses(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend, change: dict[str, Any], said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    refusal = _refused(bench, replace(sent([separate_job("a")], root, place, tmp_path), **change), backend)
    assert refusal.error == ToolsDifferError.__name__ and said in refusal.found
    assert refusal.asked == "compile a on there:1" and "the same commit" in refusal.fix


def test_a_worker_with_another_key_refuses(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend
) -> None:
    unit = sent([separate_job("a"), separate_job("b")], root, place, tmp_path)
    refusal = _refused(bench, replace(unit, keys=(unit.keys[0], "0" * 64)), backend)
    assert refusal.error == KeyDiffersError.__name__ and refusal.asked == "compile b on there:1"
    # A job that was changed on its way.
    changed = replace(unit.jobs[0], constants=(("NAME", "b"), ("MORE", 1)))
    refusal = _refused(bench, replace(unit, jobs=(changed, unit.jobs[1])), backend)
    assert refusal.error == KeyDiffersError.__name__ and f"and not {unit.keys[0]}" in refusal.found


def test_inputs_are_what_their_digests_say(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend
) -> None:
    unit = sent([separate_job("a")], root, place, tmp_path)
    file = tmp_path / "place" / input_name(unit.inputs[0][1])
    file.write_text("swapped")
    refusal = _refused(bench, unit, backend)
    assert refusal.error == InputMissingError.__name__ and "or other bytes under that name" in refusal.found
    file.unlink()
    assert _refused(bench, unit, backend).error == InputMissingError.__name__
    file.write_text("the text of k.hip")
    assert bench.perform(unit).refusal is None, "nothing half unpacked was left"
    for name in ("../out", "/etc/x", "a/../../x"):
        outside = replace(unit, inputs=((name, unit.inputs[0][1]),))
        backend.asked.clear()
        assert "it leaves the folder" in _refused(bench, outside, backend).found


def test_an_object_that_the_place_has_wrong_travels_itself(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend
) -> None:
    unit = sent([separate_job("a")], root, place, tmp_path)
    (row,) = bench.perform(unit).rows
    (tmp_path / "place" / object_name(row.sha256)).write_bytes(b"damaged")
    (again,) = bench.perform(unit).rows
    assert again.data == b"the code of a" and replace(again, data=None, seconds=row.seconds) == row


def _kept(answer: Answer, unit: Unit, place: ObjectPlace, root: Path, tmp_path: Path) -> list[CompileResult]:
    tools: Any = Tools()
    keeps = lead._Keeps(Store(tmp_path / "kept"), place, tools, root)
    batch = list(zip(unit.jobs, unit.keys, strict=True))
    return list(lead._results(batch, unit, answer, keeps))


def test_who_leads_keeps_what_it_asked_for_alone(
    bench: Bench, root: Path, place: ObjectPlace, tmp_path: Path, backend: Backend
) -> None:
    unit = sent([separate_job("a"), separate_job("b")], root, place, tmp_path)
    answer = bench.perform(replace(unit, jobs=unit.jobs[:1], keys=unit.keys[:1]))
    good, silent = _kept(answer, unit, place, root, tmp_path)
    assert good.ok and good.path == Store(tmp_path / "kept").object_path(answer.rows[0].sha256)
    assert not silent.ok and "says nothing of b" in silent.log
    strange = replace(answer, rows=(replace(answer.rows[0], key="f" * 64),))
    with pytest.raises(FarmError, match=r"it tells of the key ffff.*Trust nothing of that worker"):
        _kept(strange, unit, place, root, tmp_path)
    for row in (replace(answer.rows[0], sha256="0" * 64), replace(answer.rows[0], data=b"other bytes")):
        with pytest.raises(FarmError, match="or other bytes under that name"):
            _kept(replace(answer, rows=(row,)), unit, place, root, tmp_path)
    for error in (KeyDiffersError, ToolsDifferError, InputMissingError):
        with pytest.raises(error, match=r"a: b\. C\."):
            _kept(Answer("w", refusal=Refusal(error.__name__, "a", "b", "c")), unit, place, root, tmp_path)
    with pytest.raises(FarmError, match=r"a: b\. C\."):
        _kept(Answer("w", refusal=Refusal("os", "a", "b", "c")), unit, place, root, tmp_path)
    failed = Answer("w", failures=tuple(Failure(each.id, 1.0, "cc", 0, "no") for each in unit.jobs))
    assert [(each.ok, each.exit_code, each.log) for each in _kept(failed, unit, place, root, tmp_path)] == [
        (False, 1, "no")
    ] * 2


def test_an_object_of_many_jobs_is_compiled_once_and_known_the_next_time(
    bench: Bench,
    root: Path,
    place: ObjectPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: Backend,
) -> None:
    """A file of a source tree: its object is a result of its own, which who leads the build keeps, too."""
    whole = job("file", symbol="")
    for module in (stage, lead, sys.modules["build_tools.farm.unit"]):
        monkeypatch.setattr(module, "file_of", lambda asked: replace(whole, source=asked.source))
    monkeypatch.setattr(
        stage, "NAMED", {"hip": lambda asked, path, *_more: Built(path, f"{asked.symbol}.kd")}
    )
    unit = sent([job("a"), job("b")], root, place, tmp_path)
    answer = bench.perform(unit)
    assert sorted(row.job for row in answer.rows) == ["a", "b", "file"] and backend.asked == ["file"]
    assert all(result.ok for result in _kept(answer, unit, place, root, tmp_path))
    tools: Any = Tools()
    batch: Batch = [(job("c"), job_key(job("c"), tools, root))]
    later = unit_of(batch, tools, Store(tmp_path / "kept"), root)
    assert [row.job for row in later.known] == ["file"]
    elsewhere = replace(bench, folder=tmp_path / "another worker")
    assert [row.job for row in elsewhere.perform(later).rows] == ["c"] and backend.asked == ["file"]


def test_a_build_without_a_farm_imports_nothing_of_one() -> None:
    """Neither what a farm needs nor what only a release does, however long a command line may be."""
    code = "import sys; import build_tools.__main__, build_tools.pipeline.build; print(*sys.modules)"
    outcome = run.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    )
    assert outcome.ok, outcome.output
    loaded = set(outcome.output.split())
    assert "build_tools.compile.compile" in loaded
    late = {
        "build_tools.farm.lead",
        "build_tools.compile.shared",
        "build_tools.compile.recheck",
        "build_tools.release.sign",
    }
    assert not loaded & {"dask", "distributed", "obstore", "minisign", "cryptography", *late}


@pytest.mark.parametrize(
    ("stopping", "wanted", "answers"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_what_was_ended_with_its_worker_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, stopping: bool, wanted: bool, answers: bool
) -> None:
    """A compile that was killed looks as one that failed, which nobody would try again."""
    from distributed import Reschedule

    class OfOne:
        def perform(self, unit: Any, _wanted: Callable[[], bool]) -> Answer:
            return Answer(unit)

    monkeypatch.setattr(worker, "_bench", [OfOne()])
    monkeypatch.setattr(worker, "_wanted", lambda: lambda: wanted)
    monkeypatch.setattr(worker, "stopping", lambda: stopping)
    unit: Any = "a unit"
    if answers:
        assert worker.perform(unit) == Answer("a unit")
    else:
        with pytest.raises(Reschedule):
            worker.perform(unit)


class Once:
    """What compiles elsewhere, and counts how often it was asked to."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self.compiled, self.asked = compiled, 0


def test_a_build_with_nothing_to_do_starts_no_farm(root: Path, backend: Backend, tmp_path: Path) -> None:
    asked: list[int] = []

    def compiled(missing: Batch, *what: Any) -> Any:
        asked.append(len(missing))
        yield from (CompileResult(each, key, True, Path("x")) for each, key in missing)

    jobs = [separate_job("a"), separate_job("b")]
    store = Store(tmp_path / "store")
    compile_jobs(jobs[:1], TOOLS, store, root=root)
    for _ in range(2):
        results = compile_jobs(jobs, TOOLS, store, root=root, elsewhere=Once(compiled))
        assert [each.job.id for each in results] == ["a", "b"]
    assert asked == [1, 1] and backend.asked == ["a"], "the second time, too: nothing of it was kept"
    compile_jobs(jobs[:1], TOOLS, store, root=root, elsewhere=Once(compiled))
    assert asked == [1, 1]


def test_classes_of_memory() -> None:
    known = Peaks({"amd k.hip": 900}, {"amd hip": 100, "nvidia hip": 9000})
    asked = separate_job("a")
    assert known.class_of(asked) == 2048 and known.class_of(replace(asked, source="l.hip")) == 1024
    assert known.class_of(replace(asked, target=replace(asked.target, vendor="nvidia"))) == CLASSES[-1]
    assert Peaks().class_of(asked) == UNKNOWN and known.class_of(asked, 3000) == 3000
    jobs = [
        separate_job("a"),
        separate_job("b"),
        replace(separate_job("c"), source="l.hip"),
        replace(separate_job("d"), source="m.hip"),
    ]
    told = record_of(jobs, {"a": 100 << 20, "b": (600 << 20) + 1, "c": 5 << 20})
    assert told == {"version": 1, "backends": {"amd hip": 601}, "sources": {"amd l.hip": 5}}
    assert recorded().backends["amd triton"] > 100, "the committed one"


BUSY = "import sys, time; x = b'x' * (int(sys.argv[1]) << 20); print('has it', flush=True); time.sleep(60)"
#: A compiler driver: what takes the memory is not the child, but its child.
DRIVER = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {BUSY!r}, sys.argv[1]]).returncode)"


def test_memory_of_children_counts() -> None:
    watch = Guard(150 << 20)
    started = time.monotonic()
    with run.guarded(watch):
        outcome = run.run([sys.executable, "-c", DRIVER, "300"])
        assert run.run([sys.executable, "-c", "pass"]).ok, "a small one after it"
    assert (outcome.exit_code, outcome.describe()) == (run.GUARDED, "was ended by what watches over it")
    assert watch.exceeded > 150 << 20 and time.monotonic() - started < 30
    with run.guarded(Guard(1 << 40)):
        assert run.run([sys.executable, "-c", "import time; time.sleep(0.5)"]).ok


def test_what_a_fork_shares_counts_once() -> None:
    """Triton's child forks for each job, with all that it has loaded."""
    code = "import os, time; x = b'x' * (200 << 20); [os.fork() for _ in range(2)]; time.sleep(1.5)"
    watch = Guard(400 << 20)
    with run.guarded(watch):
        assert run.run([sys.executable, "-c", code]).ok
    assert watch.exceeded == 0


def test_what_nobody_waits_for_is_ended() -> None:
    asked = iter([True, True, False])
    watch = Guard(1 << 40, lambda: next(asked, False))
    with run.guarded(watch):
        outcome = run.run([sys.executable, "-c", BUSY, "1"])
    assert outcome.exit_code == run.GUARDED and not watch.exceeded


def test_memory_of_a_group() -> None:
    mine = guard.resident(os.getpgid(0))
    assert mine > 10 << 20 and 0 < guard.proportional(os.getpgid(0)) <= mine
    assert guard.resident(1 << 30) == 0


def test_rows_are_plain_data() -> None:
    row = StoredRow("k", "s", "j", "y", 1, 2.0, (("a", "b"),), 3)
    assert pickle.loads(pickle.dumps(row)) == row
