"""The records of the manifests, as people write them and as the pipeline reads them. The JSON Schema is generated from here.

Structure only: which keys exist and what shape their values have. What the values mean together
(names, targets, expressions) is checked in ``parse`` and ``recipe``, so that everything wrong is said at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from build_tools.manifest.python import PythonSignature
from build_tools.manifest.record import Extent, Name, Record, Scalar, Symbol, TargetName
from build_tools.records import Backend, in_tree

SAMPLE: Final = "sample"
CURATED: Final = "curated"
TUNED: Final = "tuned"

Axis = Annotated[list[Scalar | dict[Name, Scalar]], Field(min_length=1)]


class Rows(Record):
    """An axis of variants that a table (CSV) writes: a row is a variant, its cells are constants."""

    table: str = Field(description="a file of a source tree, or of the repository; {target} is filled in")
    name: str | None = Field(default=None, description="a row's name; words in braces are its cells")
    rows: list[str] = Field(default=[], description="conditions on the cells: other rows are left out")
    rename: dict[str, Name] = Field(default={}, description="column -> the constant's name")
    defaults: dict[Name, Scalar] = Field(default={}, description="constants of columns that a table lacks")
    parts: dict[Name, dict[str, str]] = Field(
        default={}, description="constant -> the column whose text has it, and the pattern whose group it is"
    )


def _table(value: object) -> object:
    """Read a table's name as a table without other keys."""
    return {"table": value} if isinstance(value, str) else value


VariantsFrom = Annotated[Rows, BeforeValidator(_table, json_schema_input_type=str | Rows)]


class Measured(Record):
    """The mapping of upstream's measured rows to the variants of a kernel."""

    name: Annotated[dict[str, str], Field(min_length=1)] = Field(
        description="column -> what a variant is called there; words in braces are its constants"
    )
    equal: dict[str, str] = Field(
        default={},
        description="column -> what the kernel makes of the row's shape: another number is another way",
    )


class TunedFrom(Record):
    """Tables (CSV) that an upstream measured: which calls a row is about, and which rows are about this operator."""

    tables: Annotated[list[str], Field(min_length=1)] = Field(
        description="files of a source tree, or of the repository; of two rows about one shape the first counts, or the fastest"
    )
    fastest: str | None = Field(
        default=None,
        description="a column of times: of two rows about one shape the one with the smaller number counts, whichever is first",
    )
    cus: str = Field(description="the column of the device's compute units")
    dims: Annotated[dict[Name, str], Field(min_length=1)] = Field(
        description="dim or integer attribute -> its column, or an expression of columns"
    )
    fixed: dict[Name, int] = Field(default={}, description="integer attribute -> its value in every row")
    rows: list[str] = Field(default=[], description="conditions on the cells: other rows are left out")
    defaults: dict[Name, Scalar] = Field(default={}, description="cells of columns that a table lacks")
    apart: list[str] = Field(
        default=[],
        description="columns: rows that differ there are about different calls, whatever their shape",
    )
    padded: dict[Name, Annotated[list[str], Field(min_length=1)]] = Field(
        default={},
        max_length=1,
        description="dim -> sizes that a call without a row of its own is looked up as, in order",
    )


class Assume(Record):
    """Facts that the compiler may assume where ``when_constant`` is true (always, if left out)."""

    when_constant: Name | None = None
    divisible: list[Name] = Field(
        description="kernel arguments that are multiples of 16: bytes for pointers, value for integers"
    )


class StepText(Record):
    """One launch as written: what it leaves out stands with the kernel. ``zero`` makes it a fill with zero bytes."""

    symbol: Symbol | None = None
    demangled: str | None = None
    backend: Backend | None = None
    zero: Name | None = Field(default=None, description="fill this tensor, or the workspace, with zero bytes")
    only_if: str | None = Field(default=None, alias="if", description="launch it only where this holds")
    source: str | None = None
    grid: Extent | None = None
    block: Extent | None = None
    lds: str | int | None = None
    args: list[str] | None = None
    slot: int | None = None
    constants: dict[Name, Scalar] = {}
    uses: list[Name] | None = None
    assume: Assume | None = None


class Step(Record):
    """One launch of a kernel of several."""

    symbol: Symbol | None = None
    demangled: str | None = None
    backend: Backend | None = None
    zero: Name | None = None
    only_if: str | None = Field(default=None, alias="if")
    source: str | None = None
    grid: Extent | None = None
    block: Extent | None = None
    lds: str | int | None = None
    args: list[str] | None = None
    slot: int | None = None
    constants: dict[Name, Scalar] = {}
    uses: list[Name] | None = None
    assume: Assume | None = None


