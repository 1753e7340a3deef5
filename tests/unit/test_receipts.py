"""Receipts: only recipes that were executed and right in every call that chose them; a file per family, a line per recipe."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.bundles import code, small_operator

from aiter_prebuilt.contract.receipt import recipe_digests
from aiter_prebuilt.contract.records import ARG_INT, Arg, Condition, Entry, Operator, Step
from build_tools.errors import ManifestError
from build_tools.judge import receipts
from build_tools.judge.receipts import NOT_EXECUTED, Found, Provable, Receipt

TOOLS = {"toolchain": "hermetic", "zig": "1"}


def line(
    *recipes: str,
    launched: str = "",
    problems: tuple[str, ...] = (),
    worst: float | None = 0.5,
    **words: Any,
) -> dict[str, Any]:
    """``launched``: code objects, a letter each."""
    told = {
        "operator": "rms_norm",
        "label": "M=1",
        "target": "gfx942",
        "device": "d",
        "reference": "now",
        "judge": "it",
    }
    return {
        **told, "recipes": list(recipes), "launched": list(launched), "problems": list(problems), "worst": worst, **words
    }  # fmt: skip


#: Recipe -> its code objects.
RECIPES = {"one": "a", "two": "ab", "three": "c"}


def collect(*lines: dict[str, Any]) -> Found:
    built = {
        name: Provable(
            "norm", "rms_norm.row", f"{name} T=bf16", "gfx942", frozenset(objects), "now", "it", TOOLS
        )
        for name, objects in RECIPES.items()
    }
    names = {
        (each["target"], each["operator"], each["label"]): f"{each['operator']} {each['label']}"
        for each in lines
    }
    return receipts.collect(lines, "addresses", built, names)


def receipt(digest: str, family: str = "norm", **words: Any) -> Receipt:
    told: dict[str, Any] = {
        "kernel": "rms_norm.row", "variant": "128", "target": "gfx942", "device": "d", "checks": "addresses", "calls": 2,
        "worst": 0.25, "tools": TOOLS, "code_objects": frozenset({"a"}), "reference": "now", "cases": "all",
    }  # fmt: skip
    return Receipt(digest=digest, family=family, **(told | words))


def test_right_calls_are_counted_and_the_worst_of_them_is_kept() -> None:
    found = collect(
        line("one", launched="aa", worst=0.123456),
        line("one", launched="a", worst=0.9),
        line("three", "one", launched="ca", worst=0.1),
    )
    assert {digest: (row.calls, row.worst) for digest, row in found.receipts.items()} == {
        "one": (3, 0.9), "three": (1, 0.1),
    }  # fmt: skip
    row = found.receipts["one"]
    assert (row.family, row.kernel, row.variant, row.operator) == (
        "norm", "rms_norm.row", "one T=bf16", "rms_norm",
    )  # fmt: skip
    assert row.code_objects == {"a"} and row.reference == "now"
    assert collect(line("one", launched="a", worst=0.123456)).receipts["one"].worst == 0.1235
    assert row.cases == receipts.named(["rms_norm M=1"])
    more = collect(line("one", launched="a", label="M=2"), line("one", launched="a")).receipts["one"].cases
    assert more == receipts.named(["rms_norm M=2", "rms_norm M=1"]) != row.cases


def test_a_recipe_needs_a_launch_of_each_of_its_code_objects() -> None:
    """An empty tensor launches nothing; a step may have an empty grid in some calls and not in others."""
    assert collect(line("one")).receipts == {}
    assert collect(line("two", launched="a")).receipts == {}
    both = collect(line("two", launched="a"), line("two", launched="b")).receipts
    assert both["two"].calls == 2 and both["two"].code_objects == {"a", "b"}


def test_the_same_code_object_in_another_recipe_is_not_proved_by_it() -> None:
    assert collect(line("one", launched="ab")).receipts.keys() == {"one"}


def test_answers_of_another_formula_count_for_nothing() -> None:
    for name, other in (
        ("reference", "before"),
        ("judge", "other"),
        ("target", "sm_90"),
        ("operator", "softmax"),
    ):
        assert collect({**line("one", launched="a"), name: other}).receipts == {}
    states = {("norm", "rms_norm", "gfx942"): "now", ("norm", "softmax", "gfx942"): ""}
    known = {
        "aa": receipt("aa"),
        "bb": receipt("bb", reference="before"),
        "cc": receipt("cc", "softmax"),
        "dd": receipt("dd", kernel="softmax.row", reference=""),
    }
    assert receipts.holding(known, states, ()).keys() == {"aa"}


@pytest.mark.parametrize(
    "wrong",
    [
        line("three", launched="b", problems=("out: 3 values are not what is wanted",)),
        line("three", launched="b", worst=None),
        line("three", launched="b", worst=1.5),
        line("three", launched="b", worst=-1.0),
    ],
)
def test_one_wrong_call_takes_the_receipt_away(wrong: dict[str, Any]) -> None:
    """From every recipe that launches what it launched."""
    right = line("one", "two", launched="ab")
    for lines in ((right, wrong), (wrong, right)):
        found = collect(*lines)
        assert (set(found.receipts), set(found.wrong)) == ({"one"}, {"b"})
    known = {"two": receipt("two", code_objects=frozenset("ab")), "old": receipt("old")}
    assert receipts.merged(known, found).keys() == {"one", "old"}


def test_recipes_of_no_bundle_here_get_none() -> None:
    assert collect(line("one", "four", launched="ad")).receipts.keys() == {"one"}


def test_written_and_read_again(tmp_path: Path) -> None:
    rows = [
        receipt("aa"),
        receipt("bb", device="e", calls=1, code_objects=frozenset("ab")),
        receipt("cc", "softmax"),
        receipt("dd", tools={}, reference="before"),
    ]
    assert receipts.write(tmp_path, rows) == (
        "manifests/norm/receipts.json",
        "manifests/softmax/receipts.json",
    )
    assert receipts.read(tmp_path) == {row.digest: row for row in rows}
    assert receipts.write(tmp_path, reversed(rows)) == ()  # sorted: the same bytes


def test_what_an_entry_says() -> None:
    one, other = receipt("aa"), receipt("bb", device="e", calls=3, worst=0.5)
    assert json.loads(receipts.text_of([one, other])) == {
        "executed": True, "device": "d; e", "checks": "addresses", "cases": 5, "worst": 0.5,
    }  # fmt: skip
    assert receipts.text_of([one, None]) == receipts.text_of([]) == NOT_EXECUTED


def test_a_line_per_recipe_so_that_two_changes_do_not_collide(tmp_path: Path) -> None:
    receipts.write(tmp_path, [receipt("aa"), receipt("bb"), receipt("cc")])
    path = tmp_path / "manifests/norm/receipts.json"
    before = path.read_text().splitlines()
    receipts.write(tmp_path, [receipt("aa"), receipt("bb", calls=9), receipt("cc")])
    after = path.read_text().splitlines()
    assert [row[:5] for row, other in zip(before, after, strict=True) if row != other] == [' "bb"']
    assert json.loads(path.read_text())["edition"] == receipts.EDITION


def test_a_family_without_receipts_has_no_file(tmp_path: Path) -> None:
    receipts.write(tmp_path, [receipt("aa"), receipt("cc", "softmax")])
    assert receipts.write(tmp_path, [receipt("aa")]) == ("manifests/softmax/receipts.json",)
    assert receipts.files(tmp_path) == ("manifests/norm/receipts.json",)
    assert receipts.write(tmp_path, []) == ("manifests/norm/receipts.json",)
    assert receipts.read(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"edition": 1, "devices": []}', '{"edition": 3, "devices": [{}]}',
        (
            '{"edition": 3, "tools": {}, "devices": [{"target": "t", "device": "d", "checks": "", "recipes": {"aa": '
            '{"kernel": "k", "variant": "", "code_objects": [], "reference": "", "cases": "", "calls": 1, "worst": 0, '
            '"tools": "none of them"}}}]}'
        ),
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifests/norm/receipts.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"manifests/norm/receipts\.json: .*build_tools prove"):
        receipts.read(tmp_path)


def _step(operator: Operator, **words: Any) -> Operator:
    first, *more = operator.recipes
    (step,) = first.steps
    return replace(operator, recipes=(replace(first, steps=(replace(step, **words),)), *more))


def _first(operator: Operator, **words: Any) -> Operator:
    first, *more = operator.recipes
    return replace(operator, recipes=(replace(first, **words), *more))


def _arguments(step: Step, at: int, arg: Arg) -> tuple[Arg, ...]:
    return (*step.args[:at], arg, *step.args[at + 1 :])


def _other(entry: Entry, **words: Any) -> tuple[Entry, ...]:
    return (replace(entry, **words),)


MADE = small_operator("rms_norm")
(STEP,) = MADE.recipes[0].steps


@pytest.mark.parametrize(
    "changed",
    [
        _step(MADE, grid_x=code("1")),
        _step(MADE, block_x=128),
        _step(MADE, lds=code("16")),
        _step(MADE, args=_arguments(STEP, 2, Arg(ARG_INT, 4, 16, 0, code("M")))),
        _step(MADE, args=_arguments(STEP, 2, replace(STEP.args[2], offset=20))),
        _first(MADE, conditions=(Condition("N <= 2048", code("N <= 2048")),)),
        _first(MADE, conditions=()),
        _first(MADE, workspace=code("N")),
    ],
)
def test_a_changed_launch_is_another_recipe(changed: Operator) -> None:
    """The code object is the same; the other recipe of the operator is, too."""
    before, after = recipe_digests(MADE), recipe_digests(changed)
    assert before[0] != after[0] and before[1] == after[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda: replace(MADE, entries=_other(MADE.entries[0], sha256=bytes(32))),
        lambda: replace(MADE, entries=_other(MADE.entries[0], symbol="another")),
        lambda: replace(MADE, tensors=(replace(MADE.tensors[0], align=16), MADE.tensors[1])),
        lambda: replace(MADE, name="another"),
    ],
)
def test_what_all_recipes_stand_on_changes_all(change: Callable[[], Operator]) -> None:
    assert not {*recipe_digests(MADE)} & {*recipe_digests(change())}


def test_what_only_prefers_and_where_it_stands_changes_none() -> None:
    extra = replace(MADE.entries[0], name="another", sha256=bytes(32))
    moved = tuple(
        replace(recipe, cost=code("7"), steps=(replace(recipe.steps[0], entry=1),)) for recipe in MADE.recipes
    )
    kernel = replace(MADE.kernels[0], rank=7)
    entry = replace(MADE.entries[0], name="renamed", job="other", receipt="{}", code_object=9)
    after = replace(MADE, kernels=(kernel,), entries=(extra, entry), recipes=moved, summary="said anew")
    assert recipe_digests(after) == recipe_digests(MADE)
    assert len({*recipe_digests(MADE)}) == 2
