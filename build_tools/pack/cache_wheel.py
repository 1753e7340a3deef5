"""The bridge's data wheels: caches of other compilers' kernels inside AITER, filled ahead of time, one wheel for each target.

``src/aiter_prebuilt/contract/kernel_cache.py`` says what is in them. No Python file is: nothing of such a wheel is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.kernel_cache import (
    INDEX,
    CacheEntry,
    CacheFile,
    CacheIndex,
    folder_of,
    written,
)
from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import bridge_wheel, dist_info, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.tools import pins

TAG: Final = "py3-none-any"


@dataclass(frozen=True, slots=True)
class Seed:
    """Lookups that hit: by ``key``, or by one of ``aliases``. The ``files`` are by the tool's names for them."""

    key: str
    name: str
    files: Mapping[str, bytes]
    parts: Mapping[str, Any]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of one tool's cache for one target.

    ``builds``: of the tool, as the index has them; ``trees``: versions of AITER; ``licences``: whose work is in it, in the words
    of :mod:`build_tools.pack.licences`; ``tools``: name -> version; ``sources``: files of the repository that determine the
    content.
    """

    tool: str
    target: str
    builds: tuple[Mapping[str, str], ...]
    trees: tuple[str, ...]
    seeds: tuple[Seed, ...]
    licences: tuple[str, ...]
    tools: Mapping[str, str]
    sources: tuple[str, ...]


def distribution(target: str) -> str:
    """Return the wheel's name for pip."""
    return f"{bridge_wheel.DISTRIBUTION}-{target}"


def extra(target: str) -> str:
    """Return the runtime's extra that brings it."""
    return f"bridge-{target}"


def contents(target: str, filled: Sequence[Seeds]) -> dict[str, bytes]:
    """List the files of a wheel's folder, by path in the wheel.

    Equal bytes lie there once.
    """
    folder, entries = folder_of(target), []
    files: dict[str, bytes] = {}
    for each in filled:
        for seed in each.seeds:
            places = {name: _placed(each.tool, name, data) for name, data in seed.files.items()}
            files |= {f"{folder}/{place.path}": seed.files[name] for name, place in places.items()}
            entries.append(CacheEntry(each.tool, seed.key, seed.name, places, seed.parts, seed.aliases))
    index = CacheIndex(
        target,
        {each.tool: each.builds for each in filled},
        tuple(sorted({tree for each in filled for tree in each.trees})),
        tuple(entries),
    )
    text = json.dumps(written(index), sort_keys=True, separators=(",", ":")) + "\n"
    return files | {f"{folder}/{INDEX}": text.encode()}


def _placed(tool: str, name: str, data: bytes) -> CacheFile:
    """Choose a file's name by its content.

    Triton reads its kind from the end of its name.
    """
    digest = hashlib.sha256(data).hexdigest()
    return CacheFile(f"{tool}/{digest[:32]}.{name.rpartition('.')[2]}", digest, len(data))


def write_cache_wheel(root: Path, output: Path, target: str, filled: Sequence[Seeds]) -> Path:
    """Pack what all tools' caches are filled with for ``target`` into ``output``; the same seeds give the same bytes.

    Raises:
        WheelError: the wheel is larger than an index takes.
    """
    inside = contents(target, filled)
    bill = sbom.Bill(
        distribution(target),
        VERSION,
        inside[f"{folder_of(target)}/{INDEX}"],
        _once(name for each in filled for name in each.licences),
        {name: version for each in filled for name, version in each.tools.items()},
        sbom.file_hashes(root, (name for each in filled for name in each.sources)),
    )
    path = output / f"{dist_info.stem(bill)}-{TAG}.whl"
    write_members(path, inside | dist_info.members(_about(target, filled), bill, root, pins.load(root)))
    return path


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _about(target: str, filled: Sequence[Seeds]) -> dist_info.About:
    builds = ", ".join(f"{each.tool} {build['version']}" for each in filled for build in each.builds)
    trees = ", ".join(_once(tree for each in filled for tree in each.trees))
    return dist_info.About(
        summary=f"Kernels inside AITER for {target}, compiled ahead of time, for {bridge_wheel.DISTRIBUTION}",
        description=f"Data of [{RUNTIME}](https://pypi.org/project/{RUNTIME}/): kernels of AITER ({trees}) that other compilers\n"
        f"({builds}) would compile at their first call, as code objects for `{target}`. The bridge looks them up;\n"
        "nothing here is imported, and nothing is read whose SHA-256 is not that of the index.\n",
        requires=(f"{bridge_wheel.DISTRIBUTION}=={VERSION}",),
        tag=TAG,
        pure=True,
    )
