"""Check what lies in a folder that is signed: the files of a release, and no secret key."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.signature import SUMS
from build_tools.errors import SigningError
from build_tools.release.secret_key import LIMIT, is_secret_key

_PARTS: Final = re.compile(
    rf".+\.whl(\.provenance\.json)?|aiter_prebuilt-.+\.(build|release)\.json|{SUMS}(\..+)?", re.DOTALL
)


def check(folder: Path) -> None:
    """Refuse a folder that has what is no part of a release.

    Raises:
        SigningError: a folder, a secret key, or another file lies in it.
    """
    refuse_secrets(folder)
    for path in sorted(folder.iterdir()):
        found = "" if path.is_file() else "is no file"
        if not found and not _PARTS.fullmatch(path.name):
            found = "is none of wheels, their statements, the record, the build's note and the list"
        if found:
            raise SigningError(
                f"list {folder}", f"{path.name} {found}", "Move away what is no part of the release"
            )


def refuse_secrets(folder: Path) -> None:
    """Refuse a folder with a secret key in it: whoever gets the folder could sign.

    Raises:
        SigningError: it has one, by its name.
    """
    for name in _secrets(folder):
        raise SigningError(
            f"list {folder}",
            f"{name} is a secret key, which whoever gets the folder would have",
            "Move it away. Was the folder given to anybody? Then make a new key with release keygen",
        )


def _secrets(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        small = path.is_file() and path.stat().st_size <= LIMIT
        if small and any(map(is_secret_key, path.read_bytes().split())):
            yield path.relative_to(folder).as_posix()


def check_key_file(path: Path) -> None:
    """Refuse a path from which no key can be read at once: a pipe would wait for whoever writes into it.

    Raises:
        ValueError: it is no regular file, or larger than a key's.
        OSError: it is not there.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > LIMIT:
        raise ValueError(f"it has {found.st_size} bytes, and a key's file has no more than {LIMIT}")
