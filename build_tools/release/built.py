"""At which commit wheels were built: a note beside them, so that who signs or records them elsewhere says no other one.

It is in no wheel, since builders of one runtime give the same bytes. A wheel is known by what it holds without its signatures and
their lines in RECORD: signing does not make it another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from aiter_prebuilt.contract.signature import SUFFIX as SIGNATURE
from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import WheelError
from build_tools.files.reproducible import write_atomic

EDITION: Final = 1
#: How the note is called in the folder of the wheels.
NAME: Final = f"aiter_prebuilt-{VERSION}.build.json"


def write(folder: Path, wheels: Iterable[Path], commit: str) -> Path:
    """Note that ``wheels``, in ``folder``, were built at ``commit``; what is noted of others that are still there stays.

    Raises:
        WheelError: one is none, or the note cannot be read.
    """
    rows = {name: row for name, row in _read(folder).items() if (folder / name).is_file()}
    rows |= {path.name: {"commit": commit, "contents": _contents(path)} for path in wheels}
    told = {"edition": EDITION, "wheels": rows}
    write_atomic(folder / NAME, (json.dumps(told, indent=1, sort_keys=True) + "\n").encode())
    return folder / NAME


def commits(wheels: Iterable[Path]) -> dict[str, str]:
    """Name -> commit of those of ``wheels`` that the note beside them knows, and that still are what it knows.

    Raises:
        WheelError: one is none, or a note cannot be read.
    """
    notes: dict[Path, Mapping[str, Any]] = {}
    found = {}
    for path in wheels:
        if path.parent not in notes:
            notes[path.parent] = _read(path.parent)
        row = notes[path.parent].get(path.name)
        if row is not None and row["contents"] == _contents(path):
            found[path.name] = str(row["commit"])
    return found


def differences(wheels: Iterable[Path], commit: str) -> Iterator[str]:
    """Yield a line for each wheel not built at ``commit``.

    The checkout is there; a wheel whose commit nobody knows counts, too.
    """
    wheels = list(wheels)
    known = commits(wheels)
    for path in wheels:
        if path.name not in known:
            yield f"{path.name}: no {NAME} beside it says at which commit it was built, and its statement names none"
        elif known[path.name] != commit:
            yield f"{path.name}: built at {known[path.name] or 'no commit'}, as its statement says; this checkout is at {commit}"


def _read(folder: Path) -> dict[str, Any]:
    path = folder / NAME
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["edition"] != EDITION:
            raise ValueError(f"it is of edition {told['edition']!r}")
        return {
            str(name): {"commit": str(row["commit"]), "contents": str(row["contents"])}
            for name, row in told["wheels"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WheelError(
            f"read {path}", f"{type(error).__name__}: {error}", "Run python -m build_tools wheels"
        ) from error


def _contents(wheel: Path) -> str:
    try:
        with ZipFile(wheel) as archive:
            rows = [
                f"{hashlib.sha256(archive.read(name)).hexdigest()}  {name}\n"
                for name in sorted(archive.namelist())
                if not name.endswith((SIGNATURE, "/RECORD"))
            ]
    except (OSError, BadZipFile) as error:
        raise WheelError(
            f"read {wheel}", f"it is no wheel: {error}", "Run python -m build_tools wheels"
        ) from error
    return hashlib.sha256("".join(rows).encode()).hexdigest()
