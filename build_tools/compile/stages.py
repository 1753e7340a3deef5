"""Keep what compiles go through, for ``build --keep-ir``: the IR of each stage and the ISA, in a folder for each code object.

The compiles are run once more. The files of the backends are in the key of each job, so nothing of this is in them: what they
started is noted, and started again with other outputs.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from build_tools.compile.compile import compile_alone
from build_tools.errors import JobFailedError
from build_tools.files.cores import cores
from build_tools.files.run import Command, commands, run
from build_tools.objects.disassembly import available, disassembly
from build_tools.records import CompileJob, CompileResult
from build_tools.tools.toolchain import Toolchain

CODE_OBJECT: Final = "code_object.co"
DISASSEMBLY: Final = "disassembly.s"
#: Each stage of Triton that is text; its cache has them all.
_TRITON: Final = ("ttir", "ttgir", "llir", "amdgcn", "ptx")
_FLYDSL: Final = "build_tools.compile.backends.flydsl_compile"
_FLYDSL_STAGES: Final = "build_tools.compile.flydsl_stages"
_DEVICE_ONLY: Final = "--cuda-device-only"


@dataclass(frozen=True, slots=True)
class Kept:
    """``count``: code objects with a folder; ``bare``: jobs whose code object nothing disassembled."""

    count: int
    bare: tuple[str, ...]


def keep(
    results: Sequence[CompileResult], toolchain: Toolchain, root: Path, folder: Path, workers: int = 0
) -> Kept:
    """Compile jobs again and keep their stages, each in a folder of its job's name.

    Args:
        results: of the build; failed ones are passed over.
        toolchain: that of the build.
        root: the tree.
        folder: where to; a job's folder that is there is replaced.
        workers: compiles at once, 0 for one per core.

    Raises:
        BuildToolsError: a job does not compile.
    """
    right = [result for result in results if result.ok]
    with ThreadPoolExecutor(workers or cores()) as pool:
        done = list(
            pool.map(partial(_keep_one, toolchain=toolchain, root=root, folder=folder.resolve()), right)
        )
    bare = tuple(sorted(result.job.id for result, whole in zip(right, done, strict=True) if not whole))
    return Kept(len(right), bare)


def _keep_one(result: CompileResult, toolchain: Toolchain, root: Path, folder: Path) -> bool:
    """Keep the stages of one job. Returns whether its ISA is among them."""
    job, place = result.job, folder / result.job.id
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if result.path is not None:
        shutil.copyfile(result.path, place / CODE_OBJECT)
    with tempfile.TemporaryDirectory(prefix="aiter-prebuilt-stages-") as scratch:
        with commands() as noted:
            compile_alone(job, toolchain, root, Path(scratch))
        for command in noted:
            if _DEVICE_ONLY in command.argv:
                _clang(job, command, place)
            elif _FLYDSL in command.argv:
                _flydsl(job, command, place)
        for stage in _TRITON:
            for number, path in enumerate(sorted(Path(scratch).rglob(f"*.{stage}"))):
                shutil.copyfile(path, place / (f"{number}.{stage}" if number else f"kernel.{stage}"))
    whole = any((place / name).is_file() for name in ("isa.s", "kernel.amdgcn", "kernel.ptx"))
    return whole or _disassembled(job, place)


def _clang(job: CompileJob, command: Command, place: Path) -> None:
    """Run a compile to LLVM IR, and to assembly."""
    if "-c" in command.argv or "-o" not in command.argv:  # a part of it, such as a precompiled header
        return
    at = command.argv.index("-o")
    for name, more in (("llvm.ll", ("-S", "-emit-llvm")), ("isa.s", ("-S",))):
        argv = (*command.argv[:at], *more, "-o", str(place / name), *command.argv[at + 2 :])
        outcome = run(argv, cwd=command.cwd, env=command.env)
        if not outcome.ok:
            raise _failed(job, name, outcome.output)


def _flydsl(job: CompileJob, command: Command, place: Path) -> None:
    """Run FlyDSL's child once more, by a program that copies its dumps."""
    at = command.argv.index(_FLYDSL)
    request, answers = command.argv[at + 1 :]
    argv = (*command.argv[:at], _FLYDSL_STAGES, request, f"{answers}.stages", str(place))
    outcome = run(argv, cwd=command.cwd, env=command.env)
    if not outcome.ok or not any(place.rglob("*.mlir")):
        said = Path(f"{answers}.stages")
        log = said.read_text(encoding="utf-8") if said.is_file() else outcome.output
        raise _failed(job, "the dumps of FlyDSL", log)


def _disassembled(job: CompileJob, place: Path) -> bool:
    """Disassemble a code object whose compiler wrote no ISA, where the emulator is built and knows the target."""
    if not available(job.target.name):
        return False
    (place / DISASSEMBLY).write_text(disassembly(place / CODE_OBJECT, job.target.name), encoding="utf-8")
    return True


def _failed(job: CompileJob, what: str, log: str) -> JobFailedError:
    return JobFailedError(
        f"keep {what} of {job.id}", "the compiler failed, which made the code object before", "Build without --keep-ir",
        command=sys.executable, status=1, log=log,
    )  # fmt: skip
