"""HIP C++ sources: one compile per job, every constant a macro.

A source that includes no system header, itself or by what it includes, is compiled without any: ours are freestanding.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import Built, closure, quoted_includes
from build_tools.compile.backends.device import compile_device
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain

_SYSTEM_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<", re.MULTILINE)


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """Files of the repository that a compile of ``source`` reads, the source first."""
    del symbol  # one source, one set of files
    return closure(source, root, quoted_includes)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile ``job`` into ``workdir``.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output.
    """
    headers = any(_SYSTEM_INCLUDE.search((root / name).read_text(encoding="utf-8")) for name in job.inputs)
    return compile_device(job, Path(job.source), root, workdir / "out.co", toolchain, headers=headers)
