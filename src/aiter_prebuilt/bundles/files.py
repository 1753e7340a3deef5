"""Opening what is named from outside: a file, and nothing that only looks like one.

Opening a named pipe waits for somebody to write, reading a device may never end, and a link may lead back to itself. So a file is
looked at first, and once more when it is open.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def is_folder(path: Path) -> bool:
    """Is it a folder that can be looked at? ``Path.is_dir`` raises where a folder above may not be entered."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def not_a_file(path: Path) -> str:
    """Why ``path`` is no regular file, in words; "" when it is one, or a link to one. Opens nothing."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink():
            if isinstance(error, FileNotFoundError):
                return f"it is a link to {path.readlink()}, which is not there"
            return f"it is a link that cannot be followed: {error.strerror}"
        return f"it cannot be looked at: {error.strerror}"
    return _refused(mode)


def _refused(mode: int) -> str:
    if stat.S_ISREG(mode):
        return ""
    return f"it is {next((words for test, words in _KINDS if test(mode)), 'something else')}, not a file"


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading, without waiting for anybody.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        refused = _refused(os.fstat(handle).st_mode)
        if refused:
            raise OSError(f"{os.fspath(path)} cannot be read: {refused}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def contents(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """All bytes of a regular file.

    Args:
        path: of the file.
        most: bytes that such a file can have; None: any number.

    Raises:
        OSError: as :func:`open_file` does. ValueError: the file is larger; nothing of it was read.
    """
    with open_file(path) as stream:
        if most is None:
            return stream.read()
        size = os.fstat(stream.fileno()).st_size
        data = b"" if size > most else stream.read(most + 1)
        if max(size, len(data)) > most:  # it may have grown since
            raise ValueError(f"it has {max(size, len(data))} bytes, which no such file has")
        return data
