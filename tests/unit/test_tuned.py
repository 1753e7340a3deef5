"""Tuned tables: one grammar for the manifests' and the user's; what is wrong in one is said with its line and column."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.contract.records import TunedRow
from aiter_prebuilt.errors import TunedTableError
from aiter_prebuilt.launch import user_tables
from build_tools.__main__ import cli
from build_tools.errors import UsageError
from build_tools.manifest.problems import Problems
from build_tools.plan.slots import Slots
from build_tools.plan.tuned_rows import read_tuned
from build_tools.report import tune_request

SLOTS = Slots("gemm", (), 0, (), {"T": ("bf16",)}, ("M", "N", "K", "CUS"), ())
RECIPES = {("tile", "16x64", "bf16"): 0, ("tile", "64x64", "bf16"): 1}
GOOD = "target,cus,M,N,K,kernel,variant,types,us\n"


def _read(tmp_path: Path, text: str) -> tuple[tuple[int, ...], tuple[TunedRow, ...], list[str]]:
    path = tmp_path / "gemm.csv"
    path.write_text(text)
    problems = Problems()
    slots, rows = read_tuned(path, SLOTS, RECIPES, "gfx950", {"gfx942", "gfx950"}, problems)
    return slots, rows, problems.lines


def test_rows_are_sorted_and_filtered_by_target(tmp_path: Path) -> None:
    text = GOOD + "gfx950,256,32,8,8,tile,64x64,bf16,3.5\n# a comment\ngfx942,304,1,8,8,tile,16x64,bf16,1\n"
    text += "gfx950,256,1,8,8,tile,16x64,bf16,2.5\ngfx950,256,1,8,8,other,x,bf16,2.5\n"
    slots, rows, problems = _read(tmp_path, text)
    assert problems == []
    assert slots == (0, 1, 2)
    assert [(row.cus, row.recipe, row.values) for row in rows] == [(256, 0, (1, 8, 8)), (256, 1, (32, 8, 8))]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "line 1: column 'target' is missing"),
        ("target,cus,M,kernel,variant\n", "line 1: column 'types' is missing"),
        ("target,cus,M,M,kernel,variant,types\n", "line 1, column 14: column 'M' stands there twice"),
        ("target,cus,,kernel,variant,types\n", "line 1, column 12: a column has no name"),
        (GOOD.replace("K", "Q"), "line 1, column 16: column 'Q' is not a dim"),
        (GOOD + "gfx95,256,1,8,8,tile,16x64,bf16,1\n", "line 2, column 1: 'gfx95' is not a known target"),
        (GOOD + "gfx950,many,1,8,8,tile,16x64,bf16,1\n", "line 2, column 8: cus is 'many', not a number"),
        (GOOD + "gfx950,256,-1,8,8,tile,16x64,bf16,1\n", "line 2, column 12: M is '-1', not a number"),
        (GOOD + "gfx950,256,\u0661,8,8,tile,16x64,bf16,1\n", "line 2, column 12: M is"),
        (GOOD + "gfx950,256,1,8,9223372036854775808,tile,16x64,bf16,1\n", "line 2, column 16: K is"),
        (GOOD + "gfx950,256,1,8,8,tile,16x64\n", "line 2, column 23: 7 cells, the header has 9"),
        (GOOD + "gfx950,256,1,8,8,tile,16x64,bf16,1,2\n", "line 2, column 34: 10 cells, the header has 9"),
        (GOOD + "gfx950,256,1,8,8,tile, ,bf16,1\n", "line 2, column 24: variant is empty"),
        (
            GOOD + "#\ngfx950,256,1,8,8,tile,1x1,bf16,1\n",
            "line 3, column 23: kernel 'tile' has no variant '1x1'",
        ),
        (
            GOOD + 2 * "gfx950,256,1,8,8,tile,16x64,bf16,1\n",
            "line 3, column 1: two rows for 256 compute units",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, part: str) -> None:
    lines = _read(tmp_path, text)[2]
    assert any(part in line for line in lines), lines


def test_quotes_spaces_comments_and_a_byte_order_mark() -> None:
    text = '\ufeff# a table\n\ntarget, cus ,M,kernel,variant,types,source\n gfx950,1,2,"k,1","a ""b""",f32,"by, me"\n'
    table = tuned_grammar.read(text)
    (row,) = table.rows
    assert not table.problems and table.symbols == (("M", 14),) and table.line == 3
    assert (row.target, row.cus, row.values, row.kernel, row.variant) == ("gfx950", 1, (2,), "k,1", 'a "b"')
    assert (row.line, row.columns["target"], row.columns["kernel"]) == (4, 2, 13)


