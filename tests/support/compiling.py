"""A toolchain, backends and jobs that are made up, for tests of the compile stage that start no process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from build_tools.compile.backends.built import Built
from build_tools.errors import BuildToolsError, UsageError
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain
from support import planned


class Tools:
    """The part of a toolchain that the stage itself uses."""

    def identity_of(self, backend: str) -> str:
        return f"tools of {backend}"

    def provenance(self) -> dict[str, str]:
        return {"toolchain": "made up"}


TOOLS: Final = cast(Toolchain, Tools())
Work = Callable[[CompileJob, Path], Built]


class Backend:
    """Writes the job's symbol; ``work`` may do something else instead."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.work: Work = write

    def expand(self, source: str, symbol: str, root: Path) -> tuple[str, ...]:
        return (source,)

    def compile(self, job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
        assert toolchain is TOOLS and (root / job.source).is_file()
        self.asked.append(job.id)
        return self.work(job, workdir)


def write(job: CompileJob, workdir: Path) -> Built:
    path = workdir / f"{job.id}.bin"
    path.write_bytes(f"the code of {job.symbol}".encode())
    return Built(path, f"{job.symbol}.kd", 128, {"lds": "16"})


class Many:
    """A backend that compiles several jobs at once: ``bad`` ones fail, each second takes a second longer."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(
        self, jobs: Sequence[CompileJob], toolchain: Toolchain, root: Path, workdir: Path
    ) -> list[tuple[Built | BuildToolsError, float]]:
        assert toolchain is TOOLS and (root / jobs[0].source).is_file() and workdir.is_dir()
        self.asked.append([job.id for job in jobs])
        return [
            (UsageError("a", "b", "c") if job.symbol == "bad" else write(job, workdir), 1.5 + place)
            for place, job in enumerate(jobs)
        ]


def job(name: str, symbol: str = "", backend: Any = "hip", source: str = "k.hip") -> CompileJob:
    return CompileJob(
        name, planned.target(), backend, source, symbol or name, (), (), 0, (64, 1, 1), (source,)
    )


def separate_job(name: str) -> CompileJob:
    """A job that shares its compile with no other: its constants are its own."""
    return replace(job(name), constants=(("NAME", name),))


def triton(name: str, source: str = "t.py", symbol: str = "") -> CompileJob:
    return job(name, symbol, "triton", source)
