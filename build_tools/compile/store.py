"""The content-addressed store: what was compiled once is never compiled again, and never used when it is damaged.

    objects/<first two digits>/<sha256>     the bytes, named by their own hash
    entries/<first two digits>/<key>.json   what the job of that key gave: which object, symbol, threads, seconds

Both are written to a temporary file and renamed. Objects never change, so two processes at once need no lock: whoever
comes last replaces an entry by another that is as good. An entry that cannot be read, or whose object is missing or has
other bytes, is no entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from build_tools.errors import StoreError
from build_tools.files.regular import read_regular
from build_tools.files.reproducible import write_atomic

VERSION: Final = 1
DEFAULT: Final = Path("build/store")
#: What reading an entry may raise: who else writes a store decides what stands in it.
ODD: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """The stored object of a key.

    ``seconds``: how long a core was busy with the compile; ``peak``: bytes of memory that it needed, 0 where nobody looked.
    """

    path: Path
    sha256: str
    size: int
    symbol: str
    threads: int
    seconds: float
    extra: Mapping[str, str] = field(default_factory=dict)
    peak: int = 0


class Results(Protocol):
    """The interface of a store for the compile stage.

    It is a folder of this machine, or one before a shared place.
    """

    @property
    def path(self) -> Path:
        """The folder of the objects that it hands out."""

    @property
    def readers(self) -> int:
        """The number of useful parallel lookups.

        1 where an answer does not wait for a network.
        """

    @property
    def damaged(self) -> str:
        """Describe damage in a shared place, with the remedy; or ""."""

    def get(self, key: str) -> StoreEntry | None:
        """Find the entry for ``key``, its object verified.

        None when there is none that can be trusted.
        """

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
        """Keep ``data`` for ``key``."""


class Store:
    """The store in ``path``, which need not exist yet."""

    readers: Final = 1
    damaged: Final = ""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def entry_path(self, key: str) -> Path:
        """File of the entry for ``key``."""
        return Path(f"{self.path}/entries/{key[:2]}/{key}.json")

    def object_path(self, digest: str) -> Path:
        """File of the object with that sha256."""
        return Path(f"{self.path}/objects/{digest[:2]}/{digest}")

    def get(self, key: str) -> StoreEntry | None:
        """Find the entry for ``key``, its object verified.

        None when there is none that can be trusted.
        """
        try:
            row = json.loads(read_regular(self.entry_path(key)))
            entry = self._entry(row, key)
            data = read_regular(entry.path)
        except (OSError, *ODD):
            return None
        return entry if hashlib.sha256(data).hexdigest() == entry.sha256 else None

    def _entry(self, row: Mapping[str, Any], key: str) -> StoreEntry:
        if row["version"] != VERSION or row["key"] != key:
            raise ValueError("another version of the store, or a file that was renamed")
        return StoreEntry(
            path=self.object_path(str(row["sha256"])),
            sha256=str(row["sha256"]),
            size=int(row["size"]),
            symbol=str(row["symbol"]),
            threads=int(row["threads"]),
            seconds=float(row["seconds"]),
            extra={str(name): str(value) for name, value in row["extra"].items()},
            peak=int(row.get("peak", 0)),
        )

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
        """Keep ``data`` for ``key``. ``job`` is written down for people, nothing reads it.

        Raises:
            StoreError: the store cannot be written.
        """
        row = row_of(key, data, job, symbol, threads, seconds, extra, peak)
        digest = str(row["sha256"])
        try:
            if not self._holds(digest):
                write_atomic(self.object_path(digest), data)
            write_atomic(self.entry_path(key), text_of(row))
        except OSError as error:
            raise StoreError(
                f"keep the code object of {job}",
                str(error),
                "Free some space, or choose another folder with --store",
            ) from error
        return self._entry(row, key)

    def _holds(self, digest: str) -> bool:
        try:
            return hashlib.sha256(self.object_path(digest).read_bytes()).hexdigest() == digest
        except OSError:
            return False


def row_of(
    key: str, data: bytes, job: str, symbol: str, threads: int, seconds: float, extra: Mapping[str, str], peak: int
) -> dict[str, Any]:  # fmt: skip
    """Build the row of an entry."""
    return {
        "version": VERSION, "key": key, "job": job, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data),
        "symbol": symbol, "threads": threads, "seconds": round(seconds, 3), "peak": peak, "extra": dict(sorted(extra.items())),
    }  # fmt: skip


def text_of(row: Mapping[str, Any]) -> bytes:
    """Write an entry as a file's bytes."""
    return (json.dumps(row, indent=1) + "\n").encode()
