"""The plan: bundles, shared jobs, ids, filters, tuned rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.records import Kernel, TunedRow
from build_tools.errors import ManifestError, UnknownTargetError, UsageError
from build_tools.manifest import model
from build_tools.manifest.problems import Problems
from build_tools.plan.plan import check_filters, make_plan, plan_into, shard_of, target_facts
from build_tools.plan.recipe import RecipeDraft, draft
from build_tools.records import Plan


def inputs_of(backend: str, source: str, symbol: str, constants: dict[str, object]) -> tuple[str, ...]:
    return (source, f"{backend} {symbol} {sorted(constants)}")


def plan(
    *kernels: model.Kernel, prove: bool = True, profiles: dict[str, list[str]] | None = None, **changes: Any
) -> Plan:
    made = planned.manifest(planned.operator(kernels=kernels, **changes), profiles=profiles)
    return make_plan(made, Path("nowhere"), inputs_of, prove=prove)  # fmt: skip


def problems_of(*kernels: model.Kernel, **changes: Any) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        plan(*kernels, **changes)
    return caught.value.problems


WHERE = "manifests/norm/operators.toml: operators.scale"


def test_a_job_has_everything_and_bundles_count_into_their_jobs() -> None:
    made = plan(planned.kernel(variants={"B": [1, 2]}))
    job = next(each for each in made.jobs if each.id == "gfx950-hip-scale.rows-B2-f16")
    assert (job.target, job.backend, job.source, job.symbol) == (
        planned.target("gfx950"),
        "hip",
        "k.hip",
        "k",
    )
    assert (job.constants, job.kernarg_size, job.block) == ((("B", 2), ("T", "f16")), 20, (64, 1, 1))
    assert job.inputs == ("k.hip", "hip k ['B', 'T']")
    assert [each.id for each in made.jobs] == sorted(each.id for each in made.jobs) and len(made.jobs) == 8
    first, second = made.bundles
    assert [(each.target.name, each.profile) for each in (first, second)] == [
        ("gfx942", "ck-free"),
        ("gfx950", "ck-free"),
    ]
    (operator,) = second.operators
    assert operator.jobs == tuple(f"gfx950-hip-scale.rows-B{b}-{t}" for t in ("bf16", "f16") for b in (1, 2))
    recipes = operator.operator.recipes
    assert [(recipe.kernel, [step.entry for step in recipe.steps]) for recipe in recipes] == [
        (0, [n]) for n in range(4)
    ]
    assert (operator.operator.name, operator.operator.summary, operator.operator.entries) == (
        "scale",
        "made up",
        (),
    )
    assert operator.operator.signature == planned.slots().text() and operator.operator.floats == ()  # fmt: skip


def test_equal_drafts_share_a_job() -> None:
    step = {"symbol": "k", "grid": ["M"], "block": [64], "args": ["ptr out"], "uses": []}
    steps = [step, {**step, "symbol": "l"}, {**step, "grid": ["N"]}]
    made = plan(
        planned.kernel(steps=steps, symbol=None, grid=None, block=None, args=None, variants={"B": [1, 2]}, targets=["gfx942"]),
        types={}, arguments={"out": "out f32[M, N]"},
    )  # fmt: skip
    names = ("gfx942-hip-scale.rows.k-default", "gfx942-hip-scale.rows.l-default")
    assert tuple(job.id for job in made.jobs) == names
    (operator,) = made.bundles[0].operators
    assert operator.jobs == names
    assert [[each.entry for each in recipe.steps] for recipe in operator.operator.recipes] == [[0, 1, 0]] * 2
    assert made.bundles[1].operators == (), "no kernel is for that target"


def test_two_jobs_of_one_id_are_refused() -> None:
    made = planned.kernel(
        variants={"B": [{"name": "same", "B": 1}, {"name": "same", "B": 2}]}, targets=["gfx942"]
    )
    words = (
        "two different jobs have the id 'gfx942-hip-scale.rows-same': name the differing constants in 'uses'"
    )
    assert problems_of(made, types={}, arguments={"out": "out f32[M, N]", "x": "f32[M, N]"}) == (
        f"{WHERE}.kernels.rows: {words}",
    )


def test_a_draft_with_fewer_jobs_than_steps_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*words: Any) -> RecipeDraft | None:
        made = draft(*words)
        return made and replace(made, jobs=())

    monkeypatch.setattr("build_tools.plan.plan.draft", short)
    with pytest.raises(ValueError, match="shorter"):
        plan(planned.kernel(), prove=False)


def test_kernels_of_other_profiles_and_targets_are_in_other_bundles() -> None:
    kernels = (
        planned.kernel(name="a", targets=["gfx950"]),
        planned.kernel(name="b", profile="ck-full"),
        planned.kernel(name="c"),
        planned.kernel(name="a", targets=["gfx942"], backend="asm"),
    )
    made = plan(*kernels, profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx950"]})
    held = {(each.profile, each.target.name): each.operators[0].operator.kernels for each in made.bundles}
    assert held == {
        ("ck-free", "gfx942"): (Kernel("c", 1, 0, 2), Kernel("a", 0, 0, 0)),
        ("ck-free", "gfx950"): (Kernel("a", 1, 0, 0), Kernel("c", 1, 0, 2)),
        ("ck-full", "gfx950"): (Kernel("b", 1, 1, 1),),
    }
    recipes = made.bundles[0].operators[0].operator.recipes
    assert [recipe.kernel for recipe in recipes] == [0, 0, 1, 1]


def test_operators_are_sorted_by_name() -> None:
    names = ("zoom", "add", "mix")
    operators = (planned.operator(name=name, kernels=(planned.kernel(),)) for name in names)
    made = make_plan(planned.manifest(*operators), Path("nowhere"), inputs_of)
    assert [each.operator.name for each in made.bundles[0].operators] == sorted(names)


def test_a_kernel_without_a_variant_is_refused() -> None:
    words = "no variant is left on gfx942: every one is excluded or can never be chosen"
    for changes in ({"except": ["target == 'gfx942'"]}, {"when": ["target == 'gfx950'"]}):
        assert problems_of(planned.kernel(**changes)) == (f"{WHERE}.kernels.rows.variants: {words}",)
    assert plan(planned.kernel(variants={"B": [1, 2]}, when=["B > 1"])).jobs


def test_assumptions_are_tried_unless_they_were_before() -> None:
    made = planned.kernel(assume={"divisible": ["x"]})
    assert all("'x' is assumed to be a multiple of 16" in line for line in problems_of(made))
    with pytest.raises(ManifestError, match="lets this call through"):
        make_plan(planned.manifest(planned.operator(kernels=(made,))), Path("nowhere"), inputs_of)
    assert len(plan(made, prove=False).jobs) == 4
    problems = Problems()
    manifest = planned.manifest(planned.operator(kernels=(made,)))
    assert (
        len(plan_into(manifest, Path("nowhere"), inputs_of, problems, prove=False).jobs) == 4
        and not problems.lines
    )
    assert len(plan_into(manifest, Path("nowhere"), inputs_of, problems, (), ("gfx950",)).jobs) == 2
    assert len(problems.lines) == 1  # fmt: skip


def test_profiles_and_targets_are_filters() -> None:
    manifest = planned.manifest(
        planned.operator(kernels=(planned.kernel(),)), profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx942"]}
    )  # fmt: skip
    everything = {("ck-free", "gfx942"), ("ck-free", "gfx950"), ("ck-full", "gfx942")}
    for profiles, targets, expected in (
        ((), (), everything),
        (("ck-free",), (), {each for each in everything if each[0] == "ck-free"}),
        ((), ("gfx942",), {each for each in everything if each[1] == "gfx942"}),
        (("ck-full",), ("gfx950",), set()),
    ):
        made = make_plan(manifest, Path("nowhere"), inputs_of, profiles, targets)
        assert {(each.profile, each.target.name) for each in made.bundles} == expected
    with pytest.raises(UnknownTargetError) as caught:
        check_filters(manifest, (), ("gfx942", "gfx94"))
    assert caught.value.args == (
        "look for target 'gfx94'",
        "not a known target (did you mean 'gfx942'?)",
        "see manifests/targets.toml for the targets there are",
    )  # fmt: skip
    with pytest.raises(UsageError) as refused:
        check_filters(manifest, ("ck-full", "ck"), ())
    assert refused.value.args == (
        "look for profile 'ck'", "not a profile (known: ck-free, ck-full)",
        "see manifests/profiles.toml for the profiles there are",
    )  # fmt: skip


def test_a_target_is_its_row() -> None:
    facts = target_facts(planned.manifest())
    assert list(facts) == ["gfx942", "gfx950"]
    assert (facts["gfx942"].cus, facts["gfx942"].devices, facts["gfx950"].fp8) == (
        (304, 228),
        ("MI300X",),
        "e4m3fn",
    )


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "0/0", "-1/2", "1/2/3", ""])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"shard {text!r}: not of the form I/N with 1 <= I <= N")):
        shard_of(Plan((), ()), text)


def test_shards_take_turns() -> None:
    made = plan(planned.kernel(variants={"B": [1, 2]}))
    assert [shard_of(made, f"{place}/3").jobs for place in (1, 2, 3)] == [
        made.jobs[place::3] for place in range(3)
    ]
    assert shard_of(made, "1/1") == Plan(made.jobs, ())
    assert shard_of(made, "9/9").jobs == ()


def test_tuned_rows_find_their_recipe(tmp_path: Path) -> None:
    operator = planned.operator(
        tuned="tuned/scale.csv",
        kernels=(planned.kernel(variants={"B": [1, 2]}), planned.kernel(name="other", profile="ck-full")),
    )  # fmt: skip
    manifest = planned.manifest(operator, profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx942"]})
    with pytest.raises(ManifestError) as caught:
        make_plan(manifest, tmp_path, inputs_of)
    assert caught.value.problems == (f"{WHERE}.tuned: 'tuned/scale.csv' is not a file of manifests/",)
    path = tmp_path / "manifests/tuned/scale.csv"
    path.parent.mkdir(parents=True)
    head = "target,cus,N,kernel,variant,types\n"
    rows = "gfx942,304,8,rows,B2,bf16\ngfx942,228,9,rows,B1,f16\ngfx950,304,1,rows,B2,f16\ngfx942,304,7,other,default,bf16\n"
    path.write_text(head + rows)
    held = [each.operators[0].operator for each in make_plan(manifest, tmp_path, inputs_of).bundles]
    place = held[0].slots.index("N")
    assert [each.tuned_slots for each in held] == [(place,)] * 3 and dtype.BY_NUMBER[
        held[0].recipes[2].types[0]
    ].name == "f16"
    assert [each.tuned for each in held] == [
        (TunedRow(228, 2, (9,)), TunedRow(304, 1, (8,))), (TunedRow(304, 3, (1,)),), (TunedRow(304, 0, (7,)),)
    ]  # fmt: skip
    path.write_text(head + "gfx942,304,8,rows,B3,bf16\ngfx94,304,8,rows,B1,bf16\n")
    with pytest.raises(ManifestError) as caught:
        make_plan(manifest, tmp_path, inputs_of, targets=["gfx942"], profiles=["ck-free"])
    where = "manifests/tuned/scale.csv: operators.scale"
    assert caught.value.problems == (
        f"{where}: line 2, column 19: kernel 'rows' has no variant 'B3' for the types 'bf16' on gfx942",
        f"{where}: line 3, column 1: 'gfx94' is not a known target (did you mean 'gfx942'?)",
    )
