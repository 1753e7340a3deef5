"""Tuned tables: the one grammar for those of the manifests (built into bundles) and those of a user (``AITER_PREBUILT_TUNED``).

A table is CSV in UTF-8; lines that start with ``#`` and empty lines are nothing. The first line names the columns: ``target``,
``cus``, then dims or integer attributes of the operator, then ``kernel``, ``variant``, ``types`` (``bf16``, or ``bf16_e4m3fn``
for two type variables), and any of ``us`` and ``source`` for the reader. A cell may stand in double quotes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiter_prebuilt.contract.bytecode import INT64_MAX

REQUIRED: Final = ("target", "cus", "kernel", "variant", "types")
NOTES: Final = ("us", "source")
#: Far more than an operator has dims and integer attributes.
MOST_COLUMNS: Final = 64
#: Digits of the largest number that a cell may hold.
_DIGITS: Final = len(str(INT64_MAX))
#: Characters of a wrong cell that a message repeats.
_SHOWN: Final = 40
#: What ``source`` says, up to a semicolon, of a time that a model predicted.
MODELLED: Final = "modelled"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a tuned table, with its place and remedy.

    Line and column count from 1; column 0 is the whole line.
    """

    line: int
    column: int
    text: str
    fix: str

    @property
    def place(self) -> str:
        """``line 3, column 8``."""
        return f"line {self.line}" + (f", column {self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: which variant a call with exactly these ``values`` (of the table's symbols) takes on such a device. ``us`` and
    ``source``: its notes, for the reader.
    """

    line: int
    target: str
    cus: int
    values: tuple[int, ...]
    kernel: str
    variant: str
    types: str
    columns: Mapping[str, int]
    us: str = ""
    source: str = ""

    @property
    def modelled(self) -> bool:
        """Tell whether the row comes from the timing model alone."""
        return self.source.partition(";")[0].strip() == MODELLED

    @property
    def place(self) -> str:
        """``line 3, column 1``: where the row's target stands."""
        return f"line {self.line}, column {self.columns['target']}"


@dataclass(frozen=True, slots=True)
class Table:
    """``symbols``: names with the column of the header's line where each stands; ``problems``: everything that is wrong."""

    line: int
    symbols: tuple[tuple[str, int], ...]
    rows: tuple[TableRow, ...]
    problems: tuple[Problem, ...]


def read(text: str) -> Table:
    """Read a whole table; rows that are wrong are left out and stand in ``problems``."""
    lines = [
        (number, line)
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1)
        if line.strip() and line[0] != "#"
    ]
    problems: list[Problem] = []
    number, first = lines[0] if lines else (1, "")
    header = _cells(first)
    _check_header(header, number, problems)
    if problems:
        return Table(number, (), (), tuple(problems))
    symbols = tuple((name, column) for column, name in header if name not in (*REQUIRED, *NOTES))
    rows: list[TableRow] = []
    seen: dict[tuple[object, ...], int] = {}
    for number, line in lines[1:]:
        row = _row(_cells(line), header, symbols, number, problems)
        if row is None:
            continue
        key = (row.target, row.cus, row.values, row.kernel, row.variant, row.types)
        if key in seen:
            what = {name: value for (name, _), value in zip(symbols, row.values, strict=True)}
            twin = f"two rows for {row.cus} compute units and {what}: line {seen[key]} says the same"
            problems.append(Problem(number, row.columns["target"], twin, "remove one"))
            continue
        seen[key] = number
        rows.append(row)
    return Table(lines[0][0], symbols, tuple(rows), tuple(problems))


def _check_header(header: list[tuple[int, str]], number: int, problems: list[Problem]) -> None:
    names = [name for _, name in header]
    wanted = "the first line names the columns: target,cus,M,N,K,kernel,variant,types"
    if len(header) > MOST_COLUMNS:
        text = f"the header names {len(header)} columns; at most {MOST_COLUMNS} can be right"
        problems.append(Problem(number, 0, text, wanted))
        return
    problems += [
        Problem(number, 0, f"column {name!r} is missing", wanted) for name in REQUIRED if name not in names
    ]
    for place, (column, name) in enumerate(header):
        if not name:
            problems.append(Problem(number, column, "a column has no name", wanted))
        elif name in names[:place]:
            problems.append(Problem(number, column, f"column {name!r} stands there twice", "remove one"))


def _row(
    cells: list[tuple[int, str]],
    header: list[tuple[int, str]],
    symbols: tuple[tuple[str, int], ...],
    number: int,
    problems: list[Problem],
) -> TableRow | None:
    if len(cells) != len(header):
        column = cells[min(len(cells), len(header)) - 1][0]
        what = f"{len(cells)} cells, the header has {len(header)}"
        problems.append(Problem(number, column, what, "write one cell for each column; a note may be empty"))
        return None
    named = {name: text for (_, name), (_, text) in zip(header, cells, strict=True)}
    columns = {name: column for (_, name), (column, _) in zip(header, cells, strict=True)}
    before = len(problems)
    numbers = {}
    for name in ("cus", *(symbol for symbol, _ in symbols)):
        text = named[name]
        digits = text.lstrip("0") or text[-1:]
        # Python's int() refuses thousands of digits with an error of its own.
        if not (text.isascii() and text.isdecimal()) or len(digits) > _DIGITS or int(digits) > INT64_MAX:
            fix = "write a number of 0 or more, 304 for example"
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            problems.append(Problem(number, columns[name], f"{name} is {shown!r}, not a number", fix))
            continue
        numbers[name] = int(digits)
    for name in ("target", "kernel", "variant", "types"):
        if not named[name]:
            fix = f"write the {name} that `aiter-prebuilt explain` lists for this shape"
            problems.append(Problem(number, columns[name], f"{name} is empty", fix))
    if len(problems) > before:
        return None
    values = tuple(numbers[name] for name, _ in symbols)
    words = (named["kernel"], named["variant"], named["types"])
    notes = (named.get(name, "") for name in NOTES)
    return TableRow(number, named["target"], numbers["cus"], values, *words, columns, *notes)


def _cells(line: str) -> list[tuple[int, str]]:
    """(column, text) of each cell; a cell in double quotes may have commas, and two double quotes for one."""
    cells: list[tuple[int, str]] = []
    at = 0
    while True:
        while at < len(line) and line[at] in " \t":
            at += 1
        start = at
        text = ""
        if at < len(line) and line[at] == '"':
            at += 1
            while at < len(line) and (line[at] != '"' or line[at : at + 2] == '""'):
                text += line[at]
                at += 2 if line[at] == '"' else 1
            at += 1
        end = line.find(",", at)
        text += line[at : len(line) if end < 0 else end]
        cells.append((start + 1, text.strip()))
        if end < 0:
            return cells
        at = end + 1


def write(
    operator: str,
    symbols: tuple[str, ...],
    rows: list[tuple[str, ...]],
    notes: tuple[str, ...] = ("source",),
) -> str:
    """Return a table's text.

    ``rows`` are cells in the order target, cus, symbols, kernel, variant, types, ``notes``.
    """
    header = ("target", "cus", *symbols, "kernel", "variant", "types", *notes)
    lines = [f"# {operator}", ",".join(header)]
    lines += [
        ",".join('"' + c.replace('"', '""') + '"' if set(c) & set(',"') else c for c in row) for row in rows
    ]
    return "\n".join(lines) + "\n"
