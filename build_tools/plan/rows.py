"""Tables as an axis of variants: the rows of a CSV file, of a source tree or of the repository, as tables of constants.

Columns are constants: integers where all cells of a column are, text otherwise. What AITER calls the object's file (``co_name``,
``knl_file``) and the kernel (``knl_name``) has one name here, ``FILE`` and ``SYMBOL``, whichever the table's age.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.bytecode import ExpressionError, constant_value, evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from build_tools.errors import FetchError
from build_tools.manifest.model import Rows
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan.programs import names_of
from build_tools.records import Constant
from build_tools.tools import tree

FILE: Final = "FILE"
SYMBOL: Final = "SYMBOL"
_KNOWN: Final = {"co_name": FILE, "knl_file": FILE, "knl_name": SYMBOL}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_WORD: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

Cells = dict[str, Constant]


class TemplateError(ValueError):
    """A word in braces that nothing fills in."""


def filled(text: str, words: Mapping[str, object]) -> str:
    """``text`` with its words in braces filled in.

    Raises:
        TemplateError: one has no value.
    """

    def word(match: re.Match[str]) -> str:
        if match[1] not in words:
            raise TemplateError(f"{text!r} has {match[0]}, which is no constant{suggestion(match[1], words)}")
        value = words[match[1]]
        return str(int(value)) if isinstance(value, bool) else str(value)

    return _WORD.sub(word, text)


def rows_of(said: Rows, target: str, root: Path, problems: Problems) -> list[Cells]:
    """Select the table's rows for ``target``, in order.

    Each has its ``name``.

    Raises:
        FetchError: a source tree has no such table.
    """
    try:
        table = filled(said.table, {"target": target})
    except TemplateError as error:
        problems.add(str(error), "table")
        return []
    header, rows = read(table, root, problems)
    if not rows:
        return []
    columns = _columns(said, table, header, problems)
    cells = [dict(zip(columns, row, strict=True)) for row in rows.values()]
    _take_apart(said, table, cells, problems)
    typed_rows = [{**said.defaults, **row} for row in typed(cells)]
    before = len(problems.lines)
    kept = chosen(said.rows, typed_rows, target, problems)
    if typed_rows and not any(kept) and len(problems.lines) == before:
        problems.add(f"no row of {table} is left", "rows")
    return _named(said, table, list(itertools.compress(typed_rows, kept)), problems)


def read(table: str, root: Path, problems: Problems) -> tuple[list[str], dict[int, list[str]]]:
    """(names of the columns, cells of each row by its line); what is wrong goes to ``problems``.

    Raises:
        FetchError: there is no such table.
    """
    header, rows, odd = _read(_text(table, root))
    _say(table, header, odd, problems)
    return list(header), rows


def numbered(table: str, root: Path, problems: Problems) -> tuple[list[str], dict[int, Cells]]:
    """Read typed rows of a table, by the names of their columns.

    As :func:`read`. All callers get the same rows and must not change them.

    Raises:
        FetchError: there is no such table.
    """
    text = _text(table, root)
    header, _, odd = _read(text)
    _say(table, header, odd, problems)
    return list(header), _numbered(text)


def _text(table: str, root: Path) -> str:
    if not tree.exists(table, root):
        raise FetchError(f"read {table}", "there is no such file", "Correct table in the manifest")
    return tree.located(table, root).read_text(encoding="utf-8", errors="replace")


def _say(table: str, header: Sequence[str], odd: Iterable[tuple[int, int]], problems: Problems) -> None:
    if not header:
        problems.add(f"{table} has no row", "table")
    for number, cells in odd:
        problems.add(f"{table}, line {number}: {cells} cells under {len(header)} columns", "table")


@lru_cache(maxsize=128)
def _numbered(text: str) -> dict[int, Cells]:
    header, rows, _ = _read(text)
    return dict(zip(rows, typed([dict(zip(header, row, strict=True)) for row in rows.values()]), strict=True))


@lru_cache(maxsize=128)
def _read(text: str) -> tuple[tuple[str, ...], dict[int, list[str]], tuple[tuple[int, int], ...]]:
    """Read a table for all targets and operators that name it.

    As :func:`read`; also (line, cells) of rows with too few or too many.
    """
    kept = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if len(kept) < 2:
        return (), {}, ()
    header, *cells = csv.reader(line for _, line in kept)
    rows, odd = {}, []
    for (number, _), row in zip(kept[1:], cells, strict=True):
        if len(row) != len(header):
            odd.append((number, len(row)))
        else:
            rows[number] = [cell.strip() for cell in row]
    return tuple(name.strip() for name in header), rows, tuple(odd)


def _columns(said: Rows, table: str, names: list[str], problems: Problems) -> list[str]:
    there = {said.rename[name] for name in names if name in said.rename}
    for name in sorted(said.rename.keys() - set(names)):
        if said.rename[name] in there:
            continue  # states of a tree call one column differently
        problems.add(f"{name!r} is not a column of {table}{suggestion(name, names)}", "rename")
    columns = [said.rename.get(name, _KNOWN.get(name, name)) for name in names]
    for name in columns:
        if _NAME.fullmatch(name) is None or name == "name":
            problems.add(f"column {name!r} of {table} can be no constant: rename it", "rename")
        elif columns.count(name) > 1:
            problems.add(f"{table} has two columns {name!r}: rename one", "rename")
    return columns


def _take_apart(said: Rows, table: str, cells: list[dict[str, str]], problems: Problems) -> None:
    """Give each row the constants that are a part of a cell's text."""
    for name, places in said.parts.items():
        with problems.at("parts", name):
            for column, pattern in places.items():
                try:
                    found = [re.search(pattern, row[column]) for row in cells]
                    values = [match[1] if match else None for match in found]
                except KeyError:
                    problems.add(f"{column!r} is not a column of {table}{suggestion(column, cells[0])}")
                    continue
                except (re.error, IndexError) as error:
                    problems.add(f"{pattern!r} is no pattern with a group: {error}")
                    continue
                for row, value in zip(cells, values, strict=True):
                    if value is None:
                        problems.add(f"{pattern!r} is not in {row[column]!r} of {table}")
                        break
                    row[name] = value


