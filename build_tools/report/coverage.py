"""The operator x backend x target table, computed from the manifests and the built bundles, with the gaps named."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiter_prebuilt.contract.bundle import SUFFIX, FormatError
from aiter_prebuilt.contract.records import BACKENDS
from build_tools.manifest.model import CatalogueEntry, Kernel, Manifest, Operator
from build_tools.objects.entries import BuiltEntry, entries_of
from build_tools.objects.unpack import open_bundle
from build_tools.plan.plan import check_filters

JSON_VERSION = 1
#: The category of operators that the manifests have and AITER's list has not. Their title is their summary: a sentence.
UNLISTED = "not in the catalogue"


@dataclass(frozen=True, slots=True)
class Cell:
    """One backend's counts for one operator on one target.

    Kernels in the manifests, entries in the built bundle, and those with a receipt.
    """

    kernels: int
    entries: int
    proved: int = 0


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of AITER's list. ``cells`` is keyed by (backend, target); ``reasons``: target -> why the ck-free bundle has no
    kernel for it; ``told``: what the manifests say of it, nothing where they do not have it.
    """

    category: str
    title: str
    operator: str
    aiter: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    reasons: dict[str, str] = field(default_factory=dict)
    told: Operator | None = None

    def status(self, targets: Iterable[str], built: bool) -> str:
        """``proved``, ``covered``, ``missing``, or which targets lack it. With bundles at hand only what was built counts; only
        then can it be proved: every entry has a receipt.
        """
        lacking = [target for target in targets if not self.has(target, built)]
        if lacking:
            return "missing" if len(lacking) == len(list(targets)) else f"missing on {', '.join(lacking)}"
        if not built:
            return "covered"
        unproved = self.unproved()
        return f"covered, {unproved} not proved" if unproved else "proved"

    def unproved(self) -> int:
        """Built entries without a receipt."""
        return sum(cell.entries - cell.proved for cell in self.cells.values())

    def has(self, target: str, built: bool) -> bool:
        """Tell whether any backend serves ``target``."""
        return any(
            (cell.entries if built else cell.kernels) > 0
            for (_, name), cell in self.cells.items()
            if name == target
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """The whole table. ``built`` is True when bundles were found and counted."""

    profile: str
    targets: tuple[str, ...]
    rows: tuple[OperatorRow, ...]
    built: bool

    def gaps(self) -> tuple[OperatorRow, ...]:
        """Operators that some target lacks."""
        return tuple(
            row for row in self.rows if not all(row.has(target, self.built) for target in self.targets)
        )

    def reasons(self) -> dict[tuple[str, tuple[str, ...]], list[str]]:
        """(reason, targets that it is about) -> the operators that lack them for it."""
        found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for row in self.gaps():
            for reason in dict.fromkeys(row.reasons.values()):
                lacking = tuple(
                    target
                    for target in self.targets
                    if row.reasons.get(target) == reason and not row.has(target, self.built)
                )
                if lacking:
                    found.setdefault((reason, lacking), []).append(row.operator)
        return found

    def unproved(self) -> int:
        """Built entries without a receipt."""
        return sum(row.unproved() for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "version": JSON_VERSION,
            "profile": self.profile,
            "targets": list(self.targets),
            "counted": "built bundles" if self.built else "manifests only",
            "rows": [
                {
                    "category": row.category,
                    "title": row.title,
                    "operator": row.operator,
                    "aiter_backends": list(row.aiter),
                    "cells": {
                        f"{backend}/{target}": {
                            "kernels": cell.kernels,
                            "entries": cell.entries,
                            "proved": cell.proved,
                        }
                        for (backend, target), cell in sorted(row.cells.items())
                    },
                    "status": row.status(self.targets, self.built),
                    "reasons": row.reasons,
                    **_operator_facts(row.told),
                }
                for row in self.rows
            ],
            "gaps": [row.operator for row in self.gaps()],
            "unproved": self.unproved(),
        }


def compute(
    manifest: Manifest,
    profile: str,
    targets: tuple[str, ...],
    bundles: Path | None,
    proved: Collection[str] = (),
) -> Coverage:
    """Return the table for ``profile`` (ck-full counts what ck-free has too).

    ``proved``: digests of recipes with a receipt.

    Raises:
        UnknownTargetError, UsageError: a target or profile that the manifests do not have.
    """
    check_filters(manifest, (profile,), targets)
    profiles = included(manifest, profile)
    built = _counted(built_entries(bundles, profiles, targets), proved)
    rows = []
    listed: set[str] = set()
    for category, entries in manifest.catalogue.categories.items():
        for entry in entries:
            for name in entry.operators:
                listed.add(name)
                rows.append(_row(category, entry, name, manifest, profiles, targets, built))
    for family in manifest.families.values():
        for operator in family.operators:
            if operator.name not in listed:
                extra = CatalogueEntry.model_construct(
                    title=operator.summary, operators=[operator.name], aiter=[], note=""
                )
                rows.append(_row(UNLISTED, extra, operator.name, manifest, profiles, targets, built))
    return Coverage(profile, targets, tuple(rows), bool(built))


def included(manifest: Manifest, profile: str) -> list[str]:
    """Return the profile, and those that it includes."""
    profiles = [profile]
    while (more := manifest.profiles[profiles[-1]].includes) is not None:
        profiles.append(more)
    return profiles


def built_entries(folder: Path | None, profiles: list[str], targets: tuple[str, ...]) -> list[BuiltEntry]:
    """Read the entries of the built bundles in ``folder``."""
    found: list[BuiltEntry] = []
    for profile in profiles:
        for target in targets:
            path = folder / f"{target}-{profile}{SUFFIX}" if folder is not None else None
            if path is None or not path.is_file():
                continue
            try:
                found += entries_of(open_bundle(path))
            except FormatError:
                continue  # a damaged bundle covers nothing; `build` and `audit` say what is wrong with it
    return found


def _row(
    category: str, entry: CatalogueEntry, name: str, manifest: Manifest, profiles: list[str], targets: tuple[str, ...],
    built: Mapping[tuple[str, str, str], Cell],
) -> OperatorRow:  # fmt: skip
    cells: dict[tuple[str, str], Cell] = {}
    told = next(
        (each for family in manifest.families.values() for each in family.operators if each.name == name),
        None,
    )
    kernels = [kernel for kernel in (told.kernels if told else ()) if kernel.profile in profiles]
    for backend in BACKENDS:
        for target in targets:
            declared = sum(1 for kernel in kernels if _serves(kernel, backend, target))
            made = built.get((name, backend, target), Cell(0, 0))
            if declared or made.entries:
                cells[backend, target] = Cell(declared, made.entries, made.proved)
    why = manifest.catalogue.why(name)
    return OperatorRow(category, entry.title, name, tuple(entry.aiter), cells, why, told)


def _operator_facts(operator: Operator | None) -> dict[str, str]:
    """Describe an operator: family, module, summary, signature."""
    if operator is None:
        return {"family": "", "module": "", "summary": "", "signature": ""}
    parameters = ", ".join(each.text for each in operator.python.parameters)
    return {
        "family": operator.family,
        "module": operator.module,
        "summary": operator.summary,
        "signature": f"{operator.name}({parameters})",
    }


def _serves(kernel: Kernel, backend: str, target: str) -> bool:
    return kernel.backend == backend and target in kernel.targets


def _counted(entries: Iterable[BuiltEntry], proved: Collection[str]) -> dict[tuple[str, str, str], Cell]:
    """(operator, backend, target) -> what was built of it."""
    cells: dict[tuple[str, str, str], Cell] = {}
    for entry in entries:
        key = (entry.operator, entry.backend, entry.target)
        known = cells.get(key, Cell(0, 0))
        cells[key] = Cell(0, known.entries + 1, known.proved + entry.proved(proved))
    return cells
