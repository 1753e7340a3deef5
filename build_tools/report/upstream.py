"""AITER's tree beside what is here, by the catalogue's titles: its assembled objects and its modules of Composable Kernel,
counted in the tree, and how many of them these bundles launch or serve.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from build_tools.manifest.model import CatalogueEntry, Manifest
from build_tools.modules.classes import CK, CK_TILE, TUNING
from build_tools.report.coverage import UNLISTED, Coverage
from build_tools.report.modules import NOT, ModuleLedger
from build_tools.tools import tree
from build_tools.tools.tree import Tree

_OBJECTS: Final = "aiter:hsa"
_TRITON: Final = "aiter:triton"
_JIT: Final = "@triton.jit"


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of AITER's files or modules, and of ours.

    ``ours``: those that are launched, or served, here.
    """

    aiter: int
    ours: int


@dataclass(frozen=True, slots=True)
class Share:
    """One title. ``objects``: by target; ``modules``: of Composable Kernel; ``without_ck``: AITER's other backends for it;
    ``operators``: those of the catalogue, and those that some target has here.
    """

    category: str
    title: str
    objects: Mapping[str, Count]
    modules: Count
    without_ck: tuple[str, ...]
    operators: Count

    @property
    def gap(self) -> bool:
        """Has AITER nothing but Composable Kernel for it? Of what is in no list nobody knows."""
        return self.title != UNLISTED and bool(self.modules.aiter) and not self.without_ck


@dataclass(frozen=True, slots=True)
class Beside:
    """All titles that AITER has objects or modules of Composable Kernel for; ``tuning``: modules that only tuners load;
    ``triton``: Triton sources. ``built``: were bundles found?
    """

    version: str
    targets: tuple[str, ...]
    shares: tuple[Share, ...]
    tuning: int
    triton: int
    built: bool

    def objects(self, target: str) -> Count:
        """Count the objects of all titles for a target."""
        return _sum(share.objects[target] for share in self.shares)

    def modules(self) -> Count:
        """Count the modules of all titles."""
        return _sum(share.modules for share in self.shares)

    def gaps(self) -> tuple[Share, ...]:
        """Titles for which AITER has nothing but Composable Kernel."""
        return tuple(share for share in self.shares if share.gap)

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "tree": self.version,
            "shares": [{**asdict(share), "gap": share.gap} for share in self.shares],
            "total": {
                "objects": {target: asdict(self.objects(target)) for target in self.targets},
                "modules": asdict(self.modules()),
                "tuning_modules": self.tuning,
                "triton_sources": self.triton,
            },
        }


def compute(
    manifest: Manifest,
    coverage: Coverage,
    ledger: ModuleLedger,
    root: Path,
    launched: Collection[tuple[str, str]],
) -> Beside:
    """Compare AITER's tree with the bundles.

    ``launched``: (target, SHA-256) of the code objects in built bundles.

    Raises:
        FetchError: the tree cannot be had.
    """
    source = tree.tree_of(_OBJECTS, root)
    left = {target: _objects(source, target, launched) for target in coverage.targets}
    modules = {line.name: line.status != NOT for line in ledger.lines if line.first in (CK, CK_TILE)}
    shares = []
    for category, entries in manifest.catalogue.categories.items():
        for entry in entries:
            objects = {target: _taken(left[target], entry.objects) for target in coverage.targets}
            mine = [modules.pop(name) for name in entry.modules if name in modules]
            shares.append(_share(category, entry, objects, Count(len(mine), sum(mine)), coverage))
    rest = {target: _count(left[target].values()) for target in coverage.targets}
    others = Count(len(modules), sum(modules.values()))
    shares.append(Share(UNLISTED, UNLISTED, rest, others, (), Count(0, 0)))
    texts = source.texts(f"{_TRITON}/{name}" for name in source.names(_TRITON, ".py"))
    return Beside(
        version=source.version,
        targets=coverage.targets,
        shares=tuple(
            share
            for share in shares
            if share.modules.aiter or any(each.aiter for each in share.objects.values())
        ),
        tuning=sum(line.first == TUNING for line in ledger.lines),
        triton=sum(_JIT in text for text in texts.values()),
        built=coverage.built,
    )


def _share(
    category: str, entry: CatalogueEntry, objects: Mapping[str, Count], modules: Count, coverage: Coverage
) -> Share:
    rows = [row for row in coverage.rows if (row.category, row.title) == (category, entry.title)]
    here = sum(any(row.has(target, coverage.built) for target in coverage.targets) for row in rows)
    others = tuple(backend for backend in entry.aiter if backend != CK)
    return Share(category, entry.title, objects, modules, others, Count(len(rows), here))


def _objects(source: Tree, target: str, launched: Collection[tuple[str, str]]) -> dict[str, bool]:
    """Name below the target's folder -> is it launched?"""
    folder = f"{_OBJECTS}/{target}"
    return {
        name: (target, source.sha256(f"{folder}/{name}")) in launched for name in source.names(folder, ".co")
    }


def _taken(left: dict[str, bool], patterns: Iterable[str]) -> Count:
    """Take files that match a pattern out of ``left``, and count them.

    A pattern names a folder, or files that lie in none.
    """
    found = [
        left.pop(name)
        for name in list(left)
        if any(
            name.startswith(pattern)
            if pattern.endswith("/")
            else "/" not in name and fnmatchcase(name, pattern)
            for pattern in patterns
        )
    ]
    return _count(found)


def _count(found: Collection[bool]) -> Count:
    return Count(len(found), sum(found))


def _sum(counts: Iterable[Count]) -> Count:
    several = list(counts)
    return Count(sum(each.aiter for each in several), sum(each.ours for each in several))
