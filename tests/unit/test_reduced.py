"""A plan without some jobs: what launches them goes, and everything else still says the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import planned

from aiter_prebuilt.contract.records import TunedRow
from build_tools.errors import CodeObjectError
from build_tools.judge import audit
from build_tools.objects import codeobject
from build_tools.pipeline import planning
from build_tools.plan.plan import make_plan
from build_tools.plan.reduced import without
from build_tools.records import AuditReport, CompileJob, CompileResult, LeftOut, Plan
from build_tools.report import unpinned


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
    less = without(plan, {first: "said"})
    assert launched(less) == before[1:]
    assert less.left_out == (LeftOut("k.hip", "said", "scale", "gfx942", "ck-free", first),)
    assert less.missing == ("k.hip: said",) and plan.missing == ()
    assert [job.id for job in less.jobs] == [second, third]
    (one,) = less.bundles[0].operators
    assert [(row.recipe, row.values) for row in one.operator.tuned] == [(0, (1,)), (1, (2,))]
    assert one.operator.tuned_slots == (0,) and one.jobs == (second, third)


def test_a_job_that_only_a_dropped_recipe_needs_goes_too(plan: Plan) -> None:
    first, second, third = (job.id for job in plan.jobs)
    less = without(plan, {second: "it is newer"})
    assert launched(less) == [(first,)] and [job.id for job in less.jobs] == [first]
    assert {each.entry: each.reason for each in less.left_out} == {
        second: "it is newer",
        third: "every recipe that launches it launches something that is left out",
    }


def test_an_operator_without_a_recipe_goes(plan: Plan) -> None:
    less = without(plan, {job.id: "gone" for job in plan.jobs})
    assert less.bundles[0].operators == () and len(less.left_out) == 3
    assert without(plan, {"another": ""}).bundles == plan.bundles


def test_a_shard_has_no_bundles_and_names_what_fails_all_the_same(plan: Plan) -> None:
    first, second, third = plan.jobs
    less = without(replace(plan, bundles=()), {second.id: "it is newer"})
    assert less.jobs == (first, third)
    assert less.left_out == (LeftOut("k.hip", "it is newer", "scale", "gfx942", "", second.id),)


def test_no_row_means_no_slots_to_compare(plan: Plan) -> None:
    bundle = plan.bundles[0]
    (one,) = bundle.operators
    tuned = replace(one.operator, tuned=one.operator.tuned[:1])
    plan = replace(plan, bundles=(replace(bundle, operators=(replace(one, operator=tuned),)),))
    (left,) = without(plan, {plan.jobs[0].id: ""}).bundles[0].operators
    assert (left.operator.tuned, left.operator.tuned_slots) == ((), ())


SOURCE = "thing:hsa/gfx942/k.co"


@pytest.fixture
def fitted(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """``fitted(results, problems, pinned=False)``: the plan that goes on; ``problems`` of an audit by job."""
    (tmp_path / "object").write_bytes(b"")
    manifest = planned.manifest()
    words = manifest.profiles["ck-free"].model_copy(update={"forbidden_symbols": ["tile"]})
    manifest = manifest.model_copy(update={"profiles": {"ck-free": words}})

    def fit(
        results: Sequence[CompileResult], problems: Mapping[str, tuple[str, ...]], *, pinned: bool = False
    ) -> Plan:
        def judge(result: CompileResult, _: object, forbidden: Sequence[str]) -> AuditReport:
            assert forbidden == ("tile",), "what the profile forbids is asked here, too"
            return AuditReport(result.job.id, None, problems[result.job.id])

        monkeypatch.setattr(audit, "judge", judge)
        monkeypatch.setattr(codeobject, "read", lambda _: None)
        monkeypatch.setattr(planning, "tree_of", lambda *_: type("Tree", (), {"pinned": pinned}))
        return planning.fitting(plan, results, manifest, tmp_path, {})

    return fit


def made(job: CompileJob, folder: Path, source: str = SOURCE) -> CompileResult:
    return CompileResult(job=replace(job, source=source), key="", ok=True, path=folder / "object")


def broken(job: CompileJob, log: str, source: str = SOURCE) -> CompileResult:
    return CompileResult(job=replace(job, source=source), key="", ok=False, log=log)


def test_another_kernel_of_a_known_name_is_left_out_where_the_tree_is_not_pinned(
    plan: Plan, fitted: Callable[..., Plan], tmp_path: Path
) -> None:
    """A pinned tree's is judged with its bundle, and ends the build."""
    first, second, third = plan.jobs
    results = [made(first, tmp_path), made(second, tmp_path), made(third, tmp_path, "k.hip")]
    problems = {first.id: ("it takes more", "and more"), second.id: ()}
    assert fitted(results, problems, pinned=True) is plan
    less = fitted(results, problems)
    assert [job.id for job in less.jobs] == [second.id, third.id]
    assert [(each.entry, each.reason) for each in less.left_out] == [
        (first.id, "it is another kernel: it takes more, and 1 more")
    ]


