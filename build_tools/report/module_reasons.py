"""Why modules of AITER, or functions of them, are not served: ``manifests/modules.toml``; and what is called otherwise there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from build_tools.errors import ManifestError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE: Final = "manifests/modules.toml"
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True)


class Reason(BaseModel):
    """``covers``: patterns of what one reason is about in the pinned tree, ``module_x`` or ``module_x.function``; ``newer``:
    those that only later trees have.
    """

    model_config = _STRICT

    covers: list[str] = []
    newer: list[str] = []
    reason: str = Field(min_length=1)

    def about(self, name: str) -> bool:
        """Is this module or function one of them?"""
        return any(fnmatchcase(name, pattern) for pattern in (*self.covers, *self.newer))


class _Table(BaseModel):
    model_config = _STRICT

    edition: int
    not_served: list[Reason] = []
    classes: dict[str, str] = {}
    beyond: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Reasons:
    """All of them, in the order of the file: the first that is about a name counts. ``classes``: modules that are called
    something else than the first of what they are made of; ``beyond``: operators that the pinned tree has no function of, and
    why that is right.
    """

    reasons: tuple[Reason, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    beyond: tuple[tuple[str, str], ...] = ()

    def of(self, module: str, function: str | None = None) -> str | None:
        """Why this module, or this function of it, is not served; None when nobody says. What is said of a function goes before
        what is said of its module.
        """
        names = [module] if function is None else [f"{module}.{function}", module]
        for name in names:
            for each in self.reasons:
                if each.about(name):
                    return each.reason
        return None

    def named(self, module: str, derived: str) -> str:
        """The class of a module."""
        return dict(self.classes).get(module, derived)


def read(root: Path) -> Reasons:
    """The reasons in the repository at ``root``; none where there is no file.

    Raises:
        ManifestError: the file is not of this form.
    """
    path = root / FILE
    if not path.is_file():
        return Reasons()
    try:
        table = _Table.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise ManifestError(
            [f"{FILE}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        ) from None
    except (ValueError, OSError) as error:
        raise ManifestError([f"{FILE}: {error}"]) from None
    if table.edition != 1:
        raise ManifestError([f"{FILE}: edition {table.edition} is not 1"])
    return Reasons(tuple(table.not_served), tuple(table.classes.items()), tuple(table.beyond.items()))
