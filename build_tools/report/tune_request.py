"""From miss logs (``AITER_PREBUILT_MISS_LOG``) to tuning requests: tables in the grammar of the manifests' tuned rows.

A log has one JSON object per line: a shape that no tuned row named, and what the cost rule took. A request has one table per
operator with every such shape once, sorted; ``kernel`` and ``variant`` are empty, for a person who measured writes them, and
``source`` says what ran. A completed table goes into a folder of ``AITER_PREBUILT_TUNED``, or
into ``manifests/tuned/``, named by its operator (``tuned``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiter_prebuilt.contract import tuned_grammar
from build_tools.errors import UsageError

_KEYS = {
    "version": int, "operator": str, "target": str, "cus": int, "symbols": dict, "types": str, "kernel": str,
    "variant": str, "cost": int,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Miss:
    """One shape that fell to the cost rule."""

    operator: str
    target: str
    cus: int
    symbols: tuple[tuple[str, int], ...]
    types: str
    source: str


@dataclass(frozen=True, slots=True)
class Request:
    """A table for one operator: its file's name, its text, its number of rows."""

    name: str
    text: str
    rows: int


def requests(logs: Iterable[Path]) -> tuple[Request, ...]:
    """One table per operator (and per set of symbols, when bundles of several releases wrote the logs), sorted by name.

    Raises:
        UsageError: a log cannot be read, or one of its lines is no miss; the text has file and line.
    """
    groups: dict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], Miss]] = {}
    for log in logs:
        for miss in read_log(log):
            names = tuple(name for name, _ in miss.symbols)
            values = tuple(value for _, value in miss.symbols)
            key = (miss.target, miss.cus, miss.types, values)
            groups.setdefault((miss.operator, names), {}).setdefault(key, miss)
    made = []
    count: dict[str, int] = {}
    for (operator, names), misses in sorted(groups.items()):
        count[operator] = count.get(operator, 0) + 1
        suffix = "" if count[operator] == 1 else f"-{count[operator]}"
        rows = [_cells(misses[key]) for key in sorted(misses)]
        made.append(Request(f"{operator}{suffix}.csv", tuned_grammar.write(operator, names, rows), len(rows)))
    return tuple(made)


def _cells(miss: Miss) -> tuple[str, ...]:
    values = (str(value) for _, value in miss.symbols)
    return (miss.target, str(miss.cus), *values, "", "", miss.types, miss.source)


def read_log(path: Path) -> list[Miss]:
    """Return the misses of one log, as they stand there.

    See :func:`requests` for errors.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"read the miss log {path}", str(error), "Name files that AITER_PREBUILT_MISS_LOG wrote"
        ) from error
    return [_miss(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _miss(path: Path, number: int, line: str) -> Miss:
    try:
        found = json.loads(line)
        for key, kind in _KEYS.items():
            if not isinstance(found[key], kind):
                raise TypeError(f"its {key!r} is {found[key]!r}")
        if found["version"] != 1:
            raise ValueError(f"its version is {found['version']}, this program reads 1")
        symbols = tuple((str(name), int(value)) for name, value in found["symbols"].items())
    except (ValueError, TypeError, KeyError) as error:
        text = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"read the miss log {path}, line {number}",
            f"not a miss: {text}",
            "Name files that AITER_PREBUILT_MISS_LOG wrote",
        ) from error
    source = f"cost rule: {found['kernel']}[{found['variant']}] cost {found['cost']}"
    return Miss(found["operator"], found["target"], found["cus"], symbols, found["types"], source)


def write(folder: Path, made: Iterable[Request]) -> list[Path]:
    """Write the tables into ``folder``; a file of an earlier request is replaced, one that a person completed is not.

    Raises:
        UsageError: a table of that name has rows with a variant.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for request in made:
        path = folder / request.name
        if path.is_file() and tuned_grammar.read(path.read_text(encoding="utf-8")).rows:
            raise UsageError(
                f"write {path}", "a completed table lies there", "Name another folder with --output"
            )
        path.write_text(request.text, encoding="utf-8")
        paths.append(path)
    return paths
