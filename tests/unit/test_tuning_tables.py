"""Tables of ``tune``: what a row says, rows that a table cannot tell apart, negative options, and whole files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.errors import OtherTableError, TunedTableError
from aiter_prebuilt.tuning.outcome import Measured, Timing
from aiter_prebuilt.tuning.tables import Place, TableFolder

PLACE = Place("gfx942", 304, "Card X", "7", "0.1.0 abc")


def measured(words: str, symbols: dict[str, int], variant: str = "v1", cold: float = 2.0) -> Measured:
    default = Timing("k", "v0", "hip", "bf16", default=True, cold_us=4.0, warm_us=3.0, spread=0.01)
    winner = Timing("k", variant, "hip", "bf16", cold_us=cold, warm_us=1.5, spread=0.02)
    return Measured(words, "op", symbols, "bf16", [default, winner], 1)


def rows(folder: Path) -> list[Any]:
    table = tuned_grammar.read((folder / "op.csv").read_text())
    assert not table.problems
    return list(table.rows)


def test_a_row_says_how_it_was_measured(tmp_path: Path) -> None:
    tables = TableFolder(tmp_path, PLACE)
    assert tables.add(measured("op M=1", {"M": 1, "k": 0}), 2100) == ""
    (row,) = rows(tmp_path)
    assert (row.values, row.kernel, row.variant, row.types, row.us) == ((1, 0), "k", "v1", "bf16", "2.00")
    assert row.source == (
        "measured; device Card X; driver 7; bundle 0.1.0 abc; clock 2100 MHz; warm 1.50; spread 0.020; default 4.00; call op M=1"
    )
    assert TableFolder(tmp_path, PLACE).done == {"op M=1"} and tables.files == [str(tmp_path / "op.csv")]


def test_an_unknown_clock_is_said(tmp_path: Path) -> None:
    TableFolder(tmp_path, PLACE).add(measured("op M=1", {"M": 1}), None)
    assert "; clock unknown; " in rows(tmp_path)[0].source


def test_calls_that_a_table_cannot_tell_apart_share_a_row(tmp_path: Path) -> None:
    tables = TableFolder(tmp_path, PLACE)
    tables.add(measured("op M=1 bias=none", {"M": 1}), None)
    assert tables.add(measured("op M=1", {"M": 1}), None) == ""
    (row,) = rows(tmp_path)
    assert row.source.endswith("; call op M=1 bias=none | op M=1")
    assert TableFolder(tmp_path, PLACE).done == {"op M=1 bias=none", "op M=1"}


def test_another_winner_of_the_same_key_is_said(tmp_path: Path) -> None:
    tables = TableFolder(tmp_path, PLACE)
    tables.add(measured("op M=1 bias=none", {"M": 1}), None)
    note = tables.add(measured("op M=1", {"M": 1}, "v2"), None)
    assert note == (
        "a table cannot tell it from op M=1 bias=none, whose k[v1] goes first where it takes the call"
    )
    assert [row.variant for row in rows(tmp_path)] == ["v1", "v2"]


def test_a_column_that_would_be_negative_goes(tmp_path: Path) -> None:
    tables = TableFolder(tmp_path, PLACE)
    tables.add(measured("op M=1 right=0", {"M": 1, "right": 0}), None)
    tables.add(measured("op M=2 right=0", {"M": 2, "right": 0}), None)
    tables.add(measured("op M=1", {"M": 1, "right": -1}), None)
    table = tuned_grammar.read((tmp_path / "op.csv").read_text())
    assert [name for name, _ in table.symbols] == ["M"] and not table.problems
    assert [(row.values, row.source.rpartition("call ")[2]) for row in table.rows] == [
        ((1,), "op M=1 right=0 | op M=1"), ((2,), "op M=2 right=0"),
    ]  # fmt: skip
    assert TableFolder(tmp_path, PLACE).done == {"op M=1 right=0", "op M=2 right=0", "op M=1"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"device": "Card Y"}, "it was measured with the device Card X, and here is Card Y"),
        ({"driver": "8"}, "it was measured with the driver 7, and here is 8"),
        ({"bundle": "0.2.0 abc"}, "it was measured with the bundle 0.1.0 abc, and here is 0.2.0 abc"),
        ({"target": "gfx950"}, "it is for the target gfx942, and here are gfx950"),
        ({"cus": 256}, "it is for the compute units 304, and here are 256"),
    ],
)  # fmt: skip
def test_a_table_of_another_place_is_refused(tmp_path: Path, change: dict[str, Any], found: str) -> None:
    TableFolder(tmp_path, PLACE).add(measured("op M=1", {"M": 1}), None)
    known = {name: getattr(PLACE, name) for name in ("target", "cus", "device", "driver", "bundle")}
    with pytest.raises(OtherTableError) as refused:
        TableFolder(tmp_path, Place(**{**known, **change}))
    assert refused.value.asked == f"go on with the table {tmp_path / 'op.csv'}, line 3"
    assert (refused.value.found, refused.value.fix) == (found, "Name another folder: --output FOLDER")


def test_a_table_of_a_person_is_refused(tmp_path: Path) -> None:
    (tmp_path / "op.csv").write_text(
        "target,cus,M,kernel,variant,types,us,source\ngfx942,304,1,k,v,bf16,1,by hand\n"
    )
    with pytest.raises(OtherTableError, match="aiter-prebuilt tune did not write this row"):
        TableFolder(tmp_path, PLACE)


def test_a_malformed_table_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "op.csv").write_text("target,cus,M,kernel,variant\n")
    with pytest.raises(TunedTableError, match=r"op\.csv, line 1: column 'types' is missing"):
        TableFolder(tmp_path, PLACE)


def test_a_failed_write_leaves_the_old_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = TableFolder(tmp_path, PLACE)
    tables.add(measured("op M=1", {"M": 1}), None)
    before = (tmp_path / "op.csv").read_bytes()

    def full(self: Path, _target: object) -> None:
        assert self.suffix == ".part"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(TunedTableError, match="No space left on device"):
        tables.add(measured("op M=2", {"M": 2}), None)
    assert (tmp_path / "op.csv").read_bytes() == before and [path.name for path in tmp_path.iterdir()] == [
        "op.csv"
    ]


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("kept")
    with pytest.raises(TunedTableError, match="File exists") as refused:
        TableFolder(taken, PLACE).add(measured("op M=1", {"M": 1}), None)
    assert refused.value.asked == f"write the table {taken / 'op.csv'}"
    assert refused.value.fix == "Name another folder: --output FOLDER"
    assert taken.read_text() == "kept"
