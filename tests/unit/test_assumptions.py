"""The trial of assumptions: which calls are tried, what refuses them, and what is said of the one that passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import planned

from build_tools.manifest.problems import Problems
from build_tools.plan import assumptions
from build_tools.plan.recipe import RecipeDraft, draft
from build_tools.plan.slots import Slots

NICE = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536, 131072)
ADDRESS = 1 << 20


def drafted(slots: Slots, *when: str, divisible: tuple[str, ...], **changes: Any) -> RecipeDraft:
    made = planned.kernel(when=[*when], assume={"divisible": [*divisible]}, **changes)
    (variant, *_) = planned.variants(made, slots)
    problems = Problems()
    found = draft(made, variant, slots, problems)
    assert found is not None and problems.lines == []
    return found


def said(
    *when: str, divisible: tuple[str, ...] = ("N",), signature: dict[str, Any] | None = None, **changes: Any
) -> list[str]:
    """The problems of a recipe with these conditions."""
    slots = planned.slots(**(signature or {}))
    problems = Problems()
    assumptions.check_assumptions(drafted(slots, *when, divisible=divisible, **changes), slots, problems)
    return problems.lines


def call(**values: int) -> str:
    """The problem that shows a call of the usual operator: as nice as can be but for ``values``."""
    slots = {"M": 16, "N": 16, "CUS": 16, "&out": ADDRESS, "&x": ADDRESS} | values
    return ", ".join(f"{name}={value}" for name, value in slots.items())


def problem(name: str, shown: str) -> str:
    return f"assume.divisible: {name!r} is assumed to be a multiple of 16, but 'when' lets this call through: {shown}"


def test_the_first_call_that_passes_is_shown_without_what_is_given() -> None:
    assert said() == [problem("N", call(N=1))]
    assert said("M % 64 == 0") == [problem("N", call(M=64, N=1, CUS=64))]
    assert said("N % 16 == 0") == []


@pytest.mark.parametrize("bad", [1, 2, 3, 4, 7, 8, 24, 100, 1000, 4104])
def test_every_odd_number_is_tried(bad: int) -> None:
    assert said(f"N == {bad}") == [problem("N", call(N=bad))]


@pytest.mark.parametrize("bad", [0, 5, 16, 4096])
def test_no_other_number_is(bad: int) -> None:
    assert said(f"N == {bad}") == []


@pytest.mark.parametrize(
    ("when", "off"),
    [
        (["not aligned(x, 2)"], 1),
        (["aligned(x, 2)", "not aligned(x, 4)"], 2),
        (["aligned(x, 4)"], 4),
        (["aligned(x, 8)"], 8),
    ],
)
def test_an_address_is_tried_at_each_lower_alignment(when: list[str], off: int) -> None:
    assert said(*when, divisible=("x",)) == [problem("x", call(**{"&x": ADDRESS + off}))]


def test_an_aligned_address_is_never_found() -> None:
    assert said("aligned(x, 16)", divisible=("x",)) == []
    assert said("aligned(out, 16)", divisible=("x",)) == [problem("x", call(**{"&x": ADDRESS + 1}))]


@pytest.mark.parametrize("nice", NICE)
def test_every_nice_number_is_tried_for_the_others(nice: int) -> None:
    assert said(f"M == {nice}") == [problem("N", call(M=nice, N=1, CUS=nice))]


def test_no_number_that_is_not_nice_is() -> None:
    assert said("M % 16 != 0") == said("M > 131072") == said("M < 16") == []


def test_a_condition_that_cannot_be_computed_does_not_hold() -> None:
    assert said("8 // (N - 1) > 0") == [problem("N", call(N=2))]
    assert said("8 // (M - M) > 0") == []


def test_all_conditions_together_decide() -> None:
    """None of them refuses every call, so that each has to be asked with all slots."""
    assert said("N > 2 or M == 32", "N < 3", "M < 32 or M > 32") == []
    assert said("N > 2 or M == 32", "N < 3") == [problem("N", call(M=32, N=1, CUS=32))]


def test_what_is_neither_a_tensor_nor_a_dim_cannot_be_assumed() -> None:
    args = ["ptr out", "ptr x", "i32 SIZE", "i32 N", "ptr workspace", "i32 M"]
    words = ("SIZE", "workspace", "M")
    found = said("N % 16 == 0", divisible=words, args=args, workspace="M", constants={"SIZE": 16})
    assert found == [
        "assume.divisible: 'SIZE' is neither a tensor nor a dim or stride",
        "assume.divisible: 'workspace' is neither a tensor nor a dim or stride",
        problem("M", call(M=1)),
    ]


def test_arguments_behind_one_that_is_not_assumed_and_later_steps_are_tried() -> None:
    step = {"symbol": "k", "grid": [1], "block": [64], "args": ["ptr out", "i32 N"]}
    steps = [step, {**step, "args": ["i32 M", "ptr x"], "assume": {"divisible": ["x"]}}]
    slots, problems = planned.slots(), Problems()
    made = planned.kernel(symbol=None, grid=None, block=None, args=None, steps=steps)
    found = draft(made, planned.variants(made)[0], slots, problems)
    assert found is not None
    assumptions.check_assumptions(found, slots, problems)
    assert problems.lines == [problem("x", call(**{"&x": ADDRESS + 1}))]
    with pytest.raises(ValueError, match="shorter"):
        assumptions.check_assumptions(replace(found, jobs=found.jobs[:1]), slots, problems)


def test_a_job_with_other_arguments_than_its_step_is_an_error() -> None:
    slots = planned.slots()
    made = drafted(slots, divisible=("N",))
    (job,) = made.jobs
    with pytest.raises(ValueError, match="shorter"):
        assumptions.check_assumptions(
            replace(made, jobs=(job._replace(args=job.args[:1]),)), slots, Problems()
        )


MANY: dict[str, Any] = {
    "arguments": {"x": "T[N]", "bias": "T[N] optional"},
    "attributes": {"mode": "enum(a, b, c)", "fast": "bool", "left": "int", "epsilon": "float"},
}


def test_every_value_of_the_attributes_and_whether_a_tensor_is_given_are_tried() -> None:
    slots = planned.slots(**MANY)
    assert assumptions._attribute_choices(slots, {"mode"}) == [{"mode": 0}, {"mode": 1}, {"mode": 2}]
    assert assumptions._attribute_choices(slots, {"left", "epsilon", "N"}) == [{"left": 0}, {"left": 1}]
    assert assumptions._attribute_choices(slots, {"fast", "?bias", "?x"}) == [
        {"fast": 0, "?bias": 0}, {"fast": 0, "?bias": 1}, {"fast": 1, "?bias": 0}, {"fast": 1, "?bias": 1}
    ]  # fmt: skip
    assert assumptions._attribute_choices(slots, set()) == [{}]
    for mode, place in (("a", 0), ("b", 1), ("c", 2)):
        shown = f"N=1, mode={place}, fast=0, left=1, CUS=16, &x={ADDRESS}, &bias={ADDRESS}"
        assert said(
            f"mode == '{mode}'", "left == 1", "not given(bias)", signature=MANY, args=["i32 N"], grid=[1]
        ) == [problem("N", shown)]


def test_there_is_an_end_to_combinations() -> None:
    slots = planned.slots(attributes={f"flag{place}": "bool" for place in range(6)})
    names = {f"flag{place}" for place in range(6)}
    assert len(assumptions._attribute_choices(slots, names)) == 32
    assert len(assumptions._attribute_choices(slots, names - {"flag0"})) == 32
    assert len(assumptions._attribute_choices(slots, names - {"flag0", "flag1"})) == 16


def test_calls_have_values_for_the_slots_that_are_looked_at_each_once() -> None:
    slots = planned.slots(**MANY)
    assert slots.names == ("N", "mode", "fast", "left", "CUS", "&x", "?x", "&bias", "?bias")
    tried = list(assumptions._calls(slots, 0, (1, 2), frozenset({0, 5, 6})))
    assert tried == [(1, 0, 0, 0, 0, ADDRESS, 1, 0, 0), (2, 0, 0, 0, 0, ADDRESS, 1, 0, 0)]
    tried = list(assumptions._calls(slots, 0, (3,), frozenset({0, 2})))
    assert tried == [(3, 0, 0, 0, 0, 0, 0, 0, 0), (3, 0, 1, 0, 0, 0, 0, 0, 0)]
    tried = list(assumptions._calls(slots, 5, (4,), frozenset({4, 5})))
    assert tried == [(0, 0, 0, 0, nice, ADDRESS + 4, 0, 0, 0) for nice in NICE]
    assert not list(assumptions._calls(slots, 0, (), frozenset({0})))
