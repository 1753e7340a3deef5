"""Show the progress of long work.

A bar on a terminal, otherwise one plain line for each thing that took time. :func:`step` is for one thing that cannot be counted.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

#: Seconds after which people want to know what a command does.
PATIENCE: Final = 2.0
#: Seconds between two lines about one step: often enough for a log, seldom enough to read it.
_INTERVAL: Final = 30.0


@dataclass(frozen=True, slots=True)
class Done:
    """One thing that is finished. ``silent``: it cost nothing, and deserves no line."""

    name: str
    ok: bool
    seconds: float
    silent: bool = False


class Progress(Protocol):
    """Told of each thing as it comes, from one thread."""

    def done(self, what: Done) -> None:
        """One more is finished."""


class _Lines:
    def __init__(self, total: int, stream: TextIO) -> None:
        self.total, self.count, self.stream = total, 0, stream

    def done(self, what: Done) -> None:
        self.count += 1
        if not what.silent:
            word = "ok" if what.ok else "FAILED"
            print(
                f"[{self.count}/{self.total}] {word} {what.name} {what.seconds:.1f} s",
                file=self.stream,
                flush=True,
            )


@contextmanager
def show(total: int, stream: TextIO = sys.stderr) -> Iterator[Progress]:
    """Show progress for ``total`` things while the context lasts."""
    if total == 0 or not stream.isatty():
        yield _Lines(total, stream)
        return
    with _bar(total, stream) as bar:
        yield bar


@contextmanager
def _bar(total: int, stream: TextIO) -> Iterator[Progress]:
    from rich.console import Console  # here: a build with nothing to do never shows a bar
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    class Bar:
        def __init__(self, display: RichProgress) -> None:
            self.display, self.failed = display, 0
            self.task = display.add_task("", total=total, failed="")

        def done(self, what: Done) -> None:
            self.failed += not what.ok
            failed = f"[red]{self.failed} failed" if self.failed else ""
            self.display.update(self.task, advance=1, failed=failed, description=what.name[:60])

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
        TextColumn("{task.description}", markup=False),
    )
    with RichProgress(*columns, console=Console(file=stream), transient=True) as display:
        yield Bar(display)


@contextmanager
def step(name: str, *, patience: float = PATIENCE, interval: float = _INTERVAL) -> Iterator[None]:
    """Say on stderr what takes longer than ``patience``: when it begins to, then every ``interval`` seconds, and when it is done.

    Steps may run side by side, so these are lines of their own, on a terminal too.

    Args:
        name: the action, as an infinitive ("compile the emulator").
        patience: seconds; a step that is faster says nothing.
        interval: seconds.
    """
    start = time.monotonic()
    over = threading.Event()

    def watch() -> None:
        if over.wait(patience):
            return
        _say(f"{name} ...")
        while not over.wait(interval):
            _say(f"{name} ... {time.monotonic() - start:.0f} s so far")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except BaseException:
        over.set()
        watcher.join()
        raise
    over.set()
    watcher.join()
    seconds = time.monotonic() - start
    if seconds >= patience:
        _say(f"{name}: {seconds:.1f} s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
