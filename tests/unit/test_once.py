"""What a plan looks up once for all of its bundles, and what its memories must not mix up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import planned

from build_tools.manifest.model import Operator
from build_tools.manifest.problems import Problems
from build_tools.plan import rows, shared_inputs
from build_tools.plan.arguments import arguments_of
from build_tools.plan.recipe import draft, steps_of
from build_tools.plan.slots import Slots, assign_slots


def test_a_signature_and_its_records_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(spec: Operator, problems: Problems) -> Slots:
        made.append(spec.name)
        return assign_slots(spec, problems)

    monkeypatch.setattr(shared_inputs, "assign_slots", counted)
    shared, spec = shared_inputs.Once(Path(), Problems()), planned.operator()
    slots = shared.signature(spec)
    assert shared.signature(spec) is slots and made == [spec.name]
    records = shared.records(slots, "e4m3fnuz")
    assert shared.records(slots, "e4m3fnuz") is records and shared.records(slots, "e4m3fn") is not records
    # Another operator that has its name.
    other = shared.signature(planned.operator(attributes={"left": "int"}))
    assert "left" in other.names and "left" not in slots.names


def attempt(slots: Any, **changes: Any) -> tuple[Any, list[str]]:
    kernel, problems = planned.kernel(**changes), Problems()
    made = [draft(kernel, variant, slots, problems) for variant in planned.variants(kernel, slots)]
    return made, problems.lines


def test_what_is_wrong_is_said_each_time() -> None:
    slots = planned.slots()
    for changes in ({"when": ["N > wrong"]}, {"args": ["i32 wrong"]}, {"args": ["i32"]}):
        first, second = attempt(slots, **changes)[1], attempt(slots, **changes)[1]
        assert first and first == second


def test_conditions_of_other_constants_are_others() -> None:
    slots = planned.slots()
    two, _ = attempt(slots, when=["N % 2 == 0"])
    four, _ = attempt(slots, when=["N % 4 == 0"])
    assert two[0].recipe.conditions != four[0].recipe.conditions
    sizes, _ = attempt(slots, variants={"STEP": [2, 4]}, when=["N % STEP == 0"])
    assert sizes[0].recipe.conditions != sizes[1].recipe.conditions
    assert attempt(slots, when=["1 > 2"])[0] == attempt(slots, when=["1 > 2"])[0] == [None, None]


def test_equal_arguments_are_one_object_and_pointers_know_their_types() -> None:
    slots = planned.slots()
    kernel = planned.kernel(args=["ptr out", "i32 N"])
    (step,) = steps_of(kernel, Problems())
    made = [
        arguments_of("hip", step, variant, variant.scope(slots), slots, frozenset(), Problems())[1]
        for variant in (*planned.variants(kernel, slots), *planned.variants(kernel, slots))
    ]
    half = len(made) // 2
    assert half > 1 and all(one is two for one, two in zip(made[:half], made[half:], strict=True))
    assert len({arguments[0].dtype for arguments in made}) == half
    variant = planned.variants(kernel, slots)[0]
    told = arguments_of("hip", step, variant, variant.scope(slots), slots, frozenset({"N"}), Problems())[1]
    assert [[arg.divisible for arg in arguments] for arguments in (made[0], told)] == [
        [False] * 2,
        [False, True],
    ]


def test_a_table_is_read_once_until_its_text_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("A,B\n1,x\n2,y\n")
    header, first = rows.numbered("t.csv", tmp_path, Problems())
    assert (header, first) == (["A", "B"], {2: {"A": 1, "B": "x"}, 3: {"A": 2, "B": "y"}})
    monkeypatch.setattr(rows, "typed", None)
    assert rows.numbered("t.csv", tmp_path, Problems())[1] is first
    monkeypatch.undo()
    (tmp_path / "t.csv").write_text("A,B\n7,x\n")
    assert rows.numbered("t.csv", tmp_path, Problems())[1] == {2: {"A": 7, "B": "x"}}
    for _ in range(2):
        (tmp_path / "odd.csv").write_text("A,B\n7\n8,y\n")
        problems = Problems()
        assert rows.numbered("odd.csv", tmp_path, problems)[1] == {3: {"A": 8, "B": "y"}}
        assert problems.lines == ["table: odd.csv, line 2: 1 cells under 2 columns"]
