"""Has anything changed since the last whole build? One look at the content of every file that a build may read, and of all that
the last one wrote. Each stage knows that of its own part, too, but with thousands of code objects asking them all takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.bundle import SUFFIX
from aiter_prebuilt.contract.version import CALLS_SUFFIX
from build_tools.compile.backends.table import BACKENDS
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import epoch, write_atomic
from build_tools.tools.toolchain import Toolchain

NAME: Final = "built.json"
_FOLDERS: Final = ("manifests", "csrc/kernels", "hsa", "build_tools", "src/aiter_prebuilt")
#: Made by Python and by `develop`: no build reads them.
_MADE: Final = (".pyc", ".so")
#: Packages of which a bundle's bytes, or its calls, may depend; compilers are in the toolchain.
_PACKAGES: Final = ("numpy", "zstandard", "pydantic", "pyelftools")
#: What a build leaves, beside the note of each bundle.
_REPORTS: Final = ("report.json", "compile.json")


def state(root: Path, toolchain: Toolchain, ck: str = "") -> str | None:
    """One hash over what a build at ``root`` reads, and over ``ck``, the set of Composable Kernel's instances; None where a
    checkout takes a pinned tree's place, whose files may be any.

    Raises:
        FetchError: a source tree cannot be had. UsageError: SOURCE_DATE_EPOCH is no number.
    """
    if any(os.environ.get(pin.override) for pin in toolchain.pins.trees.values()):
        return None
    total = hashlib.sha256()
    facts = (sys.version, epoch(), sorted(toolchain.provenance().items()), toolchain.kind, ck)
    total.update(repr(facts).encode())
    for backend in BACKENDS:
        total.update(toolchain.identity_of(backend).encode())
    for package in _PACKAGES:
        total.update(f"{package} {metadata.version(package)}\n".encode())
    for folder in _FOLDERS:
        for path in sorted(path for path in (root / folder).rglob("*") if path.suffix not in _MADE):
            if path.is_file():
                total.update(f"{path.relative_to(root).as_posix()}\0{sha256_file(path)}\n".encode())
    return total.hexdigest()


def write(bundles: Path, found: str | None) -> None:
    """Note that the files in ``bundles``, and the reports beside it, came of the state ``found``."""
    path = bundles.parent / NAME
    if found is None:
        path.unlink(missing_ok=True)
    else:
        write_atomic(path, json.dumps({"state": found, "files": _written(bundles)}).encode())


def holds(bundles: Path, found: str | None) -> bool:
    """Did the last whole build start from this state, and is all that it wrote as it was?"""
    try:
        kept = json.loads((bundles.parent / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return found is not None and kept == {"state": found, "files": _written(bundles)}


def _written(bundles: Path) -> dict[str, str]:
    of_bundles = (path for suffix in (SUFFIX, CALLS_SUFFIX, ".json") for path in bundles.glob(f"*{suffix}"))
    reports = (bundles.parent / name for name in _REPORTS)
    return {path.name: sha256_file(path) for path in (*of_bundles, *reports) if path.is_file()}
