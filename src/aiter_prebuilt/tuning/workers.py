"""A process for each card that measures; the first process opens no driver, gives out calls, and outlives a fault.

A worker and its starter exchange JSON lines. A worker says the name of each candidate before it runs: when the worker ends, the
starter knows which candidate ended it, and goes on without.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import AiterPrebuiltError, DriverError, WorkerError
from aiter_prebuilt.tuning.calls import TuneCall
from aiter_prebuilt.tuning.card import Card
from aiter_prebuilt.tuning.card_state import State, state_of
from aiter_prebuilt.tuning.measure import OutOfTimeError, Tuner
from aiter_prebuilt.tuning.outcome import Limits, Measured, Timing

if TYPE_CHECKING:
    from aiter_prebuilt.devices.device import DeviceFacts

_PIECE: Final = 1 << 16
#: Seconds without a word after which a candidate counts as one that never ends.
SILENCE: Final = 120.0
#: Candidates of one call that may end a process before the call is left out.
_MOST_LOST: Final = 8


@dataclass(slots=True)
class Done:
    """A call that a worker is through with. ``late``: the budget ended inside it."""

    call: TuneCall
    found: Measured
    state: State
    late: bool = False


def probe() -> tuple[list[DeviceFacts], str]:
    """Ask a child for the devices of the first vendor that has some, and its driver's path."""
    for line in _child_lines(_say_devices):
        found = [
            device.DeviceFacts(**{**row, "features": frozenset(row["features"])}) for row in line["devices"]
        ]
        return found, line["path"]
    raise WorkerError(
        "look for devices",
        "the process that asked the driver ended",
        "Check the driver: aiter-prebuilt doctor",
    )


def _say_devices(say: Callable[[dict[str, Any]], None]) -> None:
    for vendor in device.VENDORS:
        driver = device.probe(vendor)
        if driver.devices:
            rows = [{**asdict(each), "features": sorted(each.features)} for each in driver.devices]
            say({"devices": rows, "path": driver.path})
            return
    say({"devices": [], "path": ""})


