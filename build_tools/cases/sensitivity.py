"""Would the cases notice a wrong kernel? Each input, option and default is moved in the reference alone, and at least one call's
answer must refuse what comes of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from build_tools.cases import make, numbers
from build_tools.cases.bind import Bound
from build_tools.cases.make import Question
from build_tools.cases.noticing import (
    Change,
    Noticing,
    Values,
    dropped,
    given,
    kind_of,
    with_tensor,
    with_value,
)
from build_tools.cases.table import Cases
from build_tools.errors import ManifestError
from build_tools.manifest.model import Target
from build_tools.manifest.problems import suggestion
from build_tools.manifest.python import Parameter


@dataclass(frozen=True, slots=True)
class Blind:
    """An input or option to which all calls of an operator are blind.

    ``needless``: it is declared to be no matter, and calls notice it.
    """

    operator: str
    what: str
    file: str
    needless: bool = False

    def __str__(self) -> str:
        if self.needless:
            return f"{self.file}: {self.operator}.insensitive.{self.what}: calls notice it; take the line out"
        return f"{self.file}: {self.operator}: no call notices {self.what}"


#: Calls that are asked whether a declaration is needed: what is no matter, no call notices, and asking all takes minutes.
_FEW: Final = 6


def _noticed(noticing: Noticing, move: _Move) -> bool | None:
    """Tell whether a call refuses a changed result.

    None when the change can be made nowhere. Where the change gives no result, another call must show it.
    """
    found: bool | None = None
    for place, bound in enumerate(noticing.bounds):
        for changed in move.change(noticing.question(place)) if move.possible(bound) else ():
            found = False
            if noticing.notices(place, changed):
                return True
    return found


def check(cases: Cases, target: str, facts: Target) -> Iterator[Blind]:
    """Everything that the calls of one operator would not notice, but for what ``insensitive`` declares, and what it declares
    without need.

    Raises:
        ManifestError: a call cannot be made, or ``insensitive`` names nothing that is moved.
    """
    noticing = Noticing(cases, make.bounds(cases, target, facts))
    known = {name for name, served in cases.subject.covered.items() if len(served) > 1}
    known |= {*cases.subject.type_of.values(), *cases.subject.dims()}
    asked = {*cases.subject.open(), *cases.subject.dims()}
    known |= {f"{kernel}.{name}" for kernel in cases.subject.kernels for name in asked}
    for move in _moves(cases):
        known.add(move.name)
        if move.name not in cases.insensitive:
            noticed = _noticed(noticing, move)
            if noticed is False or (noticed is None and move.must):
                yield Blind(cases.subject.name, move.what, cases.file)
    yield from _needless(cases, noticing.bounds)
    for name, what in _unused(cases, noticing.bounds):
        if name not in cases.insensitive:
            yield Blind(cases.subject.name, what, cases.file)
    for name in cases.insensitive:
        if name not in known:
            where = f"{cases.file}: {cases.subject.name}.insensitive.{name}"
            raise ManifestError([f"{where}: nothing of this name is moved{suggestion(name, known)}"])


def _needless(cases: Cases, bounds: Iterable[Bound]) -> Iterator[Blind]:
    of_each: dict[str, Bound] = {}
    for bound in bounds:  # of the calls that differ in types alone, one
        of_each.setdefault(bound.words.text, bound)
    few = Noticing(cases, list(of_each.values())[:_FEW])
    noticed: dict[str, bool] = {}
    for move in _moves(cases):
        if move.name in cases.insensitive and noticed.get(move.name, True):
            noticed[move.name] = bool(_noticed(few, move))
    for name in noticed:
        if noticed[name]:
            yield Blind(cases.subject.name, name, cases.file, needless=True)


def _always(bound: Bound) -> bool:
    del bound
    return True


@dataclass(frozen=True, slots=True)
class _Move:
    """``must``: a change that can be made in no call is a gap too; ``possible``: whether it can be made in a call at all, before
    inputs are drawn for it.
    """

    name: str
    what: str
    change: Change
    must: bool
    possible: Callable[[Bound], bool] = _always


def _moves(cases: Cases) -> Iterator[_Move]:
    for spec in cases.subject.arguments:
        name = spec.name
        if spec.role == "out" or cases.subject.parameter(name) is None:
            continue
        scaled, shifted = _tensor(name, _scaled), _tensor(name, _shifted)
        there, floats = _given_in(name), _floats_in(name)
        # Indices are not scaled and single numbers not shifted, but where neither can be done every call leaves the tensor empty.
        yield _Move(name, f"{name} with other values", _either(scaled, shifted), must=True, possible=there)
        yield _Move(name, f"{name} scaled by 1 + 2^-6", scaled, must=False, possible=floats)
        yield _Move(name, f"{name} with its rows shifted by one", shifted, must=False, possible=there)
        if spec.optional:
            yield _Move(name, f"{name} left out", dropped(name), must=True, possible=there)
            yield _Move(name, f"{name} given where it is left out", given(cases, name), must=True)
    for parameter in cases.subject.options():
        name = parameter.name
        yield _Move(name, f"{name} moved", _option(cases, parameter, stated=True), must=True)
        if not parameter.required and parameter.default is not None:
            what = f"the default of {name} moved"
            yield _Move(name, what, _option(cases, parameter, stated=False), must=True)
    read = inspect.signature(cases.reference.functions[cases.subject.name]).parameters
    for name in cases.subject.names_of_kernels():
        if name in read:
            yield _Move(name, f"{name} left out", _unnamed(name), must=True)


def _given_in(name: str) -> Callable[[Bound], bool]:
    return lambda bound: bound.tensors.get(name) is not None


def _floats_in(name: str) -> Callable[[Bound], bool]:
    """Make a test for tensors that :func:`_scaled` can move.

    They are floats, and a lone integer.
    """

    def possible(bound: Bound) -> bool:
        layout = bound.tensors.get(name)
        return layout is not None and (not numbers.is_integer(layout.dtype) or math.prod(layout.shape) == 1)

    return possible


def _unused(cases: Cases, bounds: Iterable[Bound]) -> Iterator[tuple[str, str]]:
    """Values that are served and that no call has: of options, and of parameters that choose an element type."""
    bounds = list(bounds)
    for name, served in cases.subject.covered.items():
        if len(served) > 1:
            said = [bound.words.values.get(name, _default(cases, name)) for bound in bounds]
            yield from (
                (name, f"{name}={value!r}, which no call has") for value in served if value not in said
            )
    for tensor, name in cases.subject.type_of.items():
        variable = cases.subject.tensors()[tensor].type
        chosen = {None if bound.values[name] is None else bound.types[variable] for bound in bounds}
        wanted = [*cases.subject.types[variable], *([None] if _default(cases, name) is None else [])]
        yield from ((name, f"{name}={kind}, which no call has") for kind in wanted if kind not in chosen)


def _default(cases: Cases, name: str) -> Any:
    parameter = cases.subject.parameter(name)
    return None if parameter is None or parameter.required else parameter.default


def _tensor(name: str, move: Callable[[Values, str], Values]) -> Change:
    def change(question: Question) -> list[Question]:
        values = question.inputs.get(name)
        if values is None or values.size == 0:
            return []
        with np.errstate(all="ignore"):
            moved = move(values, kind_of(question, name))
        same = np.array_equal(moved, values, equal_nan=values.dtype.kind == "f")
        return [] if same else [with_tensor(question, name, moved)]

    return change


def _either(first: Change, second: Change) -> Change:
    return lambda question: first(question) or second(question)


def _scaled(values: Values, kind: str) -> Values:
    """Floats a little larger, a lone integer one more; indices are moved by the shift of rows alone."""
    if numbers.is_integer(kind):
        return values + 1 if values.size == 1 else values
    return values * (1 + 2.0**-6)


def _shifted(values: Values, kind: str) -> Values:
    """Rows of the last dim, one further; single numbers where there are no rows."""
    del kind
    wide = values.ndim > 1 and values.shape[-1] > 1
    return np.roll(values.reshape(-1, values.shape[-1]) if wide else values.ravel(), 1, axis=0).reshape(
        values.shape
    )


def _unnamed(name: str) -> Change:
    """Make a change that chooses the named kernel without its name."""

    def change(question: Question) -> list[Question]:
        bound = question.bound
        if not bound.values.get(name):
            return []
        return [with_value(question, name, None)]

    return change


def _option(cases: Cases, parameter: Parameter, *, stated: bool) -> Change:
    """Make a change that moves a parameter.

    ``stated``: in calls that give it, or in those that leave it to its default.
    """
    name = parameter.name

    def change(question: Question) -> list[Question]:
        if (name in question.bound.stated) != stated:
            return []
        value = question.bound.values[name]
        return [
            with_value(question, name, other)
            for other in _others(parameter, value, cases.subject.covered.get(name, ()))
        ]

    return change


def _others(parameter: Parameter, value: Any, served: tuple[Any, ...]) -> list[Any]:
    """Other values that a wrong kernel might take ``value`` for."""
    if served:
        return [other for other in served if other != value]
    if value is None:
        return []
    if parameter.kind == "bool":
        return [not value]
    if parameter.kind == "int":
        return [value + 1, value - 1]
    return [value * 1.125 if value else 0.125] if parameter.kind == "float" else []


def check_all(
    known: Mapping[str, Cases], targets: Mapping[str, Target], operators: Collection[str] = ()
) -> tuple[list[Blind], dict[str, str]]:
    """Find inputs and options that no call notices.

    The second value lists those that are declared to be no matter: ``operator.name`` -> reason. ``operators`` narrows the search.

    Raises:
        ManifestError: a call cannot be made.
    """
    blind: list[Blind] = []
    for name, cases in known.items():
        if operators and name not in operators:
            continue
        served = next((target for target in targets if target in cases.subject.targets), next(iter(targets)))
        blind += check(cases, served, targets[served])
    declared = {
        f"{name}.{what}": reason
        for name, cases in known.items()
        for what, reason in cases.insensitive.items()
    }
    for name, cases in known.items():
        if cases.unasked:
            declared[f"two values of each size of {name}, yet"] = cases.unasked
    return blind, declared
