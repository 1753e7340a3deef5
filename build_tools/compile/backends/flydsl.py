"""FlyDSL kernels, compiled ahead of time in a child process; several jobs of one source and one target share a child, since
FlyDSL takes three times as long to import as to compile, and asks for its target once a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import CHILD_PATH, Built
from build_tools.compile.backends.flydsl_sources import sources_of
from build_tools.compile.backends.many import Answer, compile_in_children, output_of
from build_tools.errors import BuildToolsError
from build_tools.files.run import Outcome, run
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain

_CHILD: Final = "build_tools.compile.backends.flydsl_compile"
_SECONDS_PER_JOB: Final = 600.0


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """``source`` and the modules and packages beside it that it imports."""
    del symbol
    return sources_of(source, root)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile one job.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output.
    """
    result, _seconds = compile_many([job], toolchain, root, workdir)[0]
    if isinstance(result, BuildToolsError):
        raise result
    return result


def compile_many(jobs: Sequence[CompileJob], toolchain: Toolchain, root: Path, workdir: Path) -> list[Answer]:
    """Compile jobs in a child for each of their targets; one answer and its seconds per job, in order."""
    answers: dict[str, Answer] = {}
    for target in sorted({job.target.name for job in jobs}):
        these = [job for job in jobs if job.target.name == target]

        def requests(left: Sequence[CompileJob], into: Path, target: str = target) -> object:
            asked = [_request(job, output_of(into, place)) for place, job in enumerate(left)]
            libraries = list(map(str, toolchain.clang.device_libraries))
            linker = list(toolchain.clang.lld)
            return {
                "target": target, "root": str(root), "linker": linker, "libraries": libraries, "jobs": asked,
            }  # fmt: skip

        def child(request: Path, written: Path, count: int = len(these)) -> Outcome:
            argv: list[str | Path] = [toolchain.python, "-m", _CHILD, request, written]
            return run(argv, cwd=root, env=CHILD_PATH, timeout=_SECONDS_PER_JOB * count)

        found = compile_in_children(these, workdir / target, requests, child, _launch)
        answers |= dict(zip((job.id for job in these), found, strict=True))
    return [answers[job.id] for job in jobs]


def _request(job: CompileJob, output: str) -> dict[str, Any]:
    return {
        "source": job.source, "inputs": list(job.inputs), "symbol": job.symbol, "constants": dict(job.constants),
        "output": output,
    }  # fmt: skip


def _launch(job: CompileJob, answer: dict[str, Any]) -> tuple[int, dict[str, str]]:
    del answer
    return job.block[0] * job.block[1] * job.block[2], {}
