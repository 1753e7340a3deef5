"""The data wheels of the bridge in this environment: caches of Triton's and FlyDSL's kernels inside AITER, one wheel for each
target. Nothing of theirs is imported; a file is handed on when its SHA-256 is that of the index, and never before.

Nothing here is locked: a fork would leave a lock with a thread that the child does not have. Two threads may do the same work,
and the first result stays.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.bundles import ownership
from aiter_prebuilt.contract.kernel_cache import (
    INDEX,
    PREFIX,
    CacheEntry,
    CacheFile,
    CacheIndex,
    CacheIndexError,
    read,
)
from aiter_prebuilt_bridge import lookup_log
from aiter_prebuilt_bridge.errors import CacheDamagedError

#: Folders of data wheels that are not beside this package, as a path list.
VARIABLE: Final = "AITER_PREBUILT_BRIDGE_CACHE"
#: Process -> a folder that nobody else may enter, for copies of files that others may change.
_PRIVATE: Final[dict[int, Path]] = {}


@dataclass(frozen=True)
class Data:
    """One data wheel: its folder, its index, and the files that were found right in a process, by its number."""

    folder: Path
    index: CacheIndex
    right: dict[tuple[int, str], Path] = field(default_factory=dict)

    def file(self, wanted: CacheFile) -> Path:
        """Return the path of a file of the index.

        It is checked the first time that it is asked for.

        Whoever is given the path reads the file later. So if others may change it, the path is that of a private copy of the
        bytes that were checked.

        Raises:
            CacheDamagedError: it is missing, or has other bytes, or is a link.
        """
        key = os.getpid(), wanted.path
        if key not in self.right:
            data, path = self.content(wanted), self.folder / wanted.path
            writable = _writable(path, self.folder)
            if writable:
                lookup_log.once(
                    str(path.parent), f"kernels are copied before they are loaded, since {writable[0]}"
                )
                path = _copied(wanted, data)
            self.right.setdefault(key, path)
        return self.right[key]

    def content(self, wanted: CacheFile) -> bytes:
        """Return the bytes of a file of the index.

        Those that were checked.

        Raises:
            CacheDamagedError: see :meth:`file`.
        """
        path, data = self.folder / wanted.path, b""
        try:
            linked = path.is_symlink() or self.folder.resolve() not in path.resolve().parents
            data = b"" if linked else path.read_bytes()
            found = "a link" if linked else _difference(data, wanted)
        except OSError as error:
            found = f"not readable ({error.strerror})"
        if found:
            raise CacheDamagedError(f"read {path}", f"it is {found}", _again(self.index.target))
        return data

    def files(self, entry: CacheEntry) -> dict[str, str]:
        """All files of an entry, by the tool's names.

        Raises:
            CacheDamagedError: see :meth:`file`.
        """
        return {name: str(self.file(each)) for name, each in entry.files.items()}


def _writable(path: Path, folder: Path) -> list[str]:
    """List ways in which others can change a file, or put another in its place: of each folder up to the wheel's, too."""
    inside = [path, *(parent for parent in path.parents if folder in parent.parents)]
    found = (finding.text for each in inside for finding in ownership.findings(str(each)))
    return list(dict.fromkeys(found))


def _copied(wanted: CacheFile, data: bytes) -> Path:
    """Copy ``data`` into a folder of this process.

    The file keeps its own name.
    """
    process = os.getpid()
    if process not in _PRIVATE:
        made = Path(tempfile.mkdtemp(prefix="aiter-prebuilt-bridge-"))  # which makes it for this user alone
        atexit.register(_remove, made, process)
        _PRIVATE.setdefault(process, made)
    place = Path(tempfile.mkdtemp(dir=_PRIVATE[process])) / Path(wanted.path).name
    place.write_bytes(data)
    return place


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a child that was forked leaves its parent's
        shutil.rmtree(folder, ignore_errors=True)


def _difference(data: bytes, wanted: CacheFile) -> str:
    if len(data) != wanted.size:
        return f"of {len(data)} bytes, the index says {wanted.size}"
    if hashlib.sha256(data).hexdigest() != wanted.sha256:
        return "not what the index says (another SHA-256)"
    return ""


