"""The table of AITER's own tests, its page, and what the session makes of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import peers  # noqa: E402


def test_page_says_what_the_table_has() -> None:
    assert peers.PAGE.read_text(encoding="utf-8") == peers.page(peers.read())


def test_table_has_rows_of_the_session_alone() -> None:
    rows = peers.read()["rows"]
    assert rows and not rows.keys() - peers.rows().keys()
    for name, row in rows.items():
        assert sum(row.get(each, 0) for each in peers.OUTCOMES) == row["cases"], name
        assert row["why"] or row["end"] or row.get("right", 0) == row["cases"], (
            f"{name}: not all, and no reason"
        )


def test_a_row_that_does_not_exist_is_named() -> None:
    known = peers.rows()
    assert peers.chosen(["quant"], known) == ["quant.gfx942", "quant.gfx950"]
    assert peers.chosen(["quant.gfx950"], known) == ["quant.gfx950"]
    with pytest.raises(SystemExit, match="no row 'qant'"):
        peers.chosen(["qant"], known)


def test_summary_counts_each_outcome() -> None:
    lines: list[dict[str, Any]] = [
        {"case": "test_a", "outcome": "right", "why": ""},
        {"case": "test_a", "outcome": "refused", "why": "X"},
        {"case": "test_a", "outcome": "refused", "why": "X"},
        {"case": "", "outcome": "other", "why": "SystemExit: 2"},
    ]
    found = peers.summary(lines, "")
    assert (found["cases"], found.get("right"), found["failed"], found["refused"]) == (3, None, 1, 2)
    lines[0]["checks"] = 1
    found = peers.summary(lines, "")
    assert (found["cases"], found["right"], found["refused"]) == (3, 1, 2)
    assert found["why"] == ["2 x refused: X"] and found["end"] == "other: SystemExit: 2"


@pytest.mark.parametrize(("right", "code"), [(2, 0), (1, 1), (3, 0)])
def test_session_fails_when_a_number_goes_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, right: int, code: int
) -> None:
    (tmp_path / "op_tests").mkdir()
    monkeypatch.setenv("AITER_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["peers", "quant.gfx942"])
    table = {"commit": "x", "rows": {"quant.gfx942": {"cases": 3, "right": 2, "why": [], "end": ""}}}
    monkeypatch.setattr(peers, "read", lambda: table)
    monkeypatch.setattr(peers, "run", lambda *_: {"cases": 3, "right": right, "why": [], "end": ""})
    assert peers.main() == code
