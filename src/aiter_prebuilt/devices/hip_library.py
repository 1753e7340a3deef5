"""Find the HIP runtime that pip installed, before anybody has loaded one. Reads folders; imports and opens nothing.

ROCm's build of torch carries ``libamdhip64.so`` in ``torch/lib``; newer ones take it from TheRock's wheels (``rocm-sdk-core``).
Whoever imports torch later loads the same file, so it goes before a system's copy: two runtimes in one process corrupt each
other.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

NAME: Final = "libamdhip64.so"
_MAPS: Final = Path("/proc/self/maps")
#: Package -> the folder of its libraries.
_PACKAGES: Final = {"torch": "lib", "_rocm_sdk_core": "lib"}


def mapped() -> tuple[str, ...]:
    """Return the HIP runtimes that this process has loaded, each file once, in the order of their addresses."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    paths = (line.split(maxsplit=5)[5] for line in lines if NAME in line and line.count(" /"))
    named = (path for path in paths if os.path.basename(path).startswith(NAME))  # noqa: PTH119 - a str, for each mapping
    return tuple(dict.fromkeys(path.removesuffix(" (deleted)") for path in named))


def candidates() -> tuple[str, ...]:
    """Return the HIP runtimes that pip installed, torch's first."""
    found: list[str] = []
    for package, below in _PACKAGES.items():
        spec = PathFinder.find_spec(package, sys.path)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folder = Path(place) / below
            if not folder.is_dir():
                continue
            files = sorted(file for file in folder.glob(f"{NAME}*") if file.is_file())
            found += map(str, files[:1])
    return tuple(found)


def to_open() -> tuple[str, ...]:
    """Return the runtimes to try in order; none: the one that is loaded, the one that is named, or the system's."""
    if os.environ.get("AITER_PREBUILT_HIP") or mapped():
        return ()
    return candidates()
