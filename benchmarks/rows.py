"""Rows of a benchmark's table: a figure, its bar, and whether it is met. Standard library only: measured processes import it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """``value`` in ``unit``; ``bar`` is the most it may be, None for a figure that is there to compare with."""

    group: str
    what: str
    value: float | None
    unit: str
    bar: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None without a bar. A bar whose figure could not be measured is not met."""
        if self.bar is None:
            return None
        return self.value is not None and self.value <= self.bar


def middle(values: Iterable[float]) -> float:
    """The median."""
    return float(median(values))


def render(rows: list[Row]) -> str:
    """The table as text, one line per row under the name of its group."""
    lines: list[str] = []
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            lines.append(f"\n{group}")
        value = "not measured" if row.value is None else f"{row.value:.2f} {row.unit}"
        verdict = "" if row.bar is None else f"bar {row.bar:g} {row.unit}: {'met' if row.met else 'MISSED'}"
        lines.append(f"  {row.what:<58} {value:>16}  {verdict:<24} {row.note}".rstrip())
    return "\n".join(lines)


def report(rows: list[Row], as_json: bool, facts: dict[str, Any]) -> int:
    """Print the table (or JSON with a version); the exit status: 1 when a bar is missed."""
    if as_json:
        listed = [{**asdict(row), "met": row.met} for row in rows]
        print(json.dumps({"version": 1, **facts, "rows": listed}, indent=1))
    else:
        print(", ".join(f"{name}: {value}" for name, value in facts.items()))
        print(render(rows))
        missed = [row.what for row in rows if row.met is False]
        print("\nmissed: " + "; ".join(missed) if missed else "\nall bars met")
    return 1 if any(row.met is False for row in rows) else 0