def test_rows_that_differ_in_one_thing_are_two() -> None:
    """One shape may have a row for each device, variant and combination of element types."""
    rows = ["gfx950,256,1,k,v,bf16"]
    rows += ["gfx942,256,1,k,v,bf16", "gfx950,128,1,k,v,bf16", "gfx950,256,2,k,v,bf16"]
    rows += ["gfx950,256,1,l,v,bf16", "gfx950,256,1,k,w,bf16", "gfx950,256,1,k,v,f16"]
    table = tuned_grammar.read("target,cus,M,kernel,variant,types\n" + "\n".join(rows))
    assert not table.problems and len(table.rows) == len(rows)


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """write(name, text): a file that AITER_PREBUILT_TUNED names behind those of earlier calls."""
    named: list[str] = []

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        named.append(str(path))
        monkeypatch.setenv(user_tables.VARIABLE, os.pathsep.join(named))
        user_tables.read.cache_clear()
        return path

    return make


HEADER = "target,cus,M,kernel,variant,types\n"


def test_a_users_tables_are_for_their_operator_target_and_device(write: Write) -> None:
    first = write(
        "a/gemm.csv", HEADER + "gfx950,256,1,k,v,bf16\ngfx950,128,1,k,v,bf16\ngfx942,304,1,k,w,bf16\n"
    )
    second = write("b/gemm.csv", "target,cus,kernel,variant,types\n\ngfx950,256,k,u,bf16\n")
    write("b/softmax.csv", HEADER + "gfx950,256,1,k,v,bf16\n")
    names = {"gemm", "softmax"}
    found = user_tables.native_tables("gemm", "gfx950", 256, names)
    assert found == (
        ((), ((f"{second}:3", 256, (), "k", "u", "bf16"),), False),
        ((("M", f"{first}:1:12"),), ((f"{first}:2", 256, (1,), "k", "v", "bf16"),), False),
    ), "the later path wins"
    assert user_tables.native_tables("gemm", "gfx942", 304, {"gemm"})[0][1] == (
        (f"{first}:4", 304, (1,), "k", "w", "bf16"),
    )
    assert user_tables.native_tables("rms_norm", "gfx950", 256, names) == ()


def test_rows_that_nobody_measured_go_behind_the_rest(write: Write) -> None:
    header = HEADER.replace("types", "types,us,source")
    write("a/gemm.csv", header + "gfx950,256,1,k,v,bf16,9.5,measured\n")
    write("b/gemm.csv", header + "gfx950,256,1,k,w,bf16,2.5,modelled\ngfx950,256,1,k,x,bf16,3.5,\n")
    found = user_tables.native_tables("gemm", "gfx950", 256, {"gemm"})
    assert [([line[4] for line in rows], modelled) for _, rows, modelled in found] == [
        (["x"], False), (["v"], False), (["w"], True),
    ]  # fmt: skip
    words = ("modelled", "modelled; the cost rule's", "measured", "modelled once")
    lines = [f"gfx950,256,{size},k,v,bf16,1,{word}\n" for size, word in enumerate(words, 1)]
    noted = tuned_grammar.read(header + "".join(lines))
    assert [row.modelled for row in noted.rows] == [True, True, False, False]


