"""What a build farm costs and gains: ``PYTHONPATH=src python benchmarks/farm.py --operator silu_and_mul``.

Compiles the same jobs with threads of this process and on farms of 1, 2 and 4 local workers, in one run: into an empty store,
from one that has all of it, and from a shared one behind an empty folder. Without ``--operator`` that is the whole default build,
minutes of all cores each time. Then, by what compiles took when they were recorded (``build_tools/compile/seconds.json``), what a
farm of many workers would take for the whole plan, and which compiles are the critical path.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from build_tools.compile.backends.table import COMPILE_MANY
from build_tools.compile.compile import Batch, Elsewhere, compile_jobs, compile_of
from build_tools.compile.inputs import inputs_of
from build_tools.compile.place import place_at
from build_tools.compile.shards import even_batches, seconds_of
from build_tools.compile.shared import SharedStore
from build_tools.compile.store import Results, Store
from build_tools.farm.address import Address
from build_tools.farm.lead import Farm
from build_tools.files.cores import cores
from build_tools.manifest.parse import load
from build_tools.pipeline.planning import chosen
from build_tools.plan.plan import make_plan
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain, find


@dataclass(frozen=True, slots=True)
class FarmRow:
    """Seconds of one way to build: ``cold`` into an empty store, ``warm`` from it, ``shared`` through an empty folder. ``core``:
    that a core was busy with the compiles, which other programs of the machine change less.
    """

    how: str
    cold: float
    core: float
    warm: float
    shared: float


def timed(
    jobs: Sequence[CompileJob], toolchain: Toolchain, store: Results, elsewhere: Elsewhere | None
) -> float:
    """Seconds of a compile stage in which every job is well."""
    started = time.perf_counter()
    results = compile_jobs(jobs, toolchain, store, root=ROOT, elsewhere=elsewhere)
    seconds = time.perf_counter() - started
    failed = [result.log for result in results if not result.ok]
    if failed:
        sys.exit(f"{len(failed)} jobs failed, the first one: {failed[0]}")
    return seconds


def measured(
    how: str, jobs: Sequence[CompileJob], toolchain: Toolchain, elsewhere: Elsewhere | None
) -> tuple[FarmRow, dict[str, str]]:
    """A row, and the SHA-256 of each job's object."""
    with tempfile.TemporaryDirectory(prefix="farm-") as folder:
        store = Store(Path(folder) / "cold")
        cold = timed(jobs, toolchain, store, elsewhere)
        warm = timed(jobs, toolchain, store, elsewhere)
        behind = SharedStore(Store(Path(folder) / "empty"), place_at(f"file://{store.path}"))
        shared = timed(jobs, toolchain, behind, elsewhere)
        results = compile_jobs(jobs, toolchain, store, root=ROOT, stored_only=True)
        made = {result.job.id: result.path.name for result in results if result.path is not None}
        core = {unit_of(result.job): result.seconds for result in results}
    return FarmRow(how, cold, sum(core.values()), warm, shared), made


def unit_of(job: CompileJob) -> object:
    """What jobs of one compile have in common."""
    return job.id if job.backend in COMPILE_MANY else compile_of(job)


@dataclass(frozen=True, slots=True)
class Simulated:
    """A farm that nobody has: ``seconds`` until the last worker is done, ``last`` what that one did, in order."""

    workers: int
    units: int
    seconds: float
    core_seconds: float
    last: tuple[tuple[str, float], ...]

    @property
    def busy(self) -> float:
        """The part of the time in which a worker has something to do."""
        return self.core_seconds / (self.seconds * self.workers) if self.seconds else 1.0


def simulate(jobs: Sequence[CompileJob], workers: int) -> Simulated:
    """The longest unit first, always to the worker that is free first: as a farm does it."""
    units = sorted(
        ((seconds_of(job for job, _ in batch), name_of(batch)) for batch in even_batches([(job, "") for job in jobs], workers)),
        reverse=True,
    )  # fmt: skip
    done: list[list[tuple[str, float]]] = [[] for _ in range(workers)]
    free = [(0.0, place) for place in range(workers)]
    heapify(free)
    for seconds, name in units:
        at, place = free[0]
        done[place].append((name, seconds))
        heapreplace(free, (at + seconds, place))
    end, place = max(free)
    return Simulated(workers, len(units), end, sum(seconds for seconds, _ in units), tuple(done[place]))


