"""Make two builds the same bytes, and no file half-written.

One time for everything, one way to write.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.errors import UsageError

#: 2026-01-01T00:00:00Z. Used when SOURCE_DATE_EPOCH is not set: any fixed time does, and a zip has none before 1980.
DEFAULT_EPOCH: Final = 1_767_225_600
_ZIP_EPOCH: Final = 315_532_800


def epoch() -> int:
    """Seconds since 1970 that every time in an output shows: SOURCE_DATE_EPOCH, else :data:`DEFAULT_EPOCH`.

    Raises:
        UsageError: SOURCE_DATE_EPOCH is set and is not a number.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return DEFAULT_EPOCH
    try:
        return max(int(text), _ZIP_EPOCH)
    except ValueError:
        raise UsageError(
            "read SOURCE_DATE_EPOCH",
            f"it is {text!r}, not a number of seconds since 1970",
            "Set a number, or unset it",
        ) from None


def timestamp() -> str:
    """:func:`epoch` as ISO 8601 in UTC, for documents."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))


def table_text(table: Mapping[str, Any]) -> str:
    """JSON with a line for each row of its lists: thousands of rows, which ``json`` would lay out ten times as slowly."""
    lines = []
    for key, value in table.items():
        rows = ",\n".join(map(json.dumps, value)) if isinstance(value, list) else ""
        lines.append(f"{json.dumps(key)}: " + (f"[\n{rows}\n]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: the whole of it or, whatever interrupts, nothing. Makes the folder; mode 644."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
