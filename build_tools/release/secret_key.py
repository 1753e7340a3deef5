"""The form of minisign's secret keys. Standard library only: ``ci/release_key.py`` asks it before anything is installed."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

#: A key's file has two lines of some hundred bytes; more is read of none.
LIMIT: Final = 4096
#: Algorithm, key derivation, checksum's algorithm, salt, two limits, number, both keys and checksum: minisign's struct of a key.
_BYTES: Final = 2 + 2 + 2 + 32 + 8 + 8 + 8 + 64 + 32
_KINDS: Final = re.compile(rb"Ed(Sc|\0\0)B2", re.DOTALL)


def is_secret_key(line: str | bytes) -> bool:
    """Is it the second line of a secret key's file, with a password or without?"""
    try:
        data = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(data) == _BYTES and _KINDS.match(data) is not None
