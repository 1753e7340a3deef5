"""Shapes for people: numbers of tokens that choose alike are one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from build_tools.report.lines import say
from build_tools.report.shapes import CHOSEN, NOT_SERVED, STATES, ShapeRow, Shapes


def render(shapes: Shapes, console: Console) -> None:
    """For each model and number of ranks a table and what is not served; then counts."""
    steps: dict[tuple[str, int], list[ShapeRow]] = {}
    for row in shapes.rows:
        steps.setdefault((row.model, row.ranks), []).append(row)
    for (model, ranks), rows in steps.items():
        _model(f"{model}, TP {ranks}", rows, console)
    table = Table(title="calls by what serves them", title_justify="left")
    for column in ("target", *STATES):
        table.add_column(column)
    for target, counts in shapes.counts().items():
        table.add_row(target, *(str(counts[state]) for state in STATES))
    console.print(table)
    for name, which in shapes.sets.items():
        if which != "tuned":
            say(
                console, f"{name}: the {which} set of Composable Kernel's instances; build --ck tuned has all"
            )


def _model(title: str, rows: list[ShapeRow], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("call", "client", "M", "target", "entry", "why"):
        table.add_column(column, overflow="fold")
    # What is the same on several targets is one line.
    lines: dict[tuple[str, ...], list[str]] = {}
    for run in _runs(row for row in rows if row.state != NOT_SERVED):
        first, last = run[0], run[-1]
        tokens = str(first.tokens) if len(run) == 1 else f"{first.tokens} to {last.tokens}"
        call = f"{first.function} {first.layer}".strip()
        line = (first.call, call, first.client, tokens, entry(first), _why(run))
        lines.setdefault(line, []).append(first.target)
    for (_, call, client, tokens, what, why), targets in lines.items():
        cells = (call, client, tokens, ", ".join(targets), what, why)
        table.add_row(*map(Text, cells))  # a variant in brackets would be taken for markup
    console.print(table)
    without: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.state == NOT_SERVED:
            without.setdefault(row.reason, {})[row.function] = None
    for reason, functions in without.items():
        say(console, f"not served: {', '.join(functions)}: {reason}")


def _runs(rows: Iterable[ShapeRow]) -> Iterator[list[ShapeRow]]:
    """Rows of one call whose tokens follow each other and choose the same."""
    # A dict keeps the order of the calls; rows come by tokens within each.
    calls: dict[tuple[str, ...], list[ShapeRow]] = {}
    for row in rows:
        calls.setdefault((row.call, row.layer), []).append(row)
    for each in calls.values():
        for _, run in groupby(each, key=lambda row: (row.target, row.state, entry(row))):
            yield list(run)


def entry(row: ShapeRow) -> str:
    """Describe the launch of a row, or why there is none."""
    if row.state != CHOSEN:
        return row.state
    return f"{row.kernel}[{row.variant}] {row.backend}, {row.profile}"


def _why(run: list[ShapeRow]) -> str:
    first, last = run[0].reason, run[-1].reason
    return first if first == last else f"{first}; of {run[-1].tokens}: {last}"
