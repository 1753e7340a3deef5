"""SHA-256 of files, remembered by (size, mtime, inode), so that a 185 MB compiler is hashed once and not at every build.

A changed file with the same size, inode and nanosecond time would be missed; package managers do not make those.
The memory is one JSON file; losing it costs time and nothing else, so it needs no lock: the last writer wins.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from build_tools.files.reproducible import write_atomic


class FileHashes:
    """The memory in ``path``. ``sha256`` answers from it where it can; ``save`` writes what was learnt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, list[str | int]] = {}
        self._learnt = False
        with suppress(OSError, ValueError):
            known = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(known, dict):
                self._known = known

    def sha256(self, path: Path) -> str:
        """Hex digest of the file.

        Raises:
            OSError: it cannot be read.
        """
        facts = path.stat()
        stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ino]
        known = self._known.get(str(path))
        if isinstance(known, list) and known[:3] == stamp and len(known) == 4:
            return str(known[3])
        digest = sha256_file(path)
        self._known[str(path)] = [*stamp, digest]
        self._learnt = True
        return digest

    def tree(self, folder: Path) -> str:
        """Hex digest over the names and contents of all files below ``folder``, independent of where it lies."""
        total = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            total.update(f"{path.relative_to(folder).as_posix()}\0{self.sha256(path)}\n".encode())
        return total.hexdigest()

    def save(self) -> None:
        """Write the memory, when there is something new in it; a folder that cannot be written is no error."""
        if self._learnt:
            with suppress(OSError):
                write_atomic(self.path, json.dumps(self._known, indent=0, sort_keys=True).encode())
            self._learnt = False


def sha256_file(path: Path) -> str:
    """Hex digest of a file, read in pieces.

    Raises:
        OSError: it cannot be read.
    """
    total = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            total.update(piece)
    return total.hexdigest()
