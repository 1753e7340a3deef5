"""Watches over what a compile takes on a worker: its memory, that of its children included, and whether anybody still wants it.

A limit of the process that runs a farm's work does not see the compilers that it starts, and a limit of address space would
refuse what zig and LLVM reserve and never touch. So the resident memory of a child's whole process group is looked at ten times a
second; in a tenth of one a compile may grow past its class. Pages that a fork shares are counted once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
#: Of ``/proc/PID/stat``, behind the name: the process group, and the resident pages.
_GROUP, _RESIDENT = 2, 21
#: Seconds between two looks at memory: reading what all processes have takes milliseconds.
_EVERY: Final = 0.1


@dataclass(slots=True)
class Guard:
    """The guard of one unit of work.

    ``most``: bytes that it may have. ``exceeded``: the bytes that were found when that was too much, else 0.
    """

    most: int
    wanted: Callable[[], bool] = lambda: True
    exceeded: int = 0
    _looked: float = 0.0

    def __call__(self, group: int) -> bool:
        """Must the process group be ended?"""
        if not self.wanted():
            return True
        now = time.monotonic()
        if now - self._looked < _EVERY:
            return False
        self._looked = now
        if resident(group) > self.most and (found := proportional(group)) > self.most:
            self.exceeded = found
            return True
        return False


def resident(group: int) -> int:
    """Bytes of memory of the processes of a group, each by itself."""
    return sum(pages for _, pages in _members(group)) * _PAGE


def proportional(group: int) -> int:
    """Measure a group's memory, sharing common pages among processes.

    As :func:`resident`.
    """
    total = 0
    for process, pages in _members(group):
        found = pages * _PAGE
        with suppress(OSError, ValueError, StopIteration):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
            found = 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
        total += found
    return total


def _members(group: int) -> Iterator[tuple[int, int]]:
    """Yield the processes of a group and their pages.

    Those that end meanwhile have none.
    """
    for name in os.listdir("/proc"):  # noqa: PTH208 - ten times a second: paths of it would take three times as long
        if name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                words = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                if int(words[_GROUP]) == group:
                    yield int(name), int(words[_RESIDENT])
