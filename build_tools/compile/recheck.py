"""Compile some of what a store had again, chosen by chance, and compare the bytes: what a store that others write cannot fake.

A signature says who wrote an entry, and not that it is right. One entry that leads to another job's object is found with the
chance of the part that is compiled again; with 1 it is found for certain.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from build_tools.compile.compile import Elsewhere, compile_jobs
from build_tools.compile.store import Store
from build_tools.errors import CompileFailedError, RecheckError, UsageError
from build_tools.records import CompileResult
from build_tools.tools.toolchain import Toolchain


@dataclass(frozen=True, slots=True)
class Recheck:
    """``part`` of what the store had; which jobs those are hangs on ``seed`` and on their names alone."""

    part: Fraction
    seed: int

    def of(self, results: Sequence[CompileResult]) -> list[CompileResult]:
        """Choose the results to compile again, at least one if any."""
        taken = sorted(
            (result for result in results if result.ok and result.cached), key=lambda result: result.job.id
        )
        return random.Random(self.seed).sample(taken, math.ceil(len(taken) * self.part))  # noqa: S311

    def __call__(
        self, results: Sequence[CompileResult], toolchain: Toolchain, store: Path, root: Path, workers: int = 0,
        elsewhere: Elsewhere | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Compile the chosen ones in an empty store; what was done, for a report. ``store``: where ``results`` came from.

        Raises:
            RecheckError: one of them is other bytes, another kernel, or launched otherwise. CompileFailedError: one does not
            compile.
        """
        chosen = self.of(results)
        with tempfile.TemporaryDirectory(prefix="aiter-prebuilt-recheck-") as folder:
            jobs = [result.job for result in chosen]
            empty = Store(Path(folder))
            fresh = compile_jobs(jobs, toolchain, empty, root=root, workers=workers, elsewhere=elsewhere)
            failed = [result for result in fresh if not result.ok]
            if failed:
                raise CompileFailedError(failed)
            lines = [
                f"{was.job.id} (key {was.key}): the store has {_facts(was)}, compiled again it is {_facts(now)}"
                for was, now in zip(chosen, fresh, strict=True)
                if _facts(was) != _facts(now)
            ]
        if lines:
            raise RecheckError(sorted(lines), store, self.seed)
        return self.as_report(chosen)

    def as_report(self, chosen: Sequence[CompileResult]) -> dict[str, Any]:
        """For a report."""
        jobs = sorted(result.job.id for result in chosen)
        return {"seed": self.seed, "part": str(self.part), "jobs": jobs}


def part_of(text: str) -> Fraction:
    """``1/10``, ``0.1`` or ``1``.

    Raises:
        UsageError: it is no part.
    """
    try:
        part = Fraction(text)
    except (ValueError, ZeroDivisionError):
        part = Fraction(0)
    if not 0 < part <= 1:
        raise UsageError(
            f"compile the part {text!r} again", "it is no number above 0, up to 1", "Write 1/10, for example"
        )
    return part


def _facts(result: CompileResult) -> str:
    """All that a bundle takes of a result."""
    name = result.path.name if result.path is not None else "nothing"
    more = ", ".join(f"{key} {value}" for key, value in sorted(result.extra.items()) if key != "read")
    return f"{name} ({result.symbol}, {result.threads} threads{', ' if more else ''}{more})"
