"""Find every tool once and hand on one frozen record; what it names is checked, versions and hashes.

Two kinds: ``hermetic`` (pip alone) and ``rocm`` (an installed ROCm for HIP, CK and assembly). Triton and FlyDSL come from their
pinned packages in both. The identity of a backend's tools goes into the content key of each job; the two kinds never share one.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from build_tools.errors import ToolchainError, UsageError
from build_tools.files.filehash import FileHashes
from build_tools.files.run import FIXED
from build_tools.tools import editions, hermetic, pins, rocm
from build_tools.tools.clang import ASSEMBLY_FLAGS, DEVICE_FLAGS, LINK_FLAGS, Clang, ToolRow
from build_tools.tools.fetch import cache_folder
from build_tools.tools.pins import Pins, TreePin
from build_tools.tools.tree import Tree, tree_of

KINDS: Final = ("hermetic", "rocm")
CK_VARIABLE: Final = "CK_DIR"
#: HIP sources for NVIDIA's targets: clang makes PTX of them, and Triton's ptxas a cubin.
HIP_NVIDIA: Final = "hip-nvidia"
_CK_TREE: Final = "aiter"
_CK_INCLUDE: Final = "aiter:ck/include"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """``clang`` for HIP, CK and assembly; ``python`` runs the Triton and FlyDSL compiles; ``cache`` holds generated tool files.

    ``composable_kernel``: the folder ``CK_DIR`` names, or None for AITER's own in the pinned wheel, which is fetched at its first
    use; ``AITER_DIR`` does not change it, since a checkout has it as a submodule, of any version or not at all.
    ``trees``: source trees and their versions.
    """

    kind: str
    clang: Clang
    pins: Pins
    python: str
    cache: Path
    composable_kernel: Path | None
    rows: tuple[ToolRow, ...]
    trees: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> str:
        """One text for all backends' tools."""
        return hashlib.sha256(
            "\n".join(self.identity_of(name) for name in ("hip", "ck", "triton", "flydsl")).encode()
        ).hexdigest()

    def identity_of(self, backend: str) -> str:
        """Describe a backend's tools for the content keys of its jobs.

        Versions, hashes and fixed flags, no path.
        """
        flags = repr((DEVICE_FLAGS, ASSEMBLY_FLAGS, LINK_FLAGS, sorted(FIXED.items())))
        parts = [self.kind, backend, self.clang.identity, flags]
        if backend in ("triton", "flydsl"):
            parts.append(f"{backend} {self.pins.tools[backend].version}")
        if backend == HIP_NVIDIA:  # whose ptxas it is
            parts.append(f"triton {self.pins.tools['triton'].version}")
        if backend == "ck":
            parts.append(self._ck_identity())
        return "\n".join(parts)

    def _ck_identity(self) -> str:
        if self.composable_kernel is None:
            return _ck_digest(self.pins.trees[_CK_TREE], self.cache)
        return _tree_digest(self.composable_kernel, self.cache / "hashes.json")

    def ck_include(self) -> Path:
        """Include folder of Composable Kernel.

        Raises:
            FetchError: the pinned wheel cannot be had.
        """
        if self.composable_kernel is not None:
            return self.composable_kernel
        return _ck_unpacked(self.pins.trees[_CK_TREE], self.cache)

    def provenance(self) -> dict[str, str]:
        """Tool to version, for a bundle's root: no path, no host fact."""
        rows = {row.tool: row.version for row in self.rows if row.tool != "python"}
        ck = (
            "from CK_DIR " + self._ck_identity()[:12]
            if self.composable_kernel
            else self.pins.trees[_CK_TREE].version
        )
        return {"toolchain": self.kind, "composable-kernel": ck, **rows}

    def describe(self) -> list[dict[str, str]]:
        """Rows for ``python -m build_tools toolchain``; sha256 is "" where only the version was checked."""
        pin = self.pins.trees[_CK_TREE]
        where = str(self.composable_kernel or self.cache / "trees" / pin.archive.folder)
        ck = ToolRow(
            "composable kernel",
            "CK_DIR" if self.composable_kernel else pin.version,
            where,
            self._ck_identity(),
        )
        return [
            {"tool": row.tool, "version": row.version, "from": row.where, "sha256": row.sha256}
            for row in (*self.rows, ck, *map(self._tree_row, self.trees))
        ]

    def _tree_row(self, tree: tuple[str, str]) -> ToolRow:
        name, version = tree
        if name in self.pins.editions:
            edition = self.pins.editions[name]
            where = os.environ.get(edition.override) or str(editions.place_of(edition, self.cache))
            return ToolRow(name, version, where, edition.sha256)
        pin = self.pins.trees[name]
        if version != pin.version:
            return ToolRow(name, version, os.environ.get(pin.override, ""), "")
        return ToolRow(name, version, str(self.cache / "trees" / pin.archive.folder), pin.sha256)


def find(kind: str, root: Path) -> Toolchain:
    """Find the toolchain of ``kind``.

    It has the pins of the repository at ``root``.

    Raises:
        UsageError: no such kind.
        ToolchainError: a tool is missing, of another version, or not the pinned bytes.
        ManifestError: the pins cannot be read.
    """
    if kind not in KINDS:
        raise UsageError(f"use the toolchain {kind!r}", "there is no such kind", f"Kinds: {', '.join(KINDS)}")
    pinned = pins.load(root)
    cache = cache_folder()
    hashes = FileHashes(cache / "hashes.json")
    clang = hermetic.find(pinned, cache, hashes) if kind == "hermetic" else rocm.find(hashes)
    known = {row.tool for row in clang.rows}
    others = [
        hermetic.check_package(pinned.tools[name], hashes)
        for name in ("triton", "flydsl")
        if name not in known
    ]
    hashes.save()
    rows = (*clang.rows, *others, ToolRow("python", ".".join(map(str, sys.version_info[:3])), sys.executable))
    read = (*pinned.trees, *(pin.name for pin in editions.requested(pinned.editions.values())))
    trees = tuple((name, tree_of(name, root).version) for name in read)
    return Toolchain(kind, clang, pinned, sys.executable, cache, _ck_override(), rows, trees)


def _ck_override() -> Path | None:
    """Return the include folder of the checkout that ``CK_DIR`` names.

    Raises:
        ToolchainError: it names a folder without ck_tile's headers.
    """
    text = os.environ.get(CK_VARIABLE)
    if not text:
        return None
    folder = next(
        (path for path in (Path(text) / "include", Path(text)) if (path / "ck_tile" / "core.hpp").is_file()),
        None,
    )
    if folder is None:
        raise ToolchainError(
            f"use Composable Kernel from {CK_VARIABLE}={text}",
            "neither it nor its folder include has ck_tile/core.hpp",
            f"Set {CK_VARIABLE} to a checkout of Composable Kernel, or unset it to use AITER's own",
        )
    return folder.resolve()


@lru_cache(maxsize=4)
def _ck_digest(pin: TreePin, cache: Path) -> str:
    return Tree(pin, cache, None).digest_below(_CK_INCLUDE)


@lru_cache(maxsize=4)
def _ck_unpacked(pin: TreePin, cache: Path) -> Path:
    """Once a process: a thousand headers are checked."""
    return Tree(pin, cache, None).below(_CK_INCLUDE)


@lru_cache(maxsize=4)
def _tree_digest(folder: Path, memory: Path) -> str:
    hashes = FileHashes(memory)
    digest = hashes.tree(folder)
    hashes.save()
    return digest
