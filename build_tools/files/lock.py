"""One process at a time: what reads files, works for minutes and writes them again must not do so twice at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from build_tools.errors import BusyError


@contextmanager
def alone(path: Path, asked: str) -> Iterator[None]:
    """Hold the lock at ``path``; the kernel lets go of it when the process ends, however it does.

    Raises:
        BusyError: another one holds it. ``asked``: what this one wanted to do.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "another process"
            raise BusyError(
                asked,
                f"{holder} is at it already, and holds {path}",
                "Wait until it has ended, or work in another checkout",
            ) from None
        file.truncate()
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} (since {now} UTC)")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
