"""The embedded device's library for tests: built by the session, or named by ``AITER_PREBUILT_EMULATOR_LIBRARY``."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import pytest

VARIABLE = "AITER_PREBUILT_EMULATOR_LIBRARY"
ROOT = Path(__file__).resolve().parents[2]


@cache
def library_path() -> Path:
    """The built ``libamdhip64.so``: the environment's, or that of the installed package."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    package = pytest.importorskip("aiter_prebuilt_emulator")
    return Path(package.library())


def library() -> ctypes.CDLL:
    """The library of this process, as a handle of the caller's own: prototypes that it sets concern nobody else."""
    return ctypes.CDLL(str(library_path()))


def bundles(target: str, profile: str) -> tuple[Path, ...]:
    """The bundle files of a target that a session built: ``ck-full`` adds to ``ck-free``."""
    folder = ROOT / "build" / "bundles"
    wanted = tuple(folder / f"{target}-{name}.apb" for name in dict.fromkeys(("ck-free", profile)))
    if all(path.is_file() for path in wanted):
        return wanted
    pytest.skip(f"no bundle for {target} ({profile}): run python -m build_tools build")


def card_of_few_units() -> dict[str, str]:
    """Return a child's environment with one emulated card of 8 compute units, and its bundle."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_")}
    return kept | {
        "PYTHONPATH": str(ROOT / "src"),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": "gfx942:cus=8",
        "AITER_PREBUILT_BUNDLES": str(bundles("gfx942", "ck-free")[0]),
        "COLUMNS": "400",
    }
