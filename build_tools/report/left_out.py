"""Which code objects of source trees are left out, and why: ``hsa/left_out.toml``."""

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

FILE: Final = "hsa/left_out.toml"
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True)


class Reason(BaseModel):
    """Files that one reason is about. ``files``: patterns of names as manifests have them; * stands for slashes, too."""

    model_config = _STRICT

    files: list[str] = Field(min_length=1)
    reason: str = Field(min_length=1)

    def covers(self, name: str) -> bool:
        """Is this file one of them?"""
        return any(fnmatchcase(name, pattern) for pattern in self.files)


class _Table(BaseModel):
    model_config = _STRICT

    edition: int
    left_out: list[Reason] = []


@dataclass(frozen=True, slots=True)
class LeftOut:
    """All reasons, in the order of the file; the first that covers a file counts."""

    reasons: tuple[Reason, ...]

    def of(self, name: str) -> str | None:
        """Why this file is left out; None when nobody says."""
        return next((each.reason for each in self.reasons if each.covers(name)), None)

    def problems(self, there: frozenset[str], planned: frozenset[str]) -> list[str]:
        """What is wrong about them: a file that neither the manifests take nor a reason covers, and patterns that cover no file
        that is left out.
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
    """The reasons in the repository at ``root``; none where there is no file.

    Raises:
        ManifestError: the file is not of this form.
    """
    path = root / FILE
    if not path.is_file():
        return LeftOut(())
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
    return LeftOut(tuple(table.left_out))
