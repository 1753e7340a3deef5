"""What came of the tables that upstreams measured: rows, which of them choose a recipe, which name nothing here, and why."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.records import MeasuredTable, Plan, UnusedRow, in_tree
from build_tools.tools import tree

#: Where the trees keep them.
FOLDERS: Final = ("aiter:configs",)


@dataclass(frozen=True, slots=True)
class Use:
    """What one operator takes of a table on one target: ``meant`` of its rows are about both, ``taken`` choose a recipe."""

    operator: str
    target: str
    meant: int
    taken: int
    shapes: int
    unused: tuple[UnusedRow, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table. ``assembly``: rows that name a kernel by its mangled symbol; the others name instances of templates."""

    name: str
    version: str
    sha256: str
    rows: int
    assembly: int
    uses: tuple[Use, ...]

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "table": self.name,
            "version": self.version,
            "sha256": self.sha256,
            "rows": self.rows,
            "assembly": self.assembly,
            "uses": [
                {
                    **{
                        name: getattr(use, name)
                        for name in ("operator", "target", "meant", "taken", "shapes")
                    },
                    "unused": [row._asdict() for row in use.unused],
                }
                for use in self.uses
            ],
        }


def compute(plan: Plan, root: Path) -> tuple[Table, ...]:
    """Every table that an operator takes rows of, and those of the trees that none does.

    Raises:
        FetchError: a source tree cannot be had.
    """
    taken = {table.table for table in plan.measured}
    names = sorted(taken | {name for folder in FOLDERS for name in _listed(folder, root)})
    return tuple(_table(name, plan.measured, root) for name in names)


def _listed(folder: str, root: Path) -> Iterable[str]:
    for name in tree.tree_of(folder, root).names(folder, ".csv"):
        if "tuned" in Path(name).name and "untuned" not in Path(name).name:
            yield f"{folder}/{name}"


def _table(name: str, measured: Iterable[MeasuredTable], root: Path) -> Table:
    with tree.located(name, root).open(encoding="utf-8", errors="replace", newline="") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].startswith("#")][1:]
    found: dict[tuple[str, str], list[MeasuredTable]] = {}
    for part in measured:
        if part.table == name:
            found.setdefault((part.operator, part.target), []).append(part)
    return Table(
        name=name,
        version=tree.tree_of(name, root).version if in_tree(name) else "",
        sha256=tree.digest(name, root),
        rows=len(rows),
        assembly=sum(any(cell.startswith("_ZN") for cell in row) for row in rows),
        uses=tuple(_use(*key, parts) for key, parts in sorted(found.items())),
    )


def _use(operator: str, target: str, parts: list[MeasuredTable]) -> Use:
    """What the profiles took together: a row that one of them uses is used."""
    taken = {line for part in parts for line in part.taken}
    unused = {row for part in parts for row in part.unused if row.line not in taken}
    shapes = sum(part.shapes for part in parts)
    return Use(operator, target, max(part.meant for part in parts), len(taken), shapes, tuple(sorted(unused)))
