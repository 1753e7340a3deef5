"""Run a build: the verbs `build` and `wheels`. One with nothing to do takes well under a second."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

from build_tools.cases import golden
from build_tools.compile.compile import compile_jobs
from build_tools.compile.store import Store
from build_tools.errors import CompileFailedError
from build_tools.files.cores import side_by_side
from build_tools.judge.receipts import proofs_of
from build_tools.manifest.parse import load
from build_tools.pipeline import stamp
from build_tools.pipeline.bundling import bundle_with_calls, remove_others, sources_of
from build_tools.pipeline.planning import chosen, fitting, of_checkout, plan_of
from build_tools.pipeline.report import REPORT_VERSION, write_report
from build_tools.pipeline.settings import Outcome, Settings
from build_tools.prove.known import known
from build_tools.records import AuditReport
from build_tools.tools.toolchain import find


def unchanged(settings: Settings) -> dict[str, Any] | None:
    """Return the report of the last build, if it is current.

    Nothing that it read or wrote is another since; else None.

    Raises:
        ManifestError, ToolchainError: as a build would.
    """
    if settings.shard or settings.again is not None or not settings.store.is_dir():
        return None
    found = stamp.state(settings.root, find(settings.toolchain, settings.root), plan_request(settings))
    if not stamp.holds(settings.bundles, plan_request(settings), found):
        return None
    told = json.loads((settings.bundles.parent / "report.json").read_text(encoding="utf-8"))
    return told if told.get("version") == REPORT_VERSION else None


def plan_request(settings: Settings) -> str:
    """Describe the requested plan in one line."""
    parts = settings.profiles, settings.targets, settings.operators
    return stamp.asked_of(settings.ck, *parts, shard=settings.shard)


def build(settings: Settings) -> Outcome:
    """Run the pipeline and write the report.

    Raises:
        ManifestError, ToolchainError: before anything is compiled.
        NotStoredError: nothing was to be compiled, and the store lacks a result.
        CompileFailedError, AuditError: after all jobs ran; no bundle of a failing job is written.
    """
    started = time.perf_counter()
    toolchain = find(settings.toolchain, settings.root)
    # As it is before anything is read: what changes meanwhile is another state.
    state = None if settings.shard else stamp.state(settings.root, toolchain, plan_request(settings))
    whole = load(settings.root / "manifests")
    manifest = chosen(whole, settings.operators)
    plan = plan_of(manifest, settings)
    store = settings.behind(Store(settings.store)) if settings.behind else Store(settings.store)
    # Before anything compiles: a file that changes meanwhile makes the bundle stale, and not the record wrong.
    sources = [sources_of(planned, plan, settings.root) for planned in plan.bundles]
    results = compile_jobs(
        plan.jobs, toolchain, store, root=settings.root, workers=settings.workers,
        report=settings.bundles.parent / "compile.json", stored_only=settings.stored_only, elsewhere=settings.elsewhere,
    )  # fmt: skip
    failed = [result for result in results if not result.ok and not of_checkout(result, settings.root)]
    if failed:
        raise CompileFailedError(failed)
    rechecked = None if settings.again is None else settings.again(
        results, toolchain, settings.store, settings.root, settings.workers, settings.elsewhere
    )  # fmt: skip
    audits: dict[str, AuditReport] = {}
    plan = fitting(plan, results, manifest, settings.root, audits)
    proved = known(settings.root)
    proofs = proofs_of(proved)
    wanted = [
        (planned, read)
        for planned, read in zip(plan.bundles, sources, strict=True)
        if planned.operators or not (settings.operators or settings.tree)
    ]
    # A family's table of calls names all of its operators, chosen or not.
    names = frozenset(each.operator.name for planned, _ in wanted for each in planned.operators)
    calls = golden.Golden(whole, settings.root / "manifests", names)
    with side_by_side() as (begin, pool):
        shared = calls, results, manifest, toolchain, settings, audits
        proof = proved, proofs, plan.left_out, pool
        bundles = [
            begin(partial(bundle_with_calls, planned, *shared, read, *proof)) for planned, read in wanted
        ]
        built = tuple(bundle.result() for bundle in bundles)
    if settings.tree is not None and not (settings.operators or settings.targets or settings.profiles):
        remove_others(settings.bundles, built)
    outcome = Outcome(plan, results, audits, built, time.perf_counter() - started, settings.ck, rechecked)
    write_report(outcome, settings.bundles.parent / "report.json")
    stamp.write(settings.bundles, plan_request(settings), state, [bundle.path.name for bundle in built])
    return outcome
