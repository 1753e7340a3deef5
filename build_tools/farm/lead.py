"""Lead a build on a farm: send units of work, keep their results.

The longest unit goes first. A worker's answer is checked: an object has the SHA-256 that the answer names, and a result has a
key that the worker was asked for. Only this side writes entries, so a worker needs no key of a signer. A job whose worker is
lost goes to another one, which Dask sees to; one that does not compile has an answer as any other, and is never tried again.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from build_tools import errors
from build_tools.compile.compile import Batch
from build_tools.compile.fingerprint import file_of, job_key
from build_tools.compile.place import Place, checked, input_name, object_name, place_at
from build_tools.compile.shards import even_batches, seconds_of
from build_tools.compile.store import Results, StoreEntry
from build_tools.errors import (
    BuildToolsError,
    FarmEmptyError,
    FarmError,
    FarmUnreachableError,
    InputMissingError,
    WorkerLostError,
)
from build_tools.farm import address
from build_tools.farm.address import Address
from build_tools.farm.local import LocalFarm
from build_tools.farm.unit import Answer, Failure, StoredRow, Unit, unit_of
from build_tools.farm.worker import PATIENCE, RESOURCE, perform, unreachable
from build_tools.records import CompileResult
from build_tools.tools.toolchain import Toolchain

#: Units that are sent beyond those that run: a worker never waits for this side.
_AHEAD: Final = 2
_LOOK: Final = 1.0

Sent = tuple[Batch, Unit]


@dataclass(frozen=True, slots=True)
class Farm:
    """A farm that a build is given. ``place``: the URL of the store that its workers have, "" for the build's own folder;
    ``least``: MiB that every job may take; ``patience``: seconds without a worker that could go on.
    """

    address: Address
    tls: Path | None = None
    place: str = ""
    least: int = 0
    patience: float = 300.0

    def compiled(
        self, missing: Batch, toolchain: Toolchain, store: Results, root: Path
    ) -> Generator[CompileResult]:
        """Compile on the farm. See ``Elsewhere``.

        Raises:
            FarmError: each of its kinds, with what to do. BuildToolsError: as a worker's refusal says.
        """
        url = self.place or f"file://{store.path}"
        place = place_at(url)
        with ExitStack() as stack:
            here = (
                LocalFarm(stack, self.address.local, url, self.tls, toolchain.pins)
                if self.address.local
                else None
            )
            client = _client(stack, here.url if here else self.address.url, here, self.tls)
            threads = _threads(client, self.address.local or 1, self.patience)
            sent = [
                (batch, unit_of(batch, toolchain, store, root, self.least))
                for batch in even_batches(missing, threads)
            ]
            _upload((unit for _, unit in sent), place, store, root)
            lead = _Lead(client, here, self.patience)
            stack.callback(lead.cancel)
            for (batch, unit), answer in lead.results(sent):
                yield from _results(batch, unit, answer, _Keeps(store, place, toolchain, root))


def _expected(batch: Batch) -> float:
    return seconds_of(job for job, _ in batch)


def _client(stack: ExitStack, url: str, here: LocalFarm | None, tls: Path | None) -> Any:
    from distributed import Client

    trusted = here.security if here is not None else address.security(url, tls)
    try:
        client: Any = Client(
            url, security=trusted, timeout=PATIENCE, set_as_default=False, name="aiter-prebuilt"
        )
    except (OSError, TimeoutError) as error:
        raise unreachable(url, error) from error
    stack.callback(client.close, timeout=5)
    return client


def _threads(client: Any, count: int, patience: float) -> int:
    """Count the units that the farm does at once.

    It waits until there are so many workers.

    Raises:
        FarmEmptyError: it has none in time.
    """
    try:
        client.wait_for_workers(count, timeout=patience)
    except TimeoutError as error:
        raise _empty(
            client, f"it has not {count} worker{'s' if count > 1 else ''} after {patience:.0f} s"
        ) from error
    return max(1, sum(int(worker["nthreads"]) for worker in _workers(client)))


def _workers(client: Any) -> Sequence[Any]:
    return tuple(client.scheduler_info(n_workers=-1)["workers"].values())


def _empty(client: Any, found: str) -> FarmEmptyError:
    return FarmEmptyError(
        f"build on the farm at {client.scheduler.address}",
        found,
        "Start workers: python -m build_tools farm worker ADDRESS --shared URL; with --memory, if jobs need more",
    )


def _upload(units: Iterable[Unit], place: Place, store: Results, root: Path) -> None:
    """Lay what workers read into the place: what is there already stays."""
    inputs = {digest: name for unit in units for name, digest in unit.inputs}
    for digest, name in sorted(inputs.items()):
        data = (root / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise InputMissingError(f"read {name}", "it was changed while the build began", "Build again")
        place.create(input_name(digest), data)
    for row in {row.sha256: row for unit in units for row in unit.known}.values():
        place.create(object_name(row.sha256), (store.path / object_name(row.sha256)).read_bytes())


class _Lead:
    """Sends units, a few more than there are threads, and hands back answers as they come."""

    def __init__(self, client: Any, here: LocalFarm | None, patience: float) -> None:
        self._client, self._here, self._patience = client, here, patience
        self._running: dict[str, tuple[Any, Sent]] = {}
        self._stuck = 0.0

    def cancel(self) -> None:
        """Let the farm know that nobody waits any more: workers then end what they started."""
        futures = [future for future, _ in self._running.values()]
        if futures and self._client.status == "running":
            self._client.cancel(futures, force=True)

    def results(self, sent: Iterable[Sent]) -> Generator[tuple[Sent, Answer]]:
        """Each unit with its answer.

        Raises:
            FarmEmptyError: no worker can go on. FarmUnreachableError: the scheduler ended. FarmError: a worker cannot say why.
        """
        waiting, ended = deque(sent), SimpleQueue[Any]()
        limit = 0
        while waiting or self._running:
            limit = limit or self._limit()
            while waiting and len(self._running) < limit:
                self._send(waiting.popleft(), ended)
            try:
                future = ended.get(timeout=_LOOK)
            except Empty:
                limit = 0
                self._look()
                continue
            self._stuck = 0.0
            _, what = self._running.pop(future.key)
            yield what, self._answer(future, what)

    def _limit(self) -> int:
        return _AHEAD * max(1, sum(int(worker["nthreads"]) for worker in _workers(self._client)))

    def _send(self, what: Sent, ended: SimpleQueue[Any]) -> None:
        unit = what[1]
        future = self._client.submit(
            perform,
            unit,
            pure=False,
            retries=0,
            resources={RESOURCE: unit.memory},
            priority=_expected(what[0]),
        )
        self._running[future.key] = future, what
        future.add_done_callback(ended.put)

    def _look(self) -> None:
        """Nothing has come for a while: is anybody there?"""
        if self._here is not None:
            self._here.mend()
        if self._client.status != "running":
            raise FarmUnreachableError(
                "go on with the build",
                "the scheduler ended",
                "Start it again and build again: what came back is kept",
            )
        most = max(
            (int(worker["resources"].get(RESOURCE, 0)) for worker in _workers(self._client)), default=0
        )
        least = min((unit.memory for _, (_, unit) in self._running.values()), default=0)
        if most and most >= least:
            self._stuck = 0.0
            return
        self._stuck = self._stuck or time.monotonic()
        if time.monotonic() - self._stuck > self._patience:
            found = (
                f"its largest worker has {most} MiB, and what is left needs {least}"
                if most
                else "no worker is left"
            )
            raise _empty(self._client, f"{found}, for {self._patience:.0f} s")

    def _answer(self, future: Any, what: Sent) -> Answer:
        from distributed import KilledWorker

        try:
            answer = future.result(timeout=PATIENCE)
        except KilledWorker as error:
            return _lost(what[1], error)
        except BuildToolsError:
            raise
        except Exception as error:
            raise FarmError(
                f"compile {what[1].jobs[0].id} on the farm",
                f"{type(error).__name__}: {str(error).strip()}",
                "See the worker's own output; all sides must have the same commit and packages",
            ) from error
        if not isinstance(answer, Answer):
            raise FarmError(
                f"compile {what[1].jobs[0].id} on the farm",
                "what came back is no answer",
                "Use workers of this commit",
            )
        return answer


def _lost(unit: Unit, killed: Any) -> Answer:
    def failure(job: str) -> Failure:
        error = WorkerLostError(
            f"compile {job}",
            f"{killed.allowed_failures + 1} workers ended, one after the other, while they were at it",
            "See why in their output: a machine's memory may be too small for it (--farm-memory)",
        )
        return Failure(job, 0.0, "", error.status, f"{type(error).__name__}: {error}")

    return Answer("", failures=tuple(failure(job.id) for job in unit.jobs))


@dataclass(frozen=True, slots=True)
class _Keeps:
    """The store of results, and the toolchain that they belong to."""

    store: Results
    place: Place
    toolchain: Toolchain
    root: Path

    def entry(self, row: StoredRow, worker: str) -> StoreEntry:
        """Write a row's object here and return its entry.

        Raises:
            FarmError: its object is not there, or has other bytes.
        """
        data = row.data if row.data is not None else checked(self.place, object_name(row.sha256))
        if data is None or hashlib.sha256(data).hexdigest() != row.sha256:
            raise FarmError(
                f"take the code object of {row.job} from {worker}",
                f"{self.place.name} has no {object_name(row.sha256)}, or other bytes under that name",
                "Use the same --shared for the build and its workers",
            )
        return self.store.put(
            row.key, data, job=row.job, symbol=row.symbol, threads=row.threads, seconds=row.seconds, extra=dict(row.extra),
            peak=row.peak,
        )  # fmt: skip


def _results(batch: Batch, unit: Unit, answer: Answer, keeps: _Keeps) -> Iterable[CompileResult]:
    """One result for each job of the batch.

    Raises:
        BuildToolsError: the worker refused. FarmError: it told of what nobody asked for.
    """
    if answer.refusal is not None:
        kind = getattr(errors, answer.refusal.error, FarmError)
        kind = kind if isinstance(kind, type) and issubclass(kind, FarmError) else FarmError
        raise kind(answer.refusal.asked, answer.refusal.found, answer.refusal.fix)
    whole = file_of(batch[0][0])
    mine = {key for _, key in batch} | ({job_key(whole, keeps.toolchain, keeps.root)} if whole else set())
    if strange := sorted({row.key for row in answer.rows} - mine):
        raise FarmError(
            f"take the results of {unit.jobs[0].id} from {answer.worker}",
            f"it tells of the key {strange[0]}, which it was not asked for",
            "Trust nothing of that worker",
        )
    entries = {row.key: (keeps.entry(row, answer.worker), row) for row in answer.rows}
    failures = {failure.job: failure for failure in answer.failures}
    for job, key in batch:
        if (failure := failures.get(job.id)) is not None:
            yield CompileResult(
                job, key, False, seconds=failure.seconds, command=failure.command, exit_code=failure.status or 1,
                log=failure.log,
            )  # fmt: skip
        elif key in entries:
            entry, row = entries[key]
            yield CompileResult(
                job,
                key,
                True,
                entry.path,
                entry.symbol,
                entry.threads,
                seconds=row.seconds,
                extra=entry.extra,
                peak=row.peak,
            )
        else:
            yield CompileResult(job, key, False, exit_code=1, log=f"{answer.worker} says nothing of {job.id}")
