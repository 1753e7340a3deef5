"""Why modules of AITER, or functions of them, are not served: ``manifests/modules.toml``; and what is called otherwise there."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from build_tools.report.reason_table import STRICT, Table, read_table

FILE: Final = "manifests/modules.toml"


class Reason(BaseModel):
    """``covers``: patterns of what one reason is about in the pinned tree, ``module_x`` or ``module_x.function``; ``newer``:
    those that only later trees have. ``instead``: public names of ours that replace the modules, none where nothing does.
    """

    model_config = STRICT

    covers: list[str] = []
    newer: list[str] = []
    instead: list[str] = []
    reason: str = Field(min_length=1)

    def about(self, name: str) -> bool:
        """Is this module or function one of them?"""
        return any(fnmatchcase(name, pattern) for pattern in (*self.covers, *self.newer))


class _Table(Table):
    not_served: list[Reason] = Field(default_factory=list)
    classes: dict[str, str] = Field(default_factory=dict)
    beyond: dict[str, str] = Field(default_factory=dict)


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

    def instead_of(self, module: str) -> tuple[str, ...]:
        """Return the public names of ours that replace a module."""
        return next((tuple(each.instead) for each in self.reasons if each.about(module)), ())

    def named(self, module: str, derived: str) -> str:
        """Return the class of a module."""
        return dict(self.classes).get(module, derived)


def read(root: Path) -> Reasons:
    """Return the reasons in the repository at ``root``.

    None where there is no file.

    Raises:
        ManifestError: the file is not of this form.
    """
    table = read_table(root, FILE, _Table)
    return Reasons(tuple(table.not_served), tuple(table.classes.items()), tuple(table.beyond.items()))
