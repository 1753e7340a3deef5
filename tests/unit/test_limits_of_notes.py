"""Sentences that limit calls are found in notes, and each needs a refused call or a reason."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from build_tools.cases import limits
from build_tools.cases.receipt_state import CASES
from build_tools.manifest.model import Manifest
from build_tools.manifest.parse import read
from build_tools.manifest.problems import Problems

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
SAID = '"of an even number of columns" = "x[3,126]"'


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    found = read(MANIFESTS, Problems())
    assert found is not None
    return found


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """A folder of manifests in which one file with limits says something else."""
    folder = tmp_path / "manifests"
    files = [MANIFESTS / limits.FILE, *sorted(MANIFESTS.glob(f"*/{CASES}"))]
    (place,) = (path for path in files if old in path.read_text())
    for path in files:
        text = path.read_text().replace(old, new, 1) if path == place else path.read_text()
        (folder / path.relative_to(MANIFESTS)).parent.mkdir(parents=True, exist_ok=True)
        (folder / path.relative_to(MANIFESTS)).write_text(text)
    shutil.copytree(MANIFESTS.parent / "tests" / "unit", tmp_path / "tests" / "unit")
    return folder


def test_every_limit_of_the_manifests_has_a_refused_call(manifest: Manifest) -> None:
    assert limits.problems_of(manifest, MANIFESTS) == []


def test_a_sentence_without_a_call_is_named(tmp_path: Path, manifest: Manifest) -> None:
    (line,) = limits.problems_of(manifest, changed(tmp_path, SAID, ""))
    assert (
        "cases.toml: act_mul_and_mxfp4_quant.refused: 'the gate is the first half, of an even number of columns' of x"
        in line
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SAID, SAID + '\n"of an odd number" = "x[3,126]"', "no note of this operator says so"),
        ("[no_limit]", '[no_limit]\n"of an odd number" = "made up"', "no note needs this entry"),
        ("[no_limit]", "[no_limits]", "no such key"),
        ('"forward only" = "tests/unit/', '"forward only" = "tests/native/', "there is no test"),
        (SAID, SAID.replace('"x[3,126]"', "3"), "is not the words of a call"),
        (
            "[silu_and_mul_quant.refused]",
            "[made_up]\nrefused = 1\n[other]",
            "made_up.refused: is not a table",
        ),
    ],
)
def test_an_entry_that_fits_nothing_is_refused(
    tmp_path: Path, manifest: Manifest, old: str, new: str, said: str
) -> None:
    lines = limits.problems_of(manifest, changed(tmp_path, old, new))
    assert any(said in line for line in lines), lines


@pytest.mark.parametrize(
    "said",
    [
        "a multiple of 7",
        "divisible by 7",
        "exactly 7",
        "limited to 7",
        "not supported above 7",
        "at most 7",
        "larger than 7",
    ],
)
def test_a_new_limit_of_any_operator_of_any_family_is_named(manifest: Manifest, said: str) -> None:
    """The lint reads the summary and the notes of each, whatever its family: no folder is left out."""
    families = {
        name: replace(
            family,
            operators=tuple(
                replace(each, summary=f"{each.summary}; K is {said}") for each in family.operators
            ),
        )
        for name, family in manifest.families.items()
    }
    lines = limits.problems_of(manifest.model_copy(update={"families": families}), MANIFESTS)
    named = {
        line.partition(": ")[2].partition(".refused")[0]
        for line in lines
        if f"'K is {said}' of summary" in line
    }
    assert named == {each.name for family in manifest.families.values() for each in family.operators}


def test_a_tree_without_the_file_is_not_asked(tmp_path: Path, manifest: Manifest) -> None:
    assert limits.problems_of(manifest, tmp_path) == []
