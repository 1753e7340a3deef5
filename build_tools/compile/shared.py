"""A store before a place that several machines share: what the folder here lacks is read from there, once.

Whoever may write such a place could have a key lead to another job's object, which is whole and has its own hash. So an entry
there is believed for one of two reasons. Signed ones bind key and digest together: a signature over all that the entry says, by a
writer whom the reader names. Unsigned ones are believed where somebody else sees to it who may write; then nothing is written.
``recheck.py`` compiles some of what was taken again, whatever was signed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from build_tools.compile.place import Place, checked, entry_name, object_name
from build_tools.compile.store import VERSION, Store, StoreEntry, row_of, text_of
from build_tools.errors import StoreConflictError, UntrustedEntryError

#: In front of what is signed: a signature of anything else is none of an entry.
SEAL: Final = b"aiter-prebuilt store entry\n"
#: Of an entry that has one: the text of a minisign signature.
SIGNATURE: Final = "signature"
READERS: Final = 16

#: (what is signed, the signature) -> did a trusted writer make it? SignatureError's like is raised as UntrustedEntryError.
Verify = Callable[[bytes, str], bool]
#: (what is signed, its name) -> the signature.
Sign = Callable[[bytes, str], str]


@dataclass(slots=True)
class Counts:
    """What a build had from a shared place: ``taken``, and ``strange``, entries that no trusted writer signed."""

    taken: int = 0
    strange: int = 0
    written: int = 0


def sealed(row: Mapping[str, Any]) -> bytes:
    """What is signed of an entry: all that it says."""
    told = {name: value for name, value in row.items() if name != SIGNATURE}
    return SEAL + json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


@dataclass(slots=True)
class SharedStore:
    """``local`` before ``place``. ``verify``: entries must be signed so; None: who may write there is seen to elsewhere.
    ``sign``: what is compiled here is written there; None: nothing is.
    """

    local: Store
    place: Place
    verify: Verify | None = None
    sign: Sign | None = None
    counts: Counts = field(default_factory=Counts)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def path(self) -> Path:
        """See ``Results``."""
        return self.local.path

    @property
    def readers(self) -> int:
        """See ``Results``."""
        return READERS

    def get(self, key: str) -> StoreEntry | None:
        """The entry for ``key``: of the folder here, else of the place, its object compared with its SHA-256.

        Raises:
            UntrustedEntryError: the entry was changed after it was signed.
            SharedStoreError: the place cannot be read. StoreError: the folder here cannot be written.
        """
        found = self.local.get(key)
        if found is not None:
            return found
        row = self._row(key)
        data = None if row is None else checked(self.place, object_name(row["sha256"]))
        if row is None or data is None:
            return None
        with self._lock:
            self.counts.taken += 1
        return self.local.put(key, data, **_said(row))

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
        """Keep ``data`` for ``key`` here, and there when this build signs: the object, then the entry, neither over another.

        Raises:
            StoreConflictError: the place has another object for the key.
            SharedStoreError: the place cannot be written. StoreError: the folder here cannot.
        """
        row = row_of(key, data, job, symbol, threads, seconds, extra, peak)
        if self.sign is not None:
            self._publish(key, row, data, self.sign)
        return self.local.put(key, data, **_said(row))

    def _publish(self, key: str, row: dict[str, Any], data: bytes, sign: Sign) -> None:
        self.place.create(object_name(row["sha256"]), data)
        name = entry_name(key)
        signed = {**row, SIGNATURE: sign(sealed(row), f"{key}.json")}
        if self.place.create(name, text_of(signed)):
            with self._lock:
                self.counts.written += 1
            return
        other = _parsed(self.place.read(name) or b"")
        if other is None or other["sha256"] != row["sha256"]:
            raise StoreConflictError(
                f"keep the code object of {row['job']} in {self.place.name}",
                f"{name} is there and leads to {(other or {}).get('sha256', 'nothing that can be read')}, and this compile gave "
                f"{row['sha256']}",
                "Compile it in two empty stores: where both give this one, remove that entry and find out who wrote it",
            )

    def _row(self, key: str) -> dict[str, Any] | None:
        """What the place's entry says, when it is to be believed."""
        row = _parsed(self.place.read(entry_name(key)) or b"")
        if row is None:
            return None
        trouble = ""
        if row["key"] != key:
            trouble = f"it is the entry of the key {row['key']}"
        elif self.verify is None:
            return row
        elif SIGNATURE in row:
            try:
                if self.verify(sealed(row), str(row[SIGNATURE])):
                    return row
            except ValueError as error:
                trouble = str(error)
        if trouble:
            raise UntrustedEntryError(
                f"take {entry_name(key)} of {self.place.name}",
                trouble,
                "Somebody changed that store: remove the entry, and see who may write there",
            )
        with self._lock:
            self.counts.strange += 1
        return None


def _parsed(data: bytes) -> dict[str, Any] | None:
    """An entry that says all that one has to say, of the right kinds; None for anything else."""
    try:
        row = json.loads(data)
        if row["version"] != VERSION:
            return None
        made = {
            "key": str(row["key"]), "sha256": str(row["sha256"]), "job": str(row["job"]), **_said(row),
        }  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    digits = made["sha256"]
    right = len(digits) == 64 and set(digits) <= set("0123456789abcdef")
    return row if right and isinstance(row, dict) else None


def _said(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of an entry is not in its object and its key."""
    return {
        "job": str(row["job"]), "symbol": str(row["symbol"]), "threads": int(row["threads"]), "seconds": float(row["seconds"]),
        "extra": {str(name): str(value) for name, value in row["extra"].items()}, "peak": int(row.get("peak", 0)),
    }  # fmt: skip
