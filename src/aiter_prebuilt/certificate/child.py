"""Work in a child that opens the driver: a fault or an endless kernel ends it, and the certificate goes on without."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from aiter_prebuilt.errors import WorkerError

#: Sends one JSON object to the starter.
Say: TypeAlias = Callable[[dict[str, Any]], None]
_PIECE: Final = 1 << 16
#: Seconds without a word after which a child counts as one that never ends.
SILENCE: Final = 120.0
#: Keys of a child's last line: its work is done, or an error ended it.
_DONE: Final = "child_done"
_ERROR: Final = "child_error"


def lines(work: Callable[[Say], None], silence: float = SILENCE) -> Iterator[dict[str, Any]]:
    """Run ``work`` in a child and yield what it says, as it comes.

    Args:
        work: gets a function that sends a JSON object.
        silence: seconds without a word after which the child is killed.

    Raises:
        WorkerError: the child ended before its work did, by a signal, a status or silence.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(work, writer)
    os.close(writer)
    late = whole = False
    how, text = "", b""
    try:
        while True:
            if not select.select([reader], [], [], silence)[0]:
                late = True
                break
            piece = os.read(reader, _PIECE)
            if not piece:
                break
            *said, text = (text + piece).split(b"\n")
            for each in map(json.loads, said):
                whole = whole or _DONE in each
                how = each.get(_ERROR, how)
                if not (whole or how):
                    yield each
    finally:
        os.close(reader)
        status = _ended(child, kill=not whole)
    if not whole:
        found = how or _how(status, late=late, silence=silence)
        raise WorkerError("measure on the card", found, "Check the driver: aiter-prebuilt doctor")


def _run(work: Callable[[Say], None], writer: int) -> None:
    """Do a child's work and end it without what its starter would do at exit."""
    status = 1

    def say(line: dict[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(writer, data) :]

    try:
        work(say)
        say({_DONE: True})
        status = 0
    except Exception as error:  # noqa: BLE001  # whatever it is, the starter reports it
        say({_ERROR: f"{type(error).__name__}: {error}"[:2000]})
    finally:
        os._exit(status)


def _ended(child: int, *, kill: bool) -> int:
    """Wait for a child. One that still runs is killed; one that ended by itself keeps its own status."""
    if kill:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if not select.select([], [], [], 0.2)[0]:  # a child that closed its pipe needs a moment to end
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return status
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _how(status: int, *, late: bool, silence: float) -> str:
    if late:
        return f"it said nothing for {silence:g} seconds"
    code = os.waitstatus_to_exitcode(status)
    return f"its process ended with status {code}" if code >= 0 else f"its process ended by signal {-code}"