def typed(rows: list[dict[str, str]]) -> list[Cells]:
    """Cells as numbers where their whole column is numbers."""
    if not rows:
        return []
    columns = [[row[name] for row in rows] for name in rows[0]]
    values = [list(map(int, cells)) if all(map(_NUMBER.fullmatch, cells)) else cells for cells in columns]
    return [dict(zip(rows[0], row, strict=True)) for row in zip(*values, strict=True)]


def chosen(conditions: Iterable[str], rows: list[Cells], target: str, problems: Problems) -> list[bool]:
    """Tell which rows meet all conditions.

    None do when a condition is wrong.
    """
    kept = [True] * len(rows)
    for place, text in enumerate(conditions):
        try:
            kept = [
                there and bool(constant_value(_code(text, row, target)))
                for there, row in zip(kept, rows, strict=True)
            ]
        except ExpressionError as error:
            problems.add(str(error), "rows", place)
            return [False] * len(rows)
    return kept


def cell(text: str, row: Cells, target: str) -> Constant:
    """Evaluate a column or an expression of columns.

    Raises:
        ExpressionError: it is neither.
    """
    if text in row:
        return row[text]
    return evaluate(_code(text, row, target), ())


#: Programs by text and the cells that it names, of which the rows of a table have few different ones.
_COMPILED: Final[dict[tuple[object, ...], bytes]] = {}


def _code(text: str, row: Cells, target: str) -> bytes:
    key = (text, target, *map(row.get, names_of(text)))
    if key not in _COMPILED:
        _COMPILED[key] = compile_expression(text, _scope(row, target))
    return _COMPILED[key]


def _scope(row: Cells, target: str) -> Scope:
    numbers = {name: int(value) for name, value in row.items() if isinstance(value, int)}
    strings = {name: value for name, value in row.items() if isinstance(value, str)}
    return Scope({}, numbers, None, {**strings, "target": target})


def _named(said: Rows, table: str, rows: list[Cells], problems: Problems) -> list[Cells]:
    """Return the rows with their names.

    What ``name`` says, else their numbers, else the file's stem. Two of one name are a problem.
    """
    named: dict[str, Cells] = {}
    for row in rows:
        try:
            name = _name(said, row)
        except TemplateError as error:
            problems.add(str(error), "name")
            return []
        if name in named:
            problems.add(f"{table}: two rows are called {name!r}: say more in name", "name")
        named[name] = {**row, "name": name}
    return list(named.values())


def _name(said: Rows, row: Cells) -> str:
    if said.name is not None:
        return filled(said.name, row)
    numbers = "".join(f"{name}{value}" for name, value in row.items() if isinstance(value, int))
    return numbers or Path(str(row.get(FILE, "row"))).stem
