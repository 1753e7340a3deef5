"""Find pins that have a newer version, and move those of ``pyproject.toml``."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.errors import UsageError
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run
from build_tools.tools import locks, pins

_TIMEOUT: Final = 120.0


@dataclass(frozen=True, slots=True)
class Behind:
    """A pin and what the index has. ``place``: the file that has the pin."""

    name: str
    pinned: str
    newest: str
    place: str

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


def behind(root: Path) -> list[Behind]:
    """Return every pin of ``pyproject.toml`` and ``manifests/toolchains.toml`` that has a newer version.

    Raises:
        ToolchainError: uv is not installed.
    """
    pinned = pins.load(root)
    others = {pin.name: pin.version for pin in pinned.tools.values()}
    others |= {pin.name: pin.version for pin in pinned.sources.values()}
    others |= {tree.distribution: tree.version for tree in pinned.trees.values()}
    places = [(name, version, "pyproject.toml") for name, version in _asked_for(root).items()]
    places += [(name, version, pins.FILE) for name, version in others.items()]
    found = [Behind(name, version, newest_of(name) or version, place) for name, version, place in places]
    return [row for row in found if row.newest != row.pinned]


def move(root: Path, names: Iterable[str], *, everything: bool = False) -> list[Behind]:
    """Give packages of ``pyproject.toml``'s groups their newest versions there. Returns those that changed.

    Raises:
        UsageError: no group has such a package. ToolchainError: uv is not installed.
    """
    asked = _asked_for(root)
    wanted = [locks.normal(name) for name in names]
    for name in wanted:
        if name not in asked:
            raise UsageError(
                f"move the pin of {name}",
                "no dependency group of pyproject.toml has this package",
                "python -m build_tools update-pins --behind lists the packages",
            )
    moved = []
    path = root / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    for name in asked if everything else wanted:
        newest = newest_of(name)
        if newest and newest != asked[name]:
            text = replaced(text, name, asked[name], newest)
            moved.append(Behind(name, asked[name], newest, "pyproject.toml"))
    write_atomic(path, text.encode())
    return moved


def replaced(text: str, name: str, old: str, new: str) -> str:
    """Return ``text`` with each pin of one package at another version."""
    spelled = re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace(r"\-", "-"))
    return re.sub(rf'(?i)("{spelled}==){re.escape(old)}(?=["\s;])', rf"\g<1>{new}", text)


def newest_of(name: str) -> str:
    """Return the newest version that the indexes have for the Pythons that build; "" where none answers.

    Raises:
        ToolchainError: uv is not installed.
    """
    words = [locks.uv(), "pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate"]
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.in"
        asked.write_text(f"{name}\n", encoding="utf-8")
        words += ["--python-version", locks.OLDEST, str(asked)]
        outcome = run(words, env=dict(os.environ), timeout=_TIMEOUT)
    found = re.search(r"(?m)^[A-Za-z0-9._-]+==(\S+)", outcome.output) if outcome.ok else None
    return found[1] if found else ""


def _asked_for(root: Path) -> dict[str, str]:
    return {
        name: version
        for group in locks.groups(root)
        for name, version in locks.asked_for(root, group).items()
    }
