"""The plan of a build: of the operators that are asked for, without what an unpinned tree has otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from build_tools.compile.inputs import inputs_of
from build_tools.compile.shards import shard_of
from build_tools.errors import CodeObjectError
from build_tools.files.codehash import code_digest
from build_tools.files.reproducible import write_atomic
from build_tools.judge import audit
from build_tools.manifest.model import Manifest
from build_tools.manifest.names import refuse_unknown
from build_tools.objects import codeobject
from build_tools.pipeline.settings import Settings
from build_tools.plan.plan import make_plan
from build_tools.plan.reduced import without
from build_tools.records import (
    AuditReport,
    CompileResult,
    Plan,
    in_tree,
)
from build_tools.tools.tree import asked_editions, tree_of

#: Makes the plan, and tries its assumptions.
PLANNER: Final = ("build_tools.plan.plan", "make_plan")
#: Letters of a reason that stands in a list.
_LONG: Final = 200


def chosen(manifest: Manifest, names: Sequence[str]) -> Manifest:
    """Return the manifest with these operators only (all, when none is named).

    Raises:
        UsageError: an operator that the manifests do not have.
    """
    if not names:
        return manifest
    known = {operator.name for family in manifest.families.values() for operator in family.operators}
    refuse_unknown("choose operators", names, known)
    families = {
        family: replace(
            row, operators=tuple(operator for operator in row.operators if operator.name in names)
        )
        for family, row in manifest.families.items()
    }
    return manifest.model_copy(update={"families": families})


def plan_of(manifest: Manifest, settings: Settings) -> Plan:
    """Return the plan, or a shard of it.

    The trial of assumptions runs once per state of the manifests and of the code that tries.
    """
    files = sorted((settings.root / "manifests").rglob("*.toml"))
    words = f"{settings.ck} {' '.join(asked_editions(settings.root))} {code_digest(PLANNER)}".encode()
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


def of_checkout(result: CompileResult, root: Path) -> bool:
    """Is it made of a file of a tree that is not pinned?"""
    return in_tree(result.job.source) and not tree_of(result.job.source, root).pinned


def fitting(
    plan: Plan, results: Sequence[CompileResult], manifest: Manifest, root: Path, audits: dict[str, AuditReport]
) -> Plan:  # fmt: skip
    """Leave out differing code of unpinned trees.

    A later checkout's kernel of a known name may take other arguments, hold symbols that a profile forbids, or not compile. A
    pinned tree's is wrong in the manifest, and ends the build.
    """
    forbidden = _forbidden(plan, manifest)
    reasons: dict[str, str] = {}
    for result in results:
        if not of_checkout(result, root):
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
    """Collect the symbols that each job's code object must not hold.

    The profiles that launch it forbid them.
    """
    found: dict[str, tuple[str, ...]] = {}
    for bundle in plan.bundles:
        words = tuple(manifest.profiles[bundle.profile].forbidden_symbols)
        for job in {job for operator in bundle.operators for job in operator.jobs}:
            found[job] = tuple(dict.fromkeys((*found.get(job, ()), *words)))
    return found


def _said_first(result: CompileResult) -> str:
    """Extract the compiler's first error.

    Or the first line of the failure, without text that stands beside it anyway.
    """
    lines = result.log.splitlines()
    words = next((line for line in lines if "error: " in line), lines[0] if lines else "it does not compile")
    for beside in (f" of {result.job.source}", f" for {result.job.id}"):
        words = words.replace(beside, "")
    return words if len(words) <= _LONG else f"{words[: _LONG - 1].rstrip()}\u2026"
