"""``tree.toml``: how a user's tree is called, released and ordered beside the product."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from aiter_prebuilt.contract.version import TREE_MARK
from build_tools.errors import UsageError
from build_tools.manifest.problems import Problems

FILE: Final = "tree.toml"
#: Names of wheels that are ours, or would stand for our packages.
_TAKEN: Final = re.compile(r"aiter(-prebuilt.*)?$")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*$")


class Tree(BaseModel):
    """The facts of a tree.

    Attributes:
        name: of its wheel and in the names of its bundles: small letters, digits and single hyphens.
        version: of its wheel (PEP 440).
        licence: an SPDX expression; what the tree brings.
        summary: one line of the wheel's metadata.
        order: where its kernels stand among those of the product: ``before`` or ``after``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: str = "0.1.0"
    licence: str
    summary: str = "Kernels beside aiter-prebuilt"
    order: Literal["before", "after"] = "before"

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not _NAME.match(name) or canonicalize_name(name) != name or _TAKEN.match(name):
            raise ValueError(
                f"{name!r} must be small letters, digits and single hyphens, and no name of ours"
            )
        return name

    @field_validator("version")
    @classmethod
    def _is_version(cls, version: str) -> str:
        try:
            Version(version)
        except InvalidVersion as error:
            raise ValueError(f"{version!r} is no version: write one such as 0.1.0") from error
        return version

    @field_validator("summary")
    @classmethod
    def _is_line(cls, summary: str) -> str:
        if not summary or not summary.isprintable():
            raise ValueError("it must be one line")
        return summary

    @property
    def package(self) -> str:
        """The name of the Python package in its wheel."""
        return self.name.replace("-", "_")

    def profile(self, profile: str) -> str:
        """Return a profile as roots and file names of its bundles have it: ``ck-free.acme``."""
        return f"{profile}{TREE_MARK}{self.name}"


def load_tree(root: Path) -> Tree | None:
    """Read the ``tree.toml`` of a tree; None where there is none, as in this repository.

    Raises:
        UsageError: it is not what it should be.
    """
    from build_tools.manifest.parse import document

    path = root / FILE
    if not path.is_file():
        return None
    problems = Problems()
    table = document(path, problems)
    try:
        if table is not None:
            return Tree.model_validate(table)
    except ValidationError as error:
        for problem in error.errors():
            problems.lines.append(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    raise UsageError(f"read {path}", "; ".join(problems.lines), "Mend it; docs/own-kernels-wheel.md has one")
