"""A part of a plan's jobs for each machine of a CI matrix: parts of about the same seconds, by what compiles took when they were
recorded, and never two parts of one compile. ``seconds.json`` beside this file is that record (``matrix --record`` writes it): a
shard's choice of jobs must be the same on every machine, so it hangs on nothing that one of them measured.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.table import COMPILE_MANY
from build_tools.compile.compile import Batch, batches, compile_of
from build_tools.compile.fingerprint import file_of
from build_tools.errors import UsageError
from build_tools.records import CompileJob, Plan

RECORD: Final = Path(__file__).with_name("seconds.json")
RECORD_VERSION: Final = 1
#: Of a compile of which nothing like it was recorded.
UNKNOWN: Final = 1.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """Mean seconds of a core of one compile, by ``<vendor> <source>``; of other sources by ``<vendor> <backend>``."""

    sources: Mapping[str, float] = field(default_factory=dict)
    backends: Mapping[str, float] = field(default_factory=dict)

    def of(self, job: CompileJob) -> float:
        """Estimate the seconds of a job's compile."""
        source, backend = _names(job)
        known = self.sources.get(source)
        return self.backends.get(backend, UNKNOWN) if known is None else known


def _names(job: CompileJob) -> tuple[str, str]:
    """Under which a record has a job: its source's, its backend's."""
    return f"{job.target.vendor} {job.source}", f"{job.target.vendor} {job.backend}"


@lru_cache(maxsize=1)
def recorded() -> Recorded:
    """Read the committed record."""
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    return Recorded(told["sources"], told["backends"])


def record_of(jobs: Iterable[CompileJob], seconds: Mapping[str, float]) -> dict[str, Any]:
    """Build the record of jobs with known seconds."""
    by_source: dict[str, dict[object, float]] = defaultdict(dict)
    by_backend: dict[str, dict[object, float]] = defaultdict(dict)
    usual: dict[str, str] = {}
    for job in jobs:
        if job.id in seconds:
            unit, source, backend = _unit(job), *_names(job)
            usual[source] = backend
            by_source[source][unit] = by_backend[backend][unit] = seconds[job.id]
    backends, sources = _means(by_backend), _means(by_source)
    # What its backend says anyway need not be said again: objects that AITER ships as they are, by the hundred.
    told = {name: mean for name, mean in sources.items() if mean != backends[usual[name]]}
    return {"version": RECORD_VERSION, "backends": backends, "sources": told}


def _means(table: Mapping[str, Mapping[object, float]]) -> dict[str, float]:
    return {name: round(sum(each.values()) / len(each), 2) for name, each in sorted(table.items())}


def seconds_of(jobs: Iterable[CompileJob], known: Recorded | None = None) -> float:
    """Estimate the seconds of a core for compiling ``jobs``."""
    return sum(seconds for seconds, _ in _units(jobs, known or recorded()))


def even_batches(missing: Batch, workers: int, known: Recorded | None = None) -> list[Batch]:
    """Split jobs so that no batch exceeds a worker's share.

    As ``batches``, with the longest first: with hundreds of workers a few jobs of one source would be all that is left.
    """
    known = known or recorded()
    split = batches(missing, workers)
    seconds = [_expected(batch, known) for batch in split]
    share = sum(seconds) / max(1, workers)
    parts: list[Batch] = []
    for batch, each in zip(split, seconds, strict=True):
        many = batch[0][0].backend in COMPILE_MANY
        count = min(len(batch), math.ceil(each / share)) if many and share else 1
        parts += [batch[at::count] for at in range(count)]
    return sorted(parts, key=lambda batch: _expected(batch, known), reverse=True)


def _expected(batch: Batch, known: Recorded) -> float:
    return seconds_of((job for job, _ in batch), known)


def shard_of(plan: Plan, text: str, known: Recorded | None = None) -> Plan:
    """Shard ``I/N`` of a plan (I from 1), its jobs in the plan's order; bundles are left out, since one shard cannot make them.

    Raises:
        UsageError: ``text`` is not I/N with 1 <= I <= N.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(
            asked=f"shard {text!r}",
            found="not of the form I/N with 1 <= I <= N",
            fix="write --shard 1/4, for example",
        )
    mine = _parts(plan.jobs, int(match[2]), known or recorded())[int(match[1]) - 1]
    return Plan(tuple(job for job in plan.jobs if job.id in mine), ())


def _parts(jobs: Iterable[CompileJob], count: int, known: Recorded) -> list[set[str]]:
    """Split jobs into shards.

    The longest compile comes first, always to the shard that has least to do.
    """
    parts: list[set[str]] = [set() for _ in range(count)]
    load = [(0.0, place) for place in range(count)]
    heapify(load)
    for seconds, names in sorted(_units(jobs, known), key=lambda unit: (-unit[0], unit[1])):
        busy, place = load[0]
        parts[place].update(names)
        heapreplace(load, (busy + seconds, place))
    return parts


def _units(jobs: Iterable[CompileJob], known: Recorded) -> list[tuple[float, list[str]]]:
    """Each compile's seconds and the jobs that it makes."""
    together: dict[object, list[CompileJob]] = {}
    for job in jobs:
        together.setdefault(_unit(job), []).append(job)
    return [(known.of(each[0]), [job.id for job in each]) for each in together.values()]


def _unit(job: CompileJob) -> object:
    """Return the key of jobs that one compile makes.

    A file of AITER's is one compile for all kernels that are named of it.
    """
    if job.backend in COMPILE_MANY:
        return job.id
    return compile_of(file_of(job) or job)
