"""Limit the memory of compiles that run side by side.

A compile has a class, by its recorded memory.

``memory.json`` beside this file is that record (``matrix --record`` writes it): the most that a process of a compile had. A class
is twice that at least, since a compile is more than one process, and another machine's libraries are other ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from build_tools.records import CompileJob

RECORD: Final = Path(__file__).with_name("memory.json")
RECORD_VERSION: Final = 1
#: In MiB.
CLASSES: Final = (1024, 2048, 4096, 8192, 16384)
#: Of a compile of which nothing like it was recorded.
UNKNOWN: Final = 2048
_SPARE: Final = 2


@dataclass(frozen=True, slots=True)
class Peaks:
    """MiB of the largest process of compiles, by ``<vendor> <source>``; of other sources by ``<vendor> <backend>``."""

    sources: Mapping[str, int] = field(default_factory=dict)
    backends: Mapping[str, int] = field(default_factory=dict)

    def class_of(self, job: CompileJob, least: int = 0) -> int:
        """Return the memory class of a job, in MiB.

        ``least``: the limit that every job has, whatever was recorded.
        """
        source, backend = _names(job)
        peak = self.sources.get(source, self.backends.get(backend, 0))
        return max(_class(peak) if peak else UNKNOWN, least)


def _class(peak: int) -> int:
    wanted = peak * _SPARE
    return next((each for each in CLASSES if each >= wanted), CLASSES[-1])


def _names(job: CompileJob) -> tuple[str, str]:
    return f"{job.target.vendor} {job.source}", f"{job.target.vendor} {job.backend}"


@lru_cache(maxsize=1)
def recorded() -> Peaks:
    """Read the committed record."""
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    return Peaks(told["sources"], told["backends"])


def record_of(jobs: Iterable[CompileJob], peaks: Mapping[str, int]) -> dict[str, Any]:
    """Build the record of jobs with known peaks.

    Peaks are in bytes, by name, 0 where nobody looked.
    """
    sources: dict[str, int] = {}
    backends: dict[str, int] = {}
    usual: dict[str, str] = {}
    for job in jobs:
        peak = -(-peaks.get(job.id, 0) // (1 << 20))
        source, backend = _names(job)
        usual[source] = backend
        sources[source] = max(peak, sources.get(source, 0))
        backends[backend] = max(peak, backends.get(backend, 0))
    # A source of its backend's class need not be told: the record changes where that says something.
    told = {
        name: peak
        for name, peak in sorted(sources.items())
        if peak and _class(peak) != _class(backends[usual[name]])
    }
    known = {name: peak for name, peak in sorted(backends.items()) if peak}
    return {"version": RECORD_VERSION, "backends": known, "sources": told}
