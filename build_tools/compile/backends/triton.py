"""Triton kernels, compiled ahead of time in a child process; several jobs of one source share a child.

A job's arguments are the kernel's parameters in order; its constants are constexpr parameters or compile options.
Triton 3.9 appends two hidden pointers to every kernel, global scratch and profile scratch, at the next multiple of 8, for
HIP and for CUDA alike. The manifest's reader appends them as ``ptr null``; here they are left out of the signature again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import CHILD_PATH, Built, built, closure, failure, sibling_imports
from build_tools.errors import BuildToolsError, JobFailedError
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
    """Compile jobs in one child; one answer and its seconds per job, in order.

    When the child dies the job it was at is to blame; the jobs after it get a new child.
    """
    answers: list[tuple[Built | BuildToolsError, float]] = []
    while len(answers) < len(jobs):
        rest = jobs[len(answers) :]
        folder = workdir / f"from{len(answers)}"
        folder.mkdir(parents=True)
        outcome = _child(rest, toolchain, root, folder)
        done = _answers(rest, folder, outcome)
        if len(done) < len(rest):
            done.append(
                (
                    failure(
                        rest[len(done)],
                        outcome,
                        "The compiler ended in the middle of this job; its words follow",
                    ),
                    outcome.seconds,
                )
            )
        answers += done
    return answers


def _child(jobs: Sequence[CompileJob], toolchain: Toolchain, root: Path, folder: Path) -> Outcome:
    request = folder / "request.json"
    request.write_text(
        json.dumps([_request(job, folder / f"{place}.out") for place, job in enumerate(jobs)]),
        encoding="utf-8",
    )
    env = {
        **CHILD_PATH,
        # Line numbers and the source's folder would be in the object; the default of FP fusion changes in Triton 3.10.
        "TRITON_DISABLE_LINE_INFO": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "TRITON_HOME": str(folder),
    }
    return run(
        [toolchain.python, "-m", _CHILD, str(request), str(folder / "answers.jsonl")],
        cwd=root,
        env=env,
        timeout=_SECONDS_PER_JOB * len(jobs),
    )


def _request(job: CompileJob, output: Path) -> dict[str, Any]:
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
        "output": str(output),
    }


def _answers(
    jobs: Sequence[CompileJob], folder: Path, outcome: Outcome
) -> list[tuple[Built | BuildToolsError, float]]:
    path = folder / "answers.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [_answer(job, json.loads(line), outcome) for job, line in zip(jobs, lines, strict=False)]


def _answer(
    job: CompileJob, answer: dict[str, Any], outcome: Outcome
) -> tuple[Built | BuildToolsError, float]:
    seconds = float(answer["seconds"])
    if not answer["ok"]:
        return JobFailedError(
            f"compile {job.id}",
            answer["error"].splitlines()[-1] if answer["error"] else "it failed",
            "Mend the kernel or its manifest",
            command=outcome.command, status=1, log=answer["error"],
        ), seconds  # fmt: skip
    try:
        extra = {"lds": str(answer["lds"]), "warps": str(answer["warps"])}
        return built(job, Path(answer["output"]), int(answer["threads"]), extra), seconds
    except JobFailedError as error:
        return error, seconds
