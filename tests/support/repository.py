"""The repository's own manifests and cases, read once for all test files of a process.

No test changes them: one that needs others makes a copy (``model_copy``, ``dataclasses.replace``) or a tree of its own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from build_tools.cases import table
from build_tools.cases.subject import subjects
from build_tools.generate import outputs
from build_tools.manifest.model import Manifest
from build_tools.manifest.parse import load

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = ROOT / "manifests"


@cache
def manifest() -> Manifest:
    """Read the manifests: half a second of a core."""
    return load(MANIFESTS)


@cache
def generated() -> dict[Path, str]:
    """Make every generated file: eight seconds of a core."""
    return outputs.outputs(manifest(), ROOT)


@cache
def cases() -> dict[str, table.Cases]:
    """Read the cases of every operator and bind every call: six seconds of a core."""
    return table.load(MANIFESTS, subjects(manifest()), manifest().targets)
