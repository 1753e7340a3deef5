"""At which commit wheels were built: a note beside them, so that who signs or records them elsewhere says no other one.

It is in no wheel, since builders of one runtime give the same bytes. A wheel is known by what it holds without its signatures and
their lines in RECORD: signing does not make it another one. A bundle may be of another commit than its wheel: then the note has
both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from aiter_prebuilt.contract.bundle import SUFFIX as BUNDLE
from aiter_prebuilt.contract.signature import SUFFIX as SIGNATURE
from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import WheelError
from build_tools.files.reproducible import write_atomic
from build_tools.pack import notes

EDITION: Final = 1
#: How the note is called in the folder of the wheels.
NAME: Final = f"aiter_prebuilt-{VERSION}.build.json"
#: Those of other releases, too: a later checkout signs their wheels again.
_NAMES: Final = "aiter_prebuilt-*.build.json"


@dataclass(frozen=True, slots=True)
class Built:
    """At which commit a wheel was packed, and its bundle built if that was another. Both are "" where nobody knows.

    ``ck``: which set of Composable Kernel's instances ``build --ck`` was asked for; "" without a bundle that has some.
    """

    commit: str
    bundle: str
    ck: str = ""

    @property
    def one(self) -> str:
        """The commit of all that is in the wheel; "" if there are two or nobody knows."""
        return self.commit if self.bundle == self.commit else ""


def write(folder: Path, wheels: Iterable[Path], commit: str, bundles: Path | None = None) -> Path:
    """Note at which commit wheels were built; what is noted of others that are still there stays.

    Args:
        folder: the folder of the wheels.
        wheels: the wheels.
        commit: of the checkout that packed them.
        bundles: the folder of the bundles, which know at which commit each was built. None: at ``commit``.

    Returns:
        The note's path.

    Raises:
        WheelError: one is none, or the note cannot be read.
    """
    rows = {name: row for name, row in _read(folder / NAME).items() if (folder / name).is_file()}
    for path in wheels:
        row = {"commit": commit, "contents": _contents(path)}
        other = commit if bundles is None else _bundle(path, bundles, commit)
        asked = "" if bundles is None else _ck(path, bundles)
        rows[path.name] = (
            row | ({} if other == commit else {"bundle": other}) | ({"ck": asked} if asked else {})
        )
    told = {"edition": EDITION, "wheels": rows}
    write_atomic(folder / NAME, (json.dumps(told, indent=1, sort_keys=True) + "\n").encode())
    return folder / NAME


def known(wheels: Iterable[Path]) -> dict[str, Built]:
    """Return what the notes beside ``wheels`` tell of those that still are what they tell of, by name.

    Raises:
        WheelError: one is none, or a note cannot be read.
    """
    read: dict[Path, Mapping[str, Any]] = {}
    found = {}
    for path in wheels:
        if path.parent not in read:
            notes_here = sorted(path.parent.glob(_NAMES))
            read[path.parent] = {name: row for note in notes_here for name, row in _read(note).items()}
        row = read[path.parent].get(path.name)
        if row is not None and row["contents"] == _contents(path):
            found[path.name] = Built(row["commit"], row.get("bundle", row["commit"]), row.get("ck", ""))
    return found


def commits(wheels: Iterable[Path]) -> dict[str, str]:
    """Return the commit at which each wheel was packed, by name, of those that :func:`known` finds.

    Raises:
        WheelError: one is none, or a note cannot be read.
    """
    return {name: row.commit for name, row in known(wheels).items()}


def differences(wheels: Iterable[Path], commit: str) -> Iterator[str]:
    """Yield a line for each wheel that is not all of ``commit``.

    The checkout is there; a wheel whose commit nobody knows counts, too.
    """
    wheels = list(wheels)
    rows = known(wheels)
    for path in wheels:
        row = rows.get(path.name)
        if row is None:
            yield f"{path.name}: no {NAME} beside it says at which commit it was built, and its statement names none"
            continue
        if row.commit != commit:
            yield f"{path.name}: built at {row.commit or 'no commit'}, as its statement says; this checkout is at {commit}"
        if row.bundle != row.commit:
            yield (
                f"{path.name}: its bundle was built at {row.bundle or 'no known commit'} and packed at {row.commit or 'none'}; "
                "its statement says both and lists no packages. Build and pack at one commit: nox -s wheels"
            )


def _bundle(wheel: Path, bundles: Path, commit: str) -> str:
    """Return the commit of the wheel's bundle; ``commit`` if the wheel has none."""
    found = {notes.commit_of(path) for path in _bundles(wheel, bundles)}
    return found.pop() if len(found) == 1 else "" if found else commit


def _ck(wheel: Path, bundles: Path) -> str:
    """Return the set of Composable Kernel's instances that the notes of the wheel's bundles tell; "" for none, or two."""
    found = {str(notes.read(path).get("ck") or "") for path in _bundles(wheel, bundles)}
    return found.pop() if len(found) == 1 else ""


def _bundles(wheel: Path, bundles: Path) -> list[Path]:
    with ZipFile(wheel) as archive:
        return [bundles / name.rpartition("/")[2] for name in archive.namelist() if name.endswith(BUNDLE)]


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["edition"] != EDITION:
            raise ValueError(f"it is of edition {told['edition']!r}")
        return {
            str(name): {"commit": str(row["commit"]), "contents": str(row["contents"])}
            | {key: str(row[key]) for key in ("bundle", "ck") if key in row}
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