def _child_lines(work: Callable[[Callable[[dict[str, Any]], None]], None]) -> Iterator[dict[str, Any]]:
    """Run ``work`` in a child; yield the lines that it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _leave(lambda: work(lambda line: _send(writer, line)))
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        lines = stream.read().splitlines()
    os.waitpid(child, 0)
    yield from map(json.loads, lines)


def _leave(work: Callable[[], None]) -> None:
    """Run a child's work and end it: nothing of its starter's may run twice, no handler, no buffer."""
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def _send(file: int, line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(file, data) :]


@dataclass(slots=True)
class Worker:
    """One process on one card."""

    facts: DeviceFacts
    path: str
    limits: Limits
    child: int = 0
    call: TuneCall | None = None
    running: str = ""
    failure: str = ""
    lost: dict[str, str] = field(default_factory=dict)
    reader: int = -1
    _writer: int = -1
    _text: bytes = b""

    def start(self) -> None:
        """Start the process; it opens the driver itself."""
        asked, self._writer = os.pipe()
        self.reader, answers = os.pipe()
        self._text = b""
        self.child = os.fork()
        if self.child == 0:
            os.close(self._writer)
            os.close(self.reader)
            _leave(lambda: _serve(self.facts, self.path, self.limits, asked, answers))
        os.close(asked)
        os.close(answers)

    def give(self, call: TuneCall) -> None:
        """Hand a call to the process."""
        if self.call != call:
            self.call, self.lost = call, {}
        self.running = self.failure = ""
        with suppress(BrokenPipeError):  # it ended: what reads its words sees that
            _send(self._writer, {"operator": call.operator, "settings": call.settings, "lost": self.lost})

    def hear(self) -> list[dict[str, Any]] | None:
        """Return what the process said since; None when it has ended."""
        piece = os.read(self.reader, _PIECE)
        if not piece:
            return None
        *lines, self._text = (self._text + piece).split(b"\n")
        said: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for line in said:
            self.running = line.get("at", self.running)
            self.failure = line.get("failed", self.failure)
        return said

    def end(self, *, kill: bool = False) -> str:
        """Close the process. Returns how it ended."""
        if not self.child:
            return ""
        with suppress(BrokenPipeError):
            _send(
                self._writer, {}
            )  # workers that were started later hold this pipe, too: closing it says nothing
        os.close(self._writer)
        if kill:
            os.kill(self.child, signal.SIGKILL)
        _, status = os.waitpid(self.child, 0)
        os.close(self.reader)
        self.child = 0
        code = os.waitstatus_to_exitcode(status)
        if self.failure:
            return self.failure
        return (
            f"it ended the process with status {code}"
            if code >= 0
            else f"it ended the process by signal {-code}"
        )


def _serve(facts: DeviceFacts, path: str, limits: Limits, asked: int, answers: int) -> None:
    """Measure what is asked until nothing more is."""
    device.probe(facts.vendor)  # opens the driver in this process
    card = Card(facts, path)
    state = state_of(card)
    tuner = Tuner(card, path, limits, lambda name: _send(answers, {"at": name}))
    with os.fdopen(asked, "rb") as stream:
        for line in stream:
            row = json.loads(line)
            if not row:
                return
            call = TuneCall(row["operator"], tuple(map(tuple, row["settings"])))
            late = False
            try:
                found = tuner.measure(call, row["lost"])
            except OutOfTimeError:
                found, late = Measured(call.words, call.operator, {}, problem="the time was over"), True
            except DriverError as error:
                _send(answers, {"failed": str(error)})
                raise  # a fault makes the device unusable for this process
            except AiterPrebuiltError as error:
                found = Measured(call.words, call.operator, {}, problem=str(error))
            after = state_of(card)
            notes = tuple(
                dict.fromkeys((*state.notes, *(note for note in after.notes if "busy" not in note)))
            )
            told = {"clock_mhz": after.clock_mhz, "notes": notes}
            _send(answers, {"done": asdict(found), "state": told, "late": late})


def measured(
    calls: Sequence[TuneCall], workers: Sequence[Worker], over: Callable[[], bool], silence: float = SILENCE
) -> Iterator[Done]:
    """Give calls to workers as they come free; yield each that is done.

    Args:
        calls: what to measure.
        workers: one for each card; all are ended when this is.
        over: is the budget spent? No call is begun then.
        silence: seconds after which a worker that says nothing is ended.
    """
    left = list(reversed(calls))
    busy: list[Worker] = []
    try:
        for worker in workers:
            if left and not over():
                worker.start()
                worker.give(left.pop())
                busy.append(worker)
        while busy:
            ready = select.select([worker.reader for worker in busy], [], [], silence)[0]
            for worker in [each for each in busy if each.reader in ready or not ready]:
                done = _step(worker, heard=bool(ready))
                if done is None:
                    continue
                yield done
                if left and not over():
                    if not worker.child:
                        worker.start()
                    worker.give(left.pop())
                else:
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.end(kill=worker in busy)


def _step(worker: Worker, *, heard: bool) -> Done | None:
    """Take what a worker said; None where its call goes on."""
    assert worker.call is not None
    said = worker.hear() if heard else None
    for line in said or ():
        if "done" in line:
            row = line["done"]
            found = Measured(**{**row, "candidates": [Timing(**each) for each in row["candidates"]]})
            state = State(line["state"]["clock_mhz"], tuple(line["state"]["notes"]))
            return Done(worker.call, found, state, line["late"])
    if said is not None:
        return None
    how = worker.end(kill=True)
    name = worker.running
    if name and name not in worker.lost and len(worker.lost) < _MOST_LOST:
        worker.lost[name] = how if heard else "it never ended"
        worker.start()
        worker.give(worker.call)
        return None
    problem = f"{how or 'its process ended'} before any candidate ran" if not name else f"{name}: {how}"
    return Done(worker.call, Measured(worker.call.words, worker.call.operator, {}, problem=problem), State())
