"""The plan: jobs and what they share, bundles, sources that are not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import planned, trees
from support.planned import inputs_of

from aiter_prebuilt.contract.records import Kernel
from build_tools.errors import ManifestError
from build_tools.manifest import model
from build_tools.manifest.problems import Problems
from build_tools.plan import shared_inputs
from build_tools.plan.plan import make_plan, plan_into, target_facts
from build_tools.plan.recipe import RecipeDraft, draft
from build_tools.records import Plan
from build_tools.tools import fetch, tree

WHERE = "manifests/norm/operators.toml: operators.scale"
TREE_FILES = {"meta/hsa/gfx942/k.co": b"one", "meta/hsa/gfx950/k.co": b"two", "meta/csrc/k.cu": b"three"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.hip").write_text("a kernel")
    return tmp_path


@pytest.fixture
def shelf(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``root`` has a source tree, too."""
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(root / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(root / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    trees.repository(root, root / "shelf", TREE_FILES)
    return root


def plan(
    root: Path,
    *kernels: model.Kernel,
    prove: bool = True,
    profiles: dict[str, list[str]] | None = None,
    **changes: Any,
) -> Plan:
    made = planned.manifest(planned.operator(kernels=kernels, **changes), profiles=profiles)
    return make_plan(made, root, inputs_of, prove=prove)


def problems_of(root: Path, *kernels: model.Kernel, **changes: Any) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        plan(root, *kernels, **changes)
    return caught.value.problems


def test_a_job_has_everything_and_bundles_count_into_their_jobs(root: Path) -> None:
    made = plan(root, planned.kernel(variants={"B": [1, 2]}, demangled="a::k<{B}>"))
    job = next(each for each in made.jobs if each.id == "gfx950-hip-scale.rows-B2-f16")
    assert (job.target, job.backend, job.source) == (planned.target("gfx950"), "hip", "k.hip")
    assert (job.symbol, job.demangled, job.inputs) == ("k", "a::k<2>", ("k.hip", "hip k ['B', 'T']"))
    assert (job.constants, job.kernarg_size, job.block) == ((("B", 2), ("T", "f16")), 20, (64, 1, 1))
    assert [(arg.name, arg.role) for arg in job.args] == [("out", "out"), ("x", "in"), ("N", "")]
    assert [each.id for each in made.jobs] == sorted(each.id for each in made.jobs) and len(made.jobs) == 8
    first, second = made.bundles
    assert [(each.target.name, each.profile) for each in (first, second)] == [
        ("gfx942", "ck-free"), ("gfx950", "ck-free")
    ]  # fmt: skip
    (operator,) = second.operators
    assert operator.jobs == tuple(f"gfx950-hip-scale.rows-B{b}-{t}" for t in ("bf16", "f16") for b in (1, 2))
    recipes = operator.operator.recipes
    assert [(recipe.kernel, [step.entry for step in recipe.steps]) for recipe in recipes] == [
        (0, [n]) for n in range(4)
    ]
    said = operator.operator
    assert (said.name, said.summary, said.entries, said.floats) == ("scale", "made up", (), ())
    assert (said.signature, said.tuned_slots, said.tuned) == (planned.slots().text(), (), ())
    assert made.missing == ()


def test_a_triton_job_has_no_block_its_waves_are_constants(root: Path) -> None:
    """The block is in the key of a job: two numbers for one thing would compile it twice."""
    made = plan(root, planned.kernel(backend="triton", block=None, constants={"num_warps": 8}))
    assert {job.block for job in made.jobs} == {(0, 0, 0)}
    recipes = made.bundles[0].operators[0].operator.recipes
    assert {step.block_x for recipe in recipes for step in recipe.steps} == {8 * 64}


def test_equal_drafts_share_a_job(root: Path) -> None:
    step = {"symbol": "k", "grid": ["M"], "block": [64], "args": ["ptr out"], "uses": []}
    steps = [step, {**step, "symbol": "l"}, {**step, "grid": ["N"]}]
    whole: dict[str, Any] = {"symbol": None, "grid": None, "block": None, "args": None, "targets": ["gfx942"]}
    made = plan(
        root, planned.kernel(steps=steps, variants={"B": [1, 2]}, **whole), types={}, arguments={"out": "out f32[M, N]"}
    )  # fmt: skip
    names = ("gfx942-hip-scale.rows.k-default", "gfx942-hip-scale.rows.l-default")
    assert tuple(job.id for job in made.jobs) == names
    (operator,) = made.bundles[0].operators
    assert operator.jobs == names
    assert [[each.entry for each in recipe.steps] for recipe in operator.operator.recipes] == [[0, 1, 0]] * 2
    assert made.bundles[1].operators == (), "no kernel is for that target"


@pytest.mark.parametrize(
    "changes", [{"symbol": "l"}, {"source": "l.hip"}, {"block": [32]}, {"args": ["ptr x"]}, {"args": ["ptr out"], "slot": 16},
                {"constants": {"B": 2}}, {"backend": "asm"}, {}],
)  # fmt: skip
def test_what_makes_a_job_another(root: Path, changes: dict[str, Any]) -> None:
    """Two kernels that differ in one thing have two jobs, which are called after their kernels."""
    (root / "l.hip").write_text("another")
    first = planned.kernel(args=["ptr out"], targets=["gfx942"])
    second = planned.kernel(name="more", **{"args": ["ptr out"], "targets": ["gfx942"], **changes})
    made = plan(root, first, second, types={}, arguments={"out": "out f32[M, N]", "x": "f32[M, N]"})
    other = f"gfx942-{changes.get('backend', 'hip')}-scale.more-default"
    wanted = ["gfx942-hip-scale.rows-default", *([other] if changes else [])]
    assert sorted(job.id for job in made.jobs) == sorted(wanted)
    assert made.bundles[0].operators[0].jobs == tuple(wanted)


def test_two_jobs_of_one_id_are_refused(root: Path) -> None:
    same = [{"name": "same", "B": 1}, {"name": "same", "B": 2}]
    made = planned.kernel(variants={"B": same}, targets=["gfx942"])
    words = (
        "two different jobs have the id 'gfx942-hip-scale.rows-same': name the differing constants in 'uses'"
    )
    assert problems_of(root, made, types={}, arguments={"out": "out f32[M, N]", "x": "f32[M, N]"}) == (
        f"{WHERE}.kernels.rows: {words}",
    )


def test_a_draft_with_fewer_jobs_than_steps_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*words: Any) -> RecipeDraft | None:
        made = draft(*words)
        return made and replace(made, jobs=())

    monkeypatch.setattr("build_tools.plan.plan.draft", short)
    with pytest.raises(ValueError, match="shorter"):
        plan(root, planned.kernel(), prove=False)


def test_kernels_of_other_profiles_and_targets_are_in_other_bundles(root: Path) -> None:
    kernels = (
        planned.kernel(name="a", targets=["gfx950"]),
        planned.kernel(name="b", profile="ck-full"),
        planned.kernel(name="c"),
        planned.kernel(name="a", targets=["gfx942"], backend="asm"),
    )
    made = plan(root, *kernels, profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx950"]})
    held = {(each.profile, each.target.name): each.operators[0].operator.kernels for each in made.bundles}
    assert held == {
        ("ck-free", "gfx942"): (Kernel("c", 1, 0, 2), Kernel("a", 0, 0, 0)),
        ("ck-free", "gfx950"): (Kernel("a", 1, 0, 0), Kernel("c", 1, 0, 2)),
        ("ck-full", "gfx950"): (Kernel("b", 1, 1, 1),),
    }
    recipes = made.bundles[0].operators[0].operator.recipes
    assert [recipe.kernel for recipe in recipes] == [0, 0, 1, 1]


def test_operators_are_sorted_by_name(root: Path) -> None:
    names = ("zoom", "add", "mix")
    operators = (planned.operator(name=name, kernels=(planned.kernel(),)) for name in names)
    made = make_plan(planned.manifest(*operators), root, inputs_of)
    assert [each.operator.name for each in made.bundles[0].operators] == sorted(names)


def test_a_kernel_without_a_variant_is_refused(root: Path) -> None:
    words = "no variant is left on gfx942: every one is excluded or can never be chosen"
    for changes in ({"except": ["target == 'gfx942'"]}, {"when": ["target == 'gfx950'"]}):
        assert problems_of(root, planned.kernel(**changes)) == (f"{WHERE}.kernels.rows.variants: {words}",)
    made = plan(root, planned.kernel(variants={"B": [1, 2]}, when=["B > 1"]))
    assert [job.id for job in made.jobs if job.id.startswith("gfx942")] == [
        "gfx942-hip-scale.rows-B2-bf16", "gfx942-hip-scale.rows-B2-f16"
    ]  # fmt: skip


def test_assumptions_are_tried_unless_they_were_before(root: Path) -> None:
    made = planned.kernel(assume={"divisible": ["x"]})
    assert all("'x' is assumed to be a multiple of 16" in line for line in problems_of(root, made))
    with pytest.raises(ManifestError, match="lets this call through"):
        make_plan(planned.manifest(planned.operator(kernels=(made,))), root, inputs_of)
    assert len(plan(root, made, prove=False).jobs) == 4
    problems = Problems()
    manifest = planned.manifest(planned.operator(kernels=(made,)))
    assert len(plan_into(manifest, root, inputs_of, problems, prove=False).jobs) == 4
    assert problems.lines == []
    assert len(plan_into(manifest, root, inputs_of, problems, (), ("gfx950",)).jobs) == 2
    assert len(problems.lines) == 1


def test_slack_is_of_tensors_that_are_passed(root: Path) -> None:
    assert problems_of(root, planned.kernel(slack={"y": 1, "x": 2, "ouu": 3})) == (
        f"{WHERE}.kernels.rows.slack.ouu: 'ouu' is no tensor that is passed (did you mean 'out'?)",
        f"{WHERE}.kernels.rows.slack.y: 'y' is no tensor that is passed (known: out, x)",
    )
    assert len(plan(root, planned.kernel(slack={"x": 2, "out": 1})).jobs) == 4


def test_a_source_of_the_repository_that_is_not_there_is_wrong(root: Path) -> None:
    """One line, however many variants name it; and that no variant is left is not said beside it."""
    assert problems_of(root, planned.kernel(source="gone.hip", variants={"B": [1, 2]})) == (
        f"{WHERE}.kernels.rows: there is no gone.hip",
    )
    steps = [
        {"symbol": "k", "source": source, "grid": ["M"], "block": [64], "args": ["ptr out"]}
        for source in ("away.hip", "k.hip", "gone.hip")
    ]
    made = planned.kernel(steps=steps, symbol=None, grid=None, block=None, args=None)
    assert problems_of(root, made) == (
        f"{WHERE}.kernels.rows: there is no away.hip",
        f"{WHERE}.kernels.rows: there is no gone.hip",
    )


def test_a_source_is_looked_for_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(name: str, where: Path) -> bool:
        asked.append(name)
        return tree.exists(name, where)

    monkeypatch.setattr(shared_inputs, "exists", counted)
    assert len(plan(root, planned.kernel(variants={"B": [1, 2, 3]})).jobs) == 12
    assert asked == ["k.hip"]


def test_hip_sources_of_a_tree_are_one_compile_whatever_the_variant(shelf: Path) -> None:
    """Constants choose the kernel by its name, and reach no compiler."""
    made = plan(
        shelf,
        planned.kernel(
            source="thing:csrc/k.cu",
            symbol="a::k<{N_EACH}>",
            variants={"N_EACH": [1, 2], "B": [1, 2]},
            targets=["gfx942"],
        ),
        types={},
        arguments=PLAIN,
    )
    assert [(job.symbol, job.constants) for job in made.jobs] == [("a::k<1>", ()), ("a::k<2>", ())]


def test_only_objects_and_hip_sources_come_from_a_source_tree(shelf: Path) -> None:
    source = "thing:hsa/{target}/k.co"
    made = plan(shelf, planned.kernel(source=source, backend="asm"), types={}, arguments=PLAIN)
    assert [(job.id, job.source) for job in made.jobs] == [
        ("gfx942-asm-scale.rows-default", "thing:hsa/gfx942/k.co"),
        ("gfx950-asm-scale.rows-default", "thing:hsa/gfx950/k.co"),
    ]
    assert problems_of(shelf, planned.kernel(source=source), types={}, arguments=PLAIN) == tuple(
        f"{WHERE}.kernels.rows.source: backend 'hip' takes no source of a source tree: thing:hsa/{target}/k.co"
        for target in ("gfx942", "gfx950")
    )


PLAIN = {"out": "out f32[M, N]", "x": "f32[M, N]"}


def test_what_a_pinned_tree_lacks_is_wrong(shelf: Path) -> None:
    kernel = planned.kernel(source="thing:hsa/{target}/j.co", backend="asm", targets=["gfx942"])
    assert problems_of(shelf, kernel) == (f"{WHERE}.kernels.rows: there is no thing:hsa/gfx942/j.co",)
    kernel = planned.kernel(source="thing:has/j.co", backend="asm", targets=["gfx942"])
    assert problems_of(shelf, kernel) == (
        f"{WHERE}.kernels.rows.source: thing has no root 'has'. Its roots are hsa, csrc, configs: write thing:ROOT/path",
    )


def test_what_a_checkout_lacks_is_only_missing(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that nothing is left of is in no bundle; one that has something left is."""
    (shelf / "checkout/hsa/gfx950").mkdir(parents=True)
    (shelf / "checkout/hsa/gfx950/k.co").write_bytes(b"newer")
    monkeypatch.setenv("THING_DIR", str(shelf / "checkout"))
    there = planned.kernel(name="there", source="thing:hsa/{target}/k.co", backend="asm")
    gone = planned.kernel(name="gone", source="thing:hsa/{target}/j.co", backend="asm")
    made = plan(shelf, there, gone, types={}, arguments=PLAIN)
    assert made.missing == (
        "thing:hsa/gfx942/k.co: there is no such file", "thing:hsa/gfx942/j.co: there is no such file",
        "thing:hsa/gfx950/j.co: there is no such file",
    )  # fmt: skip
    assert made.left_out[0][2:] == ("scale", "gfx942", "ck-free", "gfx942-asm-scale.there-default")
    first, second = made.bundles
    assert first.operators == ()
    assert [kernel.name for kernel in second.operators[0].operator.kernels] == ["there", "gone"]
    assert second.operators[0].jobs == ("gfx950-asm-scale.there-default",)


def test_a_target_is_its_row() -> None:
    facts = target_facts(planned.manifest())
    assert list(facts) == ["gfx942", "gfx950"]
    assert (facts["gfx942"].cus, facts["gfx942"].devices, facts["gfx950"].fp8) == (
        (304, 228),
        ("MI300X",),
        "e4m3fn",
    )