def name_of(batch: Batch) -> str:
    """A unit for people: its first job, and how many more."""
    more = f" and {len(batch) - 1} more of {batch[0][0].source}" if len(batch) > 1 else ""
    return f"{batch[0][0].id}{more}"


def simulation(jobs: Sequence[CompileJob], largest: int) -> list[Simulated]:
    """Farms of 1 to ``largest`` workers."""
    counts = sorted({1, 2, 4, 8, 16, 32, 64, 128, largest})
    return [simulate(jobs, count) for count in counts if count <= largest]


def print_simulation(rows: Sequence[Simulated], planning: float) -> None:
    """A table, and the critical path of the largest farm."""
    print(
        f"\nsimulated, the whole plan by recorded seconds (planning it here took {planning:.1f} s, which no worker shortens)"
    )
    print(f"{'workers':>8} {'units':>7} {'seconds':>9} {'x':>7} {'busy':>6}")
    for row in rows:
        print(
            f"{row.workers:8} {row.units:7} {row.seconds:9.1f} {rows[0].seconds / row.seconds:7.1f} {row.busy:6.0%}"
        )
    last = rows[-1]
    print(f"critical path with {last.workers} workers, {last.seconds:.1f} s on one of them:")
    for name, seconds in last.last:
        print(f"  {seconds:7.2f} s  {name}")


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--operator", action="append", default=[], help="compile only this one's jobs; may be repeated"
    )
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--ck", default="curated", choices=["sample", "curated", "tuned"])
    parser.add_argument("--workers", default="1,2,4", help="sizes of local farms; nothing: none is measured")
    parser.add_argument(
        "--simulate", type=int, default=200, metavar="WORKERS", help="the largest farm that is simulated"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Measure, simulate, print."""
    asked = arguments()
    toolchain, manifest = find("hermetic", ROOT), load(ROOT / "manifests")
    started = time.perf_counter()
    whole = make_plan(manifest, ROOT, inputs_of(ROOT), (), asked.target, prove=False, ck=asked.ck).jobs
    planning = time.perf_counter() - started
    mine = whole
    if asked.operator:
        few = chosen(manifest, asked.operator)
        mine = make_plan(few, ROOT, inputs_of(ROOT), (), asked.target, prove=False, ck=asked.ck).jobs
    counts = [int(word) for word in asked.workers.split(",") if word]
    ways: list[tuple[str, Elsewhere | None]] = [(f"{cores()} threads", None)] if counts else []
    ways += [(f"farm local:{count}", Farm(Address(local=count))) for count in counts]
    rows, made = [], []
    for how, elsewhere in ways:
        row, objects = measured(how, mine, toolchain, elsewhere)
        rows.append(row)
        made.append(objects)
    if any(objects != made[0] for objects in made):
        sys.exit("two ways to build gave other bytes")
    simulated = simulation(whole, asked.simulate)
    if asked.json:
        print(json.dumps({
            "jobs": len(mine), "measured": [{name: getattr(row, name) for name in FarmRow.__slots__} for row in rows],
            "simulated": [{name: getattr(row, name) for name in Simulated.__slots__} for row in simulated],
        }))  # fmt: skip
        return
    if rows:
        print(
            f"{len(mine)} jobs, {seconds_of(mine):.0f} recorded seconds of a core, {cores()} cores, the same bytes; seconds:"
        )
        print(f"{'':16} {'cold':>8} {'core':>8} {'warm':>8} {'shared':>8}")
    for row in rows:
        print(f"{row.how:16} {row.cold:8.1f} {row.core:8.1f} {row.warm:8.2f} {row.shared:8.2f}")
    print_simulation(simulated, planning)


if __name__ == "__main__":
    main()
