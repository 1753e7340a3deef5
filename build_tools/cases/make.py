"""Cases -> calls with known answers, one at a time: drawn inputs as the bytes of whole allocations, intervals as results."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType
from build_tools.cases import bind, draw, interval, numbers
from build_tools.cases import reference as references
from build_tools.cases.bind import Bound, Layout
from build_tools.cases.near import Near
from build_tools.cases.table import Cases
from build_tools.errors import ManifestError
from build_tools.manifest.model import Target

Values: TypeAlias = npt.NDArray[Any]
#: Elements of all tensors of a call, above which it is large (:func:`by_lot`).
LARGE: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One call before it is answered: ``inputs`` are what the stored bytes mean, None where a tensor is left out."""

    bound: Bound
    inputs: Mapping[str, Values | None]


def questions(
    cases: Cases, target: str, facts: Target, seed: int, *, golden: bool = False
) -> Iterator[Question]:
    """Every call of the operator on ``target``, inputs drawn; ``golden``: that one alone.

    Raises:
        ManifestError: a draw does not fit.
    """
    for bound in bounds(cases, target, facts, golden=golden):
        yield question_of(cases, bound, seed)


def bounds(
    cases: Cases, target: str, facts: Target, *, golden: bool = False, trees: Collection[str] = ()
) -> Iterator[Bound]:
    """Every call of the operator on ``target``, before its inputs are drawn.

    ``golden``: that one alone. ``trees``: calls that name a source tree are made where it is one of these.
    """
    chosen = cases.calls if not golden else (cases.golden,) if cases.golden else ()
    for words in chosen:
        if (not words.targets or target in words.targets) and (not words.tree or words.tree in trees):
            yield from bind.bind(cases.subject, words, facts.fp8)


def by_lot(calls: Sequence[Bound], most: int, lot: Random) -> list[Bound]:
    """``most`` of ``calls`` by lot, in their order. A large call comes after all small ones, but for one: it takes as long as a
    hundred of them, and tells what the others tell.
    """
    first: list[int] = []
    later: list[int] = []
    several = False
    for place in lot.sample(range(len(calls)), len(calls)):
        large = _elements(calls[place]) > LARGE
        (later if large and several else first).append(place)
        several |= large
    return [calls[place] for place in sorted([*first, *later][:most])]


def _elements(bound: Bound) -> int:
    return sum(math.prod(layout.shape) for layout in bound.tensors.values() if layout is not None)


def question_of(cases: Cases, bound: Bound, seed: int) -> Question:
    """One call with its inputs drawn.

    Raises:
        ManifestError: a draw does not fit.
    """
    return Question(bound, _inputs(cases, bound, seed))


def outline(bound: Bound) -> Call:
    """Build a call without data and answers.

    It is enough to find its launch.
    """
    return Call(
        bound.subject.name, bound.label, dict(_arguments(Question(bound, {}))), (), bound.words.compute_units
    )


def _inputs(cases: Cases, bound: Bound, seed: int) -> dict[str, Values | None]:
    inputs: dict[str, Values | None] = {}
    for parameter in cases.subject.parameters:
        if parameter.kind != "Tensor":
            continue
        layout = bound.tensors.get(parameter.name)
        if layout is None:
            inputs[parameter.name] = None
        elif layout.role != "out":
            inputs[parameter.name] = drawn(cases, bound, layout, seed)
    return inputs


def drawn(cases: Cases, bound: Bound, layout: Layout, seed: int) -> Values:
    """Draw the values of one tensor.

    Raises:
        ManifestError: its draw does not fit.
    """
    rng = draw.generator(seed, cases.subject.name, bound.label, layout.name)
    how = bound.words.draws.get(layout.name)
    try:
        values = draw.draw(how, cases.reference.draws, rng, layout.shape, layout.dtype, bound.sizes)
        return _shared(layout, values)
    except ValueError as error:
        raise ManifestError(
            [f"{cases.file}: {cases.subject.name}: {bound.label!r}: {layout.name}: {error}"]
        ) from error


def _shared(layout: Layout, values: Values) -> Values:
    """Copy values between elements that share places.

    Each place has one of the values that are written there.
    """
    if not bind.overlaps(layout.shape, layout.strides):
        return values
    flat = np.zeros(Array(layout.dtype, layout.shape, layout.strides, 0, None).span, values.dtype)
    place = np.lib.stride_tricks.as_strided(
        flat, layout.shape, tuple(step * flat.itemsize for step in layout.strides)
    )
    place[...] = values
    held: Values = place.copy()
    return held


def answer(cases: Cases, question: Question) -> dict[str, Near]:
    """Compute the exact results.

    Raises:
        ManifestError: the reference fails.
    """
    return references.results(cases.reference, question.bound, question.inputs)


def call_of(cases: Cases, question: Question, target: str) -> Call:
    """Build the record that goes to a device of ``target``.

    Raises:
        ManifestError: the reference fails, or a result does not fit its type.
    """
    bound = question.bound
    results = answer(cases, question)
    wants = []
    for name, result in results.items():
        layout = bound.tensors[name]
        assert layout is not None  # references.results has looked
        try:
            wants.append(interval.want(name, result, layout.dtype, returned=layout.returned))
        except ValueError as error:
            raise ManifestError(
                [f"{cases.reference.file}: {bound.subject.name}: {bound.label!r}: {name}: {error}"]
            ) from error
    arguments = dict(_arguments(question))
    name = bound.subject.name
    return Call(
        name, bound.label, arguments, tuple(wants), bound.words.compute_units, cases.states.get(target, "")
    )


def calls(cases: Cases, target: str, facts: Target, seed: int, *, golden: bool = False) -> Iterator[Call]:
    """:func:`questions`, answered."""
    for question in questions(cases, target, facts, seed, golden=golden):
        yield call_of(cases, question, target)


def _arguments(question: Question) -> Iterator[tuple[str, Argument]]:
    """Yield the arguments of the function.

    Without a word an argument keeps the function's own default, which is so proved too.
    """
    bound = question.bound
    for parameter in bound.subject.parameters:
        name = parameter.name
        if parameter.kind == "Tensor":
            layout = bound.tensors.get(name)
            if layout is not None:
                yield name, array(layout, question.inputs.get(name), bound.subject.slack.get(name, 0))
            elif parameter.required:  # it may be None, but has no default
                yield name, None
        elif parameter.kind == "dtype" and bound.values[name] is not None:
            yield name, ElementType(bound.values[name])
        elif name in bound.stated:
            yield name, bound.values[name]


def array(layout: Layout, values: Values | None, slack: int = 0) -> Array:
    """Store values in a tensor's whole allocation.

    Gaps hold bytes that nobody may read.
    """
    empty = Array(layout.dtype, layout.shape, layout.strides, layout.offset, None, slack)
    if values is None:
        return empty
    kind = numbers.stored(layout.dtype)
    flat = np.full(empty.span * kind.itemsize, numbers.poison(layout.dtype), np.uint8).view(kind)
    if values.size:
        steps = tuple(step * kind.itemsize for step in layout.strides)
        place = np.lib.stride_tricks.as_strided(flat[layout.offset :], layout.shape, steps)
        place[...] = numbers.encode(values, layout.dtype)
    return replace(empty, data=flat.tobytes())
