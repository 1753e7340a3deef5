"""The ledger: what is declared, what was built, what was proved, for each kernel of each operator on each target.

``tested``: every entry that was built has a receipt, in every recipe that launches it. ``compiled``: some has none. ``source
only``: the manifests name it, and no bundle here has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.bundle import SUFFIX, FormatError
from build_tools.manifest.model import Manifest
from build_tools.objects.entries import BuiltEntry, entries_of
from build_tools.objects.unpack import open_bundle

JSON_VERSION: Final = 1
TESTED, COMPILED, SOURCE_ONLY = "tested", "compiled", "source only"
STATES: Final = (TESTED, COMPILED, SOURCE_ONLY)


@dataclass(frozen=True, slots=True)
class Line:
    """One kernel of one operator on one target. ``unproved``: the names of built entries without a receipt."""

    family: str
    operator: str
    kernel: str
    backend: str
    profile: str
    target: str
    entries: int
    unproved: tuple[str, ...]

    @property
    def proved(self) -> int:
        """Entries with a receipt."""
        return self.entries - len(self.unproved)

    @property
    def state(self) -> str:
        """One of :data:`STATES`."""
        if not self.entries:
            return SOURCE_ONLY
        return COMPILED if self.unproved else TESTED


@dataclass(frozen=True, slots=True)
class Ledger:
    """All lines, in the order of the manifests."""

    lines: tuple[Line, ...]

    def counts(self, lines: Iterable[Line] | None = None) -> dict[str, int]:
        """State -> kernels."""
        mine = [line.state for line in (self.lines if lines is None else lines)]
        return {state: mine.count(state) for state in STATES}

    def tables(self) -> dict[tuple[str, str], dict[str, int]]:
        """(backend, target) -> :meth:`counts` of those."""
        places = dict.fromkeys((line.backend, line.target) for line in self.lines)
        return {
            place: self.counts(line for line in self.lines if (line.backend, line.target) == place)
            for place in sorted(places)
        }

    def unproved(self) -> dict[str, int]:
        """Target -> entries without a receipt; one that serves several kernels of its operator counts once."""
        left = {(line.target, line.operator, name) for line in self.lines for name in line.unproved}
        return dict(sorted(Counter(target for target, _, _ in left).items()))

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "version": JSON_VERSION,
            "kernels": [
                {
                    "family": line.family,
                    "operator": line.operator,
                    "kernel": line.kernel,
                    "backend": line.backend,
                    "profile": line.profile,
                    "target": line.target,
                    "entries": line.entries,
                    "proved": line.proved,
                    "unproved": list(line.unproved),
                    "state": line.state,
                }
                for line in self.lines
            ],
            "counts": [
                {"backend": backend, "target": target, **counts}
                for (backend, target), counts in self.tables().items()
            ],
            "total": self.counts(),
            "unproved_entries": sum(self.unproved().values()),
        }


def compute(manifest: Manifest, bundles: Path, proved: Collection[str]) -> Ledger:
    """``bundles``: the folder of the built ones; ``proved``: digests of the recipes that have a receipt."""
    built: dict[tuple[str, str, str], list[BuiltEntry]] = {}
    for entry in _entries(manifest, bundles):
        for name in entry.kernels:
            built.setdefault((entry.operator, name, entry.target), []).append(entry)
    lines = []
    for family in manifest.families.values():
        for operator in family.operators:
            for kernel in operator.kernels:
                for target in kernel.targets:
                    mine = built.get((operator.name, kernel.name, target), [])
                    unproved = tuple(entry.name for entry in mine if not entry.proved(proved))
                    lines.append(
                        Line(
                            family.family, operator.name, kernel.name, kernel.backend, kernel.profile, target,
                            len(mine), unproved,
                        )
                    )  # fmt: skip
    return Ledger(tuple(lines))


def _entries(manifest: Manifest, folder: Path) -> list[BuiltEntry]:
    found: list[BuiltEntry] = []
    for name, profile in manifest.profiles.items():
        for target in profile.targets:
            try:
                found += entries_of(open_bundle(folder / f"{target}-{name}{SUFFIX}"))
            except (OSError, FormatError):
                continue  # not built, or damaged: `build` and `wheels` say what is wrong with it
    return found
