"""What the runtime's reader takes at most (``csrc/runtime/operator_block.h``; a test compares the two).

A manifest beyond a limit would build a bundle that nobody can open, so the plan refuses it.
"""

from __future__ import annotations

from typing import Final

from build_tools.manifest.problems import PathPart, Problems

TENSORS: Final = 48
ATTRIBUTES: Final = 48
#: Integer slots: dims, strides, integer attributes, the compute units, and two for each tensor.
SLOTS: Final = 512
FLOATS: Final = 16
TYPE_VARIABLES: Final = 16
RANK: Final = 16
STEPS: Final = 16
#: Bytes of the kernel arguments of one launch.
KERNARG: Final = 4096
#: Threads of a block, all its dims together.
THREADS: Final = 1024


def check(count: int, limit: int, what: str, problems: Problems, *path: PathPart) -> None:
    """Add a problem at ``path`` when there are more of ``what`` than ``limit``."""
    if count > limit:
        problems.add(f"{count} {what}, the runtime takes at most {limit}", *path)
