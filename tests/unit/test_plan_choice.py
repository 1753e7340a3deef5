"""Which part of the plan is wanted: profiles, targets, shards; and the tuned rows of what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import planned
from support.planned import inputs_of

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.records import TunedRow
from build_tools.errors import ManifestError, UnknownTargetError, UsageError
from build_tools.plan.plan import check_filters, make_plan

WHERE = "manifests/norm/operators.toml: operators.scale"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.hip").write_text("a kernel")
    return tmp_path


def test_profiles_and_targets_are_filters(root: Path) -> None:
    manifest = planned.manifest(
        planned.operator(kernels=(planned.kernel(), planned.kernel(name="more", profile="ck-full"))),
        profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx942"]},
    )
    everything = {("ck-free", "gfx942"), ("ck-free", "gfx950"), ("ck-full", "gfx942")}
    for profiles, targets, expected in (
        ((), (), everything),
        (("ck-free",), (), {each for each in everything if each[0] == "ck-free"}),
        ((), ("gfx942",), {each for each in everything if each[1] == "gfx942"}),
        (("ck-full",), ("gfx950",), set()),
    ):
        made = make_plan(manifest, root, inputs_of, profiles, targets)
        assert {(each.profile, each.target.name) for each in made.bundles} == expected
        assert {job for bundle in made.bundles for each in bundle.operators for job in each.jobs} == {
            job.id for job in made.jobs
        }


def test_names_that_the_manifests_do_not_have() -> None:
    manifest = planned.manifest(profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx942"]})
    check_filters(manifest, ("ck-full", "ck-free"), ("gfx950", "gfx942"))
    with pytest.raises(UnknownTargetError) as caught:
        check_filters(manifest, (), ("gfx942", "gfx94"))
    assert str(caught.value) == "No target 'gfx94'. Did you mean 'gfx942'? The targets are gfx942, gfx950."
    with pytest.raises(
        UnknownTargetError, match=r"^gfx90a \(MI200\) is not supported\. The targets are gfx942"
    ):
        check_filters(manifest, (), ("gfx90a",))
    with pytest.raises(UsageError) as refused:
        check_filters(manifest, ("ck-full", "ck"), ())
    assert refused.value.args == (
        "look for profile 'ck'", "not a profile (known: ck-free, ck-full)",
        "see manifests/profiles.toml for the profiles there are",
    )  # fmt: skip


def test_tuned_rows_find_their_recipe(root: Path) -> None:
    operator = planned.operator(
        tuned="tuned/scale.csv",
        kernels=(planned.kernel(variants={"B": [1, 2]}), planned.kernel(name="other", profile="ck-full")),
    )
    manifest = planned.manifest(operator, profiles={"ck-free": ["gfx942", "gfx950"], "ck-full": ["gfx942"]})
    with pytest.raises(ManifestError) as caught:
        make_plan(manifest, root, inputs_of)
    assert caught.value.problems == (f"{WHERE}.tuned: 'tuned/scale.csv' is not a file of manifests/",)
    path = root / "manifests/tuned/scale.csv"
    path.parent.mkdir(parents=True)
    head = "target,cus,N,kernel,variant,types\n"
    rows = "gfx942,304,8,rows,B2,bf16\ngfx942,228,9,rows,B1,f16\ngfx950,304,1,rows,B2,f16\ngfx942,304,7,other,default,bf16\n"
    path.write_text(head + rows)
    held = [each.operators[0].operator for each in make_plan(manifest, root, inputs_of).bundles]
    place = held[0].slots.index("N")
    assert [each.tuned_slots for each in held] == [(place,)] * 3
    assert dtype.BY_NUMBER[held[0].recipes[2].types[0]].name == "f16"
    assert [each.tuned for each in held] == [
        (TunedRow(228, 2, (9,)), TunedRow(304, 1, (8,))), (TunedRow(304, 3, (1,)),), (TunedRow(304, 0, (7,)),)
    ]  # fmt: skip
    path.write_text(head + "gfx942,304,8,rows,B3,bf16\ngfx94,304,8,rows,B1,bf16\n")
    with pytest.raises(ManifestError) as caught:
        make_plan(manifest, root, inputs_of, targets=["gfx942"], profiles=["ck-free"])
    where = "manifests/tuned/scale.csv: operators.scale"
    assert caught.value.problems == (
        f"{where}: line 2, column 19: kernel 'rows' has no variant 'B3' for the types 'bf16' on gfx942",
        f"{where}: line 3, column 1: 'gfx94' is not a known target (did you mean 'gfx942'?)",
    )
