"""Rows that an upstream measured (``tuned_from``), as tuned rows of an operator: which shape, which device, which recipe.

A row names a kernel in its upstream's words; a kernel of ours says how it is called there (``measured``). What a row says beside
that, in how many parts a sum is split for example, must be what the recipe does for that shape, or the row is no word about it.
Every row that is about the operator and names nothing here is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from aiter_prebuilt.contract.bytecode import ExpressionError, evaluate, slots_of
from aiter_prebuilt.contract.records import TunedRow
from build_tools.manifest.model import Kernel, TunedFrom
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan import rows as tables
from build_tools.plan.programs import code_of
from build_tools.plan.ranges import Range, decided, where
from build_tools.plan.slots import COMPUTE_UNITS, Slots
from build_tools.plan.variants import Variant
from build_tools.records import Constant, MeasuredTable, TargetFacts, UnusedRow

_NOTHING: Final = "no kernel here has this name"
_BEFORE: Final = "stands before it"
_FASTER: Final = "is faster"


def kind_of(why: str) -> str:
    """Return the kind of a reason.

    Details of the one row are left out.
    """
    for words in (_BEFORE, _FASTER):
        if why.endswith(words):
            return f"another row about the shape {words}"
    return (
        why
        if why == _NOTHING or why.startswith("refused by ")
        else "the kernel does otherwise than the row says"
    )


@dataclass(frozen=True, slots=True)
class Called:
    """The name of a recipe in measured rows, and its conditions.

    A row must agree with columns with texts, and columns with programs.
    """

    recipe: int
    name: tuple[tuple[str, str], ...]
    equal: tuple[tuple[str, bytes], ...]


class _Shape(NamedTuple):
    """The subject of a row: a device, and values of compared slots."""

    cus: int
    values: tuple[int, ...]


class _MeasuredRow(NamedTuple):
    table: str
    line: int
    shape: _Shape
    cells: tables.Cells


@dataclass
class _Table:
    name: str
    rows: int = 0
    meant: int = 0
    taken: list[int] = field(default_factory=list)
    shapes: int = 0
    unused: list[UnusedRow] = field(default_factory=list)
    decided: list[tuple[int, TunedRow]] = field(default_factory=list)

    def as_table(self, operator: str, target: str, profile: str) -> MeasuredTable:
        """For the plan."""
        lines, unused = tuple(sorted(self.taken)), tuple(sorted(self.unused))
        return MeasuredTable(
            operator, target, profile, self.name, self.rows, self.meant, lines, self.shapes, unused, tuple(self.decided)
        )  # fmt: skip


def called(kernel: Kernel, variant: Variant, slots: Slots, recipe: int, problems: Problems) -> list[Called]:
    """List the names by which measured rows call this variant.

    Empty when its kernel does not say.
    """
    if kernel.measured is None:
        return []
    scope, words = variant.scope(slots), variant.filling
    names = []
    for column, text in kernel.measured.name.items():
        try:
            names.append((column, tables.filled(text, words)))
        except tables.TemplateError as error:
            problems.add(str(error), "measured", "name", column)
    equal = [
        (column, code_of(text, scope, problems, "measured", "equal", column))
        for column, text in kernel.measured.equal.items()
    ]
    return [Called(recipe, tuple(names), tuple((column, code) for column, code in equal if code))]


#: Slots that the rows compare, the rows, what came of each table.
Imported = tuple[tuple[int, ...], tuple[TunedRow, ...], list[MeasuredTable]]


class Importer:
    """The tables of one operator for one target."""

    def __init__(
        self, said: TunedFrom, slots: Slots, names: Sequence[Called], target: TargetFacts, profile: str, root: Path,
        problems: Problems,
    ) -> None:  # fmt: skip
        self.said, self.slots, self.target, self.profile = said, slots, target, profile
        self.root, self.problems = root, problems
        #: Columns of a name -> its texts -> what is called so: a row is compared with none that it does not name.
        self.calls: dict[tuple[str, ...], dict[tuple[str, ...], list[Called]]] = {}
        for each in names:
            columns, texts = tuple(column for column, _ in each.name), tuple(text for _, text in each.name)
            self.calls.setdefault(columns, {}).setdefault(texts, []).append(each)
        self.columns = {column for each in names for column, _ in (*each.name, *each.equal)}
        self.compared = [*said.dims, *said.fixed]
        self.padded = next(iter(said.padded), None)
        self.padding: dict[tuple[bytes, tuple[int, ...]], Callable[[int], int]] = {}

    def rows(self) -> Imported:
        """Return the rows for this target.

        Raises:
            FetchError: a source tree has no such table.
        """
        if not self._check():
            return (), (), []
        made: list[TunedRow] = []
        listed = [_Table(name) for name in self.said.tables]
        of = {table.name: table for table in listed}
        groups: dict[tuple[Constant, ...], dict[int, _MeasuredRow]] = {}
        for table in listed:
            for row in self._read(table):
                self._sort_in(row, groups, of)
        for group in groups.values():
            made += self._decide(group, of)
        slots = tuple(self.slots.names.index(name) for name in self.compared)
        told = [table.as_table(self.slots.name, self.target.name, self.profile) for table in listed]
        return slots, tuple(sorted(made, key=lambda row: (row.cus, row.values, row.recipe))), told

    def _check(self) -> bool:
        """Do the names mean something? What does not goes to the problems."""
        before = len(self.problems.lines)
        for key, names in (("dims", self.said.dims), ("fixed", self.said.fixed)):
            for name in names:
                if name not in self.slots.names or name == COMPUTE_UNITS:
                    text = f"{name!r} is not a dim or integer attribute of {self.slots.name}"
                    self.problems.add(f"{text}{suggestion(name, self.slots.names)}", key, name)
        for name in self.said.fixed.keys() & self.said.dims.keys():
            self.problems.add(f"{name!r} has a column already", "fixed", name)
        for name, texts in self.said.padded.items():
            if name not in self.said.dims:
                self.problems.add(f"{name!r} has no column{suggestion(name, self.said.dims)}", "padded", name)
            for place, text in enumerate(texts):
                code_of(text, self.slots.scope(), self.problems, "padded", name, place)
        if not self.calls:
            self.problems.add("no kernel says how rows name it: write measured", "tables")
        return len(self.problems.lines) == before

    def _read(self, table: _Table) -> Iterable[_MeasuredRow]:
        """Return the rows that are about this operator and target."""
        before = len(self.problems.lines)
        header, lines = tables.numbered(table.name, self.root, self.problems)
        table.rows = len(lines)
        known = {*header, *self.said.defaults}
        said = (text for text in self.said.dims.values() if text.isidentifier())
        told = [self.said.fastest] if self.said.fastest else []
        for column in (self.said.cus, *said, *self.said.apart, *told, *sorted(self.columns)):
            if lines and column not in known:
                self.problems.add(f"{column!r} is not a column of {table.name}{suggestion(column, known)}")
        if len(self.problems.lines) > before:
            return []
        rows = [{**self.said.defaults, **row} for row in lines.values()]
        kept = tables.chosen(self.said.rows, rows, self.target.name, self.problems)
        found = []
        for line, there, row in zip(lines, kept, rows, strict=True):
            if not there:
                continue
            try:
                numbers = self._numbers(row)
            except ExpressionError as error:
                self.problems.add(str(error), "dims")
                return []
            if not all(isinstance(number, int) and number >= 0 for number in numbers):
                self.problems.add(f"{table.name}, line {line}: a size is no number")
            elif numbers[0] in self.target.cus:
                cus, *sizes = map(int, numbers)
                shape = _Shape(cus, (*sizes, *self.said.fixed.values()))
                found.append(_MeasuredRow(table.name, line, shape, row))
        table.meant = len(found)
        return found

    def _numbers(self, row: tables.Cells) -> list[Constant]:
        """Compute units, and the size of each dim.

        Raises:
            ExpressionError: an expression of columns that are not there, or are texts.
        """
        sizes = (tables.cell(text, row, self.target.name) for text in self.said.dims.values())
        return [row[self.said.cus], *sizes]

    def _sort_in(
        self,
        row: _MeasuredRow,
        groups: dict[tuple[Constant, ...], dict[int, _MeasuredRow]],
        of: Mapping[str, _Table],
    ) -> None:
        """Rows that differ in the padded dim alone stand together: they share the calls between them. Those that stand ``apart``
        share none: the recipes' conditions and types tell their calls from each other.
        """
        size = row.shape.values[self._place] if self.padded else 0
        others = (row.cells[column] for column in self.said.apart)
        group = groups.setdefault((row.shape.cus, *self._but(row.shape.values), *others), {})
        first = group.setdefault(size, row)
        if first is row:
            return
        if self._faster(row, first):
            group[size], why, left = row, f"{row.table}, line {row.line} {_FASTER}", first
        else:
            why, left = f"{first.table}, line {first.line} {_BEFORE}", row
        of[left.table].unused.append(self._unused(left, why))

    def _faster(self, row: _MeasuredRow, first: _MeasuredRow) -> bool:
        column = self.said.fastest
        try:
            return column is not None and float(row.cells[column]) < float(first.cells[column])
        except ValueError:  # no number: the row that stands first
            return False

    @property
    def _place(self) -> int:
        return self.compared.index(str(self.padded))

    def _but(self, values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(value for name, value in zip(self.compared, values, strict=True) if name != self.padded)

    def _decide(self, group: Mapping[int, _MeasuredRow], of: Mapping[str, _Table]) -> Iterable[TunedRow]:
        """Return the tuned rows of a group.

        A row that names nothing keeps its calls from the others, as in the look-up.
        """
        ranges: dict[int, list[Range]]
        try:
            one = next(iter(group.values())).shape
            ranges = decided(group, self._paddings(one))
        except ExpressionError as error:
            self.problems.add(str(error), "padded", str(self.padded))
            return
        for size, row in group.items():
            table = of[row.table]
            found, why = self._recipes(row)
            if not found:
                table.unused.append(self._unused(row, why))
                continue
            table.taken.append(row.line)
            for each in found:
                mine = self._agreed(each, row, ranges[size])
                table.shapes += len(mine)
                for span in mine:
                    made = self._tuned(row, each, span)
                    table.decided.append((row.line, made))
                    yield made

    def _paddings(self, shape: _Shape) -> list[Callable[[int], int]]:
        """Specialise the padding programs to the group.

        Groups that are padded alike have equal ones.
        """
        known = dict(zip(self.compared, shape.values, strict=True)) | {COMPUTE_UNITS: shape.cus}
        scope = self.slots.scope({name: value for name, value in known.items() if name != self.padded})
        texts = self.said.padded.get(str(self.padded), [])
        return [self._padding(code_of(text, scope, self.problems, "padded"), shape) for text in texts]

    def _padding(self, code: bytes, shape: _Shape) -> Callable[[int], int]:
        """One function for all groups that are padded alike: it is asked for the same few sizes again and again."""
        values, place = self._slots(shape, 0), self.slots.names.index(str(self.padded))

        @cache
        def padded(size: int) -> int:
            return evaluate(code, [*values[:place], size, *values[place + 1 :]])

        others = tuple(values[slot] for slot in sorted(slots_of(code) - {place}))
        return self.padding.setdefault((code, others), padded)

    def _agreed(self, each: Called, row: _MeasuredRow, ranges: list[Range]) -> list[Range]:
        """Select the ranges in which the recipe does the row's work.

        The work may depend on the size that is padded. At the row's own size it agrees (``_recipes``), so one that reads no such
        size agrees everywhere.
        """
        if not self.padded:
            return ranges
        place = self.slots.names.index(self.padded)
        if not any(place in slots_of(code) for _, code in each.equal):
            return ranges
        return where(ranges, lambda size: not self._differs(each, row, size))

    def _recipes(self, row: _MeasuredRow) -> tuple[list[Called], str]:
        """Find the recipes that the row names and that agree.

        Or the reason why there is none.
        """
        named = [
            each
            for columns, calls in self.calls.items()
            for each in calls.get(tuple(str(row.cells[column]) for column in columns), ())
        ]
        size = row.shape.values[self._place] if self.padded else 0
        differences = {each.recipe: self._differs(each, row, size) for each in named}
        return [each for each in named if not differences[each.recipe]], next(
            iter(differences.values()), _NOTHING
        )

    def _differs(self, each: Called, row: _MeasuredRow, size: int) -> str:
        """In what the recipe does otherwise than the row says when the padded dim has this size; "" when in nothing."""
        for column, code in each.equal:
            try:
                value = evaluate(code, self._slots(row.shape, size))
            except ExpressionError as error:
                return f"{column} cannot be computed: {error}"
            if str(value) != str(row.cells[column]):
                return f"{column} is {row.cells[column]} there and {value} here"
        return ""

    def _slots(self, shape: _Shape, size: int) -> list[int]:
        values = dict(zip(self.compared, shape.values, strict=True)) | {COMPUTE_UNITS: shape.cus}
        if self.padded:
            values[self.padded] = size
        return [values.get(name, 0) for name in self.slots.names]

    def _tuned(self, row: _MeasuredRow, each: Called, span: Range) -> TunedRow:
        first, last = list(row.shape.values), list(row.shape.values)
        if self.padded:
            first[self._place], last[self._place] = span
        return TunedRow(row.shape.cus, each.recipe, tuple(first), tuple(last) if last != first else ())

    def _unused(self, row: _MeasuredRow, why: str) -> UnusedRow:
        sizes = zip(self.said.dims, row.shape.values, strict=False)  # fixed values stand behind
        shape = ", ".join(f"{name} = {size}" for name, size in sizes)
        named = ", ".join(f"{column} = {row.cells[column]}" for column in sorted(self.columns))
        return UnusedRow(row.line, f"{row.shape.cus} compute units, {shape}: {named}", why)
