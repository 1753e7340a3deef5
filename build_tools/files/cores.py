"""Count this process's cores, and run as many threads or children."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


def cores() -> int:
    """Count the cores that this process may use.

    All cores where the system does not say.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> ThreadPoolExecutor:
    """Make a pool with a thread for each core."""
    return ThreadPoolExecutor(cores())


@contextmanager
def side_by_side() -> Iterator[tuple[Callable[..., Future[Any]], Executor]]:
    """Yield a function that starts tasks, and threads for their parts.

    An error of the caller stops them: no task and no part begins any more.
    """
    with threads() as parts, threads() as tasks:
        try:
            yield tasks.submit, parts
        except BaseException:
            for each in (tasks, parts):
                each.shutdown(wait=False, cancel_futures=True)
            raise
