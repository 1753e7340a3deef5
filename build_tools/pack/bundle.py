"""Audited code objects to one bundle per target and profile, in the format of ``contract.bundle``.

How small it gets is :mod:`build_tools.pack.compress`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.receipt import recipe_digests, was_executed
from aiter_prebuilt.contract.records import AFTER_PRODUCT, VENDORS, Entry, Operator, Root, Step
from build_tools.errors import BundleBuildError
from build_tools.files.reproducible import write_atomic
from build_tools.judge.receipts import NOT_EXECUTED, Receipt, text_of
from build_tools.manifest.tree import Tree
from build_tools.pack.compress import compress, regions
from build_tools.pack.writer import encode
from build_tools.records import (
    AuditReport,
    CompileResult,
    KernelFacts,
    PlannedBundle,
    PlannedOperator,
    in_tree,
)

#: Hexadecimal digits of a job's key that an entry carries: enough to find it in a store, and half as long in the file.
KEY_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class BuiltBundle:
    """A bundle on disk. Sizes in bytes; ``raw_bytes``: its code objects before compression; ``unproved``: entries without a
    receipt.
    """

    path: Path
    target: str
    profile: str
    distribution: str
    entries: int
    code_objects: int
    raw_bytes: int
    size: int
    sha256: str
    unproved: int


def build_bundle(
    planned: PlannedBundle,
    results: Mapping[str, CompileResult],
    audits: Mapping[str, AuditReport],
    provenance: Mapping[str, str],
    version: str,
    suffix: str,
    folder: Path,
    receipts: Mapping[str, Receipt],
    trees: Mapping[str, str] | None = None,
    left_out: Mapping[str, int] | None = None,
    pool: Executor | None = None,
    tree: Tree | None = None,
) -> BuiltBundle:
    """Encode and write ``<folder>/<target>-<profile>.apb`` (temporary file, then rename); the profile of a tree's has its name.

    ``receipts``: digest of a recipe -> its receipt, those that hold. ``trees``: source trees that
    files of it are from, and their versions. ``left_out``: operator -> entries that it has not because a tree is not pinned.
    ``pool``: what compresses. ``tree``: whose own bundle it is; None: the product's.

    Raises:
        BundleBuildError: a job has no code object, or its audit broke a rule.
    """
    blobs: list[bytes] = []
    groups: list[str] = []
    index_of: dict[str, int] = {}
    operators = []
    for planned_operator in planned.operators:
        entries = []
        for job_id in planned_operator.jobs:
            data, facts = _audited(results[job_id], audits[job_id])
            digest = hashlib.sha256(data).hexdigest()
            if digest not in index_of:
                index_of[digest] = len(blobs)
                blobs.append(data)
                groups.append(_alike(results[job_id].job.source))
            entries.append(_entry(results[job_id], facts, index_of[digest], digest))
        operators.append(_receipted(_finished(planned_operator, tuple(entries), results), receipts))
    root = _root(planned, provenance, trees or {}, left_out or {}, version, suffix)
    if tree is not None:
        operators = [_placed(operator, tree) for operator in operators]
        profile = tree.profile(planned.profile)
        root = replace(root, profile=profile, distribution=tree.name, version=tree.version)
    packed = compress(blobs, groups, pool)
    pack = partial(regions, pool=pool)
    data = encode(root, tuple(operators), packed.frames, packed.dictionaries, pack)
    path = folder / f"{planned.target.name}-{root.profile}{contract.SUFFIX}"
    write_atomic(path, data)
    return BuiltBundle(
        path=path,
        target=planned.target.name,
        profile=planned.profile,
        distribution=root.distribution,
        entries=sum(len(operator.entries) for operator in operators),
        code_objects=len(blobs),
        raw_bytes=sum(map(len, blobs)),
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        unproved=sum(not was_executed(entry) for operator in operators for entry in operator.entries),
    )


def _placed(operator: Operator, tree: Tree) -> Operator:
    """Put the kernels of a tree behind those of the product, if it says so."""
    if tree.order == "before":
        return operator
    kernels = tuple(replace(kernel, rank=kernel.rank + AFTER_PRODUCT) for kernel in operator.kernels)
    return replace(operator, kernels=kernels)


def _alike(source: str) -> str:
    """Return the group of a code object for compression.

    Kernels of one source, and adopted ones of one family, which lie in one folder of their tree (``aiter:hsa/gfx942/fmoe``),
    differ in little.
    """
    return "/".join(source.split("/")[:3]) if in_tree(source) else source


def _root(
    planned: PlannedBundle, provenance: Mapping[str, str], trees: Mapping[str, str], left_out: Mapping[str, int],
    version: str, suffix: str,
) -> Root:  # fmt: skip
    target = planned.target
    told: dict[str, object] = {"tools": dict(sorted(provenance.items())), "cus": target.cus}
    # Only where there is such a thing: what is not said changes no byte.
    told |= {"trees": dict(sorted(trees.items()))} if trees else {}
    told |= {"left_out": dict(sorted(left_out.items()))} if left_out else {}
    return Root(
        target=target.name,
        profile=planned.profile,
        distribution=target.distribution + suffix,
        version=version,
        provenance=json.dumps(told, separators=(",", ":")),
        vendor=VENDORS.index(target.vendor),
        wave=target.wave,
        lds_bytes=target.lds_bytes,
        fp8=dtype.BY_NAME[target.fp8].number,
    )


def _audited(result: CompileResult, audit: AuditReport) -> tuple[bytes, KernelFacts]:
    if not result.ok or result.path is None:
        raise BundleBuildError(
            f"put {result.job.id} into a bundle",
            "its compile failed",
            "see the build report for the command and its output",
        )
    if not audit.ok or audit.facts is None:
        raise BundleBuildError(
            f"put {result.job.id} into a bundle", "; ".join(audit.problems), "mend the kernel or its manifest"
        )
    facts = next(kernel for kernel in audit.facts.kernels if kernel.symbol == result.symbol)
    return result.path.read_bytes(), facts


def _entry(result: CompileResult, facts: KernelFacts, code_object: int, digest: str) -> Entry:
    return Entry(
        name=result.job.id,
        symbol=result.symbol,
        job=result.key[:KEY_DIGITS],
        receipt=NOT_EXECUTED,
        code_object=code_object,
        kernarg_size=facts.kernarg_size,
        kernarg_align=facts.kernarg_align,
        lds_static=facts.lds_static,
        max_threads=facts.max_threads,
        sgprs=facts.sgprs,
        vgprs=facts.vgprs,
        agprs=facts.agprs,
        spills=facts.sgpr_spills + facts.vgpr_spills,
        scratch=facts.scratch,
        sha256=bytes.fromhex(digest),
    )


def _finished(
    planned: PlannedOperator, entries: tuple[Entry, ...], results: Mapping[str, CompileResult]
) -> Operator:
    """Complete an operator with its entries and the compiler's facts.

    These are the dynamic LDS and threads of each step.
    """
    recipes = tuple(
        replace(
            recipe, steps=tuple(_launchable(step, results[planned.jobs[step.entry]]) for step in recipe.steps)
        )
        for recipe in planned.operator.recipes
    )
    return replace(planned.operator, entries=entries, recipes=recipes)


def _receipted(operator: Operator, receipts: Mapping[str, Receipt]) -> Operator:
    """Mark the executed entries of an operator.

    They are marked in every recipe that launches them.
    """
    found: dict[int, list[Receipt | None]] = {}
    for recipe, digest in zip(operator.recipes, recipe_digests(operator), strict=True):
        for place in {step.entry for step in recipe.steps}:
            found.setdefault(place, []).append(receipts.get(digest))
    entries = tuple(
        replace(entry, receipt=text_of(found.get(place, []))) for place, entry in enumerate(operator.entries)
    )
    return replace(operator, entries=entries)


def _launchable(step: Step, result: CompileResult) -> Step:
    if result.threads and (step.block_y, step.block_z) == (1, 1):
        step = replace(step, block_x=result.threads)
    lds = int(result.extra.get("lds", "0"))
    return replace(step, lds=compile_expression(lds, Scope({}))) if lds and not step.lds else step
