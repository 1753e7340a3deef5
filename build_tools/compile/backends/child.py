"""Compile several jobs in one child process.

The other side of :mod:`build_tools.compile.backends.many`.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

#: Characters of a traceback that are kept, from its end.
KEPT: Final = 8000
#: Bytes of the stack of a job's thread: compilers recurse over what they compile.
_STACK: Final = 64 << 20

Job = TypeVar("Job")


def answer_each(
    jobs: Sequence[Job],
    answers: Path,
    compile_job: Callable[[Job], dict[str, Any]],
    refusal: type[Exception],
    *,
    apart: bool = False,
) -> None:
    """Append one line of JSON to ``answers`` for each of ``jobs`` as it is done: what ``compile_job`` says of it, or its error.
    ``refusal``: an exception whose message is all there is to say. ``apart``: each in a process of its own, which has allocated
    nothing for the others; one that dies ends this process, as it would have without.
    """
    with answers.open("w", encoding="utf-8") as file:
        for job in jobs:

            def answer(job: Job = job) -> None:
                file.write(json.dumps(_answer(job, compile_job, refusal)) + "\n")
                file.flush()

            if apart:
                _fork(answer)
            else:
                answer()


def _answer(
    job: Job, compile_job: Callable[[Job], dict[str, Any]], refusal: type[Exception]
) -> dict[str, Any]:
    started = time.monotonic()
    try:
        answer = {"ok": True, **compile_job(job)}
    except refusal as error:
        answer = {"ok": False, "error": str(error)}
    except Exception:  # noqa: BLE001 - whatever the compiler raises is this job's failure, not the batch's
        answer = {"ok": False, "error": traceback.format_exc()[-KEPT:]}
    answer["seconds"] = round(time.monotonic() - started, 4)
    return answer


def _give_up(args: threading.ExceptHookArgs) -> None:
    threading.__excepthook__(args)
    os._exit(1)


def _fork(work: Callable[[], None]) -> None:
    """Do ``work`` in a fork of this process, and there in a thread, for its stack. The preloaded heap (``triton_heap.c``) begins
    anew in a fork, so that addresses come in the order in which ``work`` asks for them.
    """
    child = os.fork()
    if child == 0:
        threading.excepthook = _give_up
        threading.stack_size(_STACK)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        signal.raise_signal(-status)
    if status != 0:
        raise SystemExit(status)
