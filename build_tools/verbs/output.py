"""Print tables for people, and versioned JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

JSON_VERSION: Final = 1


#: Columns of a report that people read in a pipe, as they do on a terminal.
REPORT: Final = 80
#: Columns of a table in a pipe whose words fit no 80: people search a log for names.
WIDEST: Final = 160


def console(columns: int = REPORT) -> Console:
    """Make a console as wide as the terminal.

    Args:
        columns: the width where there is no terminal: in a pipe, a file, a log.
    """
    return Console(width=None if sys.stdout.isatty() else columns)


def print_table(title: str, columns: list[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table with folded cells.

    In a pipe it has 80 columns, or as many as keep each word whole, up to 160: people search a log for names.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left")
    widths: list[int | None] = [None] * len(columns)
    shown = console()
    if not sys.stdout.isatty():
        fitting = _widths([columns, *cells], REPORT - 3 * len(columns) - 1)
        total = sum(fitting) + 3 * len(columns) + 1
        if total <= WIDEST:
            widths, shown = [*fitting], console(max(total, REPORT))
        else:
            shown = console(WIDEST)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, overflow="fold", width=width)
    for row in cells:
        table.add_row(*row)
    shown.print(table)


def _widths(rows: list[list[str]], room: int) -> list[int]:
    """Narrow the widest columns until all fit ``room``, or until the next step would break a word."""
    across = [[row[place] for row in rows] for place in range(len(rows[0]))]
    widths = [max(map(len, cells)) for cells in across]
    words = [max((len(word) for cell in cells for word in cell.split()), default=0) for cells in across]
    while sum(widths) > room:
        place = max(range(len(widths)), key=lambda each: widths[each] - words[each])
        if widths[place] <= words[place]:
            break
        widths[place] -= 1
    return widths


def print_json(value: dict[str, Any]) -> None:
    """``value`` with the version of this output."""
    click.echo(json.dumps({"version": JSON_VERSION, **value}, indent=1, default=str))


def say_stale(stale: Iterable[str]) -> None:
    """Print a line for each bundle older than its sources."""
    for words in stale:
        click.echo(f"older than its sources, run python -m build_tools build: {words}")
