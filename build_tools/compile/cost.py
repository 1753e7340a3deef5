"""Report the cost of compiles.

Seconds of a core and memory of each bundle, and the compiles that need much memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from build_tools.compile.backends.table import COMPILE_MANY
from build_tools.compile.compile import compile_of
from build_tools.records import CompileResult, PlannedBundle

#: Bytes of memory past which a compile is named: two at once are then too many for a runner of 4 GB.
MUCH: Final = 3 << 29


def cost_of(planned: PlannedBundle, results: Iterable[CompileResult]) -> dict[str, Any]:
    """``compile_seconds`` of a core and ``peak_bytes`` of what a bundle holds, whenever it was compiled; a compile that made
    several of its code objects counts once. Memory is that of the largest process, which is never smaller than the build itself
    (``files/run.py``), and 0 where nobody looked.
    """
    needed = {job for operator in planned.operators for job in operator.jobs}
    mine = [result for result in results if result.job.id in needed]
    seconds = {_unit(result): result.seconds for result in mine}
    return {
        "compile_seconds": round(sum(seconds.values()), 1),
        "peak_bytes": max((result.peak for result in mine), default=0),
    }


def _unit(result: CompileResult) -> object:
    return result.job.id if result.job.backend in COMPILE_MANY else compile_of(result.job)


def large(told: Mapping[str, Any]) -> list[str]:
    """Describe each compile that needed more than :data:`MUCH`.

    The largest comes first.
    """
    rows = sorted(
        (job for job in told["jobs"] if job["peak_bytes"] > MUCH), key=lambda job: -job["peak_bytes"]
    )
    return [f"{job['id']} needed {job['peak_bytes'] / 2**30:.1f} GiB of memory to compile" for job in rows]
