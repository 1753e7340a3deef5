"""Digests of the build's own code, by meaning: keys of what is kept from one build to the next."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.code_graph import CodeGraph
from aiter_prebuilt.contract.code_text import Definition

#: They hold the words of errors, and progress for people.
_WITHOUT: Final = ("build_tools.errors", "build_tools.files.progress", "aiter_prebuilt.errors")


@cache
def code_digest(*roots: Definition) -> str:
    """Hash functions of the build with everything that they use.

    Args:
        roots: modules and names.

    Raises:
        LookupError: one of them is not there.
    """
    tools = Path(__file__).resolve().parents[1]
    folders = {"build_tools": tools, "aiter_prebuilt": tools.parent / "src" / "aiter_prebuilt"}
    return CodeGraph(folders, _WITHOUT).digest(roots)
