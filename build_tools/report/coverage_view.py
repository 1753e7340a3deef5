"""The coverage table for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console

from aiter_prebuilt.contract.records import BACKENDS
from build_tools.report.coverage import UNLISTED, Coverage, OperatorRow

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
        table = _table(category, coverage, console.width)
        console.print(table, "", sep="\n", highlight=False, markup=False, soft_wrap=True)
    if coverage.built:
        console.print(
            f"{coverage.unproved()} entries have no receipt. Their kernels: python -m build_tools report status",
            soft_wrap=True,
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


def _table(category: str, coverage: Coverage, width: int) -> str:
    """Lay out one category. Columns are as wide in each category, so that they stand below each other."""
    rows = [(row, [_cell(row, backend, coverage) for backend in BACKENDS]) for row in coverage.rows]
    longest = max(len(row.operator) for row, _ in rows)
    widths = [
        max(len(backend), *(len(cells[place]) for _, cells in rows)) for place, backend in enumerate(BACKENDS)
    ]
    room = width - sum(widths) - len(widths) - _STATUS - 1
    sizes = [max(len("operator"), min(longest, 44, max(room, 12))), *widths]
    lines = [_line(("operator", *BACKENDS), sizes, "status")]
    for row, cells in rows:
        if row.category == category:
            said = textwrap.wrap(
                row.status(coverage.targets, coverage.built), max(width - sum(sizes) - len(sizes), 8)
            )
            # A name is never cut: a long one has a line for itself.
            alone = len(row.operator) > sizes[0]
            lines += [row.operator] if alone else []
            lines.append(_line(("" if alone else row.operator, *cells), sizes, *said[:1]))
            lines += [_line(("",) * len(sizes), sizes, more) for more in said[1:]]
    widest = max(map(len, lines))
    return "\n".join(line.ljust(widest) for line in (category.replace("_", " "), *lines))


def _line(cells: Iterable[str], sizes: Sequence[int], last: str = "") -> str:
    return " ".join([*(cell.ljust(size) for cell, size in zip(cells, sizes, strict=True)), last]).rstrip()


def _heading(row: OperatorRow) -> str:
    """Return the heading of a gap: its title in the catalogue, if any."""
    return row.category if row.category == UNLISTED else row.title


def _cell(row: OperatorRow, backend: str, coverage: Coverage) -> str:
    cells = [row.cells.get((backend, target)) for target in coverage.targets]
    if not any(cells):
        return "-" if backend in row.aiter else ""
    return "+".join(str((cell.entries if coverage.built else cell.kernels) if cell else 0) for cell in cells)
