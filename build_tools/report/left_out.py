"""Code objects of source trees that are left out, with reasons.

They are in ``hsa/left_out.toml``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from build_tools.report.reason_table import STRICT, Table, read_table

FILE: Final = "hsa/left_out.toml"


class Reason(BaseModel):
    """Files that one reason is about. ``files``: patterns of names as manifests have them; * stands for slashes, too."""

    model_config = STRICT

    files: list[str] = Field(min_length=1)
    reason: str = Field(min_length=1)

    def covers(self, name: str) -> bool:
        """Is this file one of them?"""
        return any(fnmatchcase(name, pattern) for pattern in self.files)


class _Table(Table):
    left_out: list[Reason] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """All reasons, in the order of the file; the first that covers a file counts."""

    reasons: tuple[Reason, ...]

    def of(self, name: str) -> str | None:
        """Why this file is left out; None when nobody says."""
        return next((each.reason for each in self.reasons if each.covers(name)), None)

    def without_trees(self, trees: Collection[str]) -> LeftOut:
        """Leave out the reasons about files of these source trees."""
        kept = (
            each.model_copy(update={"files": files})
            for each in self.reasons
            if (files := [name for name in each.files if name.partition(":")[0] not in trees])
        )
        return LeftOut(tuple(kept))

    def problems(self, there: frozenset[str], planned: frozenset[str]) -> list[str]:
        """List files without a manifest or reason, and stale patterns.

        A stale pattern covers no file that is left out.
        """
        lines = [
            f"{FILE}: {name} is in the tree, no manifest takes it, and no reason says why"
            for name in sorted(there - planned)
            if self.of(name) is None
        ]
        left = there - planned
        patterns = (pattern for each in self.reasons for pattern in each.files)
        lines += (
            f"{FILE}: {pattern!r} covers no file that is left out"
            for pattern in patterns
            if not any(fnmatchcase(name, pattern) for name in left)
        )
        return lines


def read(root: Path) -> LeftOut:
    """Return the reasons in the repository at ``root``.

    None where there is no file.

    Raises:
        ManifestError: the file is not of this form.
    """
    return LeftOut(tuple(read_table(root, FILE, _Table).left_out))
