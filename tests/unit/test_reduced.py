"""A plan without some jobs: what launches them goes, and everything else still says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract.records import TunedRow
from build_tools import pipeline
from build_tools.judge import audit
from build_tools.objects import codeobject
from build_tools.plan.plan import make_plan
from build_tools.plan.reduced import without
from build_tools.records import AuditReport, CompileResult, Plan


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Three variants, each its own job, with a measured row each; and a second step that the last two share."""
    (tmp_path / "k.hip").write_text("a kernel")
    made = make_plan(
        planned.manifest(planned.operator(kernels=[planned.kernel(types={"T": ["bf16"]}, variants={"B": [1, 2, 3]})])),
        tmp_path, planned.inputs_of, targets=("gfx942",),
    )  # fmt: skip
    (bundle,) = (each for each in made.bundles if each.operators)
    (one,) = bundle.operators
    first, second, third = one.operator.recipes
    both = replace(third, steps=(*third.steps, *second.steps))
    rows = tuple(TunedRow(304, place, (place,)) for place in range(3))
    operator = replace(one.operator, recipes=(first, second, both), tuned=rows, tuned_slots=(0,))
    return replace(made, bundles=(replace(bundle, operators=(replace(one, operator=operator),)),))


def launched(plan: Plan) -> list[tuple[str, ...]]:
    """The jobs of each recipe."""
    (one,) = plan.bundles[0].operators
    return [tuple(one.jobs[step.entry] for step in recipe.steps) for recipe in one.operator.recipes]


def test_recipes_that_launch_it_go_and_places_are_counted_anew(plan: Plan) -> None:
    before = launched(plan)
    first, second, third = (job.id for job in plan.jobs)
    assert before == [(first,), (second,), (third, second)]
    less = without(plan, {first}, ("said",))
    assert launched(less) == before[1:] and less.missing == (*plan.missing, "said")
    assert [job.id for job in less.jobs] == [second, third]
    (one,) = less.bundles[0].operators
    assert [(row.recipe, row.values) for row in one.operator.tuned] == [(0, (1,)), (1, (2,))]
    assert one.operator.tuned_slots == (0,) and one.jobs == (second, third)


def test_a_job_that_only_a_dropped_recipe_needs_goes_too(plan: Plan) -> None:
    first, second, _ = (job.id for job in plan.jobs)
    less = without(plan, {second}, ())
    assert launched(less) == [(first,)] and [job.id for job in less.jobs] == [first]


def test_an_operator_without_a_recipe_goes(plan: Plan) -> None:
    assert without(plan, {job.id for job in plan.jobs}, ()).bundles[0].operators == ()
    assert without(plan, {"another"}, ()).bundles == plan.bundles


def test_no_row_means_no_slots_to_compare(plan: Plan) -> None:
    bundle = plan.bundles[0]
    (one,) = bundle.operators
    tuned = replace(one.operator, tuned=one.operator.tuned[:1])
    plan = replace(plan, bundles=(replace(bundle, operators=(replace(one, operator=tuned),)),))
    (left,) = without(plan, {plan.jobs[0].id}, ()).bundles[0].operators
    assert (left.operator.tuned, left.operator.tuned_slots) == ((), ())


@pytest.mark.parametrize("pinned", [True, False])
def test_a_checkouts_other_kernel_of_a_known_name_is_left_out_and_a_pinned_ones_is_not(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """Only of a checkout is it asked here: what the pin has is judged with its bundle, and ends the build."""
    first, second, third = plan.jobs
    source = "thing:hsa/gfx942/k.co"
    (tmp_path / "object").write_bytes(b"")
    results = [
        CompileResult(job=replace(job, source=source), key="", ok=True, path=tmp_path / "object")
        for job in (first, second)
    ]
    results.append(CompileResult(job=third, key="", ok=True, path=tmp_path / "object"))
    problems = {first.id: ("it takes more", "and more"), second.id: ()}

    def judge(result: CompileResult, *_: object) -> AuditReport:
        return AuditReport(result.job.id, None, problems[result.job.id])

    def tree_of(*_: object) -> Any:
        return type("Tree", (), {"pinned": pinned})

    monkeypatch.setattr(audit, "judge", judge)
    monkeypatch.setattr(codeobject, "read", lambda _: None)
    monkeypatch.setattr(pipeline, "tree_of", tree_of)
    audits: dict[str, AuditReport] = {}
    fitting = pipeline._fitting(plan, results, tmp_path, audits)
    if pinned:
        assert fitting is plan and not audits
        return
    assert [job.id for job in fitting.jobs] == [second.id, third.id] and set(audits) == {first.id, second.id}
    assert fitting.missing == (f"{source} is another kernel ({first.id}: it takes more, and 1 more)",)


@pytest.mark.parametrize("pinned", [True, False])
def test_what_a_checkout_has_and_does_not_compile_is_left_out_and_named_once(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    first, second, third = plan.jobs
    monkeypatch.setattr(pipeline, "tree_of", lambda *_: type("Tree", (), {"pinned": pinned}))
    source = "thing:csrc/kernels/k.cu"
    results = [
        CompileResult(
            job=replace(job, source=source),
            key="",
            ok=False,
            log="compile it:\nerror: it is newer\nnote: more",
        )
        for job in (first, second)
    ]
    assert [pipeline._of_checkout(result, tmp_path) for result in results] == [not pinned] * 2
    if pinned:
        return
    results.append(CompileResult(job=third, key="", ok=True, path=tmp_path / "object"))
    monkeypatch.setattr(pipeline, "in_tree", lambda name: name == source)
    fitting = pipeline._fitting(plan, results, tmp_path, {})
    assert not fitting.jobs  # the third's recipe launches the second, too
    assert fitting.missing == (f"{source} does not compile: error: it is newer",)
