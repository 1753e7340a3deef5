"""Read files that others may have put there: regular ones, of a bounded size."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a regular file.

    Opening a named pipe waits for a writer, and a device may never end, so neither is read.

    Args:
        path: the file, or a link to one.
        most: the largest size in bytes; None: any.

    Raises:
        OSError: it cannot be opened, is no regular file, or is larger than ``most``.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file", str(path))
        stream = os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
    with stream:
        if most is None:
            return stream.read()
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(0, f"larger than {most} bytes", str(path))
    return data
