"""What is right in a manifest becomes the right plan: conditions, recipes, what kernels share and where they differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import made_manifest
from support.made_manifest import GOOD, changed, plan_of

from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.dtype import BY_NUMBER
from build_tools.errors import ManifestError, UnknownTargetError, UsageError
from build_tools.manifest import sharing
from build_tools.manifest.parse import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_manifest.placed(tmp_path)


def test_plan_of_a_good_manifest(folder: Path) -> None:
    plan = plan_of(folder)
    assert len(plan.jobs) == (3 + 4 + 4) * 4
    assert len({job.id for job in plan.jobs}) == len(plan.jobs)
    job = next(job for job in plan.jobs if job.id == "gfx942-triton-scale.scale-BLOCK1024-EVEN1-f16_e4m3fnuz")
    assert job.constant("FP8") == "e4m3fnuz"
    assert [(arg.kind, arg.dtype, arg.offset, arg.divisible) for arg in job.args] == [
        ("ptr", "e4m3fnuz", 0, False),
        ("ptr", "f16", 8, True),
        ("ptr", "f16", 16, False),
        ("i32", "", 24, True),
        ("i64", "", 32, False),
        ("f32", "", 40, False),
        ("ptr", "", 48, False),
        ("ptr", "", 56, False),
    ]
    assert job.kernarg_size == 64


def test_recipes_say_what_the_manifest_says(folder: Path) -> None:
    bundle = next(bundle for bundle in plan_of(folder).bundles if bundle.target.name == "gfx950")
    operator = bundle.operators[0].operator
    recipe = next(r for r in operator.recipes if r.variant == "BLOCK4096-EVEN1")
    assert [BY_NUMBER[number].name for number in recipe.types] == ["bf16", "e4m3fn"]
    slots = dict.fromkeys(operator.slots, 0) | {"M": 1000, "N": 64, "CUS": 256, "mode": 1, "&input": 4096}
    values = list(slots.values())
    assert [evaluate(c.code, values) for c in recipe.conditions] == [1, 1, 1, 1]
    assert evaluate(recipe.cost, values) == 4096 * 4
    assert (recipe.steps[0].block_x, evaluate(recipe.steps[0].grid_x, values)) == (128, 1000)
    values[operator.slots.index("&input")] = 4104
    assert evaluate(recipe.conditions[2].code, values) == 0


def test_profiles_and_targets_are_filters(folder: Path) -> None:
    assert {job.target.name for job in plan_of(folder, targets=("gfx950",)).jobs} == {"gfx950"}
    assert plan_of(folder, profiles=("ck-full",)).jobs == ()
    with pytest.raises(UnknownTargetError, match="Did you mean 'gfx942'"):
        plan_of(folder, targets=("gfx94",))
    with pytest.raises(UsageError, match="did you mean 'ck-free'"):
        plan_of(folder, profiles=("ckfree",))


def test_the_list_of_kernels_is_their_order(folder: Path) -> None:
    second = '[kernels.other]\nlike = "scale"\ncost = 1\n'
    text = GOOD.replace("[operators.scale]", second + "[operators.scale]", 1)
    (folder / "norm" / "operators.toml").write_text(
        text.replace('kernels = ["scale"]', 'kernels = ["other", "scale"]')
    )
    operator = plan_of(folder, targets=("gfx950",)).bundles[0].operators[0].operator
    assert [(kernel.name, kernel.rank) for kernel in operator.kernels] == [("other", 0), ("scale", 1)]
    (folder / "norm" / "operators.toml").write_text(text)
    with pytest.raises(ManifestError, match=r"kernels\.other: no operator uses this kernel"):
        plan_of(folder)


def test_what_a_compiler_assumes_is_a_condition(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conditions are written by the build; were one lost, the trial of assumptions would find the call."""
    (kernel,) = load(folder).families["norm"].operators[0].kernels
    assert kernel.when[2:] == ["not EVEN or aligned(input, 16)", "not EVEN or N % 16 == 0"]
    for left, lost in ((0, "N"), (1, "input")):
        monkeypatch.setattr(sharing, "_implied", lambda *_, left=left: (kernel.when[2 + left],))
        with pytest.raises(
            ManifestError, match=f"'{lost}' is assumed to be a multiple of 16.* lets this call through"
        ):
            plan_of(folder)


