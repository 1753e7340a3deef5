"""What a child that compiles several jobs does with each: alone in a process, or one behind the other."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from build_tools.compile.backends.child import answer_each
from build_tools.files.run import run

_done: list[str] = []


class RefusedError(Exception):
    pass


def _work(job: str) -> dict[str, Any]:
    _done.append(job)
    if job == "refused":
        raise RefusedError("not this one")
    if job == "broken":
        raise ZeroDivisionError
    return {"before": _done[:-1], "process": os.getpid(), "thread": threading.get_ident()}


def _answers(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_job_apart_finds_nothing_of_the_others(tmp_path: Path) -> None:
    _done.clear()
    answer_each(["a", "refused", "broken", "b"], tmp_path / "answers", _work, RefusedError, apart=True)
    first, refused, broken, last = _answers(tmp_path / "answers")
    assert first["before"] == last["before"] == [] and not _done
    assert len({os.getpid(), first["process"], last["process"]}) == 3
    assert (refused["ok"], refused["error"]) == (False, "not this one")
    assert not broken["ok"] and "ZeroDivisionError" in broken["error"]


def test_a_job_apart_has_a_thread_with_memory_of_its_own(tmp_path: Path) -> None:
    answer_each(["a"], tmp_path / "answers", _work, RefusedError, apart=True)
    assert _answers(tmp_path / "answers")[0]["thread"] != threading.get_ident()


def test_jobs_that_are_not_apart_share_a_process(tmp_path: Path) -> None:
    _done.clear()
    answer_each(["a", "b"], tmp_path / "answers", _work, RefusedError)
    first, last = _answers(tmp_path / "answers")
    assert first["process"] == last["process"] == os.getpid() and last["before"] == ["a"]


@pytest.mark.parametrize(
    ("end", "status"), [("os.abort()", -signal.SIGABRT), ("os._exit(3)", 3), ("sys.exit(2)", 1)]
)
def test_what_ends_a_job_ends_its_child_before_the_next(tmp_path: Path, end: str, status: int) -> None:
    text = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from build_tools.compile.backends.child import answer_each\n"
        "def work(job):\n"
        f"    if job == 'b': {end}\n"
        "    return {'job': job}\n"
        "answer_each('abc', Path(sys.argv[1]), work, ValueError, apart=True)\n"
    )
    outcome = run(
        [sys.executable, "-c", text, tmp_path / "answers"], cwd=Path(__file__).parents[2], env={}, timeout=60
    )
    assert outcome.exit_code == status
    assert [each["job"] for each in _answers(tmp_path / "answers")] == ["a"]
