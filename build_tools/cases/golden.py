"""The golden calls of a bundle: what ``aiter-prebuilt verify --execute`` runs where its wheel is installed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from aiter_prebuilt.contract import calls
from build_tools.cases import make, table
from build_tools.cases.subject import subjects
from build_tools.manifest.model import Manifest

#: The same inputs in every wheel.
SEED: Final = 1


def stream(manifest: Manifest, folder: Path, target: str, operators: Iterable[str]) -> bytes:
    """The golden calls of some operators for a target, by name; ``folder`` is ``manifests``.

    Raises:
        ManifestError: the cases of an operator are wrong, or it has none.
    """
    wanted = sorted(set(operators))
    chosen = [subject for subject in subjects(manifest) if subject.family in _families(manifest, wanted)]
    known = table.load(folder, chosen, manifest.targets)
    facts = manifest.targets[target]
    return b"".join(
        calls.pack(call)
        for name in wanted
        for call in make.calls(known[name], target, facts, SEED, golden=True)
    )


def _families(manifest: Manifest, operators: Iterable[str]) -> set[str]:
    """Whose files have these operators: a file is read as a whole."""
    wanted = frozenset(operators)
    return {subject.family for subject in subjects(manifest) if subject.name in wanted}


def key(folder: Path, operators: Iterable[str]) -> str:
    """What :func:`stream` depends on, in one hash: when it is unchanged, so are the calls."""
    code = [*Path(__file__).parent.glob("*.py"), Path(calls.__file__)]
    data = [path for suffix in ("toml", "py") for path in folder.rglob(f"*.{suffix}")]
    parts = [np.__version__, *sorted(set(operators))]
    for path in (*sorted(code), *sorted(data)):
        parts += [path.name, hashlib.sha256(path.read_bytes()).hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