def test_what_does_not_compile_is_left_out_with_the_compilers_first_error(
    plan: Plan, fitted: Callable[..., Plan], tmp_path: Path
) -> None:
    first, second, third = plan.jobs
    log = (
        f"compile {SOURCE} for {first.id}: exit status 1\nk.cu:7:1: error: it is newer\nk.cu:9:1: error: more"
    )
    results = [broken(first, log), made(second, tmp_path), made(third, tmp_path, "k.hip")]
    less = fitted(results, {second.id: ()})
    assert [(each.entry, each.reason) for each in less.left_out] == [
        (first.id, "k.cu:7:1: error: it is newer")
    ]
    gone = broken(first, f"find kernel 'k' of {SOURCE} for {first.id}: it has 3{' kernels' * 40}")
    (left,) = fitted([gone, *results[1:]], {second.id: ()}).left_out
    assert left.reason.startswith("find kernel 'k': it has 3 kernels") and len(left.reason) <= 200
    assert left.reason.endswith("\u2026")


def test_what_fails_in_a_source_of_ours_is_nobody_elses(
    plan: Plan, fitted: Callable[..., Plan], tmp_path: Path
) -> None:
    ours = broken(plan.jobs[0], "error: x", "k.hip")
    assert not planning.of_checkout(ours, tmp_path) and fitted([ours], {}) is plan


def test_an_object_that_cannot_be_read_is_left_out(
    plan: Plan, fitted: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: bytes) -> None:
        raise CodeObjectError("read it", "it is no ELF file", "look")

    def fit(*_: object) -> Plan:
        monkeypatch.setattr(codeobject, "read", read)
        return planning.fitting(plan, [made(plan.jobs[0], tmp_path)], planned.manifest(), tmp_path, {})

    fitted([], {})
    assert [each.reason for each in fit().left_out] == ["it is no ELF file"]


def test_the_report_counts_and_names_what_is_gone(plan: Plan) -> None:
    whole = unpinned.as_json(plan)
    assert (
        whole == {"left_out": [], "absent": []}
        and unpinned.summary(whole) == ""
        and not unpinned.lines(whole)
    )
    told = unpinned.as_json(without(plan, {job.id: "it is newer" for job in plan.jobs}))
    assert told["absent"] == [{"operator": "scale", "target": "gfx942"}]
    assert told["left_out"][0] == {
        "source": "k.hip", "reason": "it is newer", "operator": "scale", "target": "gfx942", "profile": "ck-free",
        "entry": plan.jobs[0].id,
    }  # fmt: skip
    assert unpinned.summary(told) == (
        "left out: 3 entries of 1 operator, whose files are of a source tree that is not pinned"
    )
    assert unpinned.lines(told) == [
        "k.hip: 3 entries of scale: it is newer", "scale: no kernel is left for gfx942"
    ]  # fmt: skip


def test_objects_of_a_folder_that_fail_alike_are_one_line() -> None:
    def row(name: str, reason: str, entry: str = "e") -> dict[str, str]:
        return LeftOut(f"t:{name}", reason, "op", "gfx942", "ck-free", entry and name)._asdict()

    rows = [
        row("a/1.co", "x"),
        row("a/2.co", "x"),
        row("a/3.co", "y"),
        row("k.cu", "p"),
        row("k.cu", "q"),
        row("t.csv", "z", ""),
    ]
    assert unpinned.lines({"left_out": rows, "absent": []}) == [
        "t:a/1.co and 1 file beside it: 2 entries of op: x",
        "t:a/3.co: 1 entry of op: y",
        "t:k.cu: 1 entry of op: p (the first of 2 reasons)",
        "t:t.csv: a table of op: z",
    ]
    left = [LeftOut(**each) for each in rows]
    assert (
        unpinned.lost(left, "gfx942", "ck-free") == {"op": 4}
        and unpinned.lost(left, "gfx950", "ck-free") == {}
    )
