"""Receipts at their boundaries, and what stands in a family's file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from build_tools.errors import ManifestError
from build_tools.judge import receipts
from build_tools.judge.receipts import Found, Provable, Receipt

TOOLS = {"zig": "1", "toolchain": "hermetic"}
ONE = Receipt(
    "aa", "norm", "rms_norm.row", "128 T=bf16", "gfx942", "d", "addresses", frozenset({"o2", "o1"}), "now", "all", 2, 0.25, TOOLS
)  # fmt: skip
BUILT = Provable("norm", "rms_norm.row", "128", "gfx942", frozenset({"o1"}), "now", "it", TOOLS)


def called(worst: float | None, *digests: str, **words: Any) -> dict[str, Any]:
    told = {
        "operator": "rms_norm",
        "label": "M=1",
        "target": "gfx942",
        "device": "d",
        "reference": "now",
        "judge": "it",
        "problems": [],
    }
    return {**told, "recipes": list(digests), "launched": ["o1"], "worst": worst, **words}


#: What the call's words come to is part of its name.
NAMES = {("gfx942", "rms_norm", "M=1"): "rms_norm M=1 c0ffee"}


def test_a_line_of_a_call_that_is_made_no_longer_is_about_nothing() -> None:
    assert receipts.collect([called(0.5, "aa", label="M=2")], "", {"aa": BUILT}, NAMES) == Found(
        {}, frozenset()
    )
    assert receipts.collect(
        [called(0.5, "aa", label="M=2", problems=["no"])], "", {"aa": BUILT}, NAMES
    ).wrong == {"o1"}


def test_a_set_of_calls_has_a_name_of_sixteen_digits() -> None:
    assert receipts.named(["b 2", "a 1", "b 2"]) == hashlib.sha256(b"a 1\nb 2").hexdigest()[:16]
    assert receipts.named([]) == hashlib.sha256(b"").hexdigest()[:16]


@pytest.mark.parametrize(
    ("worst", "right"), [(0.0, True), (1.0, True), (1.0001, False), (-0.0001, False), (None, False), (float("nan"), False)]
)  # fmt: skip
def test_a_call_is_right_up_to_all_of_the_allowed_error(worst: float | None, right: bool) -> None:
    found = receipts.collect([called(worst, "aa")], "addresses", {"aa": BUILT}, NAMES)
    assert (set(found.receipts), set(found.wrong)) == (({"aa"}, set()) if right else (set(), {"o1"}))


@pytest.mark.parametrize(
    ("worst", "told"), [(0.123449, 0.1234), (0.00012345678, 0.0001235), (1.0, 1.0), (0.0, 0.0)]
)
def test_four_digits_are_kept_of_the_worst(worst: float, told: float) -> None:
    found = receipts.collect([called(worst, "aa")], "addresses", {"aa": BUILT}, NAMES)
    assert found.receipts["aa"].worst == told


def test_a_recipe_that_a_call_names_twice_is_one_call() -> None:
    (found,) = receipts.collect(
        [called(0.5, "aa", "bb", "aa")], "lds", {"aa": BUILT}, NAMES
    ).receipts.values()
    assert found == Receipt(
        "aa", "norm", "rms_norm.row", "128", "gfx942", "d", "lds", frozenset({"o1"}), "now",
        receipts.named(["rms_norm M=1 c0ffee"]), 1, 0.5, TOOLS,
    )  # fmt: skip


def test_what_a_wrong_call_launched_elsewhere_is_no_matter() -> None:
    """Only code objects of this build are told."""
    wrong = called(2.0, "aa", launched=["o1", "o9"])
    assert receipts.collect([wrong], "", {"aa": BUILT}, NAMES).wrong == {"o1"}
    assert receipts.merged({"aa": ONE}, Found({}, frozenset({"o9"}))) == {"aa": ONE}
    assert receipts.merged({"aa": ONE}, Found({}, frozenset({"o2"}))) == {}
    newer = replace(ONE, calls=9)
    assert receipts.merged({"aa": ONE}, Found({"aa": newer}, frozenset())) == {"aa": newer}


def test_a_file_has_tools_places_and_recipes(tmp_path: Path) -> None:
    rows = [
        replace(ONE, digest="cc", target="gfx950"), replace(ONE, digest="bb", tools={"triton": "3"}), ONE,
        replace(ONE, digest="dd", device="a"), replace(ONE, digest="ee", checks="lds"),
    ]  # fmt: skip
    receipts.write(tmp_path, rows)
    table = json.loads((tmp_path / "manifests/norm/receipts.json").read_text())
    names = {}
    for head, tools in (("hermetic", TOOLS), ("unknown", {"triton": "3"})):
        digest = hashlib.sha256(json.dumps(sorted(tools.items())).encode()).hexdigest()
        names[head] = f"{head}-{digest[:8]}"
    assert table["edition"] == receipts.EDITION
    assert table["tools"] == {names["hermetic"]: TOOLS, names["unknown"]: {"triton": "3"}}
    places = [(each["target"], each["device"], each["checks"]) for each in table["devices"]]
    assert places == [
        ("gfx942", "a", "addresses"), ("gfx942", "d", "addresses"), ("gfx942", "d", "lds"), ("gfx950", "d", "addresses"),
    ]  # fmt: skip
    assert [list(each["recipes"]) for each in table["devices"]] == [["dd"], ["aa", "bb"], ["ee"], ["cc"]]
    assert table["devices"][1]["recipes"]["aa"] == {
        "kernel": "rms_norm.row", "variant": "128 T=bf16", "code_objects": ["o1", "o2"], "reference": "now", "cases": "all",
        "calls": 2, "worst": 0.25, "tools": names["hermetic"],
    }  # fmt: skip
    assert table["devices"][1]["recipes"]["bb"]["tools"] == names["unknown"]
    assert receipts.read(tmp_path) == {row.digest: row for row in rows}


def test_files_that_are_damaged_are_named_together(tmp_path: Path) -> None:
    receipts.write(tmp_path, [ONE, *(replace(ONE, digest=name, family=name) for name in ("one", "two"))])
    for name in ("one", "two"):
        (tmp_path / f"manifests/{name}/receipts.json").write_text(f'{{"edition": "{name}"}}')
    with pytest.raises(ManifestError) as caught:
        receipts.read(tmp_path)
    for name in ("one", "two"):
        assert (
            f"manifests/{name}/receipts.json: ValueError: edition '{name}' is not {receipts.EDITION}; "
            "take it away, and write it again: python -m build_tools prove"
        ) in str(caught.value)
    assert "manifests/norm/receipts.json" not in str(caught.value)


def test_what_is_written_is_told(tmp_path: Path) -> None:
    """Files whose bytes changed, those that were taken away too, sorted."""
    other = replace(ONE, digest="bb", family="attention")
    assert receipts.write(tmp_path, [ONE, other]) == tuple(
        f"manifests/{name}/receipts.json" for name in ("attention", "norm")
    )
    gone = replace(ONE, digest="cc", family="alpha")
    assert receipts.write(tmp_path, [gone, other]) == (
        "manifests/alpha/receipts.json",
        "manifests/norm/receipts.json",
    )
    assert receipts.files(tmp_path) == ("manifests/alpha/receipts.json", "manifests/attention/receipts.json")


def test_what_an_entry_says_of_several_recipes() -> None:
    other = replace(ONE, device="c", checks="lds", calls=3, worst=0.125)
    assert json.loads(receipts.text_of([ONE, other, ONE])) == {
        "executed": True, "device": "c; d", "checks": "addresses; lds", "cases": 7, "worst": 0.25,
    }  # fmt: skip
    assert receipts.text_of([None]) == receipts.NOT_EXECUTED == '{"executed": false}'
