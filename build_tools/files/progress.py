"""How far the compiles are: a bar on a terminal, one plain line per job that was not cached otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from build_tools.records import CompileResult


class Progress(Protocol):
    """Told of each result as it comes, from one thread."""

    def done(self, result: CompileResult) -> None:
        """One more job is finished."""


class _Lines:
    def __init__(self, total: int, stream: TextIO) -> None:
        self.total, self.count, self.stream = total, 0, stream

    def done(self, result: CompileResult) -> None:
        self.count += 1
        if not result.cached:
            word = "ok" if result.ok else "FAILED"
            print(
                f"[{self.count}/{self.total}] {word} {result.job.id} {result.seconds:.1f} s",
                file=self.stream,
                flush=True,
            )


@contextmanager
def show(total: int, stream: TextIO = sys.stderr) -> Iterator[Progress]:
    """A progress display for ``total`` jobs, for as long as the context lasts."""
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
            self.task = display.add_task("compile", total=total, failed="")

        def done(self, result: CompileResult) -> None:
            self.failed += not result.ok
            failed = f"[red]{self.failed} failed" if self.failed else ""
            self.display.update(self.task, advance=1, failed=failed, description=result.job.id[:60])

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
        TextColumn("{task.description}"),
    )
    with RichProgress(*columns, console=Console(file=stream), transient=True) as display:
        yield Bar(display)
