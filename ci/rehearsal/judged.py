"""Judge what jobs did, beyond their exit codes: each session of a release ran, and no package came that no lock has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Final

#: Sessions without which a release is not one; each is run by some job of the workflow.
SESSIONS: Final = ("lint", "wheels", "reproduce", "release")
#: Come with Python or virtualenv into each environment. torch has an index of its own, and pyproject.toml pins its build.
_SEEDS: Final = frozenset(("pip", "setuptools", "wheel", "torch"))
_OURS: Final = "aiter-prebuilt"
_ENTRY: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def missing_sessions(logs: Iterable[Path], wanted: Iterable[str] = SESSIONS) -> list[str]:
    """Return the sessions that ended well in no job."""
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)
    return [name for name in wanted if not re.search(rf"Session {re.escape(name)} was successful", text)]


def unlocked(machine: Path, repository: Path) -> list[str]:
    """Return the packages in a job's environments that no lock of its checkout has: they could be others tomorrow.

    Args:
        machine: the job's folder. Environments are that of its Python and those of nox.
        repository: the checkout, with ``build_tools/locks``.
    """
    files = [
        *(repository / "build_tools" / "locks").glob("*.txt"),
        repository / "build_tools" / "requirements.txt",
    ]
    locked = {
        (_normal(name), version)
        for path in files
        if path.is_file()
        for name, version in _ENTRY.findall(path.read_text(encoding="utf-8"))
    }
    found = {
        (name, version)
        for root in (machine / "python", repository / ".nox")
        for name, version in _installed(root)
        if name not in _SEEDS and not name.startswith(_OURS)
    }
    return [f"{name}=={version}" for name, version in sorted(found - locked)]


def _installed(root: Path) -> Iterator[tuple[str, str]]:
    for path in root.glob("**/site-packages/*.dist-info/METADATA"):
        said = BytesHeaderParser().parsebytes(path.read_bytes())
        yield _normal(str(said["Name"])), str(said["Version"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
