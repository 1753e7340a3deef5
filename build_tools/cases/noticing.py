"""Would a call notice? Its right answer beside what the reference makes of a changed question."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from build_tools.cases import bind, interval, make, numbers
from build_tools.cases.bind import Bound
from build_tools.cases.interval import Interval
from build_tools.cases.make import Question
from build_tools.cases.table import Cases
from build_tools.errors import ManifestError

Values: TypeAlias = npt.NDArray[Any]
#: The ways in which a question can be changed; none where the change cannot be made there.
Change: TypeAlias = Callable[[Question], "list[Question]"]
SEED: Final = 1


class Noticing:
    """Calls of one operator, smallest first: most changes show in those. Inputs are drawn and answers made when one is asked, and
    kept.
    """

    def __init__(self, cases: Cases, bounds: Iterable[Bound]) -> None:
        self.cases = cases
        self.bounds = sorted(bounds, key=_size)
        self._questions: dict[int, Question] = {}
        self._answers: dict[int, dict[str, Interval]] = {}

    def question(self, place: int) -> Question:
        """Build a call with its inputs."""
        if place not in self._questions:
            self._questions[place] = make.question_of(self.cases, self.bounds[place], SEED)
        return self._questions[place]

    def notices(self, place: int, changed: Question) -> bool:
        """Tell whether a call's answer refuses the changed result.

        False when the change gives no result.
        """
        try:
            results = make.answer(self.cases, changed)
        except ManifestError:
            return False
        wanted = self._answer(place)
        if wanted.keys() != results.keys():
            return True
        for name, right in wanted.items():
            result = results[name]
            if not _same(right.kept, result.kept) or kind_of(changed, name) != right.dtype:
                return True
            if right.low.shape != result.values.shape:
                return True
            exact = dataclasses.replace(result, error=np.zeros_like(result.error))
            try:
                found = numbers.decode(interval.interval(exact, right.dtype).low, right.dtype)
            except ValueError:
                return True  # a number that the type does not hold
            if right.misses(found).any() or _moved(self.question(place), changed, name, right):
                return True
        return False

    def _answer(self, place: int) -> Mapping[str, Interval]:
        if place not in self._answers:
            question = self.question(place)
            self._answers[place] = {
                name: interval.interval(result, kind_of(question, name))
                for name, result in make.answer(self.cases, question).items()
            }
        return self._answers[place]


def _moved(before: Question, after: Question, name: str, right: Interval) -> bool:
    """Has what must stay as it was another value?"""
    old, new = before.inputs.get(name), after.inputs.get(name)
    if right.kept is None or old is None or new is None:
        return False
    return not np.array_equal(old[right.kept], new[right.kept], equal_nan=True)


def _same(first: Values | None, second: Values | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _size(bound: Bound) -> int:
    return sum(math.prod(layout.shape) for layout in bound.tensors.values() if layout is not None)


def kind_of(question: Question, name: str) -> str:
    """Return the element type of a tensor that the call has."""
    layout = question.bound.tensors[name]
    assert layout is not None  # it has a result
    return layout.dtype


def with_tensor(question: Question, name: str, values: Values | None) -> Question:
    """Replace a tensor's values; None leaves the tensor out."""
    return dataclasses.replace(question, inputs={**question.inputs, name: values})


def with_value(question: Question, name: str, value: Any) -> Question:
    """Replace the value of a parameter that is no tensor."""
    bound = dataclasses.replace(question.bound, values={**question.bound.values, name: value})
    return dataclasses.replace(question, bound=bound)


def dropped(name: str) -> Change:
    """Make a change that leaves a tensor out."""
    return lambda question: [] if question.inputs.get(name) is None else [with_tensor(question, name, None)]


def given(cases: Cases, name: str) -> Change:
    """Make a change that draws a tensor that calls leave out.

    The call must say its dims.
    """

    def change(question: Question) -> list[Question]:
        bound = question.bound
        if bound.tensors.get(name) is not None:
            return []
        words = dataclasses.replace(bound.words, absent=bound.words.absent - {name})
        try:
            filled = bind.bind_one(cases.subject, words, bound.label, bound.types, bound.fp8)
        except bind.BindError:
            return []
        layout = filled.tensors[name]
        assert layout is not None  # it is no longer left out
        lone = numbers.is_integer(layout.dtype) and name not in words.draws
        values = np.zeros(layout.shape, np.int64) if lone else make.drawn(cases, filled, layout, SEED)
        return [dataclasses.replace(with_tensor(question, name, values), bound=filled)]

    return change
