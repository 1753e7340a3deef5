"""The whole build in one call: plan -> compile -> audit -> bundle. Used by the `build` and `wheels` verbs.

Each bundle has a note beside it with a key (its plan, its jobs' keys, the tools): when that is unchanged the bundle is
left as it is and nothing is audited again, so that a build with nothing to do takes well under a second.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import zstandard

from aiter_prebuilt.contract.bundle import SUFFIX
from aiter_prebuilt.contract.code_text import Definition
from aiter_prebuilt.contract.version import BUNDLE_FORMAT, CALLS_SUFFIX, RECIPE, VERSION
from build_tools import stamp
from build_tools.cases import golden
from build_tools.compile.compile import Elsewhere, compile_jobs
from build_tools.compile.cost import cost_of
from build_tools.compile.inputs import inputs_of
from build_tools.compile.shards import shard_of
from build_tools.compile.store import Results, Store
from build_tools.errors import AuditError, CodeObjectError, CompileFailedError, UsageError
from build_tools.files.codehash import code_digest
from build_tools.files.cores import side_by_side
from build_tools.files.reproducible import table_text, write_atomic
from build_tools.judge import audit
from build_tools.judge.receipts import Receipt, proofs_of
from build_tools.manifest.model import CURATED, Manifest, Profile
from build_tools.manifest.parse import load
from build_tools.manifest.problems import suggestion
from build_tools.objects import codeobject
from build_tools.pack import notes
from build_tools.pack.bundle import BuiltBundle, build_bundle
from build_tools.plan.plan import make_plan
from build_tools.plan.reduced import without
from build_tools.prove.known import known
from build_tools.records import (
    AuditReport,
    CodeObjectFacts,
    CompileResult,
    LeftOut,
    Plan,
    PlannedBundle,
    in_tree,
)
from build_tools.report import unpinned
from build_tools.tools.toolchain import Toolchain, find
from build_tools.tools.tree import tree_of

REPORT_VERSION = 4
#: Letters of a reason that stands in a list.
_LONG: Final = 200
#: Makes the plan, and tries its assumptions.
PLANNER: Final = ("build_tools.plan.plan", "make_plan")
#: Judges the code objects of a bundle and writes it.
MAKER: Final = ("build_tools.pipeline", "_bundle")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are and what is wanted. Empty ``profiles``/``targets``/``operators`` mean all; ``shard`` I/N compiles a part
    and bundles nothing. ``ck``: the set of Composable Kernel's instances (``plan/sets.py``). ``stored_only``: compiles nothing.
    ``elsewhere`` compiles in the place of this process; ``behind`` is what the store is put before; ``again``: what of it is
    compiled again.
    """

    root: Path
    store: Path
    bundles: Path
    toolchain: str = "hermetic"
    profiles: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    workers: int = 0
    shard: str = ""
    operators: tuple[str, ...] = ()
    ck: str = CURATED
    stored_only: bool = False
    elsewhere: Elsewhere | None = None
    behind: Callable[[Store], Results] | None = None
    again: Callable[..., Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a build made, and what it found. ``audits`` holds only what was judged in this run."""

    plan: Plan
    results: tuple[CompileResult, ...]
    audits: Mapping[str, AuditReport]
    bundles: tuple[BuiltBundle, ...]
    seconds: float
    ck: str = CURATED
    rechecked: Mapping[str, Any] | None = None


def unchanged(settings: Settings) -> dict[str, Any] | None:
    """The report of the last build of the same part, when nothing that it read or wrote is another since; else None.

    Raises:
        ManifestError, ToolchainError: as a build would.
    """
    if settings.shard or settings.again is not None or not settings.store.is_dir():
        return None
    found = stamp.state(settings.root, find(settings.toolchain, settings.root), asked(settings))
    if not stamp.holds(settings.bundles, asked(settings), found):
        return None
    told = json.loads((settings.bundles.parent / "report.json").read_text(encoding="utf-8"))
    return told if told.get("version") == REPORT_VERSION else None


def asked(settings: Settings) -> str:
    """What is to be planned, in one line."""
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
    state = None if settings.shard else stamp.state(settings.root, toolchain, asked(settings))
    whole = load(settings.root / "manifests")
    manifest = chosen(whole, settings.operators)
    plan = plan_of(manifest, settings)
    store = settings.behind(Store(settings.store)) if settings.behind else Store(settings.store)
    # Before anything compiles: a file that changes meanwhile makes the bundle stale, and not the record wrong.
    sources = [_sources(planned, plan, settings.root) for planned in plan.bundles]
    results = compile_jobs(
        plan.jobs, toolchain, store, root=settings.root, workers=settings.workers,
        report=settings.bundles.parent / "compile.json", stored_only=settings.stored_only, elsewhere=settings.elsewhere,
    )  # fmt: skip
    failed = [result for result in results if not result.ok and not _of_checkout(result, settings.root)]
    if failed:
        raise CompileFailedError(failed)
    rechecked = None if settings.again is None else settings.again(
        results, toolchain, settings.store, settings.root, settings.workers, settings.elsewhere
    )  # fmt: skip
    audits: dict[str, AuditReport] = {}
    plan = _fitting(plan, results, manifest, settings.root, audits)
    proved = known(settings.root)
    proofs = proofs_of(proved)
    wanted = [
        (planned, read)
        for planned, read in zip(plan.bundles, sources, strict=True)
        if planned.operators or not settings.operators
    ]
    # A family's table of calls names all of its operators, chosen or not.
    names = frozenset(each.operator.name for planned, _ in wanted for each in planned.operators)
    calls = golden.Golden(whole, settings.root / "manifests", names)
    with side_by_side() as (begin, pool):
        shared = calls, results, manifest, toolchain, settings, audits
        proof = proved, proofs, plan.left_out, pool
        bundles = [begin(partial(_with_calls, planned, *shared, read, *proof)) for planned, read in wanted]
        built = tuple(bundle.result() for bundle in bundles)
    outcome = Outcome(plan, results, audits, built, time.perf_counter() - started, settings.ck, rechecked)
    write_report(outcome, settings.bundles.parent / "report.json")
    stamp.write(settings.bundles, asked(settings), state, [bundle.path.name for bundle in built])
    return outcome


def _of_checkout(result: CompileResult, root: Path) -> bool:
    """Is it made of a file of a tree that is not pinned?"""
    return in_tree(result.job.source) and not tree_of(result.job.source, root).pinned


def _fitting(
    plan: Plan, results: Sequence[CompileResult], manifest: Manifest, root: Path, audits: dict[str, AuditReport]
) -> Plan:  # fmt: skip
    """The plan without what a tree that is not pinned has under a name that the manifests know, but as another kernel: a later
    checkout's takes other arguments, holds what a profile forbids, or does not compile. A pinned tree's is wrong in the manifest,
    and ends the build.
    """
    forbidden = _forbidden(plan, manifest)
    reasons: dict[str, str] = {}
    for result in results:
        if not _of_checkout(result, root):
            continue
        if result.path is None:
            reasons[result.job.id] = _said_first(result)
            continue
        try:
            found = audit.judge(
                result, codeobject.read(result.path.read_bytes()), forbidden.get(result.job.id, ())
            )
        except CodeObjectError as error:
            reasons[result.job.id] = error.found
            continue
        audits[result.job.id] = found
        if not found.ok:
            more = f", and {len(found.problems) - 1} more" if len(found.problems) > 1 else ""
            reasons[result.job.id] = f"it is another kernel: {found.problems[0]}{more}"
    return without(plan, reasons) if reasons else plan


def _forbidden(plan: Plan, manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """What each job's code object must not hold: what the profiles that launch it forbid."""
    found: dict[str, tuple[str, ...]] = {}
    for bundle in plan.bundles:
        words = tuple(manifest.profiles[bundle.profile].forbidden_symbols)
        for job in {job for operator in bundle.operators for job in operator.jobs}:
            found[job] = tuple(dict.fromkeys((*found.get(job, ()), *words)))
    return found


def _said_first(result: CompileResult) -> str:
    """The compiler's first error, or the first line of what went wrong, without what stands beside it anyway."""
    lines = result.log.splitlines()
    words = next((line for line in lines if "error: " in line), lines[0] if lines else "it does not compile")
    for beside in (f" of {result.job.source}", f" for {result.job.id}"):
        words = words.replace(beside, "")
    return words if len(words) <= _LONG else f"{words[: _LONG - 1].rstrip()}\u2026"


def chosen(manifest: Manifest, names: Sequence[str]) -> Manifest:
    """The manifest with these operators only (all, when none is named).

    Raises:
        UsageError: an operator that the manifests do not have.
    """
    if not names:
        return manifest
    known = {operator.name for family in manifest.families.values() for operator in family.operators}
    for name in names:
        if name not in known:
            raise UsageError(
                f"look for operator {name!r}",
                f"not an operator{suggestion(name, known)}",
                "see docs/operators.md",
            )
    families = {
        family: replace(
            row, operators=tuple(operator for operator in row.operators if operator.name in names)
        )
        for family, row in manifest.families.items()
    }
    return manifest.model_copy(update={"families": families})


def plan_of(manifest: Manifest, settings: Settings) -> Plan:
    """The plan, or a shard of it. The trial of assumptions runs once per state of the manifests and of the code that tries."""
    files = sorted((settings.root / "manifests").rglob("*.toml"))
    words = f"{settings.ck} {code_digest(PLANNER)}".encode()
    digest = hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files) + words
    ).hexdigest()
    proved = settings.store / "proved" / digest
    inputs = inputs_of(settings.root)
    plan = make_plan(
        manifest, settings.root, inputs, settings.profiles, settings.targets, prove=not proved.exists(),
        ck=settings.ck,
    )  # fmt: skip
    if not (settings.profiles or settings.targets or settings.operators):
        write_atomic(proved, b"")
    return shard_of(plan, settings.shard) if settings.shard else plan


