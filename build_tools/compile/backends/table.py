"""The backends, listed by hand. Each is a module with two functions; none imports another.

``expand`` says which files of the repository a compile reads, ``compile`` makes one code object in a child process.
``compile_many``, where a backend has it, does several jobs of one source in one child, since starting the compiler costs most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from build_tools.compile.backends import asm, ck, flydsl, hip, hip_nvidia, triton
from build_tools.compile.backends.built import Built
from build_tools.compile.backends.many import Answer
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain


class Backend(Protocol):
    """The interface of a backend for ``plan`` and ``compile``."""

    def expand(self, source: str, symbol: str, root: Path) -> tuple[str, ...]:
        """Files that a compile of ``symbol`` of ``source`` reads, relative to ``root``, the source first."""

    def compile(self, job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
        """One code object in ``workdir``; JobFailedError with the command and its output when there is none."""


CompileMany = Callable[[Sequence[CompileJob], Toolchain, Path, Path], list[Answer]]

BACKENDS: Final[dict[str, Backend]] = {"asm": asm, "hip": hip, "ck": ck, "triton": triton, "flydsl": flydsl}

Compile = Callable[[CompileJob, Toolchain, Path, Path], Built]

#: Backends that have another compiler for a vendor's targets, which reads the same files.
OF_VENDOR: Final[dict[tuple[str, str], Compile]] = {("hip", "nvidia"): hip_nvidia.compile}

#: How a kernel is found in an object that several jobs share, where names are not those of the source.
NAMED: Final[dict[str, Callable[[CompileJob, Path, int, Mapping[str, str] | None], Built]]] = {
    "hip": hip.named
}

COMPILE_MANY: Final[dict[str, CompileMany]] = {"triton": triton.compile_many, "flydsl": flydsl.compile_many}
