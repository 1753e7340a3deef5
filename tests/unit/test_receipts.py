"""Receipts: only what was executed and right in every case that launched it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from build_tools.errors import ManifestError, UsageError
from build_tools.judge import receipts

RIGHT = {"device": "d", "launched": ["aa", "bb", "aa"], "problems": []}
WRONG = {"device": "d", "launched": ["bb"], "problems": ["out: 3 times its bound"]}


def test_one_wrong_case_takes_the_receipt_away() -> None:
    assert receipts.collect([RIGHT, RIGHT]) == {"d": {"aa": 2, "bb": 2}}
    assert receipts.collect([RIGHT, WRONG]) == receipts.collect([WRONG, RIGHT]) == {"d": {"aa": 1}}
    assert receipts.collect([RIGHT, {"problems": ["the process ended"]}]) == {"d": {"aa": 1, "bb": 1}}


def test_written_and_read_again(tmp_path: Path) -> None:
    assert receipts.load(tmp_path) == {}
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(RIGHT) + "\n" + json.dumps(WRONG) + "\n")
    receipts.write(tmp_path, [lines], "addresses")
    assert receipts.load(tmp_path).keys() == {"aa"}
    assert json.loads(receipts.load(tmp_path)["aa"]) == {
        "executed": True,
        "device": "d",
        "checks": "addresses",
        "cases": 1,
    }


def test_nothing_right_writes_nothing(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(WRONG) + "\n")
    with pytest.raises(UsageError, match="nox -s prove"):
        receipts.write(tmp_path, [lines], "addresses")
    assert not (tmp_path / receipts.FILE).exists()


@pytest.mark.parametrize(
    "text", ["", "{}", '{"edition": 2, "devices": []}', '{"edition": 1, "devices": [{}]}']
)
def test_a_damaged_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / receipts.FILE).write_text(text)
    with pytest.raises(ManifestError, match=r"receipts\.json"):
        receipts.load(tmp_path)
