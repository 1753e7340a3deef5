"""The records of edition 1, as people write them. The JSON Schema is generated from here.

Structure only: which keys exist and what shape their values have. What the values mean together
(names, targets, expressions) is checked in ``parse`` and ``recipe``, so that everything wrong is said at once.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from build_tools.manifest.problems import suggestion

Scalar = int | bool | str


def _known_target(name: str, info: ValidationInfo) -> str:
    """The parser gives the names of the target table as context; without it any name will do."""
    known = (info.context or {}).get("targets")
    if known is not None and name not in known:
        raise ValueError(f"{name!r} is not a known target{suggestion(name, known)}")
    return name


TargetName = Annotated[str, AfterValidator(_known_target)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Record(BaseModel):
    """Frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True)


class Assume(Record):
    """What the compiler may take for granted in variants in which ``when_constant`` is true (always, if left out)."""

    when_constant: Name | None = None
    divisible: list[Name] = Field(
        description="kernel arguments that are multiples of 16: bytes for pointers, value for integers"
    )


class Step(Record):
    """One launch of a kernel of several."""

    symbol: Name
    source: str | None = None
    grid: Annotated[list[str | int], Field(min_length=1, max_length=3)]
    block: Annotated[list[str | int], Field(min_length=1, max_length=3)] | None = None
    lds: str | int | None = None
    args: list[str]
    slot: int | None = None
    constants: dict[Name, Scalar] = {}
    uses: list[Name] | None = None
    assume: Assume | None = None


class Kernel(Record):
    """One way to do an operator: one backend, its variants, and how it is launched."""

    name: Name
    backend: Literal["asm", "hip", "ck", "triton", "flydsl"]
    targets: Annotated[list[TargetName], Field(min_length=1)]
    profile: Literal["ck-free", "ck-full"] = "ck-free"
    source: str
    symbol: Name | None = None
    types: dict[Name, list[str]] = {}
    when: list[str] = []
    cost: str | int | None = None
    workspace: str | int | None = None
    grid: Annotated[list[str | int], Field(min_length=1, max_length=3)] | None = None
    block: Annotated[list[str | int], Field(min_length=1, max_length=3)] | None = None
    lds: str | int | None = None
    args: list[str] | None = None
    slot: int | None = None
    constants: dict[Name, Scalar] = {}
    variants: dict[Name, Annotated[list[Scalar | dict[Name, Scalar]], Field(min_length=1)]] = {}
    excluded: list[str] = Field(default=[], alias="except")
    assume: Assume | None = None
    steps: list[Step] = []


class Operator(Record):
    """One operator: its signature, said once, and the kernels that do it."""

    name: Name
    summary: str
    reference: Annotated[str, Field(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+$")]
    order: list[Name] = []
    types: dict[Name, Annotated[list[str], Field(min_length=1)]] = {}
    arguments: Annotated[dict[Name, str], Field(min_length=1)]
    returns: dict[Name, str] = {}
    attributes: dict[Name, str] = {}
    tuned: str | None = None
    kernels: Annotated[list[Kernel], Field(min_length=1)]


class Family(Record):
    """One manifest file: a family of operators."""

    edition: Literal[1]
    family: Name
    operators: Annotated[list[Operator], Field(min_length=1)]


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
    elf_mach: int
    distribution: str
    extra: str


class Profile(Record):
    """One row of ``profiles.toml``: what goes into which wheel."""

    title: str
    backends: list[Literal["asm", "hip", "ck", "triton", "flydsl"]]
    targets: Annotated[list[TargetName], Field(min_length=1)]
    includes: str | None = None
    suffix: str = ""
    forbidden_symbols: list[str] = []


class CatalogueEntry(Record):
    """One row of AITER's operator list: a title as in the coverage document, and the function names behind it."""

    title: str
    operators: Annotated[list[Name], Field(min_length=1)]
    aiter: list[Literal["asm", "hip", "ck", "triton", "flydsl"]] = Field(
        description="backends that AITER itself has"
    )
    note: str = ""


class Catalogue(Record):
    """``catalogue.toml``: every operator that AITER has, by category."""

    edition: Literal[1]
    categories: dict[str, Annotated[list[CatalogueEntry], Field(min_length=1)]]


class Manifest(Record):
    """All files of ``manifests/`` together, checked. ``files`` gives the file of each family, for error paths."""

    targets: dict[str, Target]
    profiles: dict[str, Profile]
    families: dict[str, Family]
    catalogue: Catalogue
    files: dict[str, str]
