"""A farm of this machine alone: a scheduler in this process, on the loopback, and workers that end with it."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import CHILD_PATH
from build_tools.errors import FarmError
from build_tools.farm import address
from build_tools.farm.leash import leash
from build_tools.farm.scheduler import LOST
from build_tools.files.run import Conversation, converse, tie
from build_tools.tools.pins import Pins

#: How often workers that end are replaced, all of them together, before something is wrong with the machine.
REPLACED: Final = 8


class LocalFarm:
    """``count`` workers of one thread each, until ``stack`` ends."""

    def __init__(self, stack: ExitStack, count: int, place: str, tls: Path | None, pins: Pins) -> None:
        """Start them.

        Raises:
            FarmError: one does not start, in its own words.
        """
        from distributed import LocalCluster

        address.quiet()
        trusted = None if tls is None else address.trusting(tls)
        scheme = "tcp" if tls is None else "tls"
        cluster: Any = LocalCluster(
            n_workers=0, threads_per_worker=1, processes=True, host=address.LOOPBACK, protocol=f"{scheme}://",
            dashboard_address=address.NO_PAGE, security=trusted, scheduler_kwargs={"allowed_failures": LOST},
        )  # fmt: skip
        stack.callback(cluster.close, timeout=10)
        self.url: str = cluster.scheduler_address
        self.security = trusted
        self._stack, self._place, self._tls = stack, place, tls
        self._memory = max(1, _memory() // count)
        self._left = REPLACED
        tie(leash(pins))
        stack.callback(tie, None)
        self._workers = [self._start() for _ in range(count)]
        for worker in self._workers:
            self._ready(worker)

    def mend(self) -> None:
        """Replace workers that ended.

        Raises:
            FarmError: too many did.
        """
        for at, worker in enumerate(self._workers):
            if not worker.running:
                if not self._left:
                    raise FarmError(
                        "keep the workers of this machine running",
                        f"they end one after the other; the last one said: {worker.last_words() or 'nothing'}",
                        "See what ends them (memory, a limit of the session), or build without --farm",
                    )
                self._left -= 1
                self._workers[at] = self._start()

    def _start(self) -> Conversation:
        words: list[str | Path] = [
            sys.executable, "-m", "build_tools", "farm", "worker", self.url, "--shared", self._place,
            "--memory", str(self._memory), *(("--tls", self._tls) if self._tls is not None else ()),
        ]  # fmt: skip
        # All of this environment: pip's settings and caches are this build's own.
        return self._stack.enter_context(converse(words, env={**os.environ, **CHILD_PATH}))

    def _ready(self, worker: Conversation) -> None:
        if worker.ask(b"") is None:
            raise FarmError(
                "start a worker on this machine",
                worker.last_words() or "it ended",
                "Build without --farm, or mend that",
            )


def _memory() -> int:
    from distributed.system import MEMORY_LIMIT

    return int(MEMORY_LIMIT) >> 20
