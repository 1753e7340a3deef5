"""A farm of real processes and compilers: the same bytes, lost workers, too much memory, foreign certificates, Ctrl-C."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.certificates import side_of_a_farm

from build_tools.compile.compile import compile_jobs
from build_tools.compile.store import Store
from build_tools.errors import FarmEmptyError, FarmUnreachableError
from build_tools.farm.address import Address
from build_tools.farm.lead import Farm
from build_tools.files import progress
from build_tools.files.progress import Done
from build_tools.records import CompileJob, CompileResult
from build_tools.tools.toolchain import Toolchain

from .conftest import ROOT, MakeJob

LOCAL = Farm(Address(local=2))
FARM = (sys.executable, "-m", "build_tools", "farm")


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a farm does: afterwards no process of it runs. Its processes have this folder for what is temporary."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    yield
    assert _within(20, lambda: not _processes(tmp_path)), _processes(tmp_path)


def _processes(folder: Path) -> list[str]:
    """The command lines of processes other than this one that were told of a folder."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                if f"TMPDIR={folder}/tmp".encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append(f"{place.name} {(place / 'cmdline').read_bytes().decode()[:120]!r}")
            except OSError:
                continue
    return found


def _within(seconds: float, true: Callable[[], object]) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _facts(results: Sequence[CompileResult]) -> list[object]:
    return [
        (result.ok, result.path and result.path.name, result.symbol, result.threads, dict(result.extra))
        for result in results
    ]


class Told:
    """A progress display that keeps what it is told."""

    def __init__(self, told: list[Done]) -> None:
        self.done = told.append


def test_a_farm_gives_the_bytes_of_a_build_here(
    make_job: MakeJob,
    toolchain: Toolchain,
    root: Path,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Done] = []
    monkeypatch.setattr(progress, "show", lambda _total: nullcontext(Told(told)))
    jobs = [make_job(name, target) for name in ("hip", "asm", "triton") for target in ("gfx942", "gfx950")]
    (root / "k/wrong.hip").write_text("int broken = nonsense;\n")
    wrong = make_job("hip", "gfx942", DOUBLED=True)
    wrong = replace(wrong, id="wrong", source="k/wrong.hip", inputs=("k/wrong.hip",))
    report = tmp_path / "report.json"
    results = compile_jobs([*jobs, wrong], toolchain, store, root=root, elsewhere=LOCAL, report=report)
    here = compile_jobs([*jobs, wrong], toolchain, Store(tmp_path / "here"), root=root, workers=2)
    assert _facts(results) == _facts(here) and [result.ok for result in results] == [True] * 6 + [False]
    assert not any(result.cached for result in results) and all(result.seconds > 0 for result in results[:6])
    assert "use of undeclared identifier 'nonsense'" in results[6].log and "clang" in results[6].command
    asked = sorted(job.id for job in [*jobs, wrong])
    assert sorted(done.name for done in told[:7]) == sorted(done.name for done in told[7:]) == asked
    assert [done.name for done in told[:7] if not done.ok] == ["wrong"], "tried once"
    again = compile_jobs(jobs, toolchain, store, root=root, elsewhere=LOCAL)
    assert all(result.cached for result in again)


def _slow(root: Path, flag: Path, seconds: float = 60) -> None:
    """A source of Triton's whose first compile says which process it is, and then takes its time."""
    source = root / "k/add.py"
    code = f"""
        import os, time
        try:
            handle = os.open({str(flag)!r}, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            pass
        else:
            os.write(handle, str(os.getpid()).encode())
            os.close(handle)
            time.sleep({seconds})
    """
    source.write_text(textwrap.dedent(code) + source.read_text())


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _worker_of(process: int) -> int:
    """The worker above a process that compiles."""
    while process > 1:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if b"worker" in words and not words[0].endswith(b"leash") and b"leash" not in words[0]:
            return process
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("no worker is above it")


