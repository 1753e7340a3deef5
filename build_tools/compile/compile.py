"""Walk the jobs of a plan: take from the store what is there, compile the rest on all cores, one result per job.

Threads only wait for child processes. A failure stops nothing; Ctrl-C ends the children and leaves a store in which all that was
finished can be used. With nothing to do no process is started.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from build_tools.compile.backends.built import Built, built
from build_tools.compile.backends.table import BACKENDS, COMPILE_MANY, NAMED, OF_VENDOR
from build_tools.compile.fingerprint import file_of, job_key
from build_tools.compile.store import Results, StoreEntry
from build_tools.errors import BuildToolsError, JobFailedError, NotStoredError
from build_tools.files import progress
from build_tools.files.cores import cores
from build_tools.files.progress import Done
from build_tools.files.reproducible import table_text, write_atomic
from build_tools.files.run import allow, kill_all, watched
from build_tools.records import CompileJob, CompileResult
from build_tools.tools.toolchain import Toolchain

REPORT_VERSION: Final = 3
#: Jobs of one source that share a child at most: starting Triton costs a second, and a batch is also what one thread holds.
BATCH: Final = 48

#: Jobs and their keys.
Batch = list[tuple[CompileJob, str]]
#: Compiles jobs, and hands back each result as it comes; closed before its end, it ends what it began.
Compiled = Callable[[Batch, Toolchain, Results, Path], "Generator[CompileResult]"]


class Elsewhere(Protocol):
    """A compiler of batches on other machines."""

    def compiled(
        self, missing: Batch, toolchain: Toolchain, store: Results, root: Path
    ) -> Generator[CompileResult]:
        """See :data:`Compiled`."""


def compile_jobs(
    jobs: Sequence[CompileJob],
    toolchain: Toolchain,
    store: Results,
    *,
    root: Path,
    workers: int = 0,
    report: Path | None = None,
    stored_only: bool = False,
    elsewhere: Elsewhere | None = None,
) -> tuple[CompileResult, ...]:
    """One result per job, in the order of ``jobs``.

    ``workers``: compiles at once, 0 for one per core. ``report``: JSON file to write. ``stored_only``: nothing is compiled.
    ``elsewhere``: what compiles in the place of threads here.

    Raises:
        NotStoredError: ``stored_only``, and the store lacks a result.
        KeyboardInterrupt: after all children have ended.
        StoreError: the store cannot be written.
    """
    results: dict[str, CompileResult] = {}
    missing: Batch = []
    for job, found in zip(jobs, _stored(jobs, toolchain, store, root), strict=True):
        if isinstance(found, CompileResult):
            results[job.id] = found
        else:
            missing.append((job, found))
    if stored_only and missing:
        raise NotStoredError([job.id for job, _ in missing], store.path, store.damaged)
    try:
        with progress.show(len(missing)) as display:
            compiled = elsewhere.compiled if elsewhere is not None and missing else _here(workers or cores())
            # Closed here: an interrupted build's traceback would keep it, and what it began, alive.
            with closing(compiled(missing, toolchain, store, root)) as done:
                for result in done:
                    results[result.job.id] = result
                    display.done(Done(result.job.id, result.ok, result.seconds, result.cached))
    finally:
        if report is not None:
            known = [results[job.id] for job in jobs if job.id in results]
            write_atomic(report, table_text(as_report(known, toolchain, len(jobs))).encode())
    return tuple(results[job.id] for job in jobs)


def _stored(
    jobs: Sequence[CompileJob], toolchain: Toolchain, store: Results, root: Path
) -> Iterable[CompileResult | str]:
    """Look up each job in the store.

    Many are looked up at once where an answer waits for a network.
    """
    ask = partial(_from_store, toolchain=toolchain, store=store, root=root)
    if store.readers == 1:
        return map(ask, jobs)
    with ThreadPoolExecutor(store.readers) as pool:
        return list(pool.map(ask, jobs))


def _from_store(job: CompileJob, toolchain: Toolchain, store: Results, root: Path) -> CompileResult | str:
    """Look up a job's result, or return its key.

    A job that has no key has failed.
    """
    try:
        key = job_key(job, toolchain, root)
    except JobFailedError as error:
        return _failed(job, "", error, 0.0)
    entry = store.get(key)
    if entry is None:
        return key
    return CompileResult(
        job=job, key=key, ok=True, path=entry.path, symbol=entry.symbol, threads=entry.threads, cached=True,
        seconds=entry.seconds, extra=entry.extra, peak=entry.peak,
    )  # fmt: skip


def batches(missing: Batch, workers: int) -> list[Batch]:
    """Split into what one child does: several jobs of one source where a backend can, but not so many that a worker idles.
    Jobs that differ in the kernel that they name alone are one compile.
    """
    alike: dict[tuple[object, ...], Batch] = {}
    for pair in missing:
        if pair[0].backend not in COMPILE_MANY:
            alike.setdefault(compile_of(pair[0]), []).append(pair)
    alone = list(alike.values())
    together: dict[tuple[str, str], Batch] = {}
    for pair in missing:
        if pair[0].backend in COMPILE_MANY:
            together.setdefault((pair[0].backend, pair[0].source), []).append(pair)
    count = sum(map(len, together.values()))
    size = min(BATCH, -(-count // max(1, workers)))
    split = [
        group[at : at + size]
        for group in map(_side_by_side, together.values())
        for at in range(0, len(group), size)
    ]
    # Large batches first, so that the last thread does not start one when all others are done.
    return sorted(split + alone, key=len, reverse=True)


def _side_by_side(group: Batch) -> Batch:
    """Jobs that a child compiles once for all of them, since they differ in names alone, one behind the other."""
    alike: dict[str, Batch] = {}
    for job, key in group:
        values = [each for each in job.constants if not isinstance(each[1], str)]
        args = [(arg.kind, arg.dtype, arg.divisible) for arg in job.args]
        alike.setdefault(repr((job.target.name, job.symbol, values, args)), []).append((job, key))
    return [pair for each in alike.values() for pair in each]


def compile_of(job: CompileJob) -> tuple[object, ...]:
    """Return the key of a compile that makes all kernels of a source.

    It has neither their names nor their arguments.
    """
    return job.backend, job.target.name, job.source, job.constants, job.inputs


def _here(workers: int) -> Compiled:
    """Make a compiler on threads of this process, each with a child."""

    def compiled(
        missing: Batch, toolchain: Toolchain, store: Results, root: Path
    ) -> Generator[CompileResult]:
        pool = ThreadPoolExecutor(max_workers=workers)
        try:
            yield from _as_completed(
                [
                    pool.submit(compile_batch, batch, toolchain, store, root)
                    for batch in batches(missing, workers)
                ]
            )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kill_all()
            raise
        finally:
            pool.shutdown()
            allow()

    return compiled


def _as_completed(futures: Iterable[Future[list[CompileResult]]]) -> Iterator[CompileResult]:
    """Yield the results of futures as they end.

    Each announces itself once: to ask thousands, again and again, who has ended takes as long as small jobs do.
    """
    ended: SimpleQueue[Future[list[CompileResult]]] = SimpleQueue()
    left = 0
    for future in futures:
        future.add_done_callback(ended.put)
        left += 1
    while left:
        try:
            # With a timeout, since a wait without one does not see Ctrl-C on every platform.
            future = ended.get(timeout=0.5)
        except Empty:
            continue
        left -= 1
        yield from future.result()


def compile_batch(batch: Batch, toolchain: Toolchain, store: Results, root: Path) -> list[CompileResult]:
    """Compile a batch in one child; one result per job, in order.

    A compile that fails is a result, too.
    """
    try:
        return _results_of(batch, toolchain, store, root)
    except OSError as error:  # a full disk, or a file that another program took away: the other batches go on
        return [
            _failed(
                job, key, JobFailedError(f"compile {job.id}", str(error), "See to it and build again"), 0.0
            )
            for job, key in batch
        ]


def _results_of(batch: Batch, toolchain: Toolchain, store: Results, root: Path) -> list[CompileResult]:
    jobs = [job for job, _ in batch]
    many = COMPILE_MANY.get(jobs[0].backend)
    with tempfile.TemporaryDirectory(prefix="aiter-prebuilt-") as folder:
        if many is not None:
            with watched() as watch:
                answers = many(jobs, toolchain, root, Path(folder))
            # Each has its part of what the child took, its start too.
            share = watch.cpu / (sum(seconds for _, seconds in answers) or 1.0)
            return [
                _result(job, key, answer, seconds * share, store, watch.peak)
                for (job, key), (answer, seconds) in zip(batch, answers, strict=True)
            ]
        return _once(batch, toolchain, store, root, Path(folder))


def _once(
    batch: Batch, toolchain: Toolchain, store: Results, root: Path, folder: Path
) -> list[CompileResult]:
    """One compile for all jobs of the batch, each with its own kernel of the code object."""
    answers: list[Built | BuildToolsError] = []
    with watched() as watch:
        try:
            whole = _file(batch[0][0], toolchain, store, root, folder)
        except BuildToolsError as error:
            return [_result(job, key, error, watch.cpu, store) for job, key in batch]
        made = None if whole is None else Built(whole.path, "", whole.threads, whole.extra)
        for job, _ in batch:
            try:
                if made is None:
                    made = compile_alone(job, toolchain, root, folder)
                    answers.append(made)
                else:
                    answers.append(NAMED.get(job.backend, built)(job, made.path, made.threads, made.extra))
            except BuildToolsError as error:
                answers.append(error)
    # Of a whole file, compiled for whomever first asked.
    seconds, peak = (watch.cpu, watch.peak) if whole is None else (whole.seconds, whole.peak)
    return [
        _result(job, key, answer, seconds, store, peak)
        for (job, key), answer in zip(batch, answers, strict=True)
    ]


def compile_alone(job: CompileJob, toolchain: Toolchain, root: Path, folder: Path) -> Built:
    """One code object of ``job`` in ``folder``, by the compiler that its backend has for the target's vendor.

    Raises:
        BuildToolsError: as the backend's ``compile``.
    """
    of_vendor = OF_VENDOR.get((job.backend, job.target.vendor))
    return (of_vendor or BACKENDS[job.backend].compile)(job, toolchain, root, folder)


def _file(
    job: CompileJob, toolchain: Toolchain, store: Results, root: Path, folder: Path
) -> StoreEntry | None:
    """Compile the whole file of a job once, and return its object.

    None where the job does not name a kernel of a file.
    """
    whole = file_of(job)
    if whole is None:
        return None
    key = job_key(whole, toolchain, root)
    entry = store.get(key)
    if entry is None:
        with watched() as watch:
            made = compile_alone(whole, toolchain, root, folder)
        entry = store.put(
            key, made.path.read_bytes(), job=whole.id, symbol="", threads=0, seconds=watch.cpu, extra=made.extra,
            peak=watch.peak,
        )  # fmt: skip
    return entry


def _result(
    job: CompileJob, key: str, answer: Built | BuildToolsError, seconds: float, store: Results, peak: int = 0
) -> CompileResult:
    if isinstance(answer, BuildToolsError):
        return _failed(job, key, answer, seconds)
    entry = store.put(
        key,
        answer.path.read_bytes(),
        job=job.id,
        symbol=answer.symbol,
        threads=answer.threads,
        seconds=seconds,
        extra=answer.extra,
        peak=peak,
    )
    return CompileResult(
        job=job,
        key=key,
        ok=True,
        path=entry.path,
        symbol=entry.symbol,
        threads=entry.threads,
        seconds=seconds,
        extra=entry.extra,
        peak=peak,
    )


def _failed(job: CompileJob, key: str, error: BuildToolsError, seconds: float) -> CompileResult:
    command, status, log = "", 1, str(error)
    if isinstance(error, JobFailedError):
        command, status = error.command, error.status
        words = error.log.strip()
        log = f"{error}\n{words}" if words and words not in str(error) else str(error)
    return CompileResult(
        job=job, key=key, ok=False, seconds=seconds, command=command, exit_code=status, log=log
    )


def as_report(results: Sequence[CompileResult], toolchain: Toolchain, planned: int) -> dict[str, object]:
    """Convert results to plain data.

    ``planned`` is larger than the number of rows when the compile was interrupted.
    """
    return {
        "version": REPORT_VERSION,
        "toolchain": toolchain.provenance(),
        "planned": planned,
        "failed": sum(not result.ok for result in results),
        "cached": sum(result.cached for result in results),
        "jobs": [_row(result) for result in sorted(results, key=lambda result: result.job.id)],
    }


def _row(result: CompileResult) -> dict[str, object]:
    row: dict[str, object] = {
        "id": result.job.id, "key": result.key, "ok": result.ok, "cached": result.cached, "seconds": round(result.seconds, 3),
    }  # fmt: skip
    if result.ok and result.path is not None:
        return row | {
            "symbol": result.symbol, "threads": result.threads, "size": result.path.stat().st_size, "sha256": result.path.name,
            "extra": dict(result.extra), "peak_bytes": result.peak,
        }  # fmt: skip
    return row | {"command": result.command, "exit_status": result.exit_code, "log": result.log}
