"""Cycles of one workgroup of each kernel of a family: a tile at two values of K, by the emulator's timing model."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.errors import ExecutorError
from build_tools.files.run import run
from build_tools.timing.families import Family, Kernel
from build_tools.tools.tree import Tree

#: Steps of K: behind the prologue of every kernel, and far enough apart.
_STEPS: Final = (12, 36)
_BLOCK: Final = 256
#: A kernel that waits for another's workgroup would not end.
_LIMIT: Final = 2_000_000
_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Cycles:
    """The cycles of a workgroup.

    ``fixed`` + ``column`` for each column of K. ``bytes_fixed``, ``bytes_column``: bytes that miss its L1. ``matrix``: share of
    the time that its matrix units work.
    """

    fixed: float
    column: float
    bytes_fixed: float
    bytes_column: float
    matrix: float


def simulate(family: Family, kernels: Sequence[Kernel], tree: Tree, library: Path) -> dict[str, Cycles]:
    """By symbol.

    Raises:
        ExecutorError: a kernel did not come to its end.
    """
    lengths = [steps * family.step for steps in _STEPS]
    jobs = [_job(family, kernel, tree, length) for kernel in kernels for length in lengths]
    launches = timed(jobs, f"{family.target}:cus={family.cards[0]}", library)
    made = {}
    for place, kernel in enumerate(kernels):
        short, long = (
            max(launch["classes"], key=lambda each: each["cycles"])
            for launch in launches[2 * place : 2 * place + 2]
        )
        columns = lengths[1] - lengths[0]
        cycles, bytes_, matrix = (
            (long[key] - short[key]) / columns for key in ("cycles", "missed_bytes", "matrix_cycles")
        )
        made[kernel.symbol] = Cycles(
            fixed=short["cycles"] - cycles * lengths[0],
            column=cycles,
            bytes_fixed=short["missed_bytes"] - bytes_ * lengths[0],
            bytes_column=bytes_,
            matrix=matrix / cycles,
        )
    return made


def _job(family: Family, kernel: Kernel, tree: Tree, columns: int) -> dict[str, Any]:
    parts = 1 if 1 in family.parts or not kernel.splits else min(family.parts)
    file = tree.path(f"aiter:hsa/{family.target}/{kernel.file}")
    return {
        "file": str(file),
        "symbol": kernel.symbol,
        "grid": [1, 1, parts],
        "block": _BLOCK,
        "arguments": family.arguments(kernel.tile_m, kernel.tile_n, columns * parts, parts),
    }


def timed(jobs: Iterable[dict[str, Any]], device: str, library: Path) -> list[dict[str, Any]]:
    """Run the timing model on each launch.

    Raises:
        ExecutorError: one of them failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        listed, said = Path(folder, "jobs.json"), Path(folder, "timing.json")
        listed.write_text(json.dumps(list(jobs)), encoding="utf-8")
        environment = {
            "AITER_PREBUILT_EMULATOR": device,
            "AITER_PREBUILT_EMULATOR_CHECKS": "permissive",  # these kernels load ahead, behind the ends of a tile
            "AITER_PREBUILT_EMULATOR_LIMIT": str(_LIMIT),
            "AITER_PREBUILT_EMULATOR_THREADS": "1",
            "AITER_PREBUILT_EMULATOR_TIMING": str(said),
        }
        program = Path(__file__).with_name("launch.py")
        done = run([sys.executable, program, listed, library], env=environment, timeout=_SECONDS)
        if done.exit_code:
            raise ExecutorError(
                f"time kernels on {device}",
                done.output[-2000:],
                "Run python -m build_tools emulator, and again",
            )
        launches: list[dict[str, Any]] = json.loads(said.read_text(encoding="utf-8"))["launches"]
    return launches
