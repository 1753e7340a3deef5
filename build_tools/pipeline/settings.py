"""The settings and the outcome of a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_tools.compile.compile import Elsewhere
from build_tools.compile.store import Results, Store
from build_tools.manifest.model import CURATED
from build_tools.manifest.tree import Tree
from build_tools.pack.bundle import BuiltBundle
from build_tools.records import (
    AuditReport,
    CompileResult,
    Plan,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a build.

    ``tree``: whose own bundles they are; None: the product's.
    """

    root: Path
    store: Path
    bundles: Path
    toolchain: str = "hermetic"
    profiles: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    workers: int = 0
    shard: str = ""
    operators: tuple[str, ...] = ()
    ck: str = CURATED
    stored_only: bool = False
    elsewhere: Elsewhere | None = None
    behind: Callable[[Store], Results] | None = None
    again: Callable[..., Mapping[str, Any]] | None = None
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a build.

    ``audits`` holds only code objects that were judged in this run.
    """

    plan: Plan
    results: tuple[CompileResult, ...]
    audits: Mapping[str, AuditReport]
    bundles: tuple[BuiltBundle, ...]
    seconds: float
    ck: str = CURATED
    rechecked: Mapping[str, Any] | None = None
