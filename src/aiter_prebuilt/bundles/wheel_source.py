"""The source of this installation, as pip wrote it down: a folder of wheels, or an address."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

#: Written by pip for a wheel that was named by path or address (PEP 610); not for one of an index or of ``--find-links``.
_RECORD: Final = "direct_url.json"
_DISTRIBUTION: Final = "aiter-prebuilt"


def pip_options() -> str:
    """Return the options of pip that name the source, with a space behind them; nothing where pip wrote down none."""
    try:
        record = metadata.distribution(_DISTRIBUTION).read_text(_RECORD)
        url = urlsplit(json.loads(record or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return ""
    folder, _, name = url.path.rpartition("/")
    if not name.endswith(".whl"):
        return ""  # a checkout
    if url.scheme == "file":
        place = unquote(folder)
        return f"--no-index --find-links {quote(place)} " if Path(place).is_dir() else ""
    if url.scheme not in ("http", "https"):
        return ""
    host = url.netloc.rpartition("@")[2]  # without a login
    return f"--find-links {quote(urlunsplit((url.scheme, host, folder + '/', '', '')))} "
