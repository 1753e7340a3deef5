"""The ledger for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from build_tools.report.ledger import STATES, TESTED, Ledger


def render(ledger: Ledger, console: Console) -> None:
    """Print a table per state, and counts.

    The tables are of operators, with the targets of each kernel; the counts are per backend and target.
    """
    console.print(
        "tested: every entry was executed and right in every call that launched it, and has a receipt; "
        "compiled: some entry has none; source only: in no bundle here"
    )
    for state in STATES:
        lines = [line for line in ledger.lines if line.state == state]
        if not lines:
            continue
        table = Table(title=f"{state} ({len(lines)} kernels)", title_justify="left")
        for column in ("operator", "kernel", "backend", "targets", "proved / built"):
            table.add_column(column, overflow="fold")
        for operator, kernel in dict.fromkeys((line.operator, line.kernel) for line in lines):
            mine = [line for line in lines if (line.operator, line.kernel) == (operator, kernel)]
            counts = ", ".join(f"{line.proved}/{line.entries}" for line in mine)
            table.add_row(operator, kernel, mine[0].backend, ", ".join(line.target for line in mine), counts)
        console.print(table)
    _summary(ledger, console)
    for target, count in ledger.unproved().items():
        console.print(f"{count} entries for {target} are not proved", highlight=False)


def _summary(ledger: Ledger, console: Console) -> None:
    table = Table(title="kernels by backend and target", title_justify="left")
    for column in ("backend", "target", *STATES):
        table.add_column(column)
    for (backend, target), counts in ledger.tables().items():
        table.add_row(backend, target, *(str(counts[state]) for state in STATES))
    total = ledger.counts()
    share = 100 * total[TESTED] / max(1, len(ledger.lines))
    table.add_row("all", f"{share:.0f} % tested", *(str(total[state]) for state in STATES))
    console.print(table)
