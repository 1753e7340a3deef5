"""The source of this installation: as pip wrote it down, as pip is configured, or the folder that README names."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

#: Written by pip for a wheel that was named by path or address (PEP 610); not for one of an index or of ``--find-links``.
_RECORD: Final = "direct_url.json"
_DISTRIBUTION: Final = "aiter-prebuilt"
#: Variables that name a source: with one of them, a plain ``install`` finds the wheels where this one came from.
_CONFIGURED: Final = {
    "pip": ("PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL"),
    "uv": ("UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_URL"),
}
#: How each installs, and how it writes files again. uv links files to its cache: what is damaged here is damaged there, too.
_COMMANDS: Final = {
    "pip": ("pip install", "--force-reinstall"),
    "uv": ("uv pip install", "--reinstall --no-cache"),
}
#: The folder of wheels in README's commands. No index has this project: there, another could take its name.
_FOLDER: Final = "dist"


def installer() -> tuple[str, str]:
    """Return how this package was installed, pip's way or uv's, and the option that writes its files again."""
    return _COMMANDS[_installer()]


def _installer() -> str:
    try:
        name = (metadata.distribution(_DISTRIBUTION).read_text("INSTALLER") or "").strip()
    except metadata.PackageNotFoundError:
        return "pip"
    return name if name in _COMMANDS else "pip"


def install_options() -> str:
    """Return the options of pip, or of uv, that name the source, with a space behind them.

    Nothing in a checkout, and where the installer's own variables name a source.
    """
    try:
        record = metadata.distribution(_DISTRIBUTION).read_text(_RECORD)
        if record is None:
            configured = any(map(os.environ.get, _CONFIGURED[_installer()]))
            return "" if configured else f"--no-index --find-links {_FOLDER} "
        url = urlsplit(json.loads(record).get("url", ""))
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
