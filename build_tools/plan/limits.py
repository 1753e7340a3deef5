"""The limits of a bundle's reader.

See ``contract/rules.py`` and ``csrc/runtime/bundle/operator_block.h``; a test compares with that.

A manifest beyond a limit would build a bundle that nobody can open, so the plan refuses it.
"""

from __future__ import annotations

from typing import Final

from aiter_prebuilt.contract import rules
from build_tools.manifest.problems import PathPart, Problems

TENSORS: Final = rules.MAX_TENSORS
ATTRIBUTES: Final = rules.MAX_ATTRIBUTES
#: Integer slots: dims, strides, integer attributes, the compute units, and two for each tensor.
SLOTS: Final = rules.MAX_SLOTS
FLOATS: Final = rules.MAX_FLOATS
TYPE_VARIABLES: Final = rules.MAX_TYPE_VARIABLES
RANK: Final = rules.MAX_RANK
STEPS: Final = rules.MAX_STEPS
#: Bytes of the kernel arguments of one launch.
KERNARG: Final = rules.MAX_KERNARG
#: Threads of a block, all its dims together.
THREADS: Final = rules.MAX_THREADS


def check(count: int, limit: int, what: str, problems: Problems, *path: PathPart) -> None:
    """Add a problem at ``path`` when there are more of ``what`` than ``limit``."""
    if count > limit:
        problems.add(f"{count} {what}, the runtime takes at most {limit}", *path)
