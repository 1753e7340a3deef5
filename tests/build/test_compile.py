"""The compile stage: failures, the store, reports, interruption, and a build with nothing to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from build_tools.compile.backends.built import Built
from build_tools.compile.backends.table import BACKENDS
from build_tools.compile.compile import batches, compile_jobs
from build_tools.compile.store import Store
from build_tools.errors import CompileFailedError, ToolchainError
from build_tools.records import TargetFacts
from build_tools.tools.toolchain import Toolchain, find

from .conftest import ROOT, MakeJob


def test_the_second_run_takes_everything_from_the_store(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store
) -> None:
    jobs = [
        make_job(backend, target) for backend in ("hip", "asm", "triton") for target in ("gfx942", "gfx950")
    ]
    first = compile_jobs(jobs, toolchain, store, root=root, workers=2)
    second = compile_jobs(jobs, toolchain, store, root=root, workers=2)
    assert [result.ok for result in first] == [True] * 6
    assert [
        (result.cached, result.path, result.symbol, result.threads, result.extra) for result in second
    ] == [(True, result.path, result.symbol, result.threads, result.extra) for result in first]
    assert [result.job.id for result in first] == [job.id for job in jobs]


def test_a_changed_header_compiles_again_what_reads_it(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store
) -> None:
    jobs = [make_job("hip", "gfx942"), make_job("asm", "gfx942")]
    compile_jobs(jobs, toolchain, store, root=root)
    (root / "k/scale.hpp").write_text((root / "k/scale.hpp").read_text() + "// longer\n")
    assert [result.cached for result in compile_jobs(jobs, toolchain, store, root=root)] == [False, True]


def test_a_half_written_entry_is_compiled_again(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store
) -> None:
    jobs = [make_job("hip", "gfx942")]
    (first,) = compile_jobs(jobs, toolchain, store, root=root)
    assert first.path is not None
    whole = first.path.read_bytes()
    first.path.write_bytes(whole[:100])
    (second,) = compile_jobs(jobs, toolchain, store, root=root)
    assert (second.cached, second.ok, first.path.read_bytes()) == (False, True, whole)


def test_a_failure_stops_nothing_and_says_how_it_was_started(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store
) -> None:
    (root / "k/scale.hip").write_text('#include "scale.hpp"\nint broken = nonsense;\n')
    report = root / "report.json"
    jobs = [make_job("hip", "gfx942"), make_job("asm", "gfx942")]
    failed, good = compile_jobs(jobs, toolchain, store, root=root, report=report)
    assert (failed.ok, failed.exit_code, good.ok) == (False, 1, True)
    assert "clang" in failed.command
    assert "-DBLOCK=64" in failed.command
    assert "use of undeclared identifier 'nonsense'" in failed.log
    text = str(CompileFailedError([failed]))
    assert failed.job.id in text
    assert "exit status: 1" in text
    rows = json.loads(report.read_text())
    assert (rows["version"], rows["planned"], rows["failed"], rows["cached"]) == (3, 2, 1, 0)
    assert {row["id"]: row["ok"] for row in rows["jobs"]} == {failed.job.id: False, good.job.id: True}


def test_one_bad_triton_job_does_not_spoil_its_batch(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store
) -> None:
    jobs = [make_job("triton", "gfx942", num_warps=warps) for warps in (1, 3, 2)]
    results = compile_jobs(jobs, toolchain, store, root=root, workers=1)
    assert [result.ok for result in results] == [True, False, True]
    assert results[1].log


def test_a_dying_compiler_is_blamed_on_the_job_it_was_at(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store
) -> None:
    source = root / "k/add.py"
    source.write_text("import os\n" + source.read_text() + "\n\nclass Dying(dict):\n    pass\n")
    source.write_text(source.read_text().replace("@triton.jit\ndef add(", "@triton.jit\ndef add("))
    dying = '\n\ndef _die():\n    os.abort()\n\n\ndef __getattr__(name):\n    return _die() if name == "gone" else None\n'
    source.write_text(source.read_text() + dying)
    gone = replace(make_job("triton", "gfx942"), symbol="gone", id="gone")
    jobs = [make_job("triton", "gfx942", num_warps=1), gone, make_job("triton", "gfx942", num_warps=2)]
    results = compile_jobs(jobs, toolchain, store, root=root, workers=1)
    assert [result.ok for result in results] == [True, False, True]
    assert "SIGABRT" in results[1].log


def test_a_batch_that_meets_a_full_disk_fails_and_the_others_go_on(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_words: object) -> Built:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BACKENDS["hip"], "compile", full)
    failed, good = compile_jobs(
        [make_job("hip", "gfx942"), make_job("asm", "gfx942")], toolchain, store, root=root, workers=1
    )
    assert (failed.ok, good.ok) == (False, True)
    assert "No space left on device" in failed.log


def test_a_missing_compiler(make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store) -> None:
    without = replace(
        toolchain, clang=replace(toolchain.clang, driver=("/no/such/clang",), libraries=(), identity="none")
    )
    (result,) = compile_jobs([make_job("hip", "gfx942")], without, store, root=root)
    assert not result.ok
    assert "could not be started" in result.log
    assert result.command.startswith("/no/such/clang")


def test_no_rocm_is_said_before_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="use the ROCm toolchain"):
        find("rocm", ROOT)


def test_rocm_compiles_under_keys_of_its_own(
    make_job: MakeJob,
    toolchain: Toolchain,
    root: Path,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder that is laid out as ROCm is, whose compiler is the hermetic one: what is asked of ROCm is what it gets."""
    zig = toolchain.clang.driver[0]
    path = toolchain.clang.env["PATH"]
    scripts = {
        "bin/amdclang++": f'PATH={path} exec {zig} clang -nogpulib -nogpuinc -nostdinc "$@"',
        "llvm/bin/ld.lld": f'exec {zig} ld.lld "$@"',
    }
    for name, text in scripts.items():
        script = tmp_path / "rocm" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    rocm = find("rocm", ROOT)
    jobs = [make_job("hip", "gfx942"), make_job("asm", "gfx950")]
    with_rocm = compile_jobs(jobs, rocm, store, root=root)
    assert [(result.ok, result.cached, result.log) for result in with_rocm] == [(True, False, "")] * 2
    hermetic = compile_jobs(jobs, toolchain, store, root=root)
    assert [result.cached for result in hermetic] == [False, False]
    assert not {result.key for result in with_rocm} & {result.key for result in hermetic}
    assert rocm.provenance()["toolchain"] == "rocm"


