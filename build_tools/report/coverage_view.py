"""The coverage table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from aiter_prebuilt.contract.records import BACKENDS
from build_tools.report.coverage import Coverage, Row


def render(coverage: Coverage, console: Console) -> None:
    """Print one table per category, then the gaps by name. A cell counts entries per target (``6+6``); without built
    bundles it counts kernels of the manifests. A dash is a backend that AITER has and we do not.
    """
    source = (
        "entries in built bundles" if coverage.built else "kernels in the manifests (nothing is built yet)"
    )
    console.print(f"profile {coverage.profile}, targets {', '.join(coverage.targets)}; cells count {source}")
    for category in dict.fromkeys(row.category for row in coverage.rows):
        table = Table(title=category.replace("_", " "), title_justify="left")
        for column in ("operator", *BACKENDS, "status"):
            table.add_column(column)
        for row in coverage.rows:
            if row.category == category:
                cells = [_cell(row, backend, coverage) for backend in BACKENDS]
                table.add_row(row.operator, *cells, row.status(coverage.targets, coverage.built))
        console.print(table)
    if coverage.built:
        console.print(
            f"{coverage.unproved()} entries have no receipt: python -m build_tools status names their kernels"
        )
    gaps = coverage.gaps()
    covered = len(coverage.rows) - len(gaps)
    console.print(f"{covered} of {len(coverage.rows)} operators are covered; gaps:")
    for title in dict.fromkeys(row.title for row in gaps):
        names = ", ".join(row.operator for row in gaps if row.title == title)
        console.print(f"  {title}: {names}", highlight=False)


def _cell(row: Row, backend: str, coverage: Coverage) -> str:
    cells = [row.cells.get((backend, target)) for target in coverage.targets]
    if not any(cells):
        return "-" if backend in row.aiter else ""
    return "+".join(str((cell.entries if coverage.built else cell.kernels) if cell else 0) for cell in cells)
