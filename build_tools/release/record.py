"""The record of a release: what its bundles hold, entry by entry, and how large all is. Two records are what notes are made of
(``notes.py``), many are what the page of sizes shows.

It is made of the bundles alone, and of the note that a build leaves beside each: what a wheel holds is in it, whatever the
checkout has become since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from aiter_prebuilt.contract.bundle import SUFFIX, Bundle, FormatError
from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import ReleaseError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import table_text, timestamp
from build_tools.objects.entries import BuiltEntry, entries_of, tools_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import notes
from build_tools.release import built, schema
from build_tools.release.changes import sources_of
from build_tools.release.provenance import commit_of

EDITION: Final = 1
#: How the file is called in a release's folder; channels hold those of several.
NAME: Final = f"aiter_prebuilt-{VERSION}.release.json"
PATTERN: Final = "aiter_prebuilt-*.release.json"
#: Digits of a hash that tell contents apart in a record; whole hashes are in the bundles.
_DIGITS: Final = 16
_AGAIN: Final = "Run python -m build_tools wheels"
_MEANT: Final = "a file that release record wrote, or the folder of a release"


#: Operator -> its family and the sources of its kernels, as the manifests have them.
Places = Mapping[str, tuple[str, Sequence[str]]]


def record(root: Path, bundles: Path, wheels: Sequence[Path], places: Places) -> dict[str, Any]:
    """Record the content of bundles and the sizes of wheels.

    Raises:
        ReleaseError: there is no bundle, one cannot be read, or a wheel holds another one.
    """
    files = sorted(bundles.glob(f"*{SUFFIX}"))
    if not files:
        raise ReleaseError(
            f"record what is in {bundles}", "there is no bundle", "Run python -m build_tools build"
        )
    rows: list[dict[str, Any]] = []
    operators: list[dict[str, Any]] = []
    for path in files:
        try:
            bundle = open_bundle(path)
            entries = entries_of(bundle)
            rows.append(_bundle(path, bundle, entries))
        except FormatError as error:
            raise ReleaseError(
                f"record what is in {path}", str(error), "Run python -m build_tools build"
            ) from error
        operators += _operators(bundle, entries, places)
    _same(wheels, {row["sha256"] for row in rows})
    return {
        "edition": EDITION,
        "release": VERSION,
        "commit": _commit(root, wheels),
        "date": timestamp(),
        "wheels": [
            {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_file(path)}
            for path in sorted(wheels)
        ],
        "bundles": rows,
        "operators": operators,
    }


def _commit(root: Path, wheels: Sequence[Path]) -> str:
    """At which the wheels were built, as is noted beside them; where nothing is, that of the checkout at ``root``."""
    noted = built.commits(wheels)
    found = sorted(set(noted.values()))
    if len(found) > 1:
        raise ReleaseError(
            "record the commit of the wheels",
            f"they were built at several: {', '.join(f'{name} at {commit}' for name, commit in sorted(noted.items()))}",
            _AGAIN,
        )
    return found[0] if found else commit_of(root)


def _bundle(path: Path, bundle: Bundle, entries: Sequence[BuiltEntry]) -> dict[str, Any]:
    note = notes.read(path)
    sources = note.get("sources", {})
    return {
        "target": bundle.root.target,
        "profile": bundle.root.profile,
        "sha256": sha256_file(path),
        "bytes": path.stat().st_size,
        "raw_bytes": sum(each.raw_size for _, each in bundle.table),
        "code_objects": bundle.root.code_object_count,
        "entries": len(entries),
        "proved": sum(entry.executed for entry in entries),
        # Of a bundle without Composable Kernel there is no set.
        "ck": note.get("ck", "tuned" if bundle.root.profile == "ck-full" else None),
        "tools": tools_of(bundle),
        "sources": {name: digest[:_DIGITS] for name, digest in sorted(sources.items())},
    }


def _same(wheels: Sequence[Path], known: Collection[str]) -> None:
    """Do the wheels hold the bundles that are recorded? A record of others would tell of a release that is none."""
    for wheel in wheels:
        try:
            with ZipFile(wheel) as archive:
                held = [name for name in archive.namelist() if name.endswith(SUFFIX)]
                strange = [
                    name for name in held if hashlib.sha256(archive.read(name)).hexdigest() not in known
                ]
        except (OSError, BadZipFile) as error:
            raise ReleaseError(f"record {wheel}", f"it is no wheel: {error}", _AGAIN) from error
        if strange:
            raise ReleaseError(
                f"record {wheel}", f"its {strange[0]} is not the bundle that is recorded", _AGAIN
            )


def _operators(bundle: Bundle, entries: Iterable[BuiltEntry], places: Places) -> list[dict[str, Any]]:
    found: dict[str, dict[str, list[Any]]] = {name: {} for name in bundle.names}
    for entry in entries:
        recipes = hashlib.sha256("\n".join(entry.recipes).encode()).hexdigest()
        found[entry.operator][entry.name] = [
            entry.backend,
            entry.sha256[:_DIGITS],
            recipes[:_DIGITS],
            entry.executed,
        ]
    return [
        {
            "operator": name,
            "target": bundle.root.target,
            "profile": bundle.root.profile,
            "signature": bundle.operator(name).signature,
            "sources": sources_of(*places[name]) if name in places else [],
            "entries": dict(sorted(rows.items())),
        }
        for name, rows in found.items()
    ]


def text(told: Mapping[str, Any]) -> bytes:
    """Return a record as a file.

    The same for the same record.
    """
    return table_text(told).encode()


def read(path: Path) -> dict[str, Any]:
    """Return a record from its file, or from a release's folder.

    Raises:
        ReleaseError: it cannot be read, is of another edition, or not what its schema says.
    """
    file = next(iter(sorted(path.glob(PATTERN))), path / NAME) if path.is_dir() else path
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        edition = told["edition"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ReleaseError(
            f"read the record {file}", f"{type(error).__name__}: {error}", f"Name {_MEANT}"
        ) from error
    if edition != EDITION:
        raise ReleaseError(
            f"read the record {file}",
            f"it is of edition {edition!r}, this reads {EDITION}",
            "Make it again with this checkout's release record",
        )
    if found := schema.problem("record", told) or _unlisted(told):
        raise ReleaseError(f"read the record {file}", found, f"Name {_MEANT}")
    return dict(told)


def _unlisted(told: Mapping[str, Any]) -> str:
    """Find an operator that the record does not list.

    None where all are listed.
    """
    listed = {(row["target"], row["profile"]) for row in told["bundles"]}
    for row in told["operators"]:
        if (row["target"], row["profile"]) not in listed:
            return (
                f"{row['operator']} is of the bundle {row['target']} {row['profile']}, which it does not list"
            )
    return ""
