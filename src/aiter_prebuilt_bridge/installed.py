"""Find the installed AITER without importing it."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from typing import Final

_NAMES: Final = ("amd-aiter", "aiter")


def version(names: tuple[str, ...] = _NAMES) -> str:
    """Return the version of the first installed distribution, or ""."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def found() -> bool:
    """Is there a package ``aiter``?"""
    return importlib.util.find_spec("aiter") is not None


def description() -> str:
    """Return the version for people."""
    return version() or ("of a checkout" if found() else "not installed")
