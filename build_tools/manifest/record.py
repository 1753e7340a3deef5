"""Parts of all records of the manifests: names, targets and plain values."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from build_tools.manifest.problems import suggestion

Scalar = int | bool | str
#: Sets of Composable Kernel's instances, each in the next (`build_tools/plan/sets.py`).


def _known_target(name: str, info: ValidationInfo) -> str:
    """Check a target's name against the parser's context. Without one any name will do."""
    known = (info.context or {}).get("targets")
    if known is not None and name not in known:
        raise ValueError(f"{name!r} is not a known target{suggestion(name, known)}")
    return name


TargetName = Annotated[str, AfterValidator(_known_target)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


#: A kernel's name in its object, mangled where the object has it so, or as people read it (`space::kernel<bf16, 8>`) where a
#: file of a source tree is compiled; words in braces are filled in from a variant's constants.
Symbol = Annotated[str, Field(pattern=r"^[A-Za-z_{][A-Za-z0-9_{}.$]*(::[A-Za-z0-9_{}]+)*(<[^\n]*>)?$")]


Extent = Annotated[list[str | int], Field(min_length=1, max_length=3)]


class Record(BaseModel):
    """Frozen, and unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, strict=True, defer_build=True
    )
