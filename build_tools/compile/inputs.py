"""Find the repository files that a compile reads.

The backend is asked once per source.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from build_tools.compile.backends.table import BACKENDS
from build_tools.records import InputsOf, in_tree


def inputs_of(root: Path) -> InputsOf:
    """Make a function that lists a source's files for the planner.

    (backend, source, symbol, constants) -> files, source first.
    """

    @cache
    def once(backend: str, source: str, symbol: str) -> tuple[str, ...]:
        return BACKENDS[backend].expand(source, symbol, root)

    # A file of a tree is taken, or compiled, whole: of what it is made does not hang on the kernel that is named.
    return lambda backend, source, symbol, _constants: once(
        backend, source, "" if in_tree(source) else symbol
    )
