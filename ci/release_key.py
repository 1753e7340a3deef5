"""Check the secret key in the variable MINISIGN_KEY, and write it as minisign's file: ``ci/release_key.py [FILE]``.

A service hands over a key as text, as its second line alone, or as a file, and adds blank lines, spaces or a carriage return.
Python's standard library only: ci/provider.sh asks before anything is installed.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_tools.release.secret_key import LIMIT, is_secret_key

#: The first line of a key's file. It is not a part of the key.
_COMMENT: Final = "untrusted comment:"
_FIX: Final = "Set it to the secret key, to its second line, or to a file with it"


def line_of(value: str) -> str:
    """Return the line that is all of the key.

    Args:
        value: the key's text, its second line, or a path of a file with one of them.

    Returns:
        The second line, without whitespace.

    Raises:
        ValueError: it is none. The message has no part of a key.
    """
    value = value.strip()
    if os.path.lexists(value):
        return _line(_read(value), f"the file {value}")
    whole = re.fullmatch(r"[A-Za-z0-9+/=]{100,}", value)
    if len(value.split()) == 1 and value.startswith(("/", ".", "~")) and not whole:
        raise ValueError(f"there is no file {value}. {_FIX}")
    return _line(value, "it")


def _read(path: str) -> str:
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise ValueError(f"{path} is no regular file. {_FIX}")
        with Path(path).open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}. {_FIX}") from error
    if len(data) > LIMIT:
        raise ValueError(f"the file {path} has more than {LIMIT} bytes, so that it is no key. {_FIX}")
    return data.decode("utf-8", "replace")


def _line(text: str, where: str) -> str:
    lines = [line.strip() for line in text.lstrip("\ufeff").splitlines() if line.strip()]
    keys = lines[1:] if lines and lines[0].startswith(_COMMENT) else lines
    if len(keys) != 1:
        found = "one line" if len(lines) == 1 else f"{len(lines)} lines"
        raise ValueError(f"{where} has {found}, and a minisign secret key has a comment and one line. {_FIX}")
    if not is_secret_key(keys[0]):
        raise ValueError(f"{where} is no minisign secret key, and no file of that name is here. {_FIX}")
    return keys[0]


def main(words: list[str]) -> int:
    """Check it; with a name, write it there for this user alone. 2 where it is no key."""
    try:
        line = line_of(os.environ.get("MINISIGN_KEY", ""))
    except ValueError as error:
        sys.stderr.write(f"error: ci/provider.sh: MINISIGN_KEY: {error}\n")
        return 2
    for name in words:
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{_COMMENT} minisign secret key\n{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
