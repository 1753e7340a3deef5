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


def console(columns: int = REPORT) -> Console:
    """Make a console as wide as the terminal.

    Args:
        columns: the width where there is no terminal: in a pipe, a file, a log.
    """
    return Console(width=None if sys.stdout.isatty() else columns)


def print_table(title: str, columns: list[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table with folded cells."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console().print(table)


def print_json(value: dict[str, Any]) -> None:
    """``value`` with the version of this output."""
    click.echo(json.dumps({"version": JSON_VERSION, **value}, indent=1, default=str))


def say_stale(stale: Iterable[str]) -> None:
    """Print a line for each bundle older than its sources."""
    for words in stale:
        click.echo(f"older than its sources, run python -m build_tools build: {words}")
