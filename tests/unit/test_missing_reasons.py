"""Why an operator is missing somewhere: said once, in the catalogue, shown by ``coverage`` and by the error of a call there."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from support import repository

from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.tracing.signatures import load as signatures
from build_tools.manifest.model import Catalogue, Manifest, Missing
from build_tools.report.coverage import compute
from build_tools.report.coverage_view import render
from build_tools.report.missing_problems import problems

TARGETS = ("gfx942", "gfx950")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return repository.manifest()


def with_reasons(manifest: Manifest, *missing: Missing) -> Manifest:
    categories = manifest.catalogue.categories
    catalogue = Catalogue(edition=1, categories=categories, missing=[*manifest.catalogue.missing, *missing])
    return manifest.model_copy(update={"catalogue": catalogue})


def test_every_gap_has_a_reason_and_no_reason_is_about_what_is_there(manifest: Manifest) -> None:
    assert problems(manifest) == []
    assert manifest.catalogue.missing, "a repository without gaps has no use for this file"


def test_a_gap_without_a_reason_is_a_problem(manifest: Manifest) -> None:
    catalogue = Catalogue(edition=1, categories=manifest.catalogue.categories)
    told = problems(manifest.model_copy(update={"catalogue": catalogue}))
    gaps = sum(
        not row.has(target, False)
        for row in compute(manifest, "ck-free", TARGETS, None).rows
        for target in TARGETS
    )
    assert len(told) == gaps > 0
    assert any("fmoe has no kernel for gfx950 in ck-free, and no reason says why" in line for line in told)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (Missing(operators=["rms_norm"], targets=["gfx942"], reason="x"), "ck-free has a kernel for gfx942"),
        (Missing(operators=["fmoe"], targets=["gfx950"], reason="x"), "2 reasons say why it is not on gfx950"),
        (Missing(operators=["no_such"], targets=["gfx950"], reason="x"), "no_such on gfx950 is no row of the table"),
        (Missing(operators=["fmoe"], targets=["sm_90"], reason="x"), "fmoe on sm_90 is no row of the table"),
    ],
)  # fmt: skip
def test_a_reason_that_is_wrong_is_a_problem(manifest: Manifest, missing: Missing, said: str) -> None:
    (line,) = problems(with_reasons(manifest, missing))
    assert line.startswith("manifests/catalogue.toml: missing: ") and said in line


def test_coverage_says_why(manifest: Manifest) -> None:
    table = compute(manifest, "ck-free", TARGETS, None)
    why = manifest.catalogue.why("fmoe")["gfx950"]
    (row,) = [row for row in table.as_json()["rows"] if row["operator"] == "fmoe"]
    assert row["reasons"] == {"gfx950": why} and row["status"] == "missing on gfx950"
    out = io.StringIO()
    render(table, Console(file=out, width=90))
    assert f"not on gfx950: fmoe: {why}" in " ".join(out.getvalue().split())
    assert max(map(len, out.getvalue().splitlines())) <= 90


def test_with_composable_kernel_its_operators_are_no_gap(manifest: Manifest) -> None:
    told = compute(manifest, "ck-full", TARGETS, None).reasons()
    named = {operator for operators in told.values() for operator in operators}
    assert "fmoe" in named and "ck_moe_stage1_fwd" not in named


def test_a_call_on_the_wrong_target_is_told_why(manifest: Manifest) -> None:
    error = dispatch.absent("call fmoe", "fmoe", "gfx950", {"ck-free"})
    assert error is not None
    assert error.found == f"it exists only for gfx942, because {manifest.catalogue.why('fmoe')['gfx950']}"
    assert signatures()["fmoe"].why == manifest.catalogue.why("fmoe")
    assert signatures()["rms_norm"].why == {}


def test_a_call_of_what_the_other_wheel_has_is_told_both(manifest: Manifest) -> None:
    error = dispatch.absent("call ck_moe_stage1_fwd", "ck_moe_stage1_fwd", "gfx942", {"ck-free"})
    assert error is not None
    assert "which is not installed, because" in error.found and "gfx942-ck" in error.fix


def test_an_older_wheel_of_the_other_profile_is_what_is_upgraded() -> None:
    """An installed bundle that lacks the operator: the extra that is named is one whose wheel has it."""
    error = dispatch.absent("call ck_moe_stage1_fwd", "ck_moe_stage1_fwd", "gfx942", {"ck-free", "ck-full"})
    assert error is not None and error.fix == "Run: pip install --upgrade 'aiter-prebuilt[gfx942-ck]'"
    error = dispatch.absent("call rms_norm", "rms_norm", "gfx942", {"ck-free", "ck-full"})
    assert error is not None and error.fix == "Run: pip install --upgrade 'aiter-prebuilt[gfx942]'"