def _sources(planned: PlannedBundle, plan: Plan, root: Path) -> dict[str, str]:
    needed = {job for operator in planned.operators for job in operator.jobs}
    names = {name for job in plan.jobs if job.id in needed for name in job.inputs}
    names |= {
        table.table
        for table in plan.measured
        if (table.target, table.profile) == _of(planned) and table.taken
    }
    return notes.hashes(root, names | notes.manifest_files(root))


def _of(planned: PlannedBundle) -> tuple[str, str]:
    return planned.target.name, planned.profile


def _with_calls(planned: PlannedBundle, calls: golden.Golden, *what: Any) -> BuiltBundle:
    built = _bundle(planned, *what)
    _golden_calls(planned, built, calls)
    return built


def _bundle(
    planned: PlannedBundle, results: tuple[CompileResult, ...], manifest: Manifest, toolchain: Toolchain,
    settings: Settings, audits: dict[str, AuditReport], sources: Mapping[str, str], proved: Mapping[str, Receipt],
    proofs: str, left_out: Sequence[LeftOut] = (), pool: Executor | None = None,
) -> BuiltBundle:  # fmt: skip
    by_id = {result.job.id: result for result in results}
    needed = sorted({job for operator in planned.operators for job in operator.jobs})
    profile = manifest.profiles[planned.profile]
    files = {job: by_id[job].job.source for job in needed if in_tree(by_id[job].job.source)}
    used = {source.partition(":")[0] for source in sources if in_tree(source)}
    trees = {name: version for name, version in toolchain.trees if name in used}
    tools = toolchain.provenance()
    told: dict[str, Any] = {"ck": settings.ck} if "ck" in profile.backends else {}
    if settings.operators:
        told["operators"] = sorted(settings.operators)
    if lost := unpinned.lost(left_out, *_of(planned)):
        told["left_out"] = lost
    key = bundle_key(planned, [by_id[job] for job in needed], {**tools, **trees, **told}, profile, proofs)
    path = settings.bundles / f"{planned.target.name}-{planned.profile}{SUFFIX}"
    same = _unchanged(path, key, sources)
    if same is not None:
        return same
    path.unlink(missing_ok=True)
    forbidden = tuple(profile.forbidden_symbols)
    facts: dict[Path, CodeObjectFacts] = {}  # a file of AITER's is one object of a hundred jobs
    for job in needed:
        data = by_id[job].path
        assert data is not None
        if data not in facts:
            facts[data] = codeobject.read(data.read_bytes())
        audits[job] = audit.judge(by_id[job], facts[data], forbidden)
    broken = [audits[job] for job in needed if not audits[job].ok]
    if broken:
        raise AuditError(broken)
    built = build_bundle(
        planned, by_id, audits, tools, VERSION, profile.suffix, settings.bundles, proved, trees, lost, pool
    )
    told |= {"upstream": notes.upstream(settings.root, sources), "files": files}
    notes.write(
        path, {"key": key, "sources": sources, **told, **{name: getattr(built, name) for name in _NOTED}}
    )
    return built


