"""What was compiled for the host, kept by what it was made of.

Two environments of one machine have their compilers in two places (two checkouts do), and cmake, which goes by places and
times, would compile everything again in each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import epoch, write_atomic

FOLDER: Final = Path("build/host")
_DIGEST: Final = 32


def key_of(root: Path, files: Iterable[str], makers: Iterable[Path], tools: Mapping[str, str]) -> str:
    """SHA-256 over the repository's ``files``, by name and content; the code that has them compiled (``makers``); and ``tools``,
    their versions by name.
    """
    sources = {name: sha256_file(root / name) for name in sorted(files)}
    code = [sha256_file(path) for path in makers]
    told = json.dumps([sources, code, dict(sorted(tools.items())), epoch()])
    return hashlib.sha256(told.encode()).hexdigest()


def kept(root: Path, name: str, key: str, make: Callable[[], bytes]) -> bytes:
    """What ``make`` gives, made only when ``name`` was last made under another key or is damaged. The last one is kept."""
    path = root / FOLDER / f"{name}-{key[:16]}"
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    digest, data = content[:_DIGEST], content[_DIGEST:]
    if data and hashlib.sha256(data).digest() == digest:
        return data
    made = make()
    for old in (root / FOLDER).glob(f"{name}-*"):
        old.unlink(missing_ok=True)
    write_atomic(path, hashlib.sha256(made).digest() + made)
    return made
