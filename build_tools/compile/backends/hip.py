"""HIP C++ sources: one compile per job, every constant a macro.

A source that includes no system header, itself or by what it includes, is compiled without any: ours are freestanding. One of a
source tree is another matter (``hip_tree.py``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import Built, closure, quoted_includes
from build_tools.compile.backends.device import compile_device
from build_tools.compile.backends.hip_tree import compile_tree, named
from build_tools.compile.backends.hip_tree import expand as expand_tree
from build_tools.records import CompileJob, in_tree
from build_tools.tools.toolchain import Toolchain

__all__ = ("compile", "expand", "named")

_SYSTEM_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<", re.MULTILINE)


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """Files of the repository that a compile of ``source`` reads, the source first."""
    del symbol  # one source, one set of files
    if in_tree(source):
        return expand_tree(source, root)
    return closure(source, root, quoted_includes)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile ``job`` into ``workdir``.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output.
    """
    if in_tree(job.source):
        return compile_tree(job, toolchain, root, workdir)
    headers = any(_SYSTEM_INCLUDE.search((root / name).read_text(encoding="utf-8")) for name in job.inputs)
    return compile_device(job, Path(job.source), root, workdir / "out.co", toolchain, headers=headers)
