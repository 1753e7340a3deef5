"""A user's tuned tables: ``AITER_PREBUILT_TUNED=PATH[:PATH]``, each a table ``OPERATOR.csv`` or a folder of them.

They have the grammar of the manifests' tables (:mod:`aiter_prebuilt.contract.tuned_grammar`) and need no rebuild. For one key
(target, compute units, symbols, types) the row of a later path goes before that of an earlier one, within a file the first row
wins, and all go before the rows of the bundles, but for those that nobody measured (``source`` says ``modelled``), which go
behind. They are read once, and matched natively on the slow path of a call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from aiter_prebuilt.bundles.files import contents, is_folder, not_a_file
from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.contract.error_text import closest
from aiter_prebuilt.contract.targets import NAMES
from aiter_prebuilt.errors import TunedTableError

VARIABLE: Final = "AITER_PREBUILT_TUNED"
SUFFIX: Final = ".csv"
_TARGET: Final = re.compile(r"gfx[0-9a-f]{3,4}|sm_[0-9]{2,3}")

#: ((name, "FILE:LINE:COLUMN"), ...), ((origin, compute units, values, kernel, variant, types), ...), whether they are modelled
NativeTable: TypeAlias = tuple[
    tuple[tuple[str, str], ...], tuple[tuple[str, int, tuple[int, ...], str, str, str], ...], bool
]


@dataclass(frozen=True, slots=True)
class UserTable:
    """One file: the operator that its name says, and its rows."""

    path: str
    operator: str
    table: tuned_grammar.Table


def setting() -> str:
    """Read ``AITER_PREBUILT_TUNED``; "" when it is not set."""
    return os.environ.get(VARIABLE, "")


@lru_cache(maxsize=4)
def read(paths: str) -> tuple[UserTable, ...]:
    """All tables of ``paths`` (separated like ``PATH``), in their order.

    Raises:
        TunedTableError: a path or a table is not what it should be; the text has file, line and column.
    """
    return tuple(_read(path) for part in filter(None, paths.split(os.pathsep)) for path in _files(Path(part)))


def native_tables(operator: str, target: str, cus: int, known: Iterable[str]) -> tuple[NativeTable, ...]:
    """List the tables of ``operator`` for a device.

    The one that wins first, as the native side takes them.

    ``known``: the operators that the device's bundles have.

    Raises:
        TunedTableError: a table cannot be read, or rows for ``target`` are of no operator that is ``known``.
    """
    paths = setting()
    if not paths:
        return ()
    names = frozenset(known)
    found: list[NativeTable] = []
    for user in read(paths):
        rows = [row for row in user.table.rows if row.target == target]
        if rows and user.operator not in names:
            raise _unknown_operator(user, target, names)
        if user.operator == operator and rows:
            columns = tuple(
                (name, f"{user.path}:{user.table.line}:{column}") for name, column in user.table.symbols
            )
            fitting = [row for row in rows if row.cus == cus]
            for modelled in (False, True):
                kept = [row for row in fitting if row.modelled == modelled]
                if kept or not modelled:
                    found.append((columns, tuple(_native_row(user.path, row) for row in kept), modelled))
    found.reverse()
    found.sort(key=lambda table: table[2])  # stable
    return tuple(found)


def _native_row(path: str, row: tuned_grammar.TableRow) -> tuple[str, int, tuple[int, ...], str, str, str]:
    return f"{path}:{row.line}", row.cus, row.values, row.kernel, row.variant, row.types


def _files(place: Path) -> list[Path]:
    if is_folder(place):
        return sorted(place.glob("*" + SUFFIX))
    if place.suffix == SUFFIX and not not_a_file(place):
        return [place]
    if not os.path.lexists(place):
        found = "there is no such file or folder"
    else:
        found = not_a_file(place) or f"it is no table: its name does not end in {SUFFIX}"
    raise TunedTableError(
        f"read the tuned table {place} of {VARIABLE}",
        found,
        f"Name files OPERATOR{SUFFIX} or folders of them, separated by {os.pathsep!r}, or unset {VARIABLE}",
    )


def _read(path: Path) -> UserTable:
    try:
        table = tuned_grammar.read(contents(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise TunedTableError(
            f"read the tuned table {path}, line 1, column 1",
            str(error),
            f"write it as text in UTF-8, or take it out of {VARIABLE}",
        ) from error
    problems = [*table.problems, *filter(None, map(_target_problem, table.rows))]
    if problems:
        first = min(problems, key=lambda problem: (problem.line, problem.column))
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        # A line that is wrong as a whole starts at its first column.
        place = f"line {first.line}, column {max(1, first.column)}"
        raise TunedTableError(
            f"read the tuned table {path}, {place}", first.text + more, first.fix[0].upper() + first.fix[1:]
        )
    return UserTable(str(path), path.stem, table)


def _target_problem(row: tuned_grammar.TableRow) -> tuned_grammar.Problem | None:
    if _TARGET.fullmatch(row.target):
        return None
    text = f"{row.target!r} is not a target"
    return tuned_grammar.Problem(row.line, row.columns["target"], text, f"write one of {NAMES}")


def _unknown_operator(user: UserTable, target: str, known: Iterable[str]) -> TunedTableError:
    close = closest(user.operator, known)
    return TunedTableError(
        f"read the tuned table {user.path}, line 1, column 1",
        f"it has rows for {target}, and no installed bundle of {target} has an operator {user.operator!r}",
        f"Name the file {close}{SUFFIX}" if close else "Name the file as an operator of: aiter-prebuilt list",
    )
