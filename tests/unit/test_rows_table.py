"""Tables as axes of variants, in memory: cells and their types, which rows are kept, what they are called, what is wrong."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from build_tools.errors import FetchError
from build_tools.manifest.model import Rows
from build_tools.manifest.problems import Problems
from build_tools.plan.rows import TemplateError, filled, rows_of


def read(tmp_path: Path, text: str | bytes, **said: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a table, and what was said."""
    data = text.encode() if isinstance(text, str) else text
    (tmp_path / "gfx942.csv").write_bytes(data)
    problems = Problems()
    rows = rows_of(Rows(table="{target}.csv", **said), "gfx942", tmp_path, problems)
    return [dict(row) for row in rows], problems.lines


def good(tmp_path: Path, text: str | bytes, **said: Any) -> list[dict[str, Any]]:
    rows, lines = read(tmp_path, text, **said)
    assert lines == []
    return rows


def test_words_in_braces() -> None:
    words = {"A": 3, "B": True, "C": False, "D": "x{A}"}
    assert filled("{A}-{B}{C}/{D}{A}", words) == "3-10/x{A}3", "what is filled in is not read again"
    assert filled("{ A } {} {1} A", words) == "{ A } {} {1} A"
    with pytest.raises(TemplateError) as refused:
        filled("k{A}{Dd}", words)
    assert str(refused.value) == "'k{A}{Dd}' has {Dd}, which is no constant (did you mean 'D'?)"


def test_lines_that_count(tmp_path: Path) -> None:
    """Comments and empty lines do not, nor do blanks around cells; what is no UTF-8 is no reason to stop."""
    text = b'# about\n\nM , s\n1, a b \n  \n#2,b\n 3 ,"c,d"\n4,\xff\n'
    assert good(tmp_path, text) == [
        {"M": 1, "s": "a b", "name": "M1"}, {"M": 3, "s": "c,d", "name": "M3"}, {"M": 4, "s": "\ufffd", "name": "M4"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "typed"),
    [
        (("1", "2"), (1, 2)), (("-1", "007"), (-1, 7)), (("1", "x"), ("1", "x")), (("1", ""), ("1", "")),
        (("1", "1.0"), ("1", "1.0")), (("+1", "1"), ("+1", "1")), (("1_0", "1"), ("1_0", "1")), (("--1", "1"), ("--1", "1")),
        (("9" * 18, "1"), (10**18 - 1, 1)), (("9" * 19, "1"), ("9" * 19, "1")),
    ],
)  # fmt: skip
def test_a_column_is_numbers_when_every_cell_is(
    tmp_path: Path, cells: tuple[str, ...], typed: tuple[Any, ...]
) -> None:
    rows = good(
        tmp_path, "C,x\n" + "".join(f"{cell},{place}\n" for place, cell in enumerate(cells)), name="{x}"
    )
    assert [row["C"] for row in rows] == list(typed)


def test_every_number_is_read_as_it_stands(tmp_path: Path) -> None:
    table = [[random.randint(-(10**9), 10**9) for _ in range(4)] for _ in range(20)]
    text = "A,B,C,D\n" + "".join(",".join(map(str, row)) + "\n" for row in table)
    rows = good(tmp_path, text, name="{A}_{B}_{C}_{D}")
    unique = list(dict.fromkeys(map(tuple, table)))
    assert [tuple(row[name] for name in "ABCD") for row in rows] == unique


def test_columns_have_our_names(tmp_path: Path) -> None:
    text = "knl_name,co_name,tile\n_Zk,dir/k.co,4\n"
    assert good(tmp_path, text) == [{"SYMBOL": "_Zk", "FILE": "dir/k.co", "tile": 4, "name": "tile4"}]
    assert good(tmp_path, text.replace("co_name", "knl_file"))[0]["FILE"] == "dir/k.co"
    renamed = good(tmp_path, text, rename={"co_name": "OBJECT", "tile": "T"})
    assert renamed == [{"SYMBOL": "_Zk", "OBJECT": "dir/k.co", "T": 4, "name": "T4"}]


def test_what_a_row_is_called(tmp_path: Path) -> None:
    assert good(tmp_path, "s,A,B\nx,1,2\n")[0]["name"] == "A1B2"
    assert good(tmp_path, "s,FILE\nx,dir/k.8.co\n")[0]["name"] == "k.8"
    assert good(tmp_path, "s\nx\n")[0]["name"] == "row"
    assert good(tmp_path, "s,A\nx,1\n", name="{s}.{A}.{Z}", defaults={"Z": True})[0]["name"] == "x.1.1"


def test_defaults_are_for_columns_that_are_not_there(tmp_path: Path) -> None:
    defaults = {"A": 7, "Z": 9, "w": "v"}
    rows = good(tmp_path, "A,s\n1,x\n2,y\n", defaults=defaults)
    assert [(row["A"], row["Z"], row["w"]) for row in rows] == [(1, 9, "v"), (2, 9, "v")]
    assert (
        good(tmp_path, "A,s\n1,x\n2,y\n", defaults=defaults, rows=["A > 1", "Z == 9", "w == 'v'"])[0]["A"]
        == 2
    )