def folders() -> tuple[Path, ...]:
    """List the folders of data wheels, one for each target.

    Those that the variable names come first, then those beside this package.
    """
    named = [Path(each) for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
    beside = Path(__file__).resolve().parent.parent
    found = [*named, *sorted(path for path in beside.glob(f"{PREFIX}*") if path.is_dir())]
    by_name: dict[str, Path] = {}
    for path in found:
        by_name.setdefault(path.name, path)
    return tuple(by_name.values())


def open_folder(folder: Path) -> Data:
    """Return a data wheel's index.

    Raises:
        CacheDamagedError: there is none, or it is not of this version's form.
    """
    target = folder.name.removeprefix(PREFIX)
    try:
        index = read(json.loads((folder / INDEX).read_bytes()))
        if index.target != target:
            raise CacheIndexError(f"it is for {index.target}")
    except (OSError, ValueError, RecursionError) as error:
        raise CacheDamagedError(f"read {folder / INDEX}", str(error), _again(target)) from error
    return Data(folder, index)


_OPENED: Final[list[tuple[Data, ...]]] = []


def installed() -> tuple[Data, ...]:
    """All data wheels here, read once.

    Raises:
        CacheDamagedError: see :func:`open_folder`.
    """
    if not _OPENED:
        _OPENED.append(tuple(open_folder(folder) for folder in folders()))
    return _OPENED[0]


def forget() -> None:
    """Read the wheels again when they are asked for next."""
    _OPENED.clear()


def trusted(tool: str) -> tuple[list[Data], list[str]]:
    """List the trusted wheels for ``tool``, and problems of the others.

    Nobody else may write the index of a trusted one: who may write the index may write the hashes.

    Raises:
        CacheDamagedError: see :func:`open_folder`.
    """
    filled = [data for data in installed() if data.index.compilers.get(tool)]
    problems = [_writable(data.folder / INDEX, data.folder) for data in filled]
    safe = [data for data, lines in zip(filled, problems, strict=True) if not lines]
    return safe, [line for lines in problems for line in lines]


def entries(tool: str) -> Mapping[str, tuple[Data, CacheEntry]]:
    """Return the entries of a tool, by each of their keys.

    Raises:
        CacheDamagedError: see :func:`open_folder`.
    """
    return {
        key: (data, entry)
        for data in installed()
        for entry in data.index.entries
        if entry.tool == tool
        for key in (entry.key, *entry.aliases)
    }


def summary() -> list[dict[str, Any]]:
    """List the installed data wheels.

    Each row has the target, trees, compilers and numbers of entries.
    """
    rows = []
    for folder in folders():
        row: dict[str, Any] = {"target": folder.name.removeprefix(PREFIX), "folder": str(folder)}
        try:
            index = open_folder(folder).index
        except CacheDamagedError as error:
            rows.append(
                row | {"trees": [], "compilers": [], "entries": 0, "problem": f"{error.asked}: {error.found}"}
            )
            continue
        compilers = [
            {
                "tool": tool,
                "version": build["version"],
                "key": build["key"],
                "entries": sum(
                    entry.tool == tool
                    and entry.parts.get(tool, build["key"]) == build.get("as", build["key"])
                    for entry in index.entries
                ),
            }
            for tool, builds in sorted(index.compilers.items())
            for build in builds
        ]
        writable = "; ".join(_writable(folder / INDEX, folder))
        told = {"trees": [*index.trees], "compilers": compilers, "entries": len(index.entries)}
        rows.append(row | told | {"problem": writable})
    return rows


def _again(target: str) -> str:
    """Return the remedy for a damaged data wheel. The runtime knows from where it was installed."""
    from aiter_prebuilt.bundles.wheel_source import installation

    program, again, options = installation()
    wheel = f"aiter-prebuilt-bridge-{target}"
    return f"Install the wheel again: {program} {options}{again} --no-deps {wheel}"
