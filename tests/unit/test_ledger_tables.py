"""The ledger's arithmetic and its view, and requests for tuning, on small tables: every count, every line, every refusal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from build_tools.errors import UsageError
from build_tools.report import ledger_view, tune_request
from build_tools.report.ledger import Ledger, Line
from build_tools.report.tune_request import Miss, Request


def line(
    kernel: str, target: str, entries: int = 0, *unproved: str, operator: str = "norm", backend: str = "hip"
) -> Line:
    return Line("family", operator, kernel, backend, "ck-free", target, entries, unproved)


LEDGER = Ledger((
    line("row", "gfx942", 3, "e0", "e1"), line("row", "gfx950", 2), line("wide", "gfx942", 1, "e1"), line("wide", "gfx950"),
    line("row", "gfx942", 1, "e1", operator="other", backend="asm"), line("row", "gfx950", 1, "e1", operator="other"),
))  # fmt: skip


def test_states() -> None:
    assert [(each.proved, each.state) for each in LEDGER.lines] == [
        (1, "compiled"), (2, "tested"), (0, "compiled"), (0, "source only"), (0, "compiled"), (0, "compiled"),
    ]  # fmt: skip


def test_counts() -> None:
    assert LEDGER.counts() == {"tested": 1, "compiled": 4, "source only": 1}
    assert LEDGER.counts([]) == Ledger(()).counts() == {"tested": 0, "compiled": 0, "source only": 0}
    assert list(LEDGER.tables().items()) == [
        (("asm", "gfx942"), {"tested": 0, "compiled": 1, "source only": 0}),
        (("hip", "gfx942"), {"tested": 0, "compiled": 2, "source only": 0}),
        (("hip", "gfx950"), {"tested": 1, "compiled": 1, "source only": 1}),
    ]
    assert list(LEDGER.unproved().items()) == [("gfx942", 3), ("gfx950", 1)], (
        "one entry of two kernels is one"
    )


def test_as_json() -> None:
    found = LEDGER.as_json()
    rows = found.pop("kernels")
    assert rows[0] == {
        "family": "family", "operator": "norm", "kernel": "row", "backend": "hip", "profile": "ck-free", "target": "gfx942",
        "entries": 3, "proved": 1, "unproved": ["e0", "e1"], "state": "compiled",
    }  # fmt: skip
    assert [row["state"] for row in rows] == [each.state for each in LEDGER.lines]
    assert found == {
        "version": 1,
        "counts": [
            {"backend": "asm", "target": "gfx942", "tested": 0, "compiled": 1, "source only": 0},
            {"backend": "hip", "target": "gfx942", "tested": 0, "compiled": 2, "source only": 0},
            {"backend": "hip", "target": "gfx950", "tested": 1, "compiled": 1, "source only": 1},
        ],
        "total": {"tested": 1, "compiled": 4, "source only": 1},
        "unproved_entries": 4,
    }


def shown(ledger: Ledger) -> list[list[str]]:
    """Words of each line, without the frames of tables."""
    out = io.StringIO()
    ledger_view.render(ledger, Console(file=out, width=200))
    lines = [
        [part.strip() for part in row.strip("│┃").replace("┃", "│").split("│")]
        for row in out.getvalue().splitlines()
    ]
    return [row for row in lines if row[0].isascii() and any(row)]


def test_what_is_shown() -> None:
    head = ["operator", "kernel", "backend", "targets", "proved / built"]
    assert shown(LEDGER)[1:] == [
        ["tested (1 kernels)"],
        head,
        ["norm", "row", "hip", "gfx950", "2/2"],
        ["compiled (4 kernels)"],
        head,
        ["norm", "row", "hip", "gfx942", "1/3"],
        ["norm", "wide", "hip", "gfx942", "0/1"],
        ["other", "row", "asm", "gfx942, gfx950", "0/1, 0/1"],
        ["source only (1 kernels)"],
        head,
        ["norm", "wide", "hip", "gfx950", "0/0"],
        ["kernels by backend and target"],
        ["backend", "target", "tested", "compiled", "source only"],
        ["asm", "gfx942", "0", "1", "0"],
        ["hip", "gfx942", "0", "2", "0"],
        ["hip", "gfx950", "1", "1", "1"],
        ["all", "17 % tested", "1", "4", "1"],
        ["3 entries for gfx942 are not proved"],
        ["1 entries for gfx950 are not proved"],
    ]


@pytest.mark.parametrize(
    ("tested", "of", "share"), [(0, 0, 0), (1, 1, 100), (1, 2, 50), (2, 3, 67), (0, 3, 0)]
)
def test_a_share_is_of_all_kernels(tested: int, of: int, share: int) -> None:
    """A state without kernels has no table."""
    lines = tuple(line(f"k{place}", "gfx942", int(place < tested)) for place in range(of))
    rows = shown(Ledger(lines))
    assert ["all", f"{share} % tested", str(tested), "0", str(of - tested)] in rows
    assert not any(row[0].startswith("compiled (") for row in rows)
    assert any(row[0].startswith("tested (") for row in rows) == (tested > 0)


MISS = {
    "version": 1, "operator": "gemm", "target": "gfx950", "cus": 256, "symbols": {"M": 3, "K": 8}, "types": "bf16",
    "kernel": "tile", "variant": "16x64", "cost": 5,
}  # fmt: skip


def log(folder: Path, *lines: str) -> Path:
    path = folder / "log"
    path.write_text("\n".join(lines))
    return path


def missed(**changes: Any) -> str:
    return json.dumps(MISS | changes)


def test_a_log_is_read_as_it_stands(tmp_path: Path) -> None:
    path = log(tmp_path, missed(), "  ", missed(cus=304, symbols={}), missed())
    one = Miss("gemm", "gfx950", 256, (("M", 3), ("K", 8)), "bf16", "cost rule: tile[16x64] cost 5")
    other = Miss("gemm", "gfx950", 304, (), "bf16", one.source)
    assert tune_request.read_log(path) == [one, other, one]
    assert tune_request.read_log(log(tmp_path)) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (missed(operator=3), "its 'operator' is 3"), (missed(symbols=[]), "its 'symbols' is []"),
        (missed(cost="5"), "its 'cost' is '5'"), (missed(version=0), "its version is 0, this program reads 1"),
        (missed(version=2), "its version is 2, this program reads 1"), ("{}", "it has no 'version'"),
        ("[]", "list indices must be integers or slices, not str"), (missed(symbols={"M": [1]}), "int() argument must be"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_miss_is_named(tmp_path: Path, wrong: str, said: str) -> None:
    path = log(tmp_path, missed(), "", wrong, missed())
    with pytest.raises(UsageError) as caught:
        tune_request.read_log(path)
    assert caught.value.asked == f"read the miss log {path}, line 3"
    assert caught.value.found.startswith(f"not a miss: {said}")
    assert caught.value.fix == "Name files that AITER_PREBUILT_MISS_LOG wrote"


@pytest.mark.parametrize("data", [None, b"\xff"])
def test_a_log_that_cannot_be_read(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "log"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        tune_request.requests([path])
    assert caught.value.asked == f"read the miss log {path}"
    assert ("utf-8" if data else "No such file") in caught.value.found


def test_a_shape_is_asked_for_once_with_what_ran_first(tmp_path: Path) -> None:
    others = [
        missed(cost=9),
        missed(types="f32"),
        missed(cus=80),
        missed(target="gfx942"),
        missed(symbols={"M": 3, "K": 9}),
    ]
    (made,) = tune_request.requests([log(tmp_path, missed(), *others)])
    source = "cost rule: tile[16x64] cost 5"
    assert (made.name, made.rows) == ("gemm.csv", 5)
    assert made.text.splitlines()[2:] == [
        f"gfx942,256,3,8,,,bf16,{source}", f"gfx950,80,3,8,,,bf16,{source}", f"gfx950,256,3,8,,,bf16,{source}",
        f"gfx950,256,3,9,,,bf16,{source}", f"gfx950,256,3,8,,,f32,{source}",
    ]  # fmt: skip


def test_sets_of_symbols_are_numbered(tmp_path: Path) -> None:
    lines = [missed(symbols={name: 1}) for name in "CAB"]
    made = tune_request.requests([log(tmp_path, *lines, missed(operator="add"))])
    assert [(each.name, each.text.splitlines()[1][11:13]) for each in made] == [
        ("add.csv", "M,"), ("gemm.csv", "A,"), ("gemm-2.csv", "B,"), ("gemm-3.csv", "C,"),
    ]  # fmt: skip


def test_a_table_that_a_person_completed_stays(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "request"
    (made,) = tune_request.requests([log(tmp_path, missed())])
    (path,) = tune_request.write(folder, [made])
    assert (path, path.read_text()) == (folder / "gemm.csv", made.text)
    assert tune_request.write(folder, [made]) == [path], "of an earlier request: replaced"
    done = made.text.replace("3,8,,,", "3,8,tile,16x64,")
    path.write_text(done)
    with pytest.raises(UsageError) as caught:
        tune_request.write(folder, [Request("a.csv", made.text, 1), made])
    assert caught.value.asked == f"write {path}" and caught.value.found == "a completed table lies there"
    assert caught.value.fix == "Name another folder with --output" and path.read_text() == done
