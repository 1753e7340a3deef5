"""Has anything changed since the last build of the same choice? One look at the content of every file that a build may read, and
of all that the last one wrote. Each stage knows that of its own part, too, but with thousands of code objects asking them all
takes seconds. What `plan` prints is kept by the same state. Each choice has a file of its own, so that they can take turns.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.bundle import SUFFIX
from aiter_prebuilt.contract.version import CALLS_SUFFIX
from build_tools.compile.backends.table import BACKENDS
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import epoch, write_atomic
from build_tools.tools import editions
from build_tools.tools.pins import Pins
from build_tools.tools.toolchain import Toolchain

#: Beside the bundles: a file for each choice that was built.
FOLDER: Final = "built"
#: Every file of the repository that a build reads lies in one of them.
FOLDERS: Final = ("manifests", "csrc/kernels", "csrc/stand_in", "hsa", "build_tools", "src/aiter_prebuilt")
#: Made by Python and by `develop`: no build reads them.
_MADE: Final = (".pyc", ".so")
#: Packages of which a bundle's bytes, or its calls, may depend; compilers are in the toolchain.
_PACKAGES: Final = ("numpy", "zstandard", "pydantic", "pyelftools")
#: What a build leaves, beside the note of each bundle.
_REPORTS: Final = ("report.json", "compile.json")


def asked_of(ck: str, *parts: Iterable[str], shard: str = "") -> str:
    """Describe a request in one line.

    A set of Composable Kernel's instances, and parts in any order.
    """
    return repr((ck, *(sorted(set(part)) for part in parts), shard))


def state(root: Path, toolchain: Toolchain, asked: str = "") -> str | None:
    """One hash over what a build at ``root`` reads, and over ``asked``, what is to be built (a part, a set of Composable Kernel's
    instances); None where a checkout takes a pinned tree's place, whose files may be any.

    Raises:
        FetchError: a source tree cannot be had. UsageError: SOURCE_DATE_EPOCH is no number.
    """
    read = state_of_plan(root, asked, toolchain.pins)
    if read is None:
        return None
    total = hashlib.sha256(read.encode())
    facts = (epoch(), sorted(toolchain.provenance().items()), toolchain.kind)
    total.update(repr(facts).encode())
    for backend in BACKENDS:
        total.update(toolchain.identity_of(backend).encode())
    return total.hexdigest()


def state_of_plan(root: Path, asked: str, pinned: Pins) -> str | None:
    """Hash the inputs of planning.

    As :func:`state`; no compiler takes part.
    """
    overrides = [pin.override for pin in pinned.trees.values()]
    overrides += [pin.override for pin in pinned.editions.values()]
    if any(map(os.environ.get, overrides)):
        return None
    read = [pin.name for pin in editions.requested(pinned.editions.values())]
    total = hashlib.sha256(repr((sys.version, asked, *read)).encode())
    for package in _PACKAGES:
        total.update(f"{package} {metadata.version(package)}\n".encode())
    for folder in FOLDERS:
        for path in sorted(path for path in (root / folder).rglob("*") if path.suffix not in _MADE):
            if path.is_file():
                total.update(f"{path.relative_to(root).as_posix()}\0{sha256_file(path)}\n".encode())
    return total.hexdigest()


def keep(folder: Path, asked: str, found: str | None, text: str) -> None:
    """Keep what came of the state ``found``, in the place of what came of another for the same choice."""
    if found is not None:
        write_atomic(_place(folder, asked), f"{_seal(found, text)}\n{text}".encode())


def kept(folder: Path, asked: str, found: str | None) -> str | None:
    """Return the kept text if it is whole and of this state."""
    try:
        seal, _, text = _place(folder, asked).read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return None
    return text if found is not None and seal == _seal(found, text) else None


def _place(folder: Path, asked: str) -> Path:
    return folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.txt"


def _seal(found: str, text: str) -> str:
    return hashlib.sha256(f"{found}\n{text}".encode()).hexdigest()


def write(bundles: Path, asked: str, found: str | None, names: Iterable[str]) -> None:
    """Note that the bundles of these names in ``bundles``, and the reports beside them, came of the state ``found``."""
    path = _place(bundles.parent / FOLDER, asked)
    if found is None:
        path.unlink(missing_ok=True)
        return
    paths = [bundles.parent / name for name in _REPORTS]
    reports = {path.name: path.read_text(encoding="utf-8") for path in paths if path.is_file()}
    told = {"names": sorted(names), "files": _written(bundles, names), "reports": reports}
    keep(path.parent, asked, found, json.dumps(told))


def holds(bundles: Path, asked: str, found: str | None) -> bool:
    """Did the last build of this choice start from this state, and are its bundles as they were? Then its reports are put back,
    where another build has written others since.
    """
    text = kept(bundles.parent / FOLDER, asked, found)
    if text is None:
        return False
    told = json.loads(text)
    if _written(bundles, told["names"]) != told["files"]:
        return False
    for name, report in told["reports"].items():
        path = bundles.parent / name
        if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != report:
            write_atomic(path, report.encode())
    return True


def _written(bundles: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Hash the written files of each bundle; None for a missing one."""
    paths = [
        bundles / f"{Path(name).stem}{suffix}" for name in names for suffix in (SUFFIX, CALLS_SUFFIX, ".json")
    ]
    return {path.name: sha256_file(path) if path.is_file() else None for path in sorted(paths)}
