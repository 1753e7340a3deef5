"""Perform a unit of work on a worker.

It compiles in a folder of its own the inputs that it was given by digest, with its own tools.

Nothing of who leads the build is taken for granted. Each file is compared with its SHA-256; tools and the code that calls them
must be the same here; and the key of each job is found anew, from the files as they lie here. Files that no job names are not
there, so a compile that reads more than its key covers fails.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from build_tools.compile.compile import compile_batch
from build_tools.compile.fingerprint import code_of, job_key
from build_tools.compile.place import Place, checked, input_name, object_name
from build_tools.compile.store import Store, StoreEntry
from build_tools.errors import (
    BuildToolsError,
    FarmError,
    InputMissingError,
    KeyDiffersError,
    MemoryClassError,
    ToolsDifferError,
)
from build_tools.farm.guard import Guard
from build_tools.farm.unit import Answer, Failure, Refusal, StoredRow, Unit, tools_of
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import GUARDED, guarded
from build_tools.records import CompileJob, CompileResult
from build_tools.tools import pins
from build_tools.tools.toolchain import Toolchain, find

_SAME: Final = (
    "Start workers from the same commit as the build, in an environment made from the same requirements"
)


class Recording(Store):
    """A worker's own store, for as long as a unit lasts. ``rows``: what was put."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rows: list[StoredRow] = []

    def put(
        self,
        key: str,
        data: bytes,
        *,
        job: str,
        symbol: str,
        threads: int,
        seconds: float,
        extra: Mapping[str, str],
        peak: int = 0,
    ) -> StoreEntry:
        """See ``Store``."""
        entry = super().put(
            key, data, job=job, symbol=symbol, threads=threads, seconds=seconds, extra=extra, peak=peak
        )
        said = tuple(sorted(entry.extra.items()))
        self.rows.append(
            StoredRow(key, entry.sha256, job, entry.symbol, entry.threads, entry.seconds, said, entry.peak)
        )
        return entry