class Kernel(Record):
    """One way to do an operator: one backend, its variants, and how it is launched. What a manifest shares is resolved."""

    name: Name
    backend: Backend
    targets: Annotated[list[TargetName], Field(min_length=1)]
    profile: Literal["ck-free", "ck-full"] = "ck-free"
    source: str
    symbol: Symbol | None = None
    demangled: str | None = None
    types: dict[Name, list[str]] = {}
    when: list[str] = []
    cost: str | int | None = None
    workspace: str | int | None = None
    grid: Extent | None = None
    block: Extent | None = None
    lds: str | int | None = None
    args: list[str] | None = None
    slot: int | None = None
    constants: dict[Name, Scalar] = {}
    variants: dict[Name, Axis] = {}
    variants_from: VariantsFrom | None = None
    measured: Measured | None = None
    slack: dict[Name, int] = {}
    excluded: list[str] = Field(default=[], alias="except")
    sets: dict[Literal["sample", "curated"], list[str]] = {}
    assume: Assume | None = None
    steps: list[Step] = []

    def files(self) -> list[str]:
        """Name what it is made of: the sources of its steps, and its table."""
        table = [self.variants_from.table] if self.variants_from else []
        return [self.source, *(step.source for step in self.steps if step.source is not None), *table]


class More(Record):
    """Additions to lists that are shared."""

    when: list[str] = []
    args: list[str] = []


class KernelPart(Record):
    """Keys of a kernel that replace the shared ones; tables (constants, types, variants) are joined key by key."""

    source: str | None = None
    symbol: Symbol | None = None
    demangled: str | None = Field(default=None, description="the symbol as people read it")
    let: dict[Name, str] | None = Field(
        default=None, description="names for expressions that stand here several times"
    )
    types: dict[Name, list[str]] | None = None
    when: list[str] | None = None
    cost: str | int | None = None
    workspace: str | int | None = None
    grid: Extent | None = None
    block: Extent | None = None
    lds: str | int | None = None
    args: list[str] | None = None
    slot: int | None = None
    constants: dict[Name, Scalar] | None = None
    variants: dict[Name, Axis] | None = None
    variants_from: VariantsFrom | None = Field(default=None, description="a table whose rows are variants")
    measured: Measured | None = Field(default=None, description="how rows of `tuned_from` name its variants")
    slack: dict[Name, Annotated[int, Field(ge=1, le=1 << 20)]] | None = Field(
        default=None, description="bytes behind the end of a tensor that the kernel may read"
    )
    excluded: list[str] | None = Field(default=None, alias="except")
    sets: dict[Literal["sample", "curated"], list[str]] | None = Field(
        default=None,
        description="which variants `build --ck sample` and `--ck curated` compile; `tuned` has all",
    )
    assume: Assume | None = None
    steps: list[StepText] | None = None
    more: More | None = None


class KernelText(KernelPart):
    """``[kernels.NAME]`` as written: a kernel that operators use by name. ``like``: another one whose keys it takes over;
    ``on``: what differs on a target.
    """

    like: Name | None = None
    backend: Backend | None = None
    profile: Literal["ck-free", "ck-full"] | None = None
    targets: Annotated[list[TargetName], Field(min_length=1)] | None = None
    on: dict[TargetName, KernelPart] = {}


class Use(KernelPart):
    """A shared kernel in an operator's list, with what differs there; ``FAMILY/NAME`` is a kernel of another family. ``targets``:
    those of its targets where this operator takes it.
    """

    targets: Annotated[list[TargetName], Field(min_length=1)] | None = None
    use: Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]*/)?[A-Za-z_][A-Za-z0-9_]*$")]


Module = Annotated[
    str,
    Field(
        pattern=r"^(module_[a-z0-9_]+|aiter\.[a-z0-9_.]+)$",
        description="AITER's JIT module, or its Python module where no JIT module serves the function",
    ),
]


class OperatorPart(Record):
    """``[operators.NAME]`` as written. ``like``: another operator of the file whose keys it takes over."""

    like: Name | None = None
    python: str | None = None
    module: Module | None = None
    summary: str | None = None
    source: str | None = None
    notes: dict[Name, str] = {}
    covered: dict[Name, Annotated[list[Scalar | float | list[int]], Field(min_length=1)]] = {}
    ignored: list[Name] = []
    type_of: dict[Name, Name] = {}
    into: dict[Name, Name] = {}
    served_by: dict[Name, Name] = {}
    epilogue: Name | None = None
    plain: list[Name] = []
    dense: list[Name] = []
    detached: bool = False
    first_rows: dict[Name, Name] = {}
    function: Name | None = None
    types: dict[Name, Annotated[list[str], Field(min_length=1)]] = {}
    arguments: dict[Name, str] = {}
    returns: dict[Name, str] = {}
    attributes: dict[Name, str] | None = None
    tuned: str | None = None
    tuned_from: TunedFrom | None = Field(default=None, description="tables that an upstream measured")
    kernels: list[Name | Use] = []


class OperatorText(OperatorPart):
    """The same, with all keys that an operator needs: what ``like`` left out is filled in."""

    python: str
    module: Module
    summary: str
    source: str
    arguments: Annotated[dict[Name, str], Field(min_length=1)]
    kernels: Annotated[list[Name | Use], Field(min_length=1)]


