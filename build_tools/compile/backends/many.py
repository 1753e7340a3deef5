"""Several jobs in one child process, for compilers that take longer to import than to run.

A child reads a request, and appends one line of JSON to its answers as each job is done, so that a crash loses one job only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from build_tools.compile.backends.built import Built, built, failure
from build_tools.errors import BuildToolsError, JobFailedError
from build_tools.files.run import Outcome
from build_tools.records import CompileJob

#: What became of a job, and its seconds.
Answer: TypeAlias = tuple[Built | BuildToolsError, float]
#: Starts a child for some jobs: the request's path, and the path of the answers.
Child: TypeAlias = Callable[[Path, Path], Outcome]
REQUEST: Final = "request.json"
ANSWERS: Final = "answers.jsonl"


def compile_in_children(
    jobs: Sequence[CompileJob],
    workdir: Path,
    request: Callable[[Sequence[CompileJob], Path], object],
    child: Child,
    launch: Callable[[CompileJob, dict[str, Any]], tuple[int, dict[str, str]]],
) -> list[Answer]:
    """Compile jobs in one child; one answer per job, in order. ``request``: what a child is asked, as JSON; files of the job at
    place N begin with :func:`output_of`. ``launch``: threads and extra facts of an answer.

    When the child dies the job it was at is to blame; the jobs after it get a new child.
    """
    answers: list[Answer] = []
    while len(answers) < len(jobs):
        rest = jobs[len(answers) :]
        folder = workdir / f"from{len(answers)}"
        folder.mkdir(parents=True)
        (folder / REQUEST).write_text(json.dumps(request(rest, folder)), encoding="utf-8")
        outcome = child(folder / REQUEST, folder / ANSWERS)
        done = [
            _answer(job, json.loads(line), outcome, launch)
            for job, line in zip(rest, _lines(folder / ANSWERS), strict=False)
        ]
        if len(done) < len(rest):
            words = "The compiler ended in the middle of this job; its words follow"
            done.append((failure(rest[len(done)], outcome, words), outcome.seconds))
        answers += done
    return answers


def output_of(folder: Path, place: int) -> str:
    """Return the path of the code object of the job at ``place``.

    A child writes it there.
    """
    return str(folder / f"{place}.out")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _answer(
    job: CompileJob,
    answer: dict[str, Any],
    outcome: Outcome,
    launch: Callable[[CompileJob, dict[str, Any]], tuple[int, dict[str, str]]],
) -> Answer:
    seconds = float(answer["seconds"])
    if not answer["ok"]:
        return JobFailedError(
            f"compile {job.id}",
            answer["error"].splitlines()[-1] if answer["error"] else "it failed",
            "Mend the kernel or its manifest",
            command=outcome.command, status=1, log=answer["error"],
        ), seconds  # fmt: skip
    try:
        threads, extra = launch(job, answer)
        return built(job, Path(answer["output"]), threads, extra), seconds
    except JobFailedError as error:
        return error, seconds
