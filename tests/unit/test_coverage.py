"""The coverage table: computed, from manifests or from bundles, with the gaps named."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from support import repository
from support.bundles import blob, small_operator, small_root

from build_tools.errors import UnknownTargetError, UsageError
from build_tools.manifest.model import Manifest
from build_tools.pack import writer
from build_tools.report.coverage import Cell, compute
from build_tools.report.coverage_view import render

TARGETS = ("gfx942", "gfx950")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return repository.manifest()


def test_the_catalogue_has_every_row_of_the_coverage_document(manifest: Manifest) -> None:
    rows = [entry for entries in manifest.catalogue.categories.values() for entry in entries]
    assert len(rows) >= 31
    assert len({entry.title for entry in rows}) == len(rows)


def test_every_operator_of_the_manifests_is_in_the_catalogue(manifest: Manifest) -> None:
    table = compute(manifest, "ck-full", TARGETS, None)
    assert [row.operator for row in table.rows if row.category == "not in the catalogue"] == []


def test_from_the_manifests(manifest: Manifest) -> None:
    table = compute(manifest, "ck-free", TARGETS, None)
    status = {row.operator: row.status(TARGETS, table.built) for row in table.rows}
    assert not table.built
    assert status["rms_norm"] == status["smoothquant_fwd"] == "covered"
    assert status["moe_cktile2stages_gemm1"] == "missing"
    assert all(backend != "ck" for row in table.rows for backend, _ in row.cells)


def test_ck_full_counts_ck_too(manifest: Manifest) -> None:
    row = next(
        row for row in compute(manifest, "ck-full", TARGETS, None).rows if row.operator == "smoothquant_fwd"
    )
    assert {backend for backend, _ in row.cells} == {"ck", "hip", "triton"}


def test_with_bundles_only_what_was_built_counts(manifest: Manifest, tmp_path: Path) -> None:
    operator = replace(
        small_operator("rms_norm"), kernels=(replace(small_operator("x").kernels[0], backend=3),)
    )
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    (tmp_path / "gfx942-ck-free.apb").write_bytes(writer.encode(small_root(), (operator,), (frame,)))
    table = compute(manifest, "ck-free", TARGETS, tmp_path)
    status = {row.operator: row.status(TARGETS, table.built) for row in table.rows}
    assert table.built
    assert status["rms_norm"] == "missing on gfx950"
    assert status["smoothquant_fwd"] == "missing"
    row = next(row for row in table.rows if row.operator == "rms_norm")
    assert row.cells["triton", "gfx942"].entries == 1


def test_names_that_nobody_knows_are_refused(manifest: Manifest) -> None:
    with pytest.raises(UsageError, match="'foo': not a profile"):
        compute(manifest, "foo", TARGETS, None)
    with pytest.raises(UnknownTargetError, match="Did you mean 'gfx942'"):
        compute(manifest, "ck-free", ("gfx94",), None)


def test_a_damaged_bundle_covers_nothing(manifest: Manifest, tmp_path: Path) -> None:
    (tmp_path / "gfx942-ck-free.apb").write_bytes(b"nonsense")
    assert not compute(manifest, "ck-free", TARGETS, tmp_path).built


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_every_name_whole_and_headings_short(manifest: Manifest, width: int) -> None:
    family = manifest.families["norm"]
    long, summary = "an_operator_that_aiter_does_not_have", "A sentence that says `what[...]` it does. " * 4
    extra = replace(family.operators[0], name=long, summary=summary, kernels=())
    families = {**manifest.families, "norm": replace(family, operators=(*family.operators, extra))}
    table = compute(manifest.model_copy(update={"families": families}), "ck-full", TARGETS, None)
    out = io.StringIO()
    render(table, Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    # a name that is wider than its column has a line for itself
    for name in (row.operator for row in table.rows):
        assert any(line == name or line.startswith(f"{name} ") for line in lines), name
    assert "A sentence" not in out.getvalue() and f"  not in the catalogue: {long}" in lines
    heads = {line.index("status") for line in lines if line.startswith("operator ")}
    assert len(heads) == 1, "columns stand below each other"
    row = table.rows[0]
    built = replace(
        table, built=True, rows=(replace(row, cells={("ck", each): Cell(1, 64, 2) for each in TARGETS}),)
    )
    out = io.StringIO()
    render(built, Console(file=out, width=width))
    assert "covered, 124 not proved" in " ".join(
        re.sub(row.operator + r"|64\+64|-", "", out.getvalue()).split()
    )
    (found,) = [row for row in table.as_json()["rows"] if row["operator"] == long]
    assert (found["category"], found["title"]) == ("not in the catalogue", summary)


def test_views(manifest: Manifest) -> None:
    table = compute(manifest, "ck-free", TARGETS, None)
    out = io.StringIO()
    render(table, Console(file=out, width=200))
    assert "moe_cktile2stages_gemm1" in out.getvalue()
    data = table.as_json()
    assert (
        data["version"] == 1 and "moe_cktile2stages_gemm1" in data["gaps"] and "rms_norm" not in data["gaps"]
    )
