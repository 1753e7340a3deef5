"""The frozen records on the arrows of the pipeline, from the plan to the bundle.

    manifest -> Plan -> CompileResult -> AuditReport -> (contract.records) BundleIndex

A stage reads the record before it and returns the next; none reaches back. Paths in records are relative to
the repository (sources) or absolute in the store (results); nothing that ends up in a bundle holds a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from aiter_prebuilt.contract.records import Operator, TunedRow

Backend = Literal["asm", "hip", "ck", "triton", "flydsl"]
Constant = int | str | bool
#: (backend, source, symbol, constants) -> files of the repository that the compile reads
InputsOf = Callable[[str, str, str, dict[str, object]], tuple[str, ...]]


def in_tree(source: str) -> bool:
    """Tell whether a source is a file of a source tree.

    Its name is like ``aiter:hsa/...``; else it is one of the repository.
    """
    return ":" in source


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """One row of ``manifests/targets.toml``. ``lds_bytes``: per workgroup at most; ``fp8``: "e4m3fn" or "e4m3fnuz"."""

    name: str
    title: str
    vendor: Literal["amd", "nvidia"]
    wave: int
    lds_bytes: int
    vgprs: int
    sgprs: int
    fp8: str
    isa_version: int
    cus: tuple[int, ...]
    devices: tuple[str, ...]
    elf_mach: int
    distribution: str
    extra: str


@dataclass(frozen=True, slots=True)
class KernelArg:
    """One kernel argument as the code object must have it.

    ``kind``: "ptr", "u8", "i32", "i64", "f32" or "f64"; ``dtype``: element type name of what a pointer points to ("" for
    workspace and null, which are bytes); ``offset``/``size``: bytes in the kernarg segment; ``name``: the tensor, or the
    expression's text; ``divisible``: the compiler may take it as a multiple of 16 (Triton's ``assume``); ``role``: of the tensor
    ("in", "out", "inout"), "" for anything else.
    """

    kind: str
    name: str
    offset: int
    size: int
    dtype: str = ""
    divisible: bool = False
    role: str = ""


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One compile: everything a backend needs, nothing it has to look up.

    ``id`` is ``<target>-<backend>-<operator>.<kernel>[.<step>]-<variant>-<types>``: the name in plans, logs, filters and
    reports. ``constants``: sorted (name, value) pairs, type variables included (concrete type names). ``inputs``: all files of
    the repository that the compile reads (source first), for the content key. ``block``: threads per
    workgroup (0, 0, 0 when the compiler decides, as Triton does by num_warps). ``demangled``: the symbol for people.
    """

    id: str
    target: TargetFacts
    backend: Backend
    source: str
    symbol: str
    constants: tuple[tuple[str, Constant], ...]
    args: tuple[KernelArg, ...]
    kernarg_size: int
    block: tuple[int, int, int]
    inputs: tuple[str, ...]
    demangled: str = ""

    def constant(self, name: str, default: Constant | None = None) -> Constant | None:
        """Return the value of constant ``name``."""
        return dict(self.constants).get(name, default)


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """An operator block whose entries are still jobs: ``Step.entry`` counts into ``jobs``; ``operator.entries`` is empty."""

    operator: Operator
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedBundle:
    """One bundle to be: its target and profile, and the operators it holds."""

    target: TargetFacts
    profile: str
    operators: tuple[PlannedOperator, ...]


class UnusedRow(NamedTuple):
    """A measured row that decides nothing: its line, what it says, and why it names nothing here."""

    line: int
    says: str
    why: str


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """An operator's use of one measured table.

    ``rows``: in the file; ``meant``: about this operator and devices of this target; ``taken``: lines of those that name a
    recipe; ``shapes``: ranges of calls that they decide; ``unused``: those that name nothing; ``decided``: lines and their fate
    in the bundle.
    """

    operator: str
    target: str
    profile: str
    table: str
    rows: int
    meant: int
    taken: tuple[int, ...]
    shapes: int
    unused: tuple[UnusedRow, ...]
    decided: tuple[tuple[int, TunedRow], ...] = field(default=(), repr=False)


class LeftOut(NamedTuple):
    """An entry left out because of a file of an unpinned tree.

    The file, the reason in one line, and the entry that it would have been (its job's id; "" where a table goes, whose rows
    nobody knows).
    """

    source: str
    reason: str
    operator: str
    target: str
    profile: str
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The exact list of jobs, and the bundles that need them. Jobs are unique by id and sorted. ``left_out``: what a source tree
    that is not pinned lacks, or has as something else. ``measured``: tables of measured rows, and what came of them.
    """

    jobs: tuple[CompileJob, ...]
    bundles: tuple[PlannedBundle, ...]
    left_out: tuple[LeftOut, ...] = ()
    measured: tuple[MeasuredTable, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """List the files for which entries are left out, with reasons.

        One line for each reason.
        """
        return tuple(dict.fromkeys(f"{each.source}: {each.reason}" for each in self.left_out))


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The outcome of one job.

    ``path``: the code object in the store when ``ok``. ``symbol``: the kernel's symbol in it (a compiler may mangle).
    ``threads``: threads per workgroup that the compiler fixed (0 when it did not).
    ``extra``: ``lds``, the dynamic LDS bytes that the kernel expects. ``command``, ``log`` and ``exit_code`` are the
    failing process's when not ok. ``cached``: found in the store. ``seconds`` that a core was busy and ``peak`` bytes of
    memory: of the compile that made it, which may have made others with it.
    """

    job: CompileJob
    key: str
    ok: bool
    path: Path | None = None
    symbol: str = ""
    threads: int = 0
    cached: bool = False
    seconds: float = 0.0
    command: str = ""
    exit_code: int = 0
    log: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    peak: int = 0


class ArgFacts(NamedTuple):
    """One explicit argument of a kernel, as its metadata have it. ``access``: "read_only", "write_only", "read_write" or ""."""

    offset: int
    size: int
    kind: str
    name: str = ""
    access: str = ""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A code object's facts about one kernel.

    From AMDGPU metadata and descriptor, or a cubin's info sections.

    ``args``: every explicit argument; ``hidden``: value kinds the driver fills in.
    Bytes, registers and threads. ``wave``: lanes per wave. ``uses_dynamic_stack``/``scratch``: bytes of scratch per lane.
    """

    symbol: str
    kernarg_size: int
    kernarg_align: int
    args: tuple[ArgFacts, ...]
    hidden: tuple[str, ...]
    lds_static: int
    max_threads: int
    wave: int
    sgprs: int
    vgprs: int
    agprs: int
    sgpr_spills: int
    vgpr_spills: int
    scratch: int
    kernarg_preload: int = 0
    uses_dynamic_stack: bool = False


@dataclass(frozen=True, slots=True)
class CodeObjectFacts:
    """An ELF's facts about itself.

    ``version``: AMDGPU code object version (0 for a cubin). ``features``: "sramecc+" and the like.
    """

    target: str
    vendor: Literal["amd", "nvidia"]
    version: int
    features: tuple[str, ...]
    kernels: tuple[KernelFacts, ...]
    symbols: tuple[str, ...]
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The judgement of one code object: facts, and every rule that it breaks (empty: it may enter a bundle)."""

    subject: str
    facts: CodeObjectFacts | None
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when no rule is broken."""
        return not self.problems
