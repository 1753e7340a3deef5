"""One HIP source to one linked code object, for the two backends that have HIP sources. A leaf: no backend is imported here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import Built, built, definitions, failure
from build_tools.compile.backends.prelude import precompiled
from build_tools.files.run import run
from build_tools.records import CompileJob
from build_tools.tools.clang import DEVICE_FLAGS
from build_tools.tools.hermetic import control_constants
from build_tools.tools.toolchain import Toolchain

#: A ROCm driver puts it in front by itself; with our own include folders it has to be asked for.
WRAPPER: Final = "__clang_hip_runtime_wrapper.h"


def compile_device(
    job: CompileJob,
    source: Path,
    folder: Path,
    output: Path,
    toolchain: Toolchain,
    *,
    headers: bool,
    extra: Sequence[str] = (),
    prelude: str = "",
) -> Built:
    """Compile ``source`` (relative to ``folder``, where clang runs) with the job's constants as macros.

    ``headers``: put clang's HIP wrapper in front, which declares what HIP sources may use without an include. Reading it takes
    ten times as long as compiling a small kernel. ``prelude``: an ``#include`` line that ``source`` starts with and that reads no
    macro of a job: it is precompiled once for all of them.

    Raises:
        JobFailedError: the compile failed, or gave no such kernel.
        ToolchainError: the device libraries cannot be prepared.
    """
    clang = toolchain.clang
    command = _command(job, toolchain, headers, extra)
    if prelude:
        known = precompiled(command, prelude, clang.env)
        if not isinstance(known, Path):
            raise failure(job, known)
        command += ["-Xclang", "-include-pch", "-Xclang", str(known)]
    argv = [
        *command,
        # __FILE__ and assertion texts: no folder of this machine.
        f"-ffile-prefix-map={folder}=.",
        f"-DAPB_TARGET={job.target.name}",
        *(f"-D{name}={value}" for name, value in definitions(job.constants)),
        str(source),
        "-o",
        str(output),
    ]
    outcome = run(argv, cwd=folder, env=clang.env)
    if not outcome.ok:
        raise failure(job, outcome)
    return built(job, output)


def _command(job: CompileJob, toolchain: Toolchain, headers: bool, extra: Sequence[str]) -> list[str]:
    """Build the part of the command that a target's jobs share."""
    clang = toolchain.clang
    libraries = list(clang.libraries)
    if libraries:
        libraries.append(control_constants(clang, job.target, toolchain.cache))
    return [
        *clang.driver,
        *DEVICE_FLAGS,
        f"--offload-arch={job.target.name}",
        *clang.hip_flags,
        *(("-include", WRAPPER) if headers and clang.libraries else ()),
        *(word for path in libraries for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))),
        *extra,
    ]
