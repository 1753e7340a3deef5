"""The changes that a case must notice: what each makes of values, and where it can be made."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support import toy_operator

from build_tools.cases import bind, noticing, sensitivity
from build_tools.cases.interval import Interval
from build_tools.manifest.python import Parameter, parse_python


def _array(*rows: object) -> np.ndarray:
    return np.array(rows if len(rows) > 1 else rows[0])


def test_scaled() -> None:
    assert sensitivity._scaled(_array([1.0, -64.0]), "f32").tolist() == [1.015625, -65.0]
    assert sensitivity._scaled(_array([5]), "i32").tolist() == [6]
    assert sensitivity._scaled(_array([5, 6]), "i64").tolist() == [5, 6], "indices stay"


@pytest.mark.parametrize(
    ("values", "moved"),
    [
        ([1, 2, 3], [3, 1, 2]),
        ([[1, 2], [3, 4], [5, 6]], [[5, 6], [1, 2], [3, 4]]),
        ([[1], [2], [3]], [[3], [1], [2]]),
        ([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[[7, 8], [1, 2]], [[3, 4], [5, 6]]]),
        ([[[1, 2, 3], [4, 5, 6]]], [[[4, 5, 6], [1, 2, 3]]]),
    ],
)
def test_shifted(values: object, moved: object) -> None:
    assert sensitivity._shifted(np.array(values), "i32").tolist() == moved


def _parameter(text: str) -> Parameter:
    return parse_python(f"({text}) -> None").parameters[0]


@pytest.mark.parametrize(
    ("text", "value", "served", "others"),
    [
        ("n: int", 3, (), [4, 2]),
        ("n: int", 3, (1, 3, 5), [1, 5]),
        ("n: int | None", None, (), []),
        ("b: bool", True, (), [False]),
        ("b: bool", False, (), [True]),
        ("x: float", 2.0, (), [2.25]),
        ("x: float", 0.0, (), [0.125]),
        ("s: str", "a", (), []),
    ],
)
def test_others(text: str, value: object, served: tuple[Any, ...], others: list[object]) -> None:
    assert sensitivity._others(_parameter(text), value, served) == others


def test_the_same_mask() -> None:
    one, two = np.array([True, False]), np.array([True, True])
    assert noticing._same(None, None) and noticing._same(one, one.copy())
    assert not noticing._same(one, None) and not noticing._same(None, one)
    assert not noticing._same(one, two)


def _question(**inputs: np.ndarray | None) -> Any:
    """As much of a question as a change looks at: bf16 ``input``, i32 ``index``."""
    tensors = {
        name: bind.Layout(name, "in", "i32" if name == "index" else "bf16", (), (), 0, False)
        for name in inputs
    }
    bound = bind.Bound(toy_operator.subject(), None, "", {}, "e4m3fn", {}, tensors, {}, frozenset())  # type: ignore[arg-type]
    return _Question(bound, inputs)


@dataclasses.dataclass(frozen=True)
class _Question:
    bound: bind.Bound
    inputs: dict[str, Any]


def test_a_change_is_made_where_it_changes_something() -> None:
    scaled = sensitivity._tensor("input", sensitivity._scaled)
    changed: Any
    (changed,) = scaled(_question(input=_array([1.0, 2.0])))
    assert changed.inputs["input"].tolist() == [1.015625, 2.03125]
    for values in (None, np.zeros(0), np.zeros(2), np.array([np.nan, np.inf])):
        assert scaled(_question(input=values)) == []
    shifted = sensitivity._tensor("input", sensitivity._shifted)
    assert shifted(_question(input=np.array([3.0, 3.0]))) == [] and scaled(_question(other=None)) == []
    indices = sensitivity._tensor("index", sensitivity._scaled)
    assert indices(_question(index=np.array([1, 2]))) == []
    either = sensitivity._either(indices, sensitivity._tensor("index", sensitivity._shifted))
    (changed,) = either(_question(index=np.array([1, 2])))
    assert changed.inputs["index"].tolist() == [2, 1]


def test_left_out_where_it_is_given() -> None:
    (changed,) = noticing.dropped("input")(_question(input=np.ones(1)))
    assert changed.inputs == {"input": None}
    assert noticing.dropped("input")(_question(input=None)) == []


def test_a_kernel_is_chosen_that_a_call_names() -> None:
    def asked(name: str | None) -> Any:
        question = _question()
        values = {"kernelName": name, "other": 1}
        return dataclasses.replace(question, bound=dataclasses.replace(question.bound, values=values))

    (changed,) = sensitivity._unnamed("kernelName")(asked("_ZN1aE"))
    assert changed.bound.values == {"kernelName": None, "other": 1}
    assert (
        sensitivity._unnamed("kernelName")(asked("")) == sensitivity._unnamed("kernelName")(asked(None)) == []
    )


def test_what_must_stay_and_moved() -> None:
    right = Interval("f32", np.zeros(2), np.zeros(2), np.array([True, False]))
    before = _question(out=np.array([1.0, 2.0]))
    assert not noticing._moved(before, _question(out=np.array([1.0, 9.0])), "out", right)
    assert noticing._moved(before, _question(out=np.array([9.0, 2.0])), "out", right)
    assert not noticing._moved(before, _question(out=None), "out", right)
    assert not noticing._moved(_question(out=None), before, "out", right)
    nan = _question(out=np.array([np.nan, 2.0]))
    assert not noticing._moved(nan, nan, "out", right)
    free = Interval("f32", np.zeros(2), np.zeros(2), None)
    assert not noticing._moved(before, _question(out=np.array([9.0, 2.0])), "out", free)


def test_what_is_blind_says_where() -> None:
    words = str(sensitivity.Blind("op", "x scaled", "manifests/a/cases.toml"))
    assert words == "manifests/a/cases.toml: op: no call notices x scaled"


@pytest.mark.parametrize(
    ("shape", "strides", "meet"),
    [
        ((2, 3), (3, 1), False), ((2, 3), (2, 1), True), ((3, 2), (1, 3), False), ((3, 2), (1, 2), True), ((2, 2), (1, 1), True),
        ((2,), (0,), True), ((1, 3), (0, 1), False), ((1, 1), (0, 0), False), ((2, 1, 2), (2, 0, 1), False), ((), (), False),
        ((2, 2, 2), (4, 2, 1), False), ((2, 2, 2), (3, 2, 1), True), ((3, 2), (2, 5), False), ((3, 2), (2, 4), True),
    ],
)  # fmt: skip
def test_elements_in_one_place(shape: tuple[int, ...], strides: tuple[int, ...], meet: bool) -> None:
    assert bind.overlaps(shape, strides) is meet
