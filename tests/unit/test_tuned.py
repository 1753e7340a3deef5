"""Tuned tables: rows become records, and what is wrong in one is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_tools.frame import Frame
from build_tools.manifest.problems import Problems
from build_tools.tuned import read_tuned

FRAME = Frame("gemm", (), 0, (), {"T": ("bf16",)}, ("M", "N", "K", "CUS"), ())
RECIPES = {("tile", "16x64", "bf16"): 0, ("tile", "64x64", "bf16"): 1}
GOOD = "target,cus,M,N,K,kernel,variant,types,us\n"


def _read(tmp_path: Path, text: str) -> tuple[tuple[int, ...], tuple[object, ...], list[str]]:
    path = tmp_path / "gemm.csv"
    path.write_text(text)
    problems = Problems()
    slots, rows = read_tuned(path, FRAME, RECIPES, "gfx950", {"gfx942", "gfx950"}, problems)
    return slots, rows, problems.lines


def test_rows_are_sorted_and_filtered_by_target(tmp_path: Path) -> None:
    text = GOOD + "gfx950,256,32,8,8,tile,64x64,bf16,3.5\n# a comment\ngfx942,304,1,8,8,tile,16x64,bf16,1\n"
    text += "gfx950,256,1,8,8,tile,16x64,bf16,2.5\ngfx950,256,1,8,8,other,x,bf16,2.5\n"
    slots, rows, problems = _read(tmp_path, text)
    assert problems == []
    assert slots == (0, 1, 2)
    assert [(row.cus, row.recipe, row.values) for row in rows] == [(256, 0, (1, 8, 8)), (256, 1, (32, 8, 8))]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "column 'target' is missing"),
        ("target,cus,M,kernel,variant\n", "column 'types' is missing"),
        (GOOD.replace("K", "Q"), "column 'Q' is not a dim"),
        (GOOD + "gfx95,256,1,8,8,tile,16x64,bf16,1\n", "line 2: 'gfx95' is not a known target"),
        (GOOD + "gfx950,many,1,8,8,tile,16x64,bf16,1\n", "line 2: cus is 'many', not a number"),
        (GOOD + "gfx950,256,-1,8,8,tile,16x64,bf16,1\n", "line 2: M is '-1', not a number"),
        (GOOD + "gfx950,256,1,8,8,tile,16x64\n", "line 2: 7 cells, the header has 9"),
        (GOOD + "#\ngfx950,256,1,8,8,tile,1x1,bf16,1\n", "line 3: kernel 'tile' has no variant '1x1'"),
        (GOOD + 2 * "gfx950,256,1,8,8,tile,16x64,bf16,1\n", "two rows for 256 compute units"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, part: str) -> None:
    lines = _read(tmp_path, text)[2]
    assert any(part in line for line in lines), lines