def test_a_folder_is_all_its_tables_and_they_are_read_once(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("gemm.csv", HEADER + "gfx950,256,1,k,v,bf16\n")
    (path.parent / "notes.txt").write_text("no table")
    monkeypatch.setenv(user_tables.VARIABLE, str(path.parent))
    assert len(user_tables.native_tables("gemm", "gfx950", 256, {"gemm"})[0][1]) == 1
    path.write_text("changed")
    assert len(user_tables.native_tables("gemm", "gfx950", 256, {"gemm"})[0][1]) == 1


@pytest.mark.parametrize(
    ("name", "text", "asked", "found", "fix"),
    [
        ("gemm.csv", HEADER + "gfx950,x,1,k,v,bf16\n", "gemm.csv, line 2, column 8", "cus is 'x', not a", "Write a number"),
        ("gemm.csv", HEADER + "gfx95O,1,1,k,v,bf16\n", "gemm.csv, line 2, column 1", "'gfx95O' is not a target", "gfx950"),
        ("gemm.csv", HEADER + "gfx950,1,1,,,bf16\n", "line 2, column 12", "kernel is empty (and 1 more problems)", "explain"),
        ("gemm.csv", "", "gemm.csv, line 1, column 1", "column 'target' is missing", "target,cus,M,N,K"),
        ("gem.csv", HEADER + "gfx950,1,1,k,v,bf16\n", "gem.csv, line 1, column 1", "operator 'gem'", "gemm.csv"),
        ("gemm.toml", "", "gemm.toml", "does not end in .csv", "OPERATOR.csv"),
    ],
)  # fmt: skip
def test_a_bad_table_is_an_error_with_its_place(
    write: Write, name: str, text: str, asked: str, found: str, fix: str
) -> None:
    write(name, text)
    for _ in range(2):
        with pytest.raises(TunedTableError) as caught:
            user_tables.native_tables("softmax", "gfx950", 256, {"gemm", "softmax"})
        assert asked in caught.value.asked and found in caught.value.found and fix in caught.value.fix


def test_a_table_that_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is there, so it is not called missing; a pipe is not waited for."""
    pipe, loop, text = (tmp_path / name for name in ("pipe.csv", "loop.csv", "gemm.txt"))
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    text.write_text("")
    for path, why in (
        (pipe, "a named pipe, not a file"),
        (loop, "a link that cannot be followed"),
        (text, "end in .csv"),
    ):
        monkeypatch.setenv(user_tables.VARIABLE, str(path))
        with pytest.raises(TunedTableError, match=why):
            user_tables.native_tables("gemm", "gfx950", 256, {"gemm"})


def test_a_path_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(user_tables.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(
        TunedTableError, match=r"none of AITER_PREBUILT_TUNED: there is no such file or folder\. Name files"
    ):
        user_tables.native_tables("gemm", "gfx950", 256, {"gemm"})
    (tmp_path / "gemm.csv").write_bytes(b"\xff\xfe")
    monkeypatch.setenv(user_tables.VARIABLE, str(tmp_path / "gemm.csv"))
    with pytest.raises(TunedTableError, match=r"gemm\.csv, line 1, column 1.*UTF-8"):
        user_tables.native_tables("gemm", "gfx950", 256, {"gemm"})


def _miss(**changes: object) -> str:
    miss = {"version": 1, "operator": "gemm", "target": "gfx950", "cus": 256, "symbols": {"M": 3, "K": 8}, "types": "bf16",
            "kernel": "tile", "variant": "16x64", "cost": 5}  # fmt: skip
    return json.dumps(miss | changes) + "\n"


def test_a_request_has_every_shape_once_sorted_and_waits_for_a_person(tmp_path: Path, write: Write) -> None:
    logs = [tmp_path / "one", tmp_path / "two"]
    logs[0].write_text(_miss(symbols={"M": 10, "K": 8}) + _miss() + _miss(target="gfx942", cus=304) + "\n")
    logs[1].write_text(_miss() + _miss(operator="softmax", symbols={"M": 1}) + _miss(symbols={"M": 3}))
    made = tune_request.requests(logs)
    assert [(request.name, request.rows) for request in made] == [
        ("gemm.csv", 1),
        ("gemm-2.csv", 3),
        ("softmax.csv", 1),
    ]
    source = "cost rule: tile[16x64] cost 5"
    assert made[1].text == (
        "# gemm\ntarget,cus,M,K,kernel,variant,types,source\n"
        f"gfx942,304,3,8,,,bf16,{source}\ngfx950,256,3,8,,,bf16,{source}\ngfx950,256,10,8,,,bf16,{source}\n"
    )
    folder = tmp_path / "request"
    assert [path.name for path in tune_request.write(folder, made)] == [
        "gemm.csv",
        "gemm-2.csv",
        "softmax.csv",
    ]
    tune_request.write(folder, made)
    completed = made[2].text.replace(",,,", ",softmax_rows,WIDE1-row,")
    (folder / "softmax.csv").write_text(completed)
    with pytest.raises(UsageError, match="a completed table lies there"):
        tune_request.write(folder, made)
    write("softmax.csv", completed)
    (table,) = user_tables.native_tables("softmax", "gfx950", 256, {"softmax"})
    assert table[1][0][3:] == ("softmax_rows", "WIDE1-row", "bf16")
    assert tuned_grammar.read(made[1].text).rows == (), "an empty variant is never taken"


def test_the_verb_says_both_places_of_a_completed_table(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(_miss())
    said = CliRunner().invoke(
        cli, ["tune-request", str(tmp_path / "log"), "--output", str(tmp_path / "request")]
    )
    assert said.exit_code == 0 and "gemm.csv: 1 shapes" in said.output
    assert "AITER_PREBUILT_TUNED" in said.output and 'tuned = "tuned/OPERATOR.csv"' in said.output


@pytest.mark.parametrize(
    ("line", "part"),
    [("{", "line 2: not a miss"), (_miss(version=2), "its version is 2"), (_miss(cus="x"), "its 'cus' is 'x'"),
     ('{"version": 1}', "it has no 'operator'"), (_miss(symbols={"M": "x"}), "line 2")],
)  # fmt: skip
def test_a_log_that_is_none(tmp_path: Path, line: str, part: str) -> None:
    log = tmp_path / "log"
    log.write_text(_miss() + line)
    with pytest.raises(UsageError, match="AITER_PREBUILT_MISS_LOG") as caught:
        tune_request.requests([log])
    assert part in str(caught.value)
