"""The coverage table for people."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.table import Table

from aiter_prebuilt.contract.records import BACKENDS
from build_tools.report.coverage import UNLISTED, Coverage, Row

#: Columns that a status has at least.
_STATUS = 22


def render(coverage: Coverage, console: Console) -> None:
    """Print one table per category, then the gaps by name and why they are. A cell counts entries per target (``6+6``);
    without built bundles it counts kernels of the manifests. A dash is a backend that AITER has and we have not. No name is cut.
    """
    source = (
        "entries in built bundles" if coverage.built else "kernels in the manifests (nothing is built yet)"
    )
    console.print(f"profile {coverage.profile}, targets {', '.join(coverage.targets)}; cells count {source}")
    for category in dict.fromkeys(row.category for row in coverage.rows):
        console.print(_table(category, coverage, console.width), "")
    if coverage.built:
        console.print(
            f"{coverage.unproved()} entries have no receipt: python -m build_tools report status names their kernels"
        )
    gaps = coverage.gaps()
    covered = len(coverage.rows) - len(gaps)
    console.print(f"{covered} of {len(coverage.rows)} operators are covered; gaps:")
    for heading in dict.fromkeys(map(_heading, gaps)):
        _folded(f"{heading}: {', '.join(row.operator for row in gaps if _heading(row) == heading)}", console)
    for (reason, targets), operators in coverage.reasons().items():
        _folded(f"not on {' and '.join(targets)}: {', '.join(operators)}: {reason}", console)


def _folded(line: str, console: Console) -> None:
    folded = textwrap.fill(line, console.width, initial_indent="  ", subsequent_indent="    ")
    console.print(folded, highlight=False, markup=False, soft_wrap=True)


def _table(category: str, coverage: Coverage, width: int) -> Table:
    """Columns are as wide in each category, so that they stand below each other."""
    table = Table(
        title=category.replace("_", " "), title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )  # fmt: skip
    rows = [(row, [_cell(row, backend, coverage) for backend in BACKENDS]) for row in coverage.rows]
    longest = max(len(row.operator) for row, _ in rows)
    widths = [
        max(len(backend), *(len(cells[place]) for _, cells in rows)) for place, backend in enumerate(BACKENDS)
    ]
    room = width - sum(widths) - len(widths) - _STATUS
    table.add_column("operator", overflow="fold", width=min(longest, 44, max(room, 12)))
    for backend, size in zip(BACKENDS, widths, strict=True):
        table.add_column(backend, width=size)
    table.add_column("status", overflow="fold")
    for row, cells in rows:
        if row.category == category:
            table.add_row(row.operator, *cells, row.status(coverage.targets, coverage.built))
    return table


def _heading(row: Row) -> str:
    """Return the heading of a gap: its title in the catalogue, if any."""
    return row.category if row.category == UNLISTED else row.title


def _cell(row: Row, backend: str, coverage: Coverage) -> str:
    cells = [row.cells.get((backend, target)) for target in coverage.targets]
    if not any(cells):
        return "-" if backend in row.aiter else ""
    return "+".join(str((cell.entries if coverage.built else cell.kernels) if cell else 0) for cell in cells)
