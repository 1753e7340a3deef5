"""The source of this installation: as its installer wrote it down, as a variable names it, or the folder that README names."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

#: Written by pip for a wheel that was named by path or address (PEP 610); not for one of an index or of ``--find-links``.
_RECORD: Final = "direct_url.json"
_DISTRIBUTION: Final = "aiter-prebuilt"
#: Variables with links, and with addresses of indexes, and what stands between two values. One counts only if it has this
#: project: most name torch's index, or a copy of PyPI.
_VARIABLES: Final = {
    "pip": (("PIP_FIND_LINKS",), ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"), None),
    "uv": (("UV_FIND_LINKS",), ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"), ","),
}
#: How each installs, and how it writes files again. uv links files to its cache: what is damaged here is damaged there, too.
_COMMANDS: Final = {
    "pip": ("pip install", "--force-reinstall"),
    "uv": ("uv pip install", "--reinstall --no-cache"),
}
#: The folder of wheels in README's commands. No index has this project: there, another could take its name.
_FOLDER: Final = "dist"


class Installation(NamedTuple):
    """The installer of this package, and where its wheels came from.

    ``program``: pip's way or uv's; ``again``: the option that writes its files again; ``options``: those that name the source,
    with a space behind them, and nothing where this package is not installed.
    """

    program: str
    again: str
    options: str


def installation() -> Installation:
    """Return how this package was installed."""
    try:
        found = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return Installation(*_COMMANDS["pip"], "")
    name = (found.read_text("INSTALLER") or "").strip()
    name = name if name in _COMMANDS else "pip"
    try:
        place = _recorded(json.loads(found.read_text(_RECORD) or "{}").get("url", ""))
    except (ValueError, AttributeError, TypeError):
        place = None
    if place is None:
        place = _configured(name) or _FOLDER
    program, again = _COMMANDS[name]
    # Without an active environment uv takes the first that it finds, which may be another.
    if name == "uv" and os.environ.get("VIRTUAL_ENV") != sys.prefix:
        program += f" --python {quote(sys.executable)}"
    return Installation(program, again, f"--no-index --find-links {quote(place)} " if place else "")


def _recorded(address: str) -> str | None:
    """Return the folder of the wheel at ``address``, or that of a checkout's wheels; None where there is none.

    A repository that pip cloned has none: pip removed it.
    """
    url = urlsplit(address)
    folder, _, name = url.path.rpartition("/")
    if url.scheme == "file":
        place = Path(unquote(folder)) if name.endswith(".whl") else Path(unquote(url.path)) / _FOLDER
        return str(place) if place.is_dir() else None
    if not name.endswith(".whl"):
        return None
    return _without_login(urlunsplit(url._replace(path=f"{folder}/", query="", fragment="")))


def _configured(installer: str) -> str:
    """Return the place of this project's wheels that a variable of the installer names, or ""."""
    links, indexes, between = _VARIABLES[installer]
    for value in _values(links, between):
        path = _path_of(value)
        if path is not None and (any(path.glob("aiter_prebuilt-*.whl")) or path.is_file()):
            return value
        # pip adds its variable's links to those of a command; uv takes the command's alone.
        if path is None and installer == "uv":
            return _without_login(value)
    for value in _values(indexes, between):
        path = _path_of(value.rpartition("=")[2])  # uv: NAME=URL
        if path is not None and (path / _DISTRIBUTION / "index.html").is_file():
            page = path.parent / "links.html"  # of all files, as `mirror deploy` and channels have it
            if page.is_file():
                return page.as_uri()
    return ""


def _values(variables: tuple[str, ...], between: str | None) -> list[str]:
    return [value for name in variables for value in os.environ.get(name, "").split(between) if value]


def _path_of(value: str) -> Path | None:
    """Return the path of a folder or a file: address; None for an address on a network."""
    url = urlsplit(value)
    if url.scheme == "file":
        return Path(unquote(url.path))
    return None if "://" in value else Path(value)


def _without_login(address: str) -> str:
    url = urlsplit(address)
    return urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
