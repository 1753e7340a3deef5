"""How many cores there are for this process, and work for as many threads or children at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


def cores() -> int:
    """Those that this process may use, where the system says; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> ThreadPoolExecutor:
    """A thread for each core."""
    return ThreadPoolExecutor(cores())


@contextmanager
def side_by_side() -> Iterator[tuple[Callable[..., Future[Any]], Executor]]:
    """What begins a task, and threads that all tasks may share for their parts. What ends the caller ends them: no task and no
    part begins any more.
    """
    with threads() as parts, threads() as tasks:
        try:
            yield tasks.submit, parts
        except BaseException:
            for each in (tasks, parts):
                each.shutdown(wait=False, cancel_futures=True)
            raise
