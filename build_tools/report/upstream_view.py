"""AITER's tree beside what is here, for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from build_tools.report.upstream import Beside, Count


def render(beside: Beside, console: Console) -> None:
    """Print the totals, a line for each title, and CK's titles.

    Our titles come first, then AITER's; CK's are those for which AITER needs it.
    """
    objects = ", ".join(f"{target} {beside.objects(target).aiter}" for target in beside.targets)
    console.print(
        f"AITER {beside.version}: assembled objects: {objects}; modules of Composable Kernel: {beside.modules().aiter}, and "
        f"{beside.tuning} for tuning; Triton sources: {beside.triton}",
        highlight=False,
    )
    table = Table(
        title="ours / AITER's", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("operators", overflow="fold")
    for target in beside.targets:
        table.add_column(f".co {target}", justify="right")
    table.add_column("CK modules", justify="right")
    table.add_column("AITER without CK", overflow="fold")
    table.add_column("operators here", justify="right")
    for share in beside.shares:
        objects_of = [_cell(share.objects[target], beside.built) for target in beside.targets]
        without = ", ".join(share.without_ck) or ("nothing" if share.gap else "")
        table.add_row(share.title, *objects_of, _cell(share.modules), without, _cell(share.operators))
    totals = [_cell(beside.objects(target), beside.built) for target in beside.targets]
    table.add_row("all", *totals, _cell(beside.modules()), "", "")
    console.print(table)
    for share in beside.gaps():
        has = f"{share.operators.ours} of {share.operators.aiter} operators here"
        console.print(f"AITER has nothing but CK for {share.title}: {has}", highlight=False)


def _cell(count: Count, known: bool = True) -> str:
    """Nothing where AITER has none; a question where no bundle says what is launched."""
    return f"{count.ours if known else '?'}/{count.aiter}" if count.aiter else ""