class FamilyText(Record):
    """``operators.toml`` of one folder: a family of operators, and the kernels that they share."""

    edition: Literal[2]
    operators: Annotated[dict[Name, OperatorPart], Field(min_length=1)]
    kernels: dict[Name, KernelText] = {}


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its signature, said once, and the kernels that do it, in order of preference.

    ``attributes``: scalars of the native call, in the grammar of ``grammar.py``; ``covered``: option -> the values that are
    served (an element type of an argument as ``ArgumentType``); ``into``: returned tensor -> the parameter by which a caller
    gives its memory; ``served_by``: element type of the result -> the operator that has it; ``epilogue``: the option that names
    a function of the fp32 result, which a bias of another type is added to, too; ``plain``: the tensors that are refused where
    their ``is_shuffled`` is true; ``dense``: tensors of which a contiguous copy is taken where no kernel walks their strides;
    ``detached``: tensors that require a gradient are read as if they did not; ``first_rows``: result that may have more rows
    than are written -> the tensor whose rows say how many are; ``function``: the hand-written module of its Python function.
    """

    name: str
    family: str
    python: PythonSignature
    module: str
    summary: str
    source: str
    notes: dict[str, str]
    covered: dict[str, tuple[Any, ...]]
    ignored: tuple[str, ...]
    type_of: dict[str, str]
    into: dict[str, str]
    served_by: dict[str, str]
    epilogue: str | None
    plain: tuple[str, ...]
    dense: tuple[str, ...]
    detached: bool
    first_rows: dict[str, str]
    function: str | None
    types: dict[str, list[str]]
    arguments: dict[str, str]
    returns: dict[str, str]
    attributes: dict[str, str]
    tuned: str | None
    kernels: tuple[Kernel, ...]
    tuned_from: TunedFrom | None = None

    def slack(self) -> dict[str, int]:
        """Tensor -> bytes behind its end that one of the kernels may read."""
        found: dict[str, int] = {}
        for kernel in self.kernels:
            for name, size in kernel.slack.items():
                found[name] = max(size, found.get(name, 0))
        return found


@dataclass(frozen=True, slots=True)
class Family:
    """The operators of one folder."""

    family: str
    operators: tuple[Operator, ...]


class Target(Record):
    """One row of ``targets.toml``: the facts of one target."""

    title: str
    vendor: Literal["amd", "nvidia"]
    wave: Literal[32, 64]
    lds_bytes: int
    vgprs: int
    sgprs: int
    fp8: Literal["e4m3fn", "e4m3fnuz"]
    isa_version: int
    cus: Annotated[list[int], Field(min_length=1)]
    devices: list[str]
    apus: list[str] = []
    elf_mach: int
    distribution: str
    extra: str


class Profile(Record):
    """One row of ``profiles.toml``: what goes into which wheel."""

    title: str
    backends: list[Backend]
    targets: Annotated[list[TargetName], Field(min_length=1)]
    includes: str | None = None
    suffix: str = ""
    forbidden_symbols: list[str] = []


class CatalogueEntry(Record):
    """One row of AITER's operator list: a title as in the coverage document, and the function names behind it."""

    title: str
    operators: Annotated[list[Name], Field(min_length=1)]
    aiter: list[Backend] = Field(description="backends that AITER itself has")
    note: str = ""
    objects: list[str] = Field(
        default=[],
        description="AITER's assembled objects, below hsa/TARGET: a folder (`pa/`), or a pattern of files beside the folders",
    )
    modules: list[str] = Field(default=[], description="AITER's modules of Composable Kernel for them")


class Missing(Record):
    """Why the ck-free bundle of a target has no kernel for operators of the catalogue, for people who miss them."""

    operators: Annotated[list[Name], Field(min_length=1)]
    targets: Annotated[list[TargetName], Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]


class Catalogue(Record):
    """``catalogue.toml``: every operator that AITER has, by category, and why some are missing."""

    edition: Literal[1]
    categories: dict[str, Annotated[list[CatalogueEntry], Field(min_length=1)]]
    missing: list[Missing] = []

    def why(self, operator: str) -> dict[str, str]:
        """Target -> why the ck-free bundle has no kernel for ``operator`` there."""
        return {
            target: each.reason
            for each in self.missing
            if operator in each.operators
            for target in each.targets
        }


class Manifest(Record):
    """All files of ``manifests/`` together, checked. ``files`` gives the file of each family, for error paths."""

    targets: dict[str, Target]
    profiles: dict[str, Profile]
    families: dict[str, Family]
    catalogue: Catalogue
    files: dict[str, str]

    @property
    def amd(self) -> dict[str, Target]:
        """Targets of AMD, which the emulator executes."""
        return {name: target for name, target in self.targets.items() if target.vendor == "amd"}

    def of_other_trees(self, trees: Collection[str]) -> frozenset[tuple[str, str]]:
        """(operator, kernel) of all that are made of files of a source tree beside these."""
        return frozenset(
            (operator.name, kernel.name)
            for family in self.families.values()
            for operator in family.operators
            for kernel in operator.kernels
            if {name.partition(":")[0] for name in kernel.files() if in_tree(name)} - {*trees}
        )

    def of_sets(self) -> frozenset[tuple[str, str]]:
        """(operator, kernel) of all of which a build makes one set of instances or another."""
        return frozenset(
            (operator.name, kernel.name)
            for family in self.families.values()
            for operator in family.operators
            for kernel in operator.kernels
            if kernel.sets
        )
