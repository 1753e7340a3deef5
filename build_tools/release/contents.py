"""Check what lies in a folder that is signed: the files of a release, and no secret key."""

from __future__ import annotations

import base64
import binascii
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.signature import SUMS
from build_tools.errors import SigningError

#: A file with a key of minisign's has two lines of some hundred bytes; no key has more than this.
KEY_LIMIT: Final = 4096
#: Bytes of a secret key, which its second line holds in base64.
_KEY_BYTES: Final = 158
_KEY: Final = re.compile(rb"Ed(Sc|\0\0)B2", re.DOTALL)
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
        if path.is_file() and path.stat().st_size <= KEY_LIMIT and _has_key(path.read_bytes()):
            yield path.relative_to(folder).as_posix()


def _has_key(data: bytes) -> bool:
    for line in data.split():
        try:
            key = base64.b64decode(line, validate=True)
        except binascii.Error:
            continue
        if len(key) == _KEY_BYTES and _KEY.match(key):
            return True
    return False


def check_key_file(path: Path) -> None:
    """Refuse a path from which no key can be read at once: a pipe would wait for whoever writes into it.

    Raises:
        ValueError: it is no regular file, or larger than a key's.
        OSError: it is not there.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > KEY_LIMIT:
        raise ValueError(f"it has {found.st_size} bytes, and a key's file has no more than {KEY_LIMIT}")
