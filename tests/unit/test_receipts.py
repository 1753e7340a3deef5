"""Receipts: only what was executed and right in every call that launched it; a file per family, a line per code object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from build_tools.errors import ManifestError
from build_tools.judge import receipts
from build_tools.judge.receipts import Found, Receipt

TOOLS = {"toolchain": "hermetic", "zig": "1"}
FAMILIES = {"rms_norm": "norm", "softmax": "softmax"}


def line(
    *launched: str, problems: tuple[str, ...] = (), worst: float | None = 0.5, **words: Any
) -> dict[str, Any]:
    told = {"operator": "rms_norm", "label": "M=1", "kernel": "row", "target": "gfx942", "device": "d"}
    return {**told, "launched": list(launched), "problems": list(problems), "worst": worst, **words}


def collect(*lines: dict[str, Any], tools: tuple[str, ...] = ("aa", "bb")) -> Found:
    return receipts.collect(lines, "addresses", FAMILIES, dict.fromkeys(tools, TOOLS))


def receipt(digest: str, family: str = "norm", **words: Any) -> Receipt:
    told: dict[str, Any] = {
        "kernel": "rms_norm.row", "target": "gfx942", "device": "d", "checks": "addresses", "calls": 2, "worst": 0.25,
        "tools": TOOLS,
    }  # fmt: skip
    return Receipt(digest=digest, family=family, **(told | words))


def test_right_calls_are_counted_and_the_worst_of_them_is_kept() -> None:
    found = collect(line("aa", "bb", "aa", worst=0.123456), line("aa", worst=0.9), line("aa", worst=0.1))
    assert {digest: (row.calls, row.worst) for digest, row in found.receipts.items()} == {
        "aa": (3, 0.9), "bb": (1, 0.1235),
    }  # fmt: skip
    assert (found.receipts["aa"].family, found.receipts["aa"].kernel) == ("norm", "rms_norm.row")


@pytest.mark.parametrize(
    "wrong", [line("bb", problems=("out: 3 values are not what is wanted",)), line("bb", worst=None)]
)
def test_one_wrong_call_takes_the_receipt_away(wrong: dict[str, Any]) -> None:
    for lines in ((line("aa", "bb"), wrong), (wrong, line("aa", "bb"))):
        found = collect(*lines)
        assert (set(found.receipts), set(found.wrong)) == ({"aa"}, {"bb"})
    known = {"bb": receipt("bb"), "cc": receipt("cc")}
    assert receipts.merged(known, found).keys() == {"aa", "cc"}


def test_code_objects_of_no_bundle_here_get_none() -> None:
    assert collect(line("aa", "zz"), tools=("aa",)).receipts.keys() == {"aa"}


def test_the_operator_that_proved_first_has_it_in_its_family() -> None:
    found = collect(line("aa", operator="softmax", kernel="rows"), line("aa"))
    assert (found.receipts["aa"].family, found.receipts["aa"].calls) == ("softmax", 2)


def test_written_and_read_again(tmp_path: Path) -> None:
    rows = [
        receipt("aa"),
        receipt("bb", device="e", calls=1),
        receipt("cc", "softmax"),
        receipt("dd", tools={}),
    ]
    assert receipts.write(tmp_path, rows) == (
        "manifests/norm/receipts.json",
        "manifests/softmax/receipts.json",
    )
    assert receipts.read(tmp_path) == {row.digest: row for row in rows}
    assert receipts.write(tmp_path, reversed(rows)) == ()  # sorted: the same bytes
    assert json.loads(receipts.load(tmp_path)["aa"]) == {
        "executed": True, "device": "d", "checks": "addresses", "cases": 2, "worst": 0.25,
    }  # fmt: skip


def test_a_line_per_code_object_so_that_two_changes_do_not_collide(tmp_path: Path) -> None:
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


def test_a_code_object_in_two_families_is_read_once(tmp_path: Path) -> None:
    receipts.write(tmp_path, [receipt("aa"), receipt("bb", "softmax")])
    other = tmp_path / "manifests/softmax/receipts.json"
    other.write_text(other.read_text().replace('"bb"', '"aa"'))
    assert receipts.read(tmp_path)["aa"].family == "norm"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"edition": 1, "devices": []}', '{"edition": 2, "devices": [{}]}',
        (
            '{"edition": 2, "tools": {}, "devices": [{"target": "t", "device": "d", "checks": "", "code_objects": {"aa": '
            '{"kernel": "k", "calls": 1, "worst": 0, "tools": "none of them"}}}]}'
        ),
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifests/norm/receipts.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"manifests/norm/receipts\.json: .*build_tools prove --all"):
        receipts.load(tmp_path)