def test_with_nothing_to_do_no_process_is_started_and_it_takes_no_time(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("hip", "gfx942")
    compile_jobs([job], toolchain, store, root=root)

    def refuse(*_words: object, **_options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    jobs = [replace(job, id=f"{job.id}-{place}") for place in range(300)]
    started = time.perf_counter()
    results = compile_jobs(jobs, toolchain, store, root=root)
    assert all(result.cached for result in results)
    assert (
        time.perf_counter() - started < 5.0
    )  # far above what it takes (0.1 s), so that a busy machine does not matter


def test_batches_keep_workers_busy_and_sources_together(make_job: MakeJob) -> None:
    triton = [(make_job("triton", "gfx942", BLOCK=64 * (place + 1)), "") for place in range(20)]
    hip = [(make_job("hip", "gfx942"), "")]
    split = batches(triton + hip, 4)
    assert sorted(len(batch) for batch in split) == [1, 5, 5, 5, 5]
    assert max(len(batch) for batch in batches(triton, 1)) == 20
    assert [job.backend for batch in split for job, _ in batch].count("hip") == 1


INTERRUPTED = """
import sys, threading, time, signal, os
from pathlib import Path
from dataclasses import replace
from build_tools.compile import compile as stage
from build_tools.compile.backends import table as backends
from build_tools.files import run
from build_tools.compile.backends.built import Built
from build_tools.compile.store import Store
import pickle

jobs, toolchain, root, folder = pickle.loads(Path(sys.argv[1]).read_bytes())

class Slow:
    def compile(self, job, toolchain, root, workdir):
        seconds = "0" if job.id.endswith("quick") else "60"
        outcome = run.run(["sleep", seconds])
        (workdir / "out").write_bytes(job.id.encode())
        if not outcome.ok:
            raise SystemExit("a killed compile must not look like a good one")
        return Built(workdir / "out", job.symbol)

backends.BACKENDS["hip"] = Slow()
backends.triton._child = lambda *words: run.run(["sleep", "60"])
# A shell that starts a job in the background leaves SIGINT ignored, and Python then leaves it so: undo that here.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("started", flush=True)
try:
    stage.compile_jobs(jobs, toolchain, Store(folder), root=root, workers=3, report=folder / "report.json")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_children_and_keeps_what_was_done(
    make_job: MakeJob, toolchain: Toolchain, root: Path, tmp_path: Path, targets: dict[str, TargetFacts]
) -> None:
    import pickle

    base = make_job("hip", "gfx942")
    jobs = [
        replace(base, id=f"{base.id}-quick"),
        *(replace(base, id=f"slow{n}", symbol=f"slow{n}", constants=(("N", n),)) for n in range(4)),
        # Two batches of two: after the death of its child a batch would go on with a new one.
        *(make_job("triton", "gfx942", BLOCK=64 << n) for n in range(4)),
    ]
    folder = tmp_path / "store"
    (tmp_path / "jobs").write_bytes(pickle.dumps((jobs, toolchain, root, folder)))
    script = tmp_path / "interrupted.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    child = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "jobs")], env=env, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    for _ in range(200):
        if list(folder.glob("entries/*/*.json")):
            break
        time.sleep(0.1)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        output, _ = child.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    assert output == "interrupted\n"
    report = json.loads((folder / "report.json").read_text())
    assert (report["planned"], [row["ok"] for row in report["jobs"]]) == (9, [True])
    assert Store(folder).get(report["jobs"][0]["key"]) is not None


def test_several_kernels_of_one_source_are_one_compile_and_one_code_object(
    make_job: MakeJob, toolchain: Toolchain, root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels with mangled names, as C++ templates have them; a symbol that is not there fails its own job alone."""
    (root / "k/scale.hip").write_text(
        "template <int N> __attribute__((global)) void twice(float* x) { *x *= N; }\n"
        "template __attribute__((global)) void twice<2>(float*);\n"
        "template __attribute__((global)) void twice<3>(float*);\n"
    )
    model = make_job("hip", "gfx942")
    names = ("_Z5twiceILi2EEvPf", "_Z5twiceILi3EEvPf", "_Z5twiceILi4EEvPf")
    jobs = [replace(model, id=name, symbol=name, inputs=("k/scale.hip",)) for name in names]
    compiled, compile_one = [], BACKENDS["hip"].compile

    def counted(*args: object) -> Built:
        compiled.append(args)
        return compile_one(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(BACKENDS["hip"], "compile", counted)
    two, three, four = compile_jobs(jobs, toolchain, store, root=root, workers=2)
    assert (two.ok, three.ok, four.ok, len(compiled)) == (True, True, False, 1)
    assert (two.symbol, three.symbol) == names[:2] and two.path == three.path and two.key != three.key
    assert "find kernel '_Z5twiceILi4EEvPf'" in four.log and names[0] in four.log
    other = replace(jobs[0], constants=(("BLOCK", 128),))
    assert len(batches([(job, "") for job in (*jobs, other)], 4)) == 2
