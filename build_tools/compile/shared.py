"""A store before a place that several machines share: what the folder here lacks is read from there, once.

Whoever may write such a place could have a key lead to another job's object, which is whole and has its own hash. So an entry
there is believed for one of two reasons. Signed ones bind key and digest together: a signature over all that the entry says, by a
writer whom the reader names. Unsigned ones are believed where somebody else sees to it who may write; then nothing is written.
``recheck.py`` compiles some of what was taken again, whatever was signed.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from build_tools.compile.place import Place, checked, entry_name, object_name
from build_tools.compile.store import ODD, VERSION, Store, StoreEntry, row_of, text_of
from build_tools.errors import StoreConflictError, UntrustedEntryError

#: In front of what is signed: a signature of anything else is none of an entry.
SEAL: Final = b"aiter-prebuilt store entry\n"
#: Of an entry that has one: the text of a minisign signature.
SIGNATURE: Final = "signature"
READERS: Final = 16
#: Bytes of an entry, and more than one ever has: what is larger is none, and is not read as one.
MOST: Final = 1 << 20
#: The largest workgroup of any target, and more memory than a compile can have used.
MOST_THREADS: Final = 1024
MOST_PEAK: Final = 1 << 48
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

#: (what is signed, the signature) -> did a trusted writer make it? SignatureError's like is raised as UntrustedEntryError.
Verify = Callable[[bytes, str], bool]
#: (what is signed, its name) -> the signature.
Sign = Callable[[bytes, str], str]


@dataclass(slots=True)
class Counts:
    """Counts of a build's use of shared storage.

    ``taken``; ``strange``: entries that no trusted writer signed; ``damaged``: names of objects there that are lacking or have
    other bytes than their name says, with an entry that can be trusted.
    """

    taken: int = 0
    strange: int = 0
    written: int = 0
    damaged: set[str] = field(default_factory=set)


def sealed(row: Mapping[str, Any]) -> bytes:
    """Return the bytes of an entry that its signature covers."""
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
        """Find the entry for ``key``, here or in the place.

        Its object is compared with its SHA-256.

        Raises:
            UntrustedEntryError: the entry was changed after it was signed.
            SharedStoreError: the place cannot be read. StoreError: the folder here cannot be written.
        """
        found = self.local.get(key)
        if found is not None:
            return found
        row = self._row(key)
        if row is None:
            return None
        name = object_name(row["sha256"])
        data = checked(self.place, name)
        with self._lock:
            if data is None:
                self.counts.damaged.add(name)
                return None
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
        kept = object_name(row["sha256"])
        if self.place.create(kept, data):
            with self._lock:
                self.counts.damaged.discard(kept)
        elif checked(self.place, kept) is None:
            # No error: the result is good here. Nothing can be written over it there, and no entry is to lead to it.
            with self._lock:
                self.counts.damaged.add(kept)
            return
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

    @property
    def damaged(self) -> str:
        """See ``Results``."""
        return damage(self.place.name, self.counts)

    def _row(self, key: str) -> dict[str, Any] | None:
        """Read an entry of the shared place if it can be trusted.

        Of an unsigned entry no more is read than its parts.
        """
        row = _table(self.place.read(entry_name(key)) or b"")
        if row is None:
            return None
        if self.verify is not None and not self._vouched(key, row, self.verify):
            return None
        told = _whole(row)
        if told is not None and told["key"] != key:
            raise self._untrusted(key, f"it is the entry of the key {told['key']}")
        return told

    def _vouched(self, key: str, row: Mapping[str, Any], verify: Verify) -> bool:
        """Did a trusted writer sign it?"""
        try:
            if SIGNATURE in row and verify(sealed(row), str(row[SIGNATURE])):
                return True
        except ODD as error:
            raise self._untrusted(key, str(error)) from error
        with self._lock:
            self.counts.strange += 1
        return False

    def _untrusted(self, key: str, trouble: str) -> UntrustedEntryError:
        return UntrustedEntryError(
            f"take {entry_name(key)} of {self.place.name}",
            trouble,
            "Somebody changed that store: remove the entry, and see who may write there",
        )


def damage(place: str, counts: Counts) -> str:
    """Describe damage in a shared place, with the remedy; or ""."""
    if not counts.damaged:
        return ""
    first, *more = sorted(counts.damaged)
    several = f" and {len(more)} more" if more else ""
    return (
        f"damaged in {place}: {first}{several} (not there, or other bytes than the name says). Nothing there is written over: "
        "remove those objects, and build with --sign and an empty --store"
    )


def _table(data: bytes) -> dict[str, Any] | None:
    """Parse an entry's text, before any of it is trusted.

    None if it is no table.
    """
    if len(data) > MOST:
        return None
    try:
        row = json.loads(data)
    except ODD:
        return None
    return row if isinstance(row, dict) else None


def _whole(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return an entry that is complete; else None."""
    try:
        texts = (row["sha256"], row["key"], row["job"], row["symbol"], *row["extra"], *row["extra"].values())
        counts = (row["threads"], row["seconds"], row.get("peak", 0))
        right = (
            row["version"] == VERSION
            and all(isinstance(text, str) for text in texts)
            and _SHA256.fullmatch(row["sha256"]) is not None
            and all(type(count) in (int, float) for count in counts)
            and type(row["threads"]) is int
            and 0 <= row["threads"] <= MOST_THREADS
            and 0 <= row["seconds"] < math.inf
            and 0 <= row.get("peak", 0) <= MOST_PEAK
        )
    except ODD:
        return None
    return row if right else None


def _parsed(data: bytes) -> dict[str, Any] | None:
    """Parse an entry."""
    row = _table(data)
    return None if row is None else _whole(row)


def _said(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are neither in the object nor in the key."""
    return {
        "job": str(row["job"]), "symbol": str(row["symbol"]), "threads": int(row["threads"]), "seconds": float(row["seconds"]),
        "extra": {str(name): str(value) for name, value in row["extra"].items()}, "peak": int(row.get("peak", 0)),
    }  # fmt: skip