def test_a_condition_that_can_never_hold_leaves_its_variant_out(folder: Path) -> None:
    """Nothing is compiled for it, and it is in no bundle; a condition that always holds is not written down."""
    plan = changed(folder, ('when = ["N <= BLOCK"', 'when = ["BLOCK < 2000", "N <= BLOCK"'))
    assert {job.constant("BLOCK") for job in plan.jobs} == {1024}
    recipes = plan.bundles[0].operators[0].operator.recipes
    assert len(recipes) == len(plan.jobs) == 2 * 4 and all("BLOCK1024" in r.variant for r in recipes)
    assert all(next(c.text for c in r.conditions) == "N <= BLOCK" for r in recipes)


def test_kernels_that_differ_in_their_arguments_alone_are_two_jobs(folder: Path) -> None:
    """What a compiler may assume of an argument is part of what it compiles."""
    second = '[kernels.loose]\nlike = "scale"\nassume = { divisible = [] }\n\n'
    plan = changed(
        folder,
        ("[operators.scale]", second + "[operators.scale]"),
        ('kernels = ["scale"]', 'kernels = ["scale", "loose"]'),
    )
    assumed = {
        job.id: [arg.name for arg in job.args if arg.divisible]
        for job in plan.jobs
        if "BLOCK1024-EVEN1-f16_i8" in job.id
    }
    assert assumed == {
        "gfx950-triton-scale.scale-BLOCK1024-EVEN1-f16_i8": ["input", "N"],
        "gfx950-triton-scale.loose-BLOCK1024-EVEN1-f16_i8": [],
    }


def test_an_assumption_must_hold_without_the_optional_tensors_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition that only looks at a tensor when it is given guarantees nothing for the calls without it."""
    for text, holds in (("N % 16 == 0", True), ("N % 16 == 0 or not given(bias)", False)):
        monkeypatch.setattr(sharing, "_implied", lambda *_, text=text: ("aligned(input, 16)", text))
        if holds:
            assert plan_of(folder).jobs
        else:
            with pytest.raises(ManifestError, match="'N' is assumed to be a multiple of 16") as caught:
                plan_of(folder)
            assert "bias=0" not in str(caught.value)


def test_kernels_share_and_differ(folder: Path) -> None:
    """``use`` joins constants, ``more`` appends, ``on`` splits by target; an operator that is like another takes its keys."""
    text = GOOD.replace(
        "[operators.scale]", "on.gfx942.constants = { num_warps = 8 }\n\n[operators.scale]", 1
    )
    text += """
[operators.scale_more]
like = "scale"
kernels = [{ use = "scale", constants = { EXTRA = 1 }, more.args = ["i32 EXTRA"], variants = { BLOCK = [2048] } }]
"""
    (folder / "norm" / "operators.toml").write_text(text)
    scale, more = load(folder).families["norm"].operators
    assert more.summary == scale.summary and more.attributes == {
        "epsilon": "float",
        "mode": "enum(fast, exact) = exact",
    }
    assert [(kernel.targets, kernel.constants["num_warps"]) for kernel in more.kernels] == [
        (["gfx950", "sm_90"], 2), (["gfx942"], 8)
    ]  # fmt: skip
    assert all(kernel.args is not None and kernel.args[-1] == "i32 EXTRA" for kernel in more.kernels)
    assert all(kernel.variants == {"BLOCK": [2048], "EVEN": [0, 1]} for kernel in more.kernels)
    assert all(kernel.args is not None and "i32 EXTRA" not in kernel.args for kernel in scale.kernels)
    assert len(plan_of(folder).jobs) == (3 + 4 + 4) * 4 + (2 + 2 + 2) * 4
