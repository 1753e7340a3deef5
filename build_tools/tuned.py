"""Tuned tables: CSV rows that say which variant a shape takes, before the order of kernels and the cost rule.

Columns: ``target, cus``, then dims or integer attributes of the operator, then ``kernel, variant, types`` (``bf16``, or
``bf16_e4m3fn`` for two type variables), and any of ``us`` and ``source`` for the reader.
Lines that start with ``#`` are comments.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.expression import INT64_MAX
from aiter_prebuilt.contract.records import TunedRow
from build_tools.frame import Frame
from build_tools.manifest.problems import Problems, suggestion

REQUIRED: Final = ("target", "cus", "kernel", "variant", "types")
_NOTES: Final = ("us", "source")


def read_tuned(
    path: Path,
    frame: Frame,
    recipes: Mapping[tuple[str, str, str], int],
    target: str,
    targets: set[str],
    problems: Problems,
) -> tuple[tuple[int, ...], tuple[TunedRow, ...]]:
    """(slots that the rows compare, rows for ``target``), sorted; what is wrong goes to ``problems`` with its line.

    ``recipes``: (kernel, variant, types) to the recipe's place. Rows of kernels that are in another bundle are left out.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = [
            (number, text) for number, text in enumerate(file, start=1) if text.strip() and text[0] != "#"
        ]
    table = list(csv.reader(text for _, text in lines))
    header = [name.strip() for name in table[0]] if table else []
    missing = [name for name in REQUIRED if name not in header]
    symbols = [name for name in header if name not in (*REQUIRED, *_NOTES)]
    for name in missing:
        problems.add(f"column {name!r} is missing")
    for name in symbols:
        if name not in frame.slots:
            problems.add(
                f"column {name!r} is not a dim or integer attribute of {frame.name}{suggestion(name, frame.slots)}"
            )
    if missing or any(name not in frame.slots for name in symbols):
        return (), ()
    rows: list[TunedRow] = []
    for (number, _), cells in zip(lines[1:], table[1:], strict=True):
        with problems.at(f"line {number}"):
            rows += _row(
                dict(zip(header, cells, strict=False)),
                len(cells),
                header,
                symbols,
                recipes,
                target,
                targets,
                problems,
            )
    seen: set[tuple[object, ...]] = set()
    for row in rows:
        key = (row.cus, row.values, row.recipe)
        if key in seen:
            problems.add(
                f"two rows for {row.cus} compute units and {dict(zip(symbols, row.values, strict=True))}"
            )
        seen.add(key)
    slots = tuple(frame.slots.index(name) for name in symbols)
    return slots, tuple(sorted(rows, key=lambda row: (row.cus, row.values, row.recipe)))


def _row(
    row: dict[str, str],
    width: int,
    header: list[str],
    symbols: list[str],
    recipes: Mapping[tuple[str, str, str], int],
    target: str,
    targets: set[str],
    problems: Problems,
) -> Iterator[TunedRow]:
    if width != len(header):
        problems.add(f"{width} cells, the header has {len(header)}")
        return
    row = {name: cell.strip() for name, cell in row.items()}
    if row["target"] not in targets:
        problems.add(f"{row['target']!r} is not a known target{suggestion(row['target'], targets)}")
        return
    numbers = {}
    for name in ("cus", *symbols):
        if not row[name].isdecimal() or int(row[name]) > INT64_MAX:
            problems.add(f"{name} is {row[name]!r}, not a number")
            return
        numbers[name] = int(row[name])
    if row["target"] != target or row["kernel"] not in {kernel for kernel, _, _ in recipes}:
        return
    place = recipes.get((row["kernel"], row["variant"], row["types"]))
    if place is None:
        problems.add(
            f"kernel {row['kernel']!r} has no variant {row['variant']!r} for the types {row['types']!r} on {target}"
        )
        return
    yield TunedRow(numbers["cus"], place, tuple(numbers[name] for name in symbols))
