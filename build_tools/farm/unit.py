"""Messages between a build's leader and its workers.

Plain data, no path of any machine in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from build_tools.compile.compile import Batch
from build_tools.compile.fingerprint import code_of, compiler_of, file_of, job_key
from build_tools.compile.memory import recorded
from build_tools.compile.store import Results
from build_tools.records import CompileJob, in_tree
from build_tools.tools.toolchain import Toolchain
from build_tools.tools.tree import digest


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One result: what its entry will say. ``data``: the object itself, where the store that is shared did not take it."""

    key: str
    sha256: str
    job: str
    symbol: str
    threads: int
    seconds: float
    extra: tuple[tuple[str, str], ...]
    peak: int
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs that one child compiles. ``inputs``: files of the repository that they read, with their SHA-256. ``tools``, ``code``:
    what a worker's own must be, in a hash each; ``versions`` are for people. ``memory``: MiB that it may take. ``known``: results
    of whole files that need not be compiled again.
    """

    jobs: tuple[CompileJob, ...]
    keys: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    toolchain: str
    tools: str
    code: str
    versions: tuple[tuple[str, str], ...]
    memory: int
    known: tuple[StoredRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that did not compile, with its compiler's words."""

    job: str
    seconds: float
    command: str
    status: int
    log: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a worker did not begin: the name of an error of ``errors.py`` and its three parts."""

    error: str
    asked: str
    found: str
    fix: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a unit, from the worker named ``worker``."""

    worker: str
    rows: tuple[StoredRow, ...] = ()
    failures: tuple[Failure, ...] = ()
    refusal: Refusal | None = None


def unit_of(batch: Batch, toolchain: Toolchain, store: Results, root: Path, least: int = 0) -> Unit:
    """Build the unit of a batch.

    Its files lie below ``root``. ``least``: MiB that every one may take.
    """
    jobs = tuple(job for job, _ in batch)
    return Unit(
        jobs,
        tuple(key for _, key in batch),
        inputs_of(jobs, root),
        toolchain.kind,
        tools_of(jobs[0], toolchain),
        code_of(jobs[0]),
        tuple(sorted(toolchain.provenance().items())),
        max(recorded().class_of(job, least) for job in jobs),
        tuple(_known(jobs[0], toolchain, store, root)),
    )


def inputs_of(jobs: Sequence[CompileJob], root: Path) -> tuple[tuple[str, str], ...]:
    """Files of the repository that the jobs read; a source tree's are pinned, and a worker has its own."""
    names = sorted({name for job in jobs for name in job.inputs if not in_tree(name)})
    return tuple((name, digest(name, root)) for name in names)


def tools_of(job: CompileJob, toolchain: Toolchain) -> str:
    """Hash the identity of the tools that compile ``job``."""
    return hashlib.sha256(toolchain.identity_of(compiler_of(job)).encode()).hexdigest()


def _known(job: CompileJob, toolchain: Toolchain, store: Results, root: Path) -> Iterable[StoredRow]:
    whole = file_of(job)
    if whole is None:
        return
    key = job_key(whole, toolchain, root)
    entry = store.get(key)
    if entry is not None:
        yield StoredRow(
            key, entry.sha256, whole.id, entry.symbol, entry.threads, entry.seconds, _pairs(entry.extra), entry.peak
        )  # fmt: skip


def _pairs(extra: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(extra.items()))