def test_a_part_of_a_text_is_a_constant(tmp_path: Path) -> None:
    text = "co_name,n\nk_16x64_pf2.co,1\nk_16x128_pf3.co,2\n"
    parts = {"pf": {"FILE": "_pf([0-9]+)"}, "tile": {"FILE": "_([0-9]+x)"}}
    rows = good(tmp_path, text, parts=parts, name="{tile}{pf}", rows=["pf > 1"])
    assert [(row["pf"], row["tile"], row["name"]) for row in rows] == [(2, "16x", "16x2"), (3, "16x", "16x3")]


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (
            {"pf": {"FILES": "_pf([0-9]+)"}},
            "parts.pf: 'FILES' is not a column of gfx942.csv (did you mean 'FILE'?)",
        ),
        ({"pf": {"FILE": "_pf[0-9]+"}}, "parts.pf: '_pf[0-9]+' is no pattern with a group: no such group"),
        ({"pf": {"FILE": "_pf([0-9]+"}}, "parts.pf: '_pf([0-9]+' is no pattern with a group: missing )"),
        ({"pf": {"FILE": "_pg([0-9]+)"}}, "parts.pf: '_pg([0-9]+)' is not in 'k_pf2.co' of gfx942.csv"),
    ],
)
def test_a_part_that_is_not_there(tmp_path: Path, parts: dict[str, dict[str, str]], line: str) -> None:
    _, problems = read(tmp_path, "co_name,n\nk_pf2.co,1\n", parts=parts, name="{n}")
    assert len(problems) == 1 and problems[0].startswith(line)


def test_conditions_are_joined_and_know_the_target(tmp_path: Path) -> None:
    text = "A,B\n" + "".join(f"{a},{b}\n" for a in range(4) for b in range(4))
    rows = good(tmp_path, text, rows=["A > 1", "B < A", "target == 'gfx942'"])
    assert [(row["A"], row["B"]) for row in rows] == [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert [row["name"] for row in rows][:2] == ["A2B0", "A2B1"], "in the order of the table"


@pytest.mark.parametrize(
    ("text", "said", "lines", "left"),
    [
        ("", {}, ["table: gfx942.csv has no row"], 0), ("A\n", {}, ["table: gfx942.csv has no row"], 0),
        ("A\n1\n", {}, [], 1),
        ("#\nA,B\n\n1,2\n3\n4,5,6\n7,8\n", {},
         ["table: gfx942.csv, line 5: 1 cells under 2 columns", "table: gfx942.csv, line 6: 3 cells under 2 columns"], 2),
        ("A,B\n1\n", {}, ["table: gfx942.csv, line 2: 1 cells under 2 columns"], 0),
        ("A,B\n1\n", {"rows": ["1 < 2"]}, ["table: gfx942.csv, line 2: 1 cells under 2 columns"], 0),
        ("A\n1\n2\n", {"rows": ["A > 2"]}, ["rows: no row of gfx942.csv is left"], 0),
        ("A\n1\n2\n", {"rows": ["A > 0", "Q > 2", "R"]}, ["rows[1]: unknown name 'Q' (known: A) in 'Q > 2'"], 0),
        ("A,s\n1,x\n1,y\n", {}, ["name: gfx942.csv: two rows are called 'A1': say more in name"], 1),
        ("A,s\n1,x\n2,y\n", {"name": "{S}"}, ["name: '{S}' has {S}, which is no constant (known: A, s)"], 0),
        ("A-B,s\n1,x\n", {}, ["rename: column 'A-B' of gfx942.csv can be no constant: rename it"], 1),
        ("1A,s\n1,x\n", {}, ["rename: column '1A' of gfx942.csv can be no constant: rename it"], 1),
        ("name,s\n1,x\n", {}, ["rename: column 'name' of gfx942.csv can be no constant: rename it"], 1),
        ("A,A\n1,2\n", {}, ["rename: gfx942.csv has two columns 'A': rename one"], 1),
        ("A,B\n1,2\n", {"rename": {"B": "A"}}, ["rename: gfx942.csv has two columns 'A': rename one"], 1),
        ("A,B\n1,2\n", {"rename": {"D": "E", "C": "F", "A": "G"}},
         ["rename: 'C' is not a column of gfx942.csv (known: A, B)",
          "rename: 'D' is not a column of gfx942.csv (known: A, B)"], 1),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table(
    tmp_path: Path, text: str, said: dict[str, Any], lines: list[str], left: int
) -> None:
    rows, found = read(tmp_path, text, **said)
    assert (found, len(rows)) == (lines, left)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FetchError) as refused:
        rows_of(Rows(table="{target}.csv"), "gfx950", tmp_path, Problems())
    assert refused.value.args == ("read gfx950.csv", "there is no such file", "Correct table in the manifest")
    problems = Problems()
    assert rows_of(Rows(table="{arch}.csv"), "gfx950", tmp_path, problems) == []
    assert problems.lines == ["table: '{arch}.csv' has {arch}, which is no constant (known: target)"]
