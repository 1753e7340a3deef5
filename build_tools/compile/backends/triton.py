"""Triton kernels, compiled ahead of time in a child process; several jobs of one source share a child.

A job's arguments are the kernel's parameters in order; its constants are constexpr parameters or compile options.
Triton 3.9 appends two hidden pointers to every kernel, global scratch and profile scratch, at the next multiple of 8, for
HIP and for CUDA alike. The manifest's reader appends them as ``ptr null``; here they are left out of the signature again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import CHILD_PATH, Built, closure, sibling_imports
from build_tools.compile.backends.heap import steady
from build_tools.compile.backends.many import compile_in_children, output_of
from build_tools.errors import BuildToolsError
from build_tools.files.run import Outcome, run
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain

HIDDEN_POINTERS: Final = 2
_CHILD: Final = "build_tools.compile.backends.triton_compile"
_SECONDS_PER_JOB: Final = 600.0


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """``source`` and the Python files beside it that it imports."""
    del symbol
    return closure(source, root, sibling_imports)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile one job.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output.
    """
    result, _seconds = compile_many([job], toolchain, root, workdir)[0]
    if isinstance(result, BuildToolsError):
        raise result
    return result


def compile_many(
    jobs: Sequence[CompileJob], toolchain: Toolchain, root: Path, workdir: Path
) -> list[tuple[Built | BuildToolsError, float]]:
    """Compile jobs in one child; one answer and its seconds per job, in order."""
    return compile_in_children(
        jobs,
        workdir,
        _requests,
        lambda request, answers: _child(jobs, toolchain, root, request, answers),
        _launch,
    )


def _child(
    jobs: Sequence[CompileJob], toolchain: Toolchain, root: Path, request: Path, answers: Path
) -> Outcome:
    env = {
        **CHILD_PATH,
        **steady(toolchain),
        # Line numbers and the source's folder would be in the object; the default of FP fusion changes in Triton 3.10.
        "TRITON_DISABLE_LINE_INFO": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "TRITON_CACHE_DIR": str(request.parent / "cache"),
        "TRITON_HOME": str(request.parent),
    }
    return run(
        [toolchain.python, "-m", _CHILD, request, answers],
        cwd=root,
        env=env,
        timeout=_SECONDS_PER_JOB * len(jobs),
    )


def _requests(jobs: Sequence[CompileJob], folder: Path) -> object:
    return [_request(job, output_of(folder, place)) for place, job in enumerate(jobs)]


def _request(job: CompileJob, output: str) -> dict[str, Any]:
    args = job.args
    if len(args) >= HIDDEN_POINTERS and all(
        arg.kind == "ptr" and arg.name == "null" for arg in args[-HIDDEN_POINTERS:]
    ):
        args = args[:-HIDDEN_POINTERS]
    return {
        "source": job.source,
        "symbol": job.symbol,
        "vendor": job.target.vendor,
        "target": job.target.name,
        "wave": job.target.wave,
        "constants": dict(job.constants),
        "args": [
            {"kind": arg.kind, "name": arg.name, "dtype": arg.dtype, "divisible": arg.divisible}
            for arg in args
        ],
        "output": output,
    }


def _launch(job: CompileJob, answer: dict[str, Any]) -> tuple[int, dict[str, str]]:
    del job
    return int(answer["threads"]), {"lds": str(answer["lds"]), "warps": str(answer["warps"])}