@dataclass(slots=True)
class Bench:
    """A worker's workplace.

    ``name``: how messages call it; ``root``: its own checkout; ``place``: where inputs are and objects go; ``folder``: for all
    that it writes, and removed with it.
    """

    name: str
    root: Path
    place: Place
    folder: Path
    toolchains: dict[str, Toolchain] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def perform(self, unit: Unit, wanted: Callable[[], bool] = lambda: True) -> Answer:
        """Compile a unit. ``wanted``: False ends what it started.

        Raises:
            SharedStoreError: the place cannot be reached.
        """
        try:
            toolchain = self._toolchain(unit)
            root = self._unpacked(unit)
            self._same_keys(unit, toolchain, root)
            store = Recording(self.folder / "store")
            self._lay_out(unit, store)
        except FarmError as error:
            return Answer(
                self.name, refusal=Refusal(type(error).__name__, error.asked, error.found, error.fix)
            )
        guard = Guard(unit.memory << 20, wanted)
        with guarded(guard):
            results = compile_batch(list(zip(unit.jobs, unit.keys, strict=True)), toolchain, store, root)
        failures = tuple(_failure(result, unit, guard) for result in results if not result.ok)
        return Answer(self.name, tuple(self._sent(row, store) for row in store.rows), failures)

    def _toolchain(self, unit: Unit) -> Toolchain:
        """Find this machine's tools, and compare them with the leader's.

        Raises:
            ToolsDifferError: they are others, or not there.
        """
        asked = f"compile {unit.jobs[0].id} on {self.name}"
        if unit.toolchain not in self.toolchains:
            try:
                self.toolchains[unit.toolchain] = find(unit.toolchain, self.root)
            except BuildToolsError as error:
                raise ToolsDifferError(asked, f"its tools cannot be used: {error}", _SAME) from error
        toolchain = self.toolchains[unit.toolchain]
        here = toolchain.provenance()
        others = [
            f"{tool} {here.get(tool, 'none')} and not {version}"
            for tool, version in unit.versions
            if here.get(tool) != version
        ]
        if others or tools_of(unit.jobs[0], toolchain) != unit.tools:
            found = ", ".join(others) or "of the same versions, but with other bytes or flags"
            raise ToolsDifferError(asked, f"its tools are others: {found}", _SAME)
        if code_of(unit.jobs[0]) != unit.code:
            raise ToolsDifferError(asked, f"its code of the backend {unit.jobs[0].backend} is another", _SAME)
        return toolchain

    def _unpacked(self, unit: Unit) -> Path:
        """Unpack the inputs of a unit as in the repository.

        The folder has nothing else but the pins.

        Raises:
            InputMissingError: the place lacks one, or has other bytes under its digest.
        """
        name = hashlib.sha256(repr(unit.inputs).encode()).hexdigest()[:16]
        root = self.folder / "roots" / name
        with self.lock:  # two threads of one source: the second has what the first unpacks, whole
            if not root.is_dir():
                made = root.with_suffix(".new")
                for path, digest in unit.inputs:
                    write_atomic(self._below(made, path), self._fetched(unit, input_name(digest), path))
                # Which source trees there are, and by which hashes: a worker's own pins.
                if not (made / pins.FILE).is_file():
                    write_atomic(made / pins.FILE, (self.root / pins.FILE).read_bytes())
                made.rename(root)
        return root

    def _below(self, root: Path, name: str) -> Path:
        path = root / name
        if ".." in path.parts or not path.is_relative_to(root):
            raise InputMissingError(
                f"unpack {name} on {self.name}",
                "it leaves the folder of its unit",
                "Trust nothing of who sent it",
            )
        return path

    def _fetched(self, unit: Unit, name: str, what: str) -> bytes:
        data = checked(self.place, name)
        if data is None:
            raise InputMissingError(
                f"read {what} for {unit.jobs[0].id} on {self.name}",
                f"{self.place.name} has no {name}, or other bytes under that name",
                "Start workers with the --shared that the build has; remove the file there if it is damaged",
            )
        return data

    def _same_keys(self, unit: Unit, toolchain: Toolchain, root: Path) -> None:
        """Find each key anew.

        Raises:
            KeyDiffersError: one is another.
        """
        for job, key in zip(unit.jobs, unit.keys, strict=True):
            try:
                found = job_key(job, toolchain, root)
            except BuildToolsError as error:
                found = f"none: {error}"
            if found != key:
                raise KeyDiffersError(
                    f"compile {job.id} on {self.name}",
                    f"its key there is {found} and not {key}: the job, a file that it reads, or a source tree is another",
                    f"{_SAME}; AITER_DIR and CK_DIR must name the same there, or nothing",
                )

    def _lay_out(self, unit: Unit, store: Recording) -> None:
        """Put results of whole files that are known into the worker's store."""
        for row in unit.known:
            if store.get(row.key) is None:
                data = row.data or self._fetched(unit, object_name(row.sha256), row.job)
                store.put(
                    row.key, data, job=row.job, symbol=row.symbol, threads=row.threads, seconds=row.seconds,
                    extra=dict(row.extra), peak=row.peak,
                )  # fmt: skip
        store.rows.clear()

    def _sent(self, row: StoredRow, store: Store) -> StoredRow:
        """Store a row's object in the place, and return the row.

        The row has the object itself where the place has other bytes under its name.
        """
        data = store.object_path(row.sha256).read_bytes()
        name = object_name(row.sha256)
        if self.place.create(name, data) or checked(self.place, name) is not None:
            return row
        return replace(row, data=data)


def _failure(result: CompileResult, unit: Unit, guard: Guard) -> Failure:
    """With a named error in front, where it took more memory than it may."""
    log = result.log
    if guard.exceeded and result.exit_code == GUARDED:
        error = _too_much(result.job, unit, guard)
        log = f"{type(error).__name__}: {error}\n{log}"
    return Failure(result.job.id, result.seconds, result.command, result.exit_code, log)


def _too_much(job: CompileJob, unit: Unit, guard: Guard) -> MemoryClassError:
    return MemoryClassError(
        f"compile {job.id} in its class of {unit.memory} MiB",
        f"its processes took {guard.exceeded >> 20} MiB",
        f"Build with --farm-memory {unit.memory * 2}, and record what compiles take: python -m build_tools matrix --record",
    )