@contextmanager
def _meanwhile(what: Callable[[], Any]) -> Iterator[list[Any]]:
    """Run something in a thread; what it gave is there when the context has ended."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(what()))
    thread.start()
    try:
        yield found
    finally:
        thread.join(120)
    assert not thread.is_alive()


def _asked(flag: Path, leading: subprocess.Popen[str] | None = None) -> int:
    """The process that compiles, once it does, for the build that ``leading`` leads."""

    def begun() -> bool:
        if leading is not None and leading.poll() is not None:
            raise AssertionError(f"the build ended before it compiled: {leading.communicate()[0]}")
        return flag.is_file() and flag.read_text() != ""

    assert _within(120, begun)
    return int(flag.read_text())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_killed_in_the_middle_of_a_compile(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, tmp_path: Path, number: signal.Signals
) -> None:
    """Its compiler ends with it, and another worker does the job; the one that is lost is replaced. Asked to end, as clusters
    ask, it does not say that the compile failed.
    """
    flag = tmp_path / "compiling"
    _slow(root, flag)
    jobs = [make_job("triton", "gfx942"), make_job("hip", "gfx942"), make_job("hip", "gfx950")]
    alone = Farm(Address(local=1))
    with _meanwhile(lambda: compile_jobs(jobs, toolchain, store, root=root, elsewhere=alone)) as found:
        child = _asked(flag)
        worker = _worker_of(child)
        os.kill(worker, number)
        assert _within(10, lambda: not _running(child)), "the compiler went on without its worker"
    (results,) = found
    assert [result.ok for result in results] == [True] * 3


def test_a_job_that_ends_its_workers(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, tmp_path: Path
) -> None:
    """As one does that the system ends for its memory: after the fourth worker it is to blame, and the others are done."""
    source, count = root / "k/add.py", tmp_path / "count"
    code = f"""
        import os, pathlib, signal
        def above(process):
            return int(pathlib.Path(f"/proc/{{process}}/stat").read_text().rpartition(")")[2].split()[1])
        with open({str(count)!r}, "a") as file:
            file.write("once ")
        process = os.getpid()
        while b"farm" not in pathlib.Path(f"/proc/{{process}}/cmdline").read_bytes().split(b"\\0"):
            process = above(process)
        os.kill(process, signal.SIGKILL)
    """
    source.write_text(textwrap.dedent(code) + source.read_text())
    jobs = [make_job("triton", "gfx942"), make_job("hip", "gfx942")]
    deadly, good = compile_jobs(jobs, toolchain, store, root=root, elsewhere=LOCAL)
    assert good.ok and not deadly.ok and count.read_text() == "once " * 4
    assert deadly.log.startswith(
        f"WorkerLostError: Cannot compile {jobs[0].id}: 4 workers ended, one after the other"
    )


def test_a_compile_that_takes_too_much_memory(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, tmp_path: Path
) -> None:
    """It is what a child of the compiler's child takes; the job fails by its class, is not tried again, and others go on."""
    source = root / "k/add.py"
    count = tmp_path / "count"
    greedy = "x = b'x' * (1500 << 20); import time; time.sleep(60)"
    code = f"""
        import subprocess, sys
        with open({str(count)!r}, "a") as file:
            file.write("once ")
        subprocess.run([sys.executable, "-c", {greedy!r}])
    """
    source.write_text(textwrap.dedent(code) + source.read_text())
    jobs = [make_job("triton", "gfx942"), make_job("hip", "gfx942")]
    greedy_one, good = compile_jobs(jobs, toolchain, store, root=root, elsewhere=LOCAL)
    assert good.ok and not greedy_one.ok and count.read_text() == "once "
    first = greedy_one.log.splitlines()[0]
    assert first.startswith(
        f"MemoryClassError: Cannot compile {jobs[0].id} in its class of 1024 MiB: its processes took 1"
    )
    assert "--farm-memory 2048" in first


