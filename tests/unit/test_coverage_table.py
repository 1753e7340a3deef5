"""The coverage table's arithmetic and its view, on small tables: every count, every status, every line."""

from __future__ import annotations

import io
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from support import repository

from aiter_prebuilt.contract.bundle import FormatError
from build_tools.objects.entries import BuiltEntry
from build_tools.report import coverage
from build_tools.report.coverage import Cell, Coverage, OperatorRow, compute
from build_tools.report.coverage_view import render

TARGETS = ("gfx942", "gfx950")
A, B = TARGETS


def row(
    operator: str, cells: dict[tuple[str, str], Cell], category: str = "norms", aiter: tuple[str, ...] = ()
) -> OperatorRow:
    return OperatorRow(category, f"title of {operator}", operator, aiter, cells)


def entry(operator: str, backend: str, target: str, *recipes: str) -> BuiltEntry:
    return BuiltEntry(operator, ("k",), backend, target, "ck-free", "e", "00", recipes, False)


def test_status_of_what_is_declared() -> None:
    one = row("x", {("hip", A): Cell(1, 0)})
    assert [one.has(target, False) for target in TARGETS] == [True, False]
    assert [one.has(target, True) for target in TARGETS] == [False, False]
    assert one.status(TARGETS, False) == "missing on gfx950"
    assert one.status((A,), False) == "covered" and one.status((B,), False) == "missing"
    assert row("x", {}).status(TARGETS, False) == row("x", {}).status(TARGETS, True) == "missing"
    assert row("x", {}).status((A, B, "sm_90"), False) == "missing"
    assert one.status((A, B, "sm_90"), False) == "missing on gfx950, sm_90"
    both = row("x", {("hip", A): Cell(1, 0), ("triton", B): Cell(2, 0)})
    assert (both.status(TARGETS, False), both.status(TARGETS, True)) == ("covered", "missing")


def test_status_of_what_is_built() -> None:
    cells = {("hip", A): Cell(0, 1, 1), ("triton", B): Cell(1, 5, 2), ("hip", B): Cell(1, 2, 1)}
    one = row("x", cells)
    assert (one.unproved(), one.status(TARGETS, True)) == (4, "covered, 4 not proved")
    assert one.status((A,), True) == "covered, 4 not proved"
    proved = row("x", {("hip", A): Cell(3, 2, 2), ("hip", B): Cell(3, 1, 1)})
    assert (proved.unproved(), proved.status(TARGETS, True)) == (0, "proved")
    assert row("x", {("hip", A): Cell(3, 1, 1)}).status(TARGETS, True) == "missing on gfx950"


TABLE = Coverage(
    "ck-free",
    TARGETS,
    (
        row(
            "first", {("triton", B): Cell(2, 3, 1), ("hip", A): Cell(1, 6, 6), ("triton", A): Cell(1, 12, 12)}
        ),
        row("half", {("hip", A): Cell(1, 1, 0)}, aiter=("hip", "ck")),
        row("none", {}, aiter=("asm",)),
        row("of_its_own", {}, coverage.UNLISTED),
        row("later", {("hip", A): Cell(1, 1, 1), ("hip", B): Cell(1, 1, 1)}, "quant_fused"),
    ),
    True,
)


def test_gaps_and_sums() -> None:
    assert [gap.operator for gap in TABLE.gaps()] == ["half", "none", "of_its_own"]
    assert TABLE.unproved() == 3
    assert replace(TABLE, targets=(A,)).gaps() == TABLE.rows[2:4]
    declared = replace(TABLE, built=False)
    assert [gap.operator for gap in declared.gaps()] == ["half", "none", "of_its_own"]


def test_as_json() -> None:
    found = TABLE.as_json()
    rows = found.pop("rows")
    assert found == {
        "version": 1, "profile": "ck-free", "targets": [A, B], "counted": "built bundles",
        "gaps": ["half", "none", "of_its_own"], "unproved": 3,
    }  # fmt: skip
    assert rows[0] == {
        "category": "norms", "title": "title of first", "operator": "first", "aiter_backends": [],
        "cells": {
            "hip/gfx942": {"kernels": 1, "entries": 6, "proved": 6},
            "triton/gfx942": {"kernels": 1, "entries": 12, "proved": 12},
            "triton/gfx950": {"kernels": 2, "entries": 3, "proved": 1},
        },
        "status": "covered, 2 not proved",
        "reasons": {}, "family": "", "module": "", "summary": "", "signature": "",
    }  # fmt: skip
    assert list(rows[0]["cells"]) == sorted(rows[0]["cells"])
    assert (rows[1]["aiter_backends"], rows[1]["status"]) == (["hip", "ck"], "missing on gfx950")
    assert replace(TABLE, built=False).as_json()["counted"] == "manifests only"


