"""A worker's process: it registers with a scheduler, and performs what that sends. When it ends, its cluster starts another."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from build_tools.compile.place import place_at
from build_tools.errors import FarmUnreachableError
from build_tools.farm import address
from build_tools.farm.leash import leash
from build_tools.farm.perform import Bench
from build_tools.farm.unit import Answer, Unit
from build_tools.files.run import kill_all, stopping, tie
from build_tools.tools import pins

#: What Dask counts of a worker, and of a task: MiB of memory.
RESOURCE: Final = "MiB"
#: Seconds in which a scheduler must answer.
PATIENCE: Final = 30
_bench: list[Bench] = []


def perform(unit: Unit) -> Answer:
    """Perform a unit of work that the scheduler sends.

    It is the one function that travels, by its name.
    """
    from distributed import Reschedule

    wanted = _wanted()
    answer = _bench[0].perform(unit, wanted)
    if stopping() or not wanted():
        # A compile that was ended with its worker has not failed: another worker does it.
        raise Reschedule
    return answer


def _wanted() -> Callable[[], bool]:
    """Make a test for whether anybody waits for this thread's task.

    Nobody does once it was cancelled, or its sender is gone.
    """
    from distributed import get_worker

    worker: Any = get_worker()
    return partial(_is_wanted, worker, worker.get_current_task())


def _is_wanted(worker: Any, key: Any) -> bool:
    task = worker.state.tasks.get(key)
    ended = worker.status.name in ("closing", "closed", "failed")
    return not ended and task is not None and task.state not in ("cancelled", "released")


def work(
    url: str, place: str, root: Path, tls: Path | None, threads: int, memory: int, said: Callable[[str], None]
) -> None:
    """Serve the scheduler at ``url`` until it ends, or this process is asked to. ``memory``: MiB for all compiles at once, 0 for
    what the machine has; ``said`` is told where the worker listens.

    Raises:
        OpenFarmError, FarmError: see ``address.py``. FarmUnreachableError: no scheduler answers.
        ToolchainError: the leash cannot be made. SharedStoreError: no such place.
    """
    trusted = address.security(url, tls)
    tie(leash(pins.load(root)))
    address.quiet()
    with tempfile.TemporaryDirectory(prefix="aiter-prebuilt-worker-") as folder:
        bench = Bench(f"{socket.gethostname()}:{os.getpid()}", root, place_at(place), Path(folder))
        _bench[:] = [bench]
        try:
            asyncio.run(_serve(url, trusted, threads, memory or _all_memory(), folder, said))
        finally:
            kill_all()
            sys.stdout.flush()


def _all_memory() -> int:
    from distributed.system import MEMORY_LIMIT

    return int(MEMORY_LIMIT) >> 20


async def _serve(
    url: str, trusted: Any, threads: int, memory: int, folder: str, said: Callable[[str], None]
) -> None:
    from distributed import Security, Worker
    from distributed.comm.core import connect

    try:  # a worker that starts only says that nobody answered in time, and not why
        comm: Any = await connect(
            url, timeout=PATIENCE, **(trusted or Security()).get_connection_args("worker")
        )
        comm.abort()
    except (OSError, TimeoutError, asyncio.TimeoutError) as error:
        raise unreachable(url, error) from error
    local = address.loopback(address.host_of(url))
    try:
        worker: Any = await asyncio.wait_for(
            Worker(
                url, nthreads=threads, resources={RESOURCE: memory}, memory_limit=0, local_directory=folder,
                security=trusted, host=address.LOOPBACK if local else None, dashboard=False,
                dashboard_address=address.NO_PAGE, death_timeout=PATIENCE,
            ),
            PATIENCE + 5,
        )  # fmt: skip
    except (OSError, TimeoutError, asyncio.TimeoutError) as error:
        raise unreachable(url, error) from error
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(_end(worker)))
    said(worker.address)
    await worker.finished()


async def _end(worker: Any) -> None:
    kill_all()  # a compile that runs would hold the end up for minutes
    await worker.close(timeout=5, executor_wait=False)


def unreachable(url: str, error: BaseException) -> FarmUnreachableError:
    """Build the error for an unreachable scheduler at ``url``."""
    words = f"{error} {error.__cause__ or ''} {error.__context__ or ''}"
    foreign = any(word in words for word in ("CERTIFICATE_VERIFY_FAILED", "certificate", "SSL", "TLS"))
    found = (
        "its certificate is not of the authority that this side trusts, or ours is not of its"
        if foreign
        else "nobody answers"
    )
    return FarmUnreachableError(
        f"reach the scheduler at {url}",
        f"{found} ({str(error).strip() or type(error).__name__})",
        f"Start one with python -m build_tools farm scheduler, and give all sides certificates of one {address.AUTHORITY}",
    )