LEADING = """
import pickle, signal, sys
from pathlib import Path
from build_tools.compile.compile import compile_jobs
from build_tools.compile.store import Store

jobs, toolchain, root, folder, farm = pickle.loads(Path(sys.argv[1]).read_bytes())
# A shell that starts a job in the background leaves SIGINT ignored, and Python then leaves it so: undo that here.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    compile_jobs(jobs, toolchain, Store(folder), root=root, elsewhere=farm)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_a_build_ends_its_farm(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path, number: signal.Signals
) -> None:
    flag = tmp_path / "compiling"
    _slow(root, flag)
    jobs = [make_job("hip", "gfx942"), make_job("triton", "gfx942")]
    with _building(tmp_path, jobs, toolchain, root, LOCAL) as child:
        compiler = _asked(flag, child)
        started = time.monotonic()
        child.send_signal(number)
        output, _ = child.communicate(timeout=30)
    assert time.monotonic() - started < 20
    assert ("interrupted" in output) == (number == signal.SIGINT)
    assert _within(10, lambda: not _running(compiler)) and _within(10, lambda: not _processes(tmp_path))
    assert Store(tmp_path / "store").path.is_dir(), "what was finished is kept"


@contextmanager
def _started(words: Sequence[str], **more: str) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))), **more}
    child = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def _building(
    folder: Path, jobs: Sequence[CompileJob], toolchain: Toolchain, root: Path, farm: Farm
) -> Iterator[subprocess.Popen[str]]:
    """A process that leads a build."""
    (folder / "jobs").write_bytes(pickle.dumps((jobs, toolchain, root, folder / "store", farm)))
    (folder / "leading.py").write_text(textwrap.dedent(LEADING))
    with _started([sys.executable, str(folder / "leading.py"), str(folder / "jobs")]) as child:
        yield child


@contextmanager
def _scheduler(*words: str) -> Iterator[str]:
    """Its address."""
    with _started([*FARM, "scheduler", "--port", "0", *words]) as child:
        assert child.stdout is not None
        line = child.stdout.readline().strip()
        assert line.startswith(("tcp://127.0.0.1:", "tls://127.0.0.1:")), line
        yield line


def _worker(url: str, place: str, *words: str) -> list[str]:
    return [*FARM, "worker", url, "--shared", place, *words]


def test_a_foreign_authority(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, tmp_path: Path
) -> None:
    ours, theirs = (side_of_a_farm(tmp_path / name, name) for name in ("ours", "theirs"))
    place = f"file://{tmp_path}/place"
    jobs = [make_job("hip", "gfx942")]
    with ExitStack() as stack:
        url = stack.enter_context(_scheduler("--tls", str(ours)))
        stranger = stack.enter_context(_started(_worker(url, place, "--tls", str(theirs))))
        stack.enter_context(_started(_worker(url, place, "--tls", str(ours))))
        with pytest.raises(FarmUnreachableError, match="is not of the authority that this side trusts"):
            compile_jobs(jobs, toolchain, store, root=root, elsewhere=Farm(Address(url), theirs, place))
        (good,) = compile_jobs(jobs, toolchain, store, root=root, elsewhere=Farm(Address(url), ours, place))
        assert good.ok
        said, _ = stranger.communicate(timeout=60)
        assert stranger.returncode == FarmUnreachableError.exit_code, said
        assert f"reach the scheduler at {url}: its certificate is not of the authority" in said


def test_a_farm_elsewhere(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, tmp_path: Path
) -> None:
    """Its workers have another place than the build's folder, and end what they do for a build that is gone."""
    place = f"file://{tmp_path}/place"
    jobs = [make_job("hip", "gfx942"), make_job("asm", "gfx950")]
    with _scheduler() as url:
        alone = Farm(Address(url), None, place, patience=2)
        with pytest.raises(FarmEmptyError, match="it has not 1 worker after 2 s"):
            compile_jobs(jobs, toolchain, store, root=root, elsewhere=alone)
        with _started(_worker(url, place, "--memory", "1500", "--threads", "2")) as worker:
            results = compile_jobs(
                jobs, toolchain, store, root=root, elsewhere=Farm(Address(url), None, place)
            )
            assert all(result.ok for result in results) and store.get(results[0].key) is not None
            assert not list((tmp_path / "place").glob("entries/*")), "workers write no entries"
            large = Farm(Address(url), None, place, 4096, patience=2)
            with pytest.raises(
                FarmEmptyError, match="its largest worker has 1500 MiB, and what is left needs 4096"
            ):
                compile_jobs([make_job("hip", "gfx950")], toolchain, store, root=root, elsewhere=large)
            _slow(root, tmp_path / "compiling")
            slow = [make_job("triton", "gfx942")]
            with _building(tmp_path, slow, toolchain, root, Farm(Address(url), None, place)) as child:
                compiler = _asked(tmp_path / "compiling", child)
                child.kill()
                assert _within(10, lambda: not _running(compiler)), "nobody waits for it any more"
            (result,) = compile_jobs(
                slow, toolchain, store, root=root, elsewhere=Farm(Address(url), None, place)
            )
            assert result.ok and _running(worker.pid)
