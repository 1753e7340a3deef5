"""AITER's QuickReduce on several embedded devices: ranks as threads of a process, and as processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulator.test_ranks import finish, start

PROGRAM = "quick_ranks_program"


@pytest.mark.parametrize(("target", "world"), [("gfx950", 2), ("gfx942", 4)])
def test_ranks_that_are_threads_of_one_process(target: str, world: int, tmp_path: Path) -> None:
    """A handle of the same process is found without the driver, which would not open it."""
    finish([start(target, world, str(tmp_path), "5", "threads", program=PROGRAM)], "done\n")


@pytest.mark.parametrize(("target", "world"), [("gfx942", 2), ("gfx950", 4), ("gfx950", 8)])
def test_ranks_that_are_processes(target: str, world: int, tmp_path: Path) -> None:
    finish(
        [start(target, world, str(tmp_path), "7", str(rank), program=PROGRAM) for rank in range(world)],
        "done\n",
    )
