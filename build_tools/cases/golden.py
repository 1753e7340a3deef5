"""The golden calls of a bundle: what ``aiter-prebuilt verify --execute`` runs where its wheel is installed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

import zstandard

from aiter_prebuilt.contract import calls
from build_tools.manifest.model import Manifest

#: The same inputs in every wheel.
SEED: Final = 1
#: zstd's; small tensors of few values, and intervals whose two ends agree, shrink to a quarter.
LEVEL: Final = 19


def stream(manifest: Manifest, folder: Path, target: str, operators: Iterable[str]) -> bytes:
    """The golden calls of some operators for a target, by name, packed; ``folder`` is ``manifests``.

    Raises:
        ManifestError: the cases of an operator are wrong, or it has none.
    """
    from build_tools.cases import make, table  # here: numpy, for what a build without changes never makes
    from build_tools.cases.subject import subjects

    wanted = sorted(set(operators))
    # Whose files have these operators: a file is read as a whole.
    families = {subject.family for subject in subjects(manifest) if subject.name in wanted}
    chosen = [subject for subject in subjects(manifest) if subject.family in families]
    known = table.load(folder, chosen, manifest.targets)
    facts = manifest.targets[target]
    records = b"".join(
        calls.pack(call)
        for name in wanted
        for call in make.calls(known[name], target, facts, SEED, golden=True)
    )
    return calls.packed(records, zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress)


def key(folder: Path, operators: Iterable[str]) -> str:
    """What :func:`stream` depends on, in one hash: when it is unchanged, so are the calls."""
    code = [*Path(__file__).parent.glob("*.py"), Path(calls.__file__)]
    data = [path for suffix in ("toml", "py") for path in folder.rglob(f"*.{suffix}")]
    parts = [metadata.version("numpy"), metadata.version("zstandard"), *sorted(set(operators))]
    for path in (*sorted(code), *sorted(data)):
        parts += [path.name, hashlib.sha256(path.read_bytes()).hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