def shown(table: Coverage, width: int = 100) -> list[str]:
    out = io.StringIO()
    render(table, Console(file=out, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_what_is_shown_of_bundles() -> None:
    out = io.StringIO()
    render(TABLE, Console(file=out, width=100))
    table = out.getvalue().split("\n\n")[0].splitlines()[1:]
    assert [line.rstrip() for line in table] == [
        "norms",
        "operator   asm hip ck triton flydsl status",
        "first          6+0    12+3          covered, 2 not proved",
        "half           1+0 -                missing on gfx950",
        "none       -                        missing",
    ]
    assert {len(line) for line in table} == {len(table[2].rstrip())}, "as wide as its widest line"
    assert out.getvalue().count("\n\n") == 3, "a blank line behind each table and no other"
    lines = shown(TABLE)
    assert lines[0] == "profile ck-free, targets gfx942, gfx950; cells count entries in built bundles"
    assert [line for line in lines if line and not line.startswith(" ")][1:] == [
        "norms",
        "operator   asm hip ck triton flydsl status",
        "first          6+0    12+3          covered, 2 not proved",
        "half           1+0 -                missing on gfx950",
        "none       -                        missing",
        "not in the catalogue",
        "operator   asm hip ck triton flydsl status",
        "of_its_own                          missing",
        "quant fused",
        "operator   asm hip ck triton flydsl status",
        "later          1+1                  proved",
        "3 entries have no receipt. Their kernels: python -m build_tools report status",
        "2 of 5 operators are covered; gaps:",
    ]
    assert lines[-3:] == [
        "  title of half: half",
        "  title of none: none",
        "  not in the catalogue: of_its_own",
    ]


def test_what_is_shown_of_manifests() -> None:
    """Kernels are counted, and nothing is said of receipts."""
    lines = shown(replace(TABLE, built=False))
    assert lines[0].endswith("cells count kernels in the manifests (nothing is built yet)")
    assert any(line.split() == ["first", "1+0", "1+2", "covered"] for line in lines)
    assert not any("receipt" in line for line in lines)


def test_gaps_stand_under_one_title_and_are_folded() -> None:
    names = [f"operator_number_{place}" for place in range(8)]
    rows = tuple(OperatorRow("norms", "Title", name, (), {}) for name in names)
    lines = shown(replace(TABLE, rows=rows), 60)
    at = lines.index("0 of 8 operators are covered; gaps:")
    assert lines[at + 1 :] == textwrap.wrap(
        f"Title: {', '.join(names)}", 60, initial_indent="  ", subsequent_indent="    "
    )


def test_a_long_name_has_a_line_for_itself() -> None:
    rows = (row("x" * 44, {}), row("y" * 45, {}))
    lines = shown(replace(TABLE, rows=rows), 120)
    assert any(line.startswith("x" * 44 + " ") for line in lines)
    assert lines[lines.index("y" * 45) + 1].startswith(" " * 44)


def test_every_line_fits_80_columns() -> None:
    rows = (row("x" * 30, {}), *TABLE.rows)
    assert max(map(len, shown(replace(TABLE, rows=rows), 80))) <= 80


def test_entries_are_counted_by_operator_backend_and_target() -> None:
    entries = [
        entry("x", "hip", A, "one"), entry("x", "hip", A, "one", "two"), entry("x", "hip", A), entry("x", "triton", A, "two"),
        entry("x", "hip", B, "one"), entry("y", "hip", A, "three"),
    ]  # fmt: skip
    assert coverage._counted(entries, {"one", "three"}) == {
        ("x", "hip", A): Cell(0, 3, 1), ("x", "triton", A): Cell(0, 1, 0), ("x", "hip", B): Cell(0, 1, 1),
        ("y", "hip", A): Cell(0, 1, 1),
    }  # fmt: skip
    assert coverage._counted([], {"one"}) == {}


def test_bundles_of_the_included_profile_count_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A damaged one, and one that is not there, are left out; those after it are not."""
    manifest = repository.manifest()
    for name in ("gfx942-ck-full", "gfx950-ck-full", "gfx942-ck-free"):
        (tmp_path / f"{name}.apb").write_bytes(b"")

    def opened(path: Path) -> Path:
        if path.name == "gfx942-ck-full.apb":
            raise FormatError("damaged")
        return path

    def entries(path: Path) -> tuple[BuiltEntry, ...]:
        target, _, profile = path.stem.partition("-")
        return (entry("rms_norm", "ck" if profile == "ck-full" else "hip", target, "one"),)

    monkeypatch.setattr(coverage, "open_bundle", opened)
    monkeypatch.setattr(coverage, "entries_of", entries)
    table = compute(manifest, "ck-full", TARGETS, tmp_path, {"one"})
    (found,) = (each for each in table.rows if each.operator == "rms_norm")
    assert {place: (cell.entries, cell.proved) for place, cell in found.cells.items() if cell.entries} == {
        ("ck", B): (1, 1),
        ("hip", A): (1, 1),
    }
    assert table.built and table.unproved() == 0
    free = compute(manifest, "ck-free", TARGETS, tmp_path, ())
    (found,) = (each for each in free.rows if each.operator == "rms_norm")
    assert {place: cell.entries for place, cell in found.cells.items() if cell.entries} == {("hip", A): 1}
    assert found.cells["hip", A].kernels == 0 and free.unproved() == 1
    assert not compute(manifest, "ck-free", TARGETS, None, ()).built


def test_kernels_are_counted_where_they_serve() -> None:
    manifest = repository.manifest()
    table = compute(manifest, "ck-full", TARGETS, None)
    for family in manifest.families.values():
        for operator in family.operators:
            for found in (each for each in table.rows if each.operator == operator.name):
                expected: dict[tuple[str, str], int] = {}
                for kernel in operator.kernels:
                    for target in set(kernel.targets) & set(TARGETS):
                        place = (kernel.backend, target)
                        expected[place] = expected.get(place, 0) + 1
                assert {place: cell.kernels for place, cell in found.cells.items()} == expected
                assert not any(cell.entries or cell.proved for cell in found.cells.values())


def test_it_fits_80_columns() -> None:
    wide = replace(TABLE, rows=(*TABLE.rows, row("a_name_" * 8, {("hip", A): Cell(100, 600, 600)})))
    lines = shown(wide, 80)
    assert max(map(len, lines)) <= 80
    assert any(line.endswith("missing on gfx950") for line in lines), "the status is whole"
