"""Sets of Composable Kernel's instances: which variants a build compiles, and what is kept of those that it does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import planned, repository
from support.planned import inputs_of

from build_tools.errors import ManifestError
from build_tools.judge.receipts import Provable
from build_tools.manifest.model import CURATED, SAMPLE, TUNED
from build_tools.pipeline import stamp
from build_tools.plan.plan import make_plan
from build_tools.plan.sets import SETS
from build_tools.prove.prove import _Book
from build_tools.prove.ready import Built
from build_tools.records import Plan

ROOT = Path(__file__).resolve().parents[2]
SAID = {"sample": ["B == 1"], "curated": ["B == 2 and target == 'gfx942'", "B == 4"]}


def made(root: Path, wanted: str, **changes: Any) -> Plan:
    (root / "k.hip").write_text("a kernel")
    given = {
        "backend": "ck",
        "types": {"T": ["bf16"]},
        "variants": {"B": [1, 2, 4, 8]},
        "sets": SAID,
    } | changes
    kernels = (planned.kernel(**given), planned.kernel(name="all"))
    return make_plan(planned.manifest(planned.operator(kernels=kernels)), root, inputs_of, ck=wanted)


def instances(plan: Plan, target: str) -> list[int]:
    return sorted(
        int(str(job.constant("B"))) for job in plan.jobs if job.target.name == target and job.backend == "ck"
    )


def test_each_set_holds_the_one_before_it(tmp_path: Path) -> None:
    plans = [made(tmp_path, wanted) for wanted in SETS]
    assert [instances(plan, "gfx942") for plan in plans] == [[1], [1, 2, 4], [1, 2, 4, 8]]
    assert [instances(plan, "gfx950") for plan in plans] == [[1], [1, 4], [1, 2, 4, 8]]
    other = [{job.id for job in plan.jobs if job.backend != "ck"} for plan in plans]
    assert other[0] and other[0] == other[1] == other[2]


def test_a_sample_may_be_of_one_target(tmp_path: Path) -> None:
    plan = made(tmp_path, SAMPLE, sets={"sample": ["B == 1 and target == 'gfx950'"]})
    assert (instances(plan, "gfx942"), instances(plan, "gfx950")) == ([], [1])


def test_a_sample_may_be_empty(tmp_path: Path) -> None:
    plans = [made(tmp_path, wanted, sets={"sample": [], "curated": ["B == 2"]}) for wanted in SETS]
    assert [instances(plan, "gfx942") for plan in plans] == [[], [2], [1, 2, 4, 8]]


def test_a_kernel_that_says_nothing_is_in_every_set(tmp_path: Path) -> None:
    plans = [made(tmp_path, wanted, sets={}) for wanted in SETS]
    assert [instances(plan, "gfx942") for plan in plans] == [[1, 2, 4, 8]] * 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sets": {"curated": ["B == 2"]}}, "no variant on gfx942 is of the sample"),
        ({"backend": "hip"}, "only kernels of Composable Kernel have sets of instances"),
        ({"sets": {"sample": ["X == 1"]}}, "X"),
    ],
)
def test_sets_that_mean_nothing_are_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        made(tmp_path, SAMPLE, **changes)


def test_sets_of_the_manifests_nest() -> None:
    manifest = repository.manifest()
    counts = []
    for wanted in SETS:
        plan = make_plan(manifest, ROOT, lambda *_: (), ("ck-full",), prove=False, ck=wanted)
        counts.append({job.id for job in plan.jobs})
        for bundle in plan.bundles:  # every operator is there, whichever set is built
            assert all(operator.operator.recipes for operator in bundle.operators)
    assert counts[0] < counts[1] < counts[2]


def test_another_set_is_another_state(tmp_path: Path) -> None:
    tools: Any = SimpleNamespace(
        kind="hermetic", pins=SimpleNamespace(trees={}, editions={}), provenance=dict, identity_of=str
    )
    assert len({stamp.state(tmp_path, tools, name) for name in SETS}) == 3


def receipt(digest: str, kernel: str, variant: str) -> Any:
    return SimpleNamespace(
        digest=digest, operator=kernel.partition(".")[0], kernel=kernel, variant=variant, target="gfx942",
        tools={"toolchain": "h"},
    )  # fmt: skip


@pytest.mark.parametrize(("in_part", "kept"), [((), {"a"}), (("op.ck",), {"a", "tuned"})])
def test_receipts_of_instances_that_were_not_built_stay(in_part: tuple[str, ...], kept: set[str]) -> None:
    provable = Provable("f", "op.ck", "one", "gfx942", frozenset(), "", "", {"toolchain": "h"})
    built = Built("gfx942", {}, (), {"a": provable}, frozenset({CURATED, TUNED}))
    told = [
        receipt("a", "op.ck", "one"), receipt("older", "op.ck", "one"), receipt("tuned", "op.ck", "two"),
        receipt("gone", "op.hip", "x"),
    ]  # fmt: skip
    book = _Book({each.digest: each for each in told}, {}, ())
    book.forget(built, {"op"}, in_part)
    assert set(book.known) == kept
