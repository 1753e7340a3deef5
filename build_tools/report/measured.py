"""What came of the tables that upstreams measured: rows, which of them can choose a recipe, which name nothing here or name one
that refuses their calls, and why.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.records import Operator, TunedRow
from build_tools.plan.measured import kind_of
from build_tools.records import MeasuredTable, Plan, UnusedRow, in_tree
from build_tools.report.dead_rows import refusal
from build_tools.tools import tree

#: Where the trees keep them.
FOLDERS: Final = ("aiter:configs",)


@dataclass(frozen=True, slots=True)
class Use:
    """What one operator takes of a table on one target: ``meant`` of its rows are about both, ``taken`` name a recipe; of these
    ``refused`` never choose it, for it takes none of their calls. ``unused`` name none.
    """

    operator: str
    target: str
    meant: int
    taken: int
    shapes: int
    unused: tuple[UnusedRow, ...]
    refused: tuple[UnusedRow, ...] = ()

    @property
    def chooses(self) -> int:
        """Rows that can choose the kernel that they name."""
        return self.taken - len(self.refused)

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows choose nothing, by the kind of the reason, the most common first."""
        kinds = Counter(kind_of(row.why) for row in (*self.unused, *self.refused))
        return dict(sorted(kinds.items(), key=lambda row: (-row[1], row[0])))


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
                        for name in ("operator", "target", "meant", "taken", "chooses", "shapes", "reasons")
                    },
                    "unused": [row._asdict() for row in use.unused],
                    "refused": [row._asdict() for row in use.refused],
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
    operators = {
        (each.operator.name, bundle.target.name, bundle.profile): each.operator
        for bundle in plan.bundles
        for each in bundle.operators
    }
    return tuple(_table(name, plan.measured, operators, root) for name in names)


def _listed(folder: str, root: Path) -> Iterable[str]:
    for name in tree.tree_of(folder, root).names(folder, ".csv"):
        if "tuned" in Path(name).name and "untuned" not in Path(name).name:
            yield f"{folder}/{name}"


#: By operator, target and profile.
Operators = Mapping[tuple[str, str, str], Operator]


def _table(name: str, measured: Iterable[MeasuredTable], operators: Operators, root: Path) -> Table:
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
        uses=tuple(_use(*key, parts, operators) for key, parts in sorted(found.items())),
    )


def _use(operator: str, target: str, parts: list[MeasuredTable], operators: Operators) -> Use:
    """What the profiles took together: a row that one of them uses is used, and chooses where it does in one of them."""
    taken = {line for part in parts for line in part.taken}
    unused = {row for part in parts for row in part.unused if row.line not in taken}
    shapes = sum(part.shapes for part in parts)
    refused: dict[int, UnusedRow] = {}
    chooses: set[int] = set()
    for part in parts:
        mine = {row.line: row for row in _refused(part, operators.get((operator, target, part.profile)))}
        refused = mine | refused
        chooses |= set(part.taken) - mine.keys()
    never = tuple(row for line, row in sorted(refused.items()) if line not in chooses)
    meant = max(part.meant for part in parts)
    return Use(operator, target, meant, len(taken), shapes, tuple(sorted(unused)), never)


def _refused(part: MeasuredTable, operator: Operator | None) -> Iterator[UnusedRow]:
    """The rows whose kernel takes none of their calls."""
    if operator is None:
        return
    rows: dict[int, list[TunedRow]] = {}
    for line, row in part.decided:
        rows.setdefault(line, []).append(row)
    for line, decided in rows.items():
        why = refusal(operator, decided)
        if why:
            yield UnusedRow(line, _said(operator, decided[0]), why)


def _said(operator: Operator, row: TunedRow) -> str:
    """What a row decides, and how."""
    ends = zip(operator.tuned_slots, row.values, row.last or row.values, strict=True)
    sizes = (
        f"{operator.slots[slot]} = {a}" if a == b else f"{operator.slots[slot]} = {a} to {b}"
        for slot, a, b in ends
    )
    recipe = operator.recipes[row.recipe]
    return f"{row.cus} compute units, {', '.join(sizes)}: {operator.kernels[recipe.kernel].name} {recipe.variant}"
