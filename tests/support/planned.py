"""An operator, its kernel and a target in memory, for tests of the plan that need no files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from build_tools.manifest.model import Catalogue, Family, Kernel, Manifest, Operator, Profile, Target
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import PythonSignature
from build_tools.plan.plan import target_facts
from build_tools.plan.slots import Slots, assign_slots
from build_tools.plan.variants import Variant, expand
from build_tools.records import TargetFacts

_ROW: Final = Target(
    title="CDNA3", vendor="amd", wave=64, lds_bytes=65536, vgprs=512, sgprs=102, fp8="e4m3fnuz", isa_version=9402, cus=[304, 228],
    devices=["MI300X"], elf_mach=0x4C, distribution="d", extra="e",
)  # fmt: skip
TARGETS: Final = {"gfx942": _ROW, "gfx950": _ROW.model_copy(update={"fp8": "e4m3fn", "lds_bytes": 163840})}
_OPERATOR: Final = Operator(
    name="scale", family="norm", python=PythonSignature((), 0), module="module_x", summary="made up", source="nobody", notes={},
    covered={}, ignored=(), type_of={}, into={}, served_by={}, plain=(), dense=(), detached=False, first_rows={}, function=None, epilogue=None,
    types={"T": ["bf16", "f16"]},
    arguments={"out": "out T[M, N]", "x": "T[M, N]"}, returns={}, attributes={}, tuned=None, kernels=(),
)  # fmt: skip


def operator(**changes: Any) -> Operator:
    """``scale(out: T[M, N], x: T[M, N])``, some of it replaced."""
    return replace(_OPERATOR, **changes)


def kernel(**changes: Any) -> Kernel:
    """A HIP kernel of one launch, some of it replaced or, when None, left out."""
    row = {
        "name": "rows", "backend": "hip", "targets": ["gfx942", "gfx950"], "source": "k.hip", "symbol": "k", "grid": ["M"],
        "block": [64], "args": ["ptr out", "ptr x", "i32 N"],
    }  # fmt: skip
    return Kernel.model_validate({key: value for key, value in (row | changes).items() if value is not None})


def slots(**changes: Any) -> Slots:
    """The signature of :func:`operator`, which must be right."""
    problems = Problems()
    made = assign_slots(operator(**changes), problems)
    assert problems.lines == []
    return made


def manifest(*operators: Operator, profiles: dict[str, list[str]] | None = None) -> Manifest:
    """One family of ``operators``; ``profiles``: name -> targets."""
    rows = {"ck-free": [*TARGETS]} if profiles is None else profiles
    return Manifest(
        targets=TARGETS,
        profiles={name: Profile(title=name, backends=["hip"], targets=names) for name, names in rows.items()},
        families={"norm": Family("norm", operators)},
        catalogue=Catalogue(edition=1, categories={}),
        files={"norm": "manifests/norm/operators.toml"},
    )


def inputs_of(backend: str, source: str, symbol: str, constants: dict[str, object]) -> tuple[str, ...]:
    """For a plan: the source, and what was asked."""
    return (source, f"{backend} {symbol} {sorted(constants)}")


def target(name: str = "gfx942") -> TargetFacts:
    """One of the two targets."""
    return target_facts(manifest())[name]


def variants(made: Kernel, of: Slots | None = None) -> list[Variant]:
    """Expand the variants of a right kernel on gfx942."""
    problems = Problems()
    found = expand(made, of or slots(), target(), problems)
    assert problems.lines == []
    return found
