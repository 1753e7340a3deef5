"""The names of signatures, as those who sign write them and those who check them look for them.

Of a bundle, and of a release's list: ``NAME.minisig``, which minisign looks for, and of each further key
``NAME.<its number>.minisig``.
"""

from __future__ import annotations

import re
from typing import Final

#: How the name of a signature ends.
SUFFIX: Final = ".minisig"
#: The list of a release's files.
SUMS: Final = "SHA256SUMS"
_OF_LIST: Final = re.compile(rf"{SUMS}(\.[0-9A-F]{{16}})?({re.escape(SUFFIX)})?")


def name_of(file: str, number: str = "") -> str:
    """How the signature of ``file`` is called; ``number``: of a further key."""
    return f"{file}{f'.{number}' if number else ''}{SUFFIX}"


def is_of_list(name: str) -> bool:
    """Is it the list itself, or a signature of it?"""
    return _OF_LIST.fullmatch(name) is not None
