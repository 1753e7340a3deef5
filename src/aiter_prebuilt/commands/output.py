"""Printing for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

JSON_VERSION: Final = 1


def print_json(verb: str, value: dict[str, Any]) -> None:
    """One JSON document with a version and the verb that made it."""
    print(
        json.dumps({"version": JSON_VERSION, "verb": verb, **value}, indent=1, sort_keys=False, default=str)
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns, readable without colour."""
    table = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(columns))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
