"""What a bundle says it was made from: compilers, and source trees of which it has files."""

from __future__ import annotations

import json
from typing import Final

#: How the version of a source tree starts when a checkout took the place of the pinned one.
UNPINNED: Final = "unpinned"


def unpinned(provenance: str) -> tuple[str, ...]:
    """The source trees that were not the pinned ones, by name; none where that cannot be read."""
    try:
        told = json.loads(provenance)
    except (ValueError, RecursionError):
        return ()
    parts = [told.get(key) for key in ("tools", "trees")] if isinstance(told, dict) else []
    versions = {name: version for part in parts if isinstance(part, dict) for name, version in part.items()}
    return tuple(sorted(name for name, version in versions.items() if str(version).startswith(UNPINNED)))
