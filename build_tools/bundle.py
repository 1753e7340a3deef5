"""Audited code objects to one bundle per target and profile, in the format of ``contract.bundle``.

Compression: kernels of one source are near-copies of each other, so a few of them are stored as references and each other
one as a zstd frame against the reference that suits it best. One kernel is then decoded alone, in tens of microseconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import zstandard

from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.records import VENDORS, Entry, Operator, Root, Step
from build_tools.errors import BundleBuildError
from build_tools.receipts import NOT_EXECUTED
from build_tools.records import AuditReport, CompileResult, KernelFacts, PlannedBundle, PlannedOperator
from build_tools.reproducible import write_atomic

LEVEL: Final = 19
TRIAL_LEVEL: Final = 3
#: References of one group at most: each is decoded, and kept, for the members that need it.
MAX_REFERENCES: Final = 16


@dataclass(frozen=True, slots=True)
class BuiltBundle:
    """A bundle on disk. Sizes in bytes; ``raw_bytes``: its code objects before compression."""

    path: Path
    target: str
    profile: str
    distribution: str
    entries: int
    code_objects: int
    raw_bytes: int
    size: int
    sha256: str


def build_bundle(
    planned: PlannedBundle,
    results: Mapping[str, CompileResult],
    audits: Mapping[str, AuditReport],
    provenance: Mapping[str, str],
    version: str,
    suffix: str,
    folder: Path,
    receipts: Mapping[str, str],
) -> BuiltBundle:
    """Encode and write ``<folder>/<target>-<profile>.apb`` (temporary file, then rename).

    ``receipts``: SHA-256 of a code object -> JSON text of its receipt, from :mod:`build_tools.receipts`.

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
                groups.append(results[job_id].job.source)
            receipt = receipts.get(digest, NOT_EXECUTED)
            entries.append(_entry(results[job_id], facts, index_of[digest], digest, receipt))
        operators.append(_finished(planned_operator, tuple(entries), results))
    root = _root(planned, provenance, version, suffix)
    data = contract.encode(root, tuple(operators), compress(blobs, groups))
    path = folder / f"{planned.target.name}-{planned.profile}{contract.SUFFIX}"
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
    )


def _root(planned: PlannedBundle, provenance: Mapping[str, str], version: str, suffix: str) -> Root:
    target = planned.target
    return Root(
        target=target.name,
        profile=planned.profile,
        distribution=target.distribution + suffix,
        version=version,
        provenance=json.dumps(
            {"tools": dict(sorted(provenance.items())), "cus": target.cus}, separators=(",", ":")
        ),
        vendor=VENDORS.index(target.vendor),
        wave=target.wave,
        lds_bytes=target.lds_bytes,
        fp8=dtype.BY_NAME[target.fp8].number,
        operators=(),
        code_object_offset=0,
        code_object_count=0,
        entry_count=0,
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


def _entry(result: CompileResult, facts: KernelFacts, code_object: int, digest: str, receipt: str) -> Entry:
    return Entry(
        name=result.job.id,
        symbol=result.symbol,
        job=result.key,
        receipt=receipt,
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
    """The operator with its entries, and with what only the compiler knew: dynamic LDS and threads of each step."""
    recipes = tuple(
        replace(
            recipe, steps=tuple(_launchable(step, results[planned.jobs[step.entry]]) for step in recipe.steps)
        )
        for recipe in planned.operator.recipes
    )
    return replace(planned.operator, entries=entries, recipes=recipes)


def _launchable(step: Step, result: CompileResult) -> Step:
    if result.threads and (step.block_y, step.block_z) == (1, 1):
        step = replace(step, block_x=result.threads)
    lds = int(result.extra.get("lds", "0"))
    return replace(step, lds=compile_expression(lds, Scope({}))) if lds and not step.lds else step


def compress(blobs: list[bytes], groups: list[str]) -> tuple[contract.Frame, ...]:
    """One frame per code object, in order; ``groups`` says which are likely to be alike."""
    frames: dict[int, contract.Frame] = {}
    for group in sorted(set(groups)):
        members = [index for index, name in enumerate(groups) if name == group]
        trial = _Trial(members, blobs)
        references = trial.references()
        for index in references:
            frames[index] = _frame(blobs[index], None, None)
        for index in members:
            if index not in frames:
                reference = trial.best(index, references)
                frames[index] = _frame(
                    blobs[index], reference, None if reference is None else blobs[reference]
                )
    return tuple(frames[index] for index in range(len(blobs)))


class _Trial:
    """Sizes of a group's members alone and against each other, at a fast level: enough to tell who resembles whom."""

    def __init__(self, members: list[int], blobs: list[bytes]) -> None:
        self.members = members
        self.alone = {index: len(_zstd(blobs[index], None, TRIAL_LEVEL)) for index in members}
        self.against = {
            (index, reference): len(_zstd(blobs[index], blobs[reference], TRIAL_LEVEL))
            for index in members
            for reference in members
            if index != reference
        }

    def references(self) -> list[int]:
        """Greedily, while it gains: the member as whose dictionary the others would shrink most."""
        chosen: list[int] = []
        sizes = dict(self.alone)
        while len(chosen) < MAX_REFERENCES:
            gain, negative = max(
                ((self._gain(index, chosen, sizes), -index) for index in self.members if index not in chosen),
                default=(0, 0),
            )
            if gain <= 0:
                break
            chosen.append(-negative)
            for index in self.members:
                if index in chosen:
                    sizes[index] = self.alone[index]
                else:
                    sizes[index] = min(sizes[index], self.against[index, -negative])
        return sorted(chosen)

    def _gain(self, reference: int, chosen: list[int], sizes: dict[int, int]) -> int:
        saved = sum(
            max(0, sizes[index] - self.against[index, reference])
            for index in self.members
            if index != reference and index not in chosen
        )
        return saved - (self.alone[reference] - sizes[reference])

    def best(self, index: int, references: list[int]) -> int | None:
        """The reference that suits ``index`` best, or None when it is smaller alone."""
        size, reference = min(
            ((self.against[index, ref], ref) for ref in references), default=(self.alone[index], -1)
        )
        return reference if size < self.alone[index] else None


def _frame(blob: bytes, reference: int | None, dictionary: bytes | None) -> contract.Frame:
    packed = _zstd(blob, dictionary, LEVEL)
    digest = hashlib.sha256(blob).digest()
    if len(packed) >= len(blob):
        return contract.Frame(blob, len(blob), digest, "raw")
    return contract.Frame(packed, len(blob), digest, "zstd", reference)


def _zstd(blob: bytes, dictionary: bytes | None, level: int) -> bytes:
    raw = (
        None
        if dictionary is None
        else zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    )
    total = len(blob) + len(dictionary or b"")
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, source_size=len(blob), dict_size=len(dictionary or b""), write_checksum=False, write_content_size=True,
        window_log=max(10, min(27, (total - 1).bit_length())),
    )  # fmt: skip
    return zstandard.ZstdCompressor(dict_data=raw, compression_params=parameters).compress(blob)


def decompress(frame: bytes, raw_size: int, dictionary: bytes | None) -> bytes:
    """The decoder that the contract's reader asks for, on the build side."""
    raw = (
        None
        if dictionary is None
        else zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    )
    data = zstandard.ZstdDecompressor(dict_data=raw).decompress(frame, max_output_size=raw_size)
    if len(data) != raw_size:
        raise ValueError(f"{len(data)} bytes decoded, {raw_size} recorded")
    return data


def open_bundle(path: Path) -> contract.Bundle:
    """Open a built bundle for reading."""
    return contract.Bundle(path.read_bytes(), decompress)
