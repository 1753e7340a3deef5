"""The golden calls of a bundle: what ``aiter-prebuilt verify --execute`` runs where its wheel is installed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import zstandard

from aiter_prebuilt.contract import calls
from build_tools.manifest.model import Manifest

if TYPE_CHECKING:
    from build_tools.cases.table import Cases

#: The same inputs in every wheel.
SEED: Final = 1
#: zstd's; small tensors of few values, and intervals whose two ends agree, shrink to a quarter.
LEVEL: Final = 19


@dataclass(slots=True)
class Golden:
    """The golden calls of ``operators``, whose families' cases are read once, and only if something is asked; ``folder`` is
    ``manifests``.
    """

    manifest: Manifest
    folder: Path
    operators: frozenset[str]
    _known: Mapping[str, Cases] | None = None
    _reading: Lock = field(default_factory=Lock)

    def stream(self, target: str, operators: Iterable[str]) -> bytes:
        """Pack the golden calls of some operators for a target.

        They are in the order of names.

        Raises:
            ManifestError: the cases of an operator are wrong, or it has none.
        """
        from build_tools.cases import make  # here: numpy, for what a build without changes never makes

        facts, known = self.manifest.targets[target], self._read()
        records = b"".join(
            calls.pack(call)
            for name in sorted(set(operators))
            for call in make.calls(known[name], target, facts, SEED, golden=True)
        )
        return calls.packed(records, zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress)

    def _read(self) -> Mapping[str, Cases]:
        from build_tools.cases import table
        from build_tools.cases.subject import subjects

        with self._reading:
            if self._known is None:
                found = list(subjects(self.manifest))
                # A family's file is read as a whole.
                families = {subject.family for subject in found if subject.name in self.operators}
                chosen = [subject for subject in found if subject.family in families]
                self._known = table.load(self.folder, chosen, self.manifest.targets)
            return self._known


def key(folder: Path, operators: Iterable[str]) -> str:
    """Hash the inputs of :meth:`Golden.stream`.

    When the hash is unchanged, so are the calls.
    """
    code = [*Path(__file__).parent.glob("*.py"), Path(calls.__file__)]
    data = [path for suffix in ("toml", "py") for path in folder.rglob(f"*.{suffix}")]
    parts = [metadata.version("numpy"), metadata.version("zstandard"), *sorted(set(operators))]
    for path in (*sorted(code), *sorted(data)):
        parts += [path.name, hashlib.sha256(path.read_bytes()).hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