def _golden_calls(planned: PlannedBundle, bundle: BuiltBundle, calls: golden.Golden) -> None:
    """Write the golden calls beside a bundle, unless those that are there were made from the same."""
    names = [operator.operator.name for operator in planned.operators]
    path, note = bundle.path.with_suffix(CALLS_SUFFIX), notes.read(bundle.path)
    key = golden.key(calls.folder, names)
    there = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    if note.get("calls") == {"key": key, "sha256": there}:
        return
    data = calls.stream(planned.target.name, names)
    write_atomic(path, data)
    notes.write(bundle.path, note | {"calls": {"key": key, "sha256": hashlib.sha256(data).hexdigest()}})


_NOTED = (
    "target", "profile", "distribution", "entries", "code_objects", "raw_bytes", "size", "sha256", "unproved",
)  # fmt: skip


def bundle_key(
    planned: PlannedBundle,
    results: list[CompileResult],
    tools: Mapping[str, str],
    profile: Profile,
    proofs: str,
    maker: Definition = MAKER,
) -> str:
    """What a bundle is made from, in one hash: when it is unchanged, so is the bundle, and nothing is judged again."""
    parts = [
        repr((BUNDLE_FORMAT, RECIPE, VERSION, zstandard.__version__)),
        repr(planned),
        repr((profile.suffix, profile.forbidden_symbols)),
        repr(sorted(tools.items())),
        proofs,
    ]
    parts.append(code_digest(maker))
    parts += [f"{result.job.id} {result.key} {result.symbol}" for result in results]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _unchanged(path: Path, key: str, sources: Mapping[str, str]) -> BuiltBundle | None:
    """The bundle that is there, when it was made from the same things and its bytes are still those."""
    note = notes.read(path)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if note.get("key") != key or hashlib.sha256(data).hexdigest() != note.get("sha256"):
        return None
    if note.get("sources") != sources:
        # Another operator's manifest, or a comment in one: the same bundle comes of it.
        notes.write(path, note | {"sources": sources})
    return BuiltBundle(path=path, **{name: note[name] for name in _NOTED})


