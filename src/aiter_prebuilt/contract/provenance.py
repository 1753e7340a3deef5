"""A bundle's provenance: compilers, and source trees of its files."""

from __future__ import annotations

import json
from typing import Any, Final

#: How the version of a source tree starts when a checkout took the place of the pinned one.
UNPINNED: Final = "unpinned"


def unpinned(provenance: str) -> tuple[str, ...]:
    """Return the source trees that were not the pinned ones, by name.

    None where that cannot be read.
    """
    versions = {**_table(provenance, "tools"), **_table(provenance, "trees")}
    return tuple(sorted(name for name, version in versions.items() if str(version).startswith(UNPINNED)))


def editions(provenance: str) -> tuple[str, ...]:
    """Return the editions of source trees that are in the bundle, such as ``aiter-2026-08``, sorted."""
    trees = _table(provenance, "trees")
    return tuple(sorted(name for name in trees if name.rpartition("-")[0] and name.split("-")[0] in trees))


def left_out(provenance: str) -> dict[str, int]:
    """Operator -> entries that the bundle lacks because such a tree has not what the pinned one has."""
    counts = _table(provenance, "left_out")
    return {name: count for name, count in counts.items() if isinstance(count, int) and count > 0}


def _table(provenance: str, key: str) -> dict[str, Any]:
    try:
        told = json.loads(provenance)
    except (ValueError, RecursionError):
        return {}
    part = told.get(key) if isinstance(told, dict) else None
    return part if isinstance(part, dict) else {}
