"""The format of data wheels with prefilled compiler caches.

A wheel of the bridge holds those of one target.

    aiter_prebuilt_bridge_cache_<target>/index.json    {"version": 1, "target": ..., "compilers": {tool: [{"version", "key"}]},
                                                        "trees": [AITER's versions], "entries": [...]}
    aiter_prebuilt_bridge_cache_<target>/triton/...    files that entries of Triton's name
    aiter_prebuilt_bridge_cache_<target>/flydsl/...    those of FlyDSL's

An entry is ``{"tool", "key", "aliases", "name", "files": {name: {"path", "sha256", "size"}}, "parts": {...}}``: the key under
which the tool looks it up (``aliases``: other keys that mean the same), the kernel's name for people, the files under the names
that the tool knows, and what the key was made of. Nothing of a wheel is read before its SHA-256 was compared with the index; what
the index names lies in the folder of the entry's tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = 1
INDEX: Final = "index.json"
PREFIX: Final = "aiter_prebuilt_bridge_cache_"
TOOLS: Final = ("triton", "flydsl")
_PATH: Final = re.compile(r"(?:/[0-9A-Za-z_][0-9A-Za-z_.-]{0,150}){1,4}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_TARGET: Final = re.compile(r"gfx[0-9a-f]{2,6}")


class CacheIndexError(ValueError):
    """An index that is none; the message is all there is to say."""


@dataclass(frozen=True, slots=True)
class CacheFile:
    """One file of an entry, below the wheel's folder."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Lookups that hit: by ``key``, or by one of ``aliases``. ``files``: by the name that the tool knows."""

    tool: str
    key: str
    name: str
    files: Mapping[str, CacheFile]
    parts: Mapping[str, Any]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CacheIndex:
    """A wheel's index. ``compilers``: tool -> the builds of it whose keys are in here, as ``version`` and ``key`` (``as``: the
    key of the build whose kernels they are, where that is another); ``trees``: the versions of AITER whose kernels these are.
    """

    target: str
    compilers: Mapping[str, tuple[Mapping[str, str], ...]]
    trees: tuple[str, ...]
    entries: tuple[CacheEntry, ...]


def folder_of(target: str) -> str:
    """Return the wheel's only folder."""
    return f"{PREFIX}{target}"


def written(index: CacheIndex) -> dict[str, Any]:
    """Return the document of an index."""
    return {
        "version": VERSION,
        "target": index.target,
        "compilers": {tool: [*map(dict, builds)] for tool, builds in sorted(index.compilers.items())},
        "trees": sorted(index.trees),
        "entries": [
            {
                "tool": entry.tool,
                "key": entry.key,
                "aliases": [*entry.aliases],
                "name": entry.name,
                "files": {
                    name: {"path": file.path, "sha256": file.sha256, "size": file.size}
                    for name, file in sorted(entry.files.items())
                },
                "parts": entry.parts,
            }
            for entry in sorted(index.entries, key=lambda entry: (entry.tool, entry.name, entry.key))
        ],
    }


def read(document: Any) -> CacheIndex:
    """Return the index of a document, each of its fields checked.

    Raises:
        CacheIndexError: it is of another version, or not of this form.
    """
    if not isinstance(document, dict) or document.get("version") != VERSION:
        found = document.get("version") if isinstance(document, dict) else None
        raise CacheIndexError(f"it is of version {found!r}, this reads {VERSION}")
    try:
        target = str(document["target"])
        if not _TARGET.fullmatch(target):
            raise CacheIndexError(f"its target is {target!r}")
        compilers = {
            str(tool): tuple({str(name): str(value) for name, value in build.items()} for build in builds)
            for tool, builds in document["compilers"].items()
        }
        entries = tuple(map(_entry, document["entries"]))
        return CacheIndex(target, compilers, tuple(map(str, document["trees"])), entries)
    except (KeyError, TypeError, AttributeError) as error:
        raise CacheIndexError(f"a field is missing or of another kind ({error})") from None


def _entry(row: Any) -> CacheEntry:
    tool, parts = str(row["tool"]), row["parts"]
    if tool not in TOOLS or not isinstance(parts, dict):
        raise CacheIndexError(f"an entry is of the tool {tool!r}")
    files = {str(name): _file(tool, each) for name, each in row["files"].items()}
    aliases = tuple(map(str, row.get("aliases", ())))
    return CacheEntry(tool, str(row["key"]), str(row["name"]), files, parts, aliases)


def _file(tool: str, row: Any) -> CacheFile:
    path, sha256, size = str(row["path"]), str(row["sha256"]), row["size"]
    top, slash, below = path.partition("/")
    if top != tool or not _PATH.fullmatch(slash + below):
        raise CacheIndexError(f"it names the file {path!r}, which is none below {tool}")
    if not _SHA256.fullmatch(sha256) or not isinstance(size, int):
        raise CacheIndexError(f"{path} has no SHA-256 or no size")
    return CacheFile(path, sha256, size)


def differences(parts: Iterable[str], asked: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Describe how two keys differ, part by part."""
    found = []
    for part in parts:
        mine, theirs = asked.get(part, ""), known.get(part, "")
        if mine == theirs:
            continue
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            found += [
                f"{part} {name}: {_short(mine.get(name, 'none'))}, there {_short(theirs.get(name, 'none'))}"
                for name in sorted({*mine, *theirs})
                if mine.get(name) != theirs.get(name)
            ]
        else:
            found.append(f"{part}: {_short(mine)}, there {_short(theirs)}")
    return found


def _short(found: Any) -> str:
    text = str(found)
    return text[:12] if len(text) == 64 else text[:80]  # a hash