def write_report(outcome: Outcome, path: Path) -> None:
    """The build report: versioned JSON, one row per job and per bundle."""
    write_atomic(path, table_text(report(outcome)).encode())


def report(outcome: Outcome) -> dict[str, Any]:
    """The report as plain data."""
    planned = {_of(bundle): bundle for bundle in outcome.plan.bundles}
    return {
        "version": REPORT_VERSION,
        "ck": outcome.ck,
        "seconds": round(outcome.seconds, 3),
        "jobs": [
            {
                "id": result.job.id,
                "key": result.key,
                "cached": result.cached,
                "seconds": round(result.seconds, 3),
                "peak_bytes": result.peak,
                "bytes": result.path.stat().st_size if result.path else 0,
                **_registers(outcome.audits.get(result.job.id), result.symbol),
            }
            for result in outcome.results
        ],
        "bundles": [
            {
                "file": bundle.path.name,
                **{name: getattr(bundle, name) for name in _NOTED},
                "ratio": round(bundle.raw_bytes / max(1, bundle.size), 2),
                **cost_of(planned[bundle.target, bundle.profile], outcome.results),
            }
            for bundle in outcome.bundles
        ],
        **unpinned.as_json(outcome.plan),
        **({"rechecked": outcome.rechecked} if outcome.rechecked else {}),
    }


def _registers(audited: AuditReport | None, symbol: str) -> dict[str, Any]:
    if audited is None or audited.facts is None:
        return {}
    facts = next(kernel for kernel in audited.facts.kernels if kernel.symbol == symbol)
    names = ("vgprs", "agprs", "sgprs", "sgpr_spills", "vgpr_spills", "scratch", "lds_static")
    return {"audit": {**{name: getattr(facts, name) for name in names}, "notes": list(audited.notes)}}
