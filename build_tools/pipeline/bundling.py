"""Judge the code objects of a bundle and write it, with its golden calls beside it.

A note beside each bundle has a key (its plan, its jobs' keys, the tools): while that is the same, the bundle is left as it is and
nothing is judged again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final

import zstandard

from aiter_prebuilt.contract.bundle import SUFFIX
from aiter_prebuilt.contract.code_text import Definition
from aiter_prebuilt.contract.version import BUNDLE_FORMAT, CALLS_SUFFIX, RECIPE, VERSION
from build_tools.cases import golden
from build_tools.errors import AuditError
from build_tools.files.codehash import code_digest
from build_tools.files.reproducible import write_atomic
from build_tools.judge import audit
from build_tools.judge.receipts import Receipt
from build_tools.manifest.model import Manifest, Profile
from build_tools.objects import codeobject
from build_tools.pack import notes
from build_tools.pack.bundle import BuiltBundle, build_bundle
from build_tools.pipeline.settings import Settings
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
from build_tools.tools.toolchain import Toolchain

#: Judges the code objects of a bundle and writes it.
MAKER: Final = ("build_tools.pipeline.bundling", "_bundle")


def sources_of(planned: PlannedBundle, plan: Plan, root: Path) -> dict[str, str]:
    """Hash the files that a bundle is made from, by path."""
    needed = {job for operator in planned.operators for job in operator.jobs}
    names = {name for job in plan.jobs if job.id in needed for name in job.inputs}
    names |= {
        table.table
        for table in plan.measured
        if (table.target, table.profile) == place_of(planned) and table.taken
    }
    return notes.hashes(root, names | notes.manifest_files(root))


def place_of(planned: PlannedBundle) -> tuple[str, str]:
    """Target and profile."""
    return planned.target.name, planned.profile


def name_of(planned: PlannedBundle, settings: Settings) -> str:
    """Name the file of a bundle."""
    tree = settings.tree
    profile = planned.profile if tree is None else tree.profile(planned.profile)
    return f"{planned.target.name}-{profile}{SUFFIX}"


def bundle_with_calls(planned: PlannedBundle, calls: golden.Golden, *what: Any) -> BuiltBundle:
    """Write a bundle and its golden calls; ``what``: the other arguments of :func:`_bundle`."""
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
    tree = settings.tree
    if tree is not None:
        told["tree"] = repr(tree)
    if settings.operators:
        told["operators"] = sorted(settings.operators)
    if lost := unpinned.lost(left_out, *place_of(planned)):
        told["left_out"] = lost
    key = bundle_key(planned, [by_id[job] for job in needed], {**tools, **trees, **told}, profile, proofs)
    path = settings.bundles / name_of(planned, settings)
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
        planned,
        by_id,
        audits,
        tools,
        VERSION,
        profile.suffix,
        settings.bundles,
        proved,
        trees,
        lost,
        pool,
        tree,
    )
    told |= {"upstream": notes.upstream(settings.root, sources), "files": files}
    notes.write(
        path, {"key": key, "sources": sources, **told, **{name: getattr(built, name) for name in NOTED}}
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


NOTED = (
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
    """Hash all inputs of a bundle.

    When the hash is unchanged, so is the bundle, and nothing is judged again.
    """
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


def remove_others(folder: Path, built: Sequence[BuiltBundle]) -> None:
    """Remove the bundles of a tree that its whole build did not make: those of an earlier name, or of kernels that are gone."""
    kept = {bundle.path for bundle in built}
    for path in set(folder.glob(f"*{SUFFIX}")) - kept:
        for each in (path, path.with_suffix(CALLS_SUFFIX), notes.path_of(path)):
            each.unlink(missing_ok=True)


def _unchanged(path: Path, key: str, sources: Mapping[str, str]) -> BuiltBundle | None:
    """Return the existing bundle, if it is current.

    It was made from the same things and its bytes are still those.
    """
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
    return BuiltBundle(path=path, **{name: note[name] for name in NOTED})
