"""The tables that ``tune`` writes: rows with where and how they were measured, written whole or not at all, and continued."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.errors import OtherTableError, TunedTableError

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle
    from aiter_prebuilt.devices.device import DeviceFacts
    from aiter_prebuilt.tuning.outcome import Measured

MEASURED: Final = "measured"
_BETWEEN: Final = "; "
_NOTES: Final = ("us", "source")
#: Calls that a table cannot tell from each other share a row, where they have the same winner.
_AND: Final = " | "
_DIGEST: Final = 12


@dataclass(frozen=True, slots=True)
class Place:
    """The device, driver and bundle that times belong to. A table is continued only with the same ones."""

    target: str
    cus: int
    device: str
    driver: str
    bundle: str

    def fields(self) -> tuple[tuple[str, str], ...]:
        """Name and value of what is compared, in the order of ``source``."""
        return (("device", self.device), ("driver", self.driver), ("bundle", self.bundle))


def place_of(facts: DeviceFacts, bundles: Sequence[Bundle]) -> Place:
    """Describe a device with its bundles. A bundle's header has the hashes of all else of it."""
    headers = b"".join(bundle.header for bundle in bundles)
    digest = hashlib.sha256(headers).hexdigest()[:_DIGEST]
    return Place(
        facts.target,
        facts.compute_units,
        _clean(facts.name),
        str(facts.driver_version),
        f"{bundles[0].version} {digest}",
    )


def _clean(text: str) -> str:
    """Drop from a device's name what separates fields."""
    return " ".join(text.replace(";", " ").replace("|", " ").split())


@dataclass(frozen=True, slots=True)
class _TunedRow:
    """One row as it stands in a table, with the calls that it answers."""

    values: tuple[int, ...]
    kernel: str
    variant: str
    types: str
    us: str
    source: str
    calls: tuple[str, ...]


class TableFolder:
    """The tables of one folder, one for each operator, as they are and as they grow."""

    def __init__(self, folder: Path, place: Place) -> None:
        """Read what an earlier run left.

        Raises:
            OtherTableError: a table was measured elsewhere, or not by ``tune``.
            TunedTableError: a table cannot be read.
        """
        self._folder, self._place = folder, place
        self._columns: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, list[_TunedRow]] = {}
        for path in sorted(folder.glob("*.csv")) if folder.is_dir() else ():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            table = tuned_grammar.read(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise TunedTableError(
                f"read the table {path}", str(error), "Name another folder: --output FOLDER"
            ) from error
        for problem in table.problems:
            raise TunedTableError(f"read the table {path}, {problem.place}", problem.text, problem.fix)
        columns = tuple(name for name, _ in table.symbols)
        self._columns[path.stem] = columns
        self._rows[path.stem] = [self._row(path, row) for row in table.rows]

    def _row(self, path: Path, row: tuned_grammar.TableRow) -> _TunedRow:
        parts = row.source.split(_BETWEEN)
        said = dict(part.partition(" ")[::2] for part in parts)
        asked, fix = f"go on with the table {path}, line {row.line}", "Name another folder: --output FOLDER"
        if parts[0] != MEASURED or "call" not in said:
            raise OtherTableError(asked, "aiter-prebuilt tune did not write this row", fix)
        for name, mine in (("target", self._place.target), ("compute units", str(self._place.cus))):
            theirs = row.target if name == "target" else str(row.cus)
            if theirs != mine:
                raise OtherTableError(asked, f"it is for the {name} {theirs}, and here are {mine}", fix)
        for name, mine in self._place.fields():
            if said.get(name) != mine:
                found = f"it was measured with the {name} {said.get(name, '(none)')}, and here is {mine}"
                raise OtherTableError(asked, found, fix)
        calls = tuple(said["call"].split(_AND))
        return _TunedRow(row.values, row.kernel, row.variant, row.types, row.us, row.source, calls)

    @property
    def done(self) -> frozenset[str]:
        """The calls that have a row, in words."""
        return frozenset(call for rows in self._rows.values() for row in rows for call in row.calls)

    @property
    def files(self) -> list[str]:
        """The tables, by path."""
        return [str(self._folder / f"{operator}.csv") for operator in sorted(self._rows)]

    def add(self, found: Measured, clock: int | None) -> str:
        """Add the row of a call whose winner is known, and write its table.

        A table holds no negative numbers: a column that would have one goes, and its rows are about every value of that option.

        Returns:
            The call that the row is not told apart from, in a sentence; "" where there is none.

        Raises:
            TunedTableError: the folder cannot be written.
        """
        best = found.candidates[found.best or 0]
        operator = found.operator
        before = self._columns.get(operator) or tuple(found.symbols)
        columns = tuple(name for name in before if found.symbols.get(name, 0) >= 0)
        values = tuple(found.symbols.get(name, 0) for name in columns)
        default = found.default
        source = [
            MEASURED, *(" ".join(each) for each in self._place.fields()),
            f"clock {f'{clock} MHz' if clock else 'unknown'}", f"warm {best.warm_us:.2f}", f"spread {best.spread:.3f}",
            f"default {default.cold_us:.2f}" if default and default.cold_us else "default unknown",
        ]  # fmt: skip
        rows = _without(self._rows.get(operator, []), before, columns)
        row = _TunedRow(
            values,
            best.kernel,
            best.variant,
            best.types,
            f"{best.cold_us:.2f}",
            _BETWEEN.join(source),
            (found.words,),
        )
        rows, note = _with(rows, row)
        self._write(operator, columns, rows)
        self._columns[operator], self._rows[operator] = columns, rows
        return note

    def _write(self, operator: str, columns: tuple[str, ...], rows: Iterable[_TunedRow]) -> None:
        """Write beside the table, then put it into its place: a reader sees the old one or the new one."""
        cells = [
            (self._place.target, str(self._place.cus), *map(str, row.values), row.kernel, row.variant, row.types, row.us,
             _source(row))
            for row in rows
        ]  # fmt: skip
        path = self._folder / f"{operator}.csv"
        beside = path.with_suffix(f".{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(tuned_grammar.write(operator, columns, cells, _NOTES), encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise TunedTableError(
                f"write the table {path}", str(error), "Name another folder: --output FOLDER"
            ) from error


def _without(rows: Sequence[_TunedRow], before: tuple[str, ...], columns: tuple[str, ...]) -> list[_TunedRow]:
    """Drop the columns that are not kept; rows that become equal are joined."""
    out: list[_TunedRow] = []
    for row in rows:
        kept = tuple(value for name, value in zip(before, row.values, strict=True) if name in columns)
        out, _ = _with(out, replace(row, values=kept))
    return out


def _source(row: _TunedRow) -> str:
    kept = [part for part in row.source.split(_BETWEEN) if not part.startswith("call ")]
    return _BETWEEN.join([*kept, f"call {_AND.join(row.calls)}"])


def _with(rows: Sequence[_TunedRow], new: _TunedRow) -> tuple[list[_TunedRow], str]:
    """Add a row. One with the same key and winner is joined; one with another winner stands before it, and the note says so."""
    note = ""
    out = list(rows)
    for place, row in enumerate(rows):
        if (row.values, row.types) != (new.values, new.types):
            continue
        if (row.kernel, row.variant) == (new.kernel, new.variant):
            out[place] = replace(row, calls=(*row.calls, *new.calls))
            return out, ""
        note = f"a table cannot tell it from {row.calls[0]}, whose {row.kernel}[{row.variant}] goes first where it takes the call"
    return [*out, new], note
