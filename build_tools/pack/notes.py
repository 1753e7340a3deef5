"""The note beside each bundle: what it was made from, so that a bundle older than its sources is known as such.

``<bundle>.json`` has the key under which the bundle is left as it is, what a report says about it, and ``sources``: SHA-256
by path of every file of the repository and of source trees that its compiles read, and of the manifests; ``upstream``, what files
of trees bring in, and ``files``, entry -> file of a tree.

``commits.json`` has the commit of the last build that made each bundle or found it current. It is a file of its own: a note stays
the same bytes while its bundle does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.files.reproducible import write_atomic
from build_tools.judge import receipts
from build_tools.pack import licences
from build_tools.records import in_tree
from build_tools.tools.tree import digest, exists, located

_COMMITS: Final = "commits.json"
_BINARY: Final = (".co", ".hsaco")
#: They ask what bundles would do, and are in none.
_QUESTIONS: Final = ("manifests/clients.toml", "manifests/models.toml")
#: Calls whose kernels the bridge's data wheels hold, which are no bundles.
_BRIDGE: Final = "manifests/bridge/"
_PROOFS: Final = ("/cases.toml", "/reference.py", "manifests/unasked.toml", f"/{receipts.NAME}")


def path_of(bundle: Path) -> Path:
    """Return the note of ``bundle``."""
    return bundle.with_suffix(".json")


def read(bundle: Path) -> dict[str, Any]:
    """Return the note's content.

    Empty when there is none, or none that can be read.
    """
    try:
        note = json.loads(path_of(bundle).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def write(bundle: Path, note: Mapping[str, Any]) -> None:
    """Write the note of ``bundle``, the same content as the same bytes."""
    write_atomic(path_of(bundle), (json.dumps(note, indent=1, sort_keys=True) + "\n").encode())


def write_commits(folder: Path, digests: Mapping[str, str], commit: str) -> None:
    """Note the commit of a build.

    Args:
        folder: the folder of the bundles.
        digests: file name -> SHA-256 of each bundle that the build made or found current.
        commit: of the checkout that built.
    """
    rows = _commits(folder) | {name: [digest, commit] for name, digest in digests.items()}
    write_atomic(folder / _COMMITS, (json.dumps(rows, indent=1, sort_keys=True) + "\n").encode())


def commit_of(bundle: Path) -> str:
    """Return the commit of the last build that made ``bundle`` or found it current; "" if none is noted of these bytes."""
    digest, commit = _commits(bundle.parent).get(bundle.name, ["", ""])
    try:
        return commit if hashlib.sha256(bundle.read_bytes()).hexdigest() == digest else ""
    except OSError:
        return ""


def _commits(folder: Path) -> dict[str, list[str]]:
    try:
        rows = json.loads((folder / _COMMITS).read_text(encoding="utf-8"))
        return {str(name): [str(digest), str(commit)] for name, (digest, commit) in rows.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def manifest_files(root: Path) -> set[str]:
    """Every file below ``manifests/`` that a bundle or its golden calls are made from: TOML, CSV of tuned rows, the references,
    the receipts.
    """
    tables = [path for path in (root / "manifests").rglob("*") if path.suffix in (".toml", ".csv", ".py")]
    names = {path.relative_to(root).as_posix() for path in tables} - set(_QUESTIONS)
    return {name for name in names if not name.startswith(_BRIDGE)} | set(receipts.files(root))


def hashes(root: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 by name of those of ``names`` that are files below ``root``, or of a source tree.

    Raises:
        FetchError: a source tree cannot be had.
    """
    return {name: digest(name, root) for name in sorted(set(names)) if exists(name, root)}


def upstream(root: Path, names: Iterable[str]) -> tuple[str, ...]:
    """List the pseudo-backends of source trees for the licence table.

    Files of source trees among ``names`` bring them into a bundle.

    Raises:
        FetchError: a source tree cannot be had.
    """
    files = [name for name in names if in_tree(name)]
    texts = (located(name, root).read_bytes() for name in files if not name.endswith(_BINARY))
    parts = {part for text in texts for part in licences.parts_in(text.decode(errors="replace"))}
    return tuple(sorted({name.partition(":")[0] for name in files} | parts))


def stale_in(root: Path, folder: Path) -> list[str]:
    """Each bundle of ``folder`` that is older than its sources, and why."""
    return [f"{path.name}: {why}" for path in sorted(folder.glob("*.apb")) if (why := stale(root, path))]


def stale(root: Path, bundle: Path, *, proofs: bool = True) -> str:
    """Why ``bundle`` is not what a build would make of ``root`` now, or "" when it is. Without ``proofs``, cases, references and
    receipts do not count: they decide about no byte of a code object.
    """
    note = read(bundle)
    recorded = note.get("sources")
    if not isinstance(recorded, dict):
        return f"{path_of(bundle).name} is missing or says nothing about sources"
    if note.get("sha256") != hashlib.sha256(bundle.read_bytes()).hexdigest():
        return f"{path_of(bundle).name} is about other bytes"
    now = hashes(root, {*recorded, *manifest_files(root)})
    names = {name for name in {*recorded, *now} if proofs or not name.endswith(_PROOFS)}
    changed = sorted(name for name in names if recorded.get(name) != now.get(name))
    return (
        f"{', '.join(changed[:3])}{' and others' if len(changed) > 3 else ''} changed since"
        if changed
        else ""
    )
