"""``python -m aiter_prebuilt.execute`` as children: asked what calls would launch, and given calls to execute, on every core."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from aiter_prebuilt.contract.calls import Call, pack
from build_tools.errors import ExecutorError
from build_tools.files.cores import cores
from build_tools.files.run import Conversation, allow, converse, kill_all

#: A line of the executor (``src/aiter_prebuilt/schemas/execute.json``).
Line: TypeAlias = Mapping[str, Any]
_COMMAND: Final = (sys.executable, "-m", "aiter_prebuilt.execute")
_AGAIN: Final = (
    "Run python -m build_tools develop; if the message stays, python -m aiter_prebuilt doctor says more"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The sources, bundles and target of executed calls.

    ``library`` is the emulator's, for those that run, and ``known`` the findings that it passes over
    (``judge/findings.py``). ``program``: the Python program where operators are not the package's own.
    """

    root: Path
    bundles: tuple[Path, ...]
    target: str
    library: Path
    known: tuple[str, ...] = ()
    program: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """The command of an executor."""
        return (sys.executable, *self.program) if self.program else _COMMAND

    def environment(self) -> dict[str, str]:
        """Return the environment of the children.

        One thread each, since there is one child for every core; every check on, and NaN in workspaces: fresh pages are zeros,
        and would hide a read of memory that nobody wrote.
        """
        return {
            "PYTHONPATH": str(self.root / "src"),
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, self.bundles)),
            "AITER_PREBUILT_HIP": str(self.library),
            "AITER_PREBUILT_EMULATOR": self.target,
            "AITER_PREBUILT_EMULATOR_CHECKS": "all",
            "AITER_PREBUILT_EMULATOR_FILL": "0xff",
            "AITER_PREBUILT_EMULATOR_KNOWN": " ".join(self.known),
            "AITER_PREBUILT_EMULATOR_THREADS": "1",
        }


def explained(place: Place, calls: Iterable[Call]) -> Iterator[Line]:
    """Explain each call's launch without executing it.

    Raises:
        ExecutorError: the child ended.
    """
    with converse(
        [*place.command, "--explain", place.target], cwd=place.root, env=place.environment()
    ) as child:
        for call in calls:
            yield _ask(child, call)


def executed(
    place: Place, makers: Sequence[Callable[[], Call]], workers: int = 0
) -> Generator[tuple[int, Line, float], None, None]:
    """Yield (which, its line, seconds) of each call as it is done.

    Calls are made where they are sent: that takes time, too.

    Raises:
        ExecutorError: a child ended.
        KeyboardInterrupt: after all children have ended.
    """
    count = min(workers or cores(), len(makers))
    done: SimpleQueue[tuple[int, Line, float] | BaseException | None] = SimpleQueue()
    todo = iter(enumerate(makers))
    lock = threading.Lock()
    pool = ThreadPoolExecutor(max_workers=max(1, count))
    try:
        for _ in range(count):
            pool.submit(_worker, place, todo, lock, done)
        left = count
        while left:
            answer = done.get()
            if isinstance(answer, BaseException):
                raise answer
            if answer is None:
                left -= 1
            else:
                yield answer
    finally:
        kill_all()  # when something ended this early; otherwise there is nobody left
        pool.shutdown()
        allow()


def _worker(
    place: Place,
    todo: Iterator[tuple[int, Callable[[], Call]]],
    lock: threading.Lock,
    done: SimpleQueue[tuple[int, Line, float] | BaseException | None],
) -> None:
    try:
        with converse(place.command, cwd=place.root, env=place.environment()) as child:
            while True:
                with lock:
                    which, make = next(todo, (-1, None))
                if make is None:
                    break
                started = time.monotonic()
                line = _ask(child, make())
                done.put((which, line, time.monotonic() - started))
        done.put(None)
    except BaseException as error:  # noqa: BLE001  # the reader raises it
        done.put(error)


def _ask(child: Conversation, call: Call) -> Line:
    answer = child.ask(pack(call))
    if answer is None:
        words = child.last_words()
        raise ExecutorError(
            f"execute {call.operator} {call.label!r}",
            f"the executor ended{': ' + words if words else ' without a word'}",
            _AGAIN,
        )
    line: Line = json.loads(answer)
    return line
