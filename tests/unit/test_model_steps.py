"""Counting calls of models' steps: the same sums for `coverage`, `report shapes` and the status page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import repository

from aiter_prebuilt.commands import coverage
from aiter_prebuilt.contract.model_steps import (
    Place,
    StepCall,
    Sum,
    callees,
    counted,
    of_engine,
    serving,
    total,
)
from aiter_prebuilt.inspection import call_forms
from build_tools.manifest.model import Manifest
from build_tools.report.shapes import Shapes
from build_tools.shapes import ask, models

ROOT = Path(__file__).resolve().parents[2]
DECODE = Place("gfx942", 1, "", "decode", 1)
NORM = StepCall("rms_norm", "vLLM 1", DECODE, served=True)
AROUND = StepCall("outer", "SGLang 1", DECODE, within=("rms_norm", "softmax"))


def test_a_call_is_served_if_a_kernel_takes_it() -> None:
    assert total([NORM, replace(NORM, function="other", served=False)]) == Sum(1, 2)
    assert total([]) == Sum(0, 0)


def test_a_function_around_others_is_served_by_one_at_its_place() -> None:
    assert total([NORM, AROUND]) == Sum(2, 2)
    elsewhere = replace(NORM, place=replace(DECODE, tokens=64))
    assert total([elsewhere, AROUND]) == Sum(1, 2)
    refused = replace(NORM, served=False)
    assert total([refused, AROUND]) == Sum(0, 2)
    assert serving(AROUND, callees([NORM, AROUND])) == ("rms_norm",)


def test_one_form_that_is_served_is_enough() -> None:
    assert total([replace(NORM, served=False), NORM, AROUND]) == Sum(2, 3)


def test_the_calls_of_an_engine_include_those_that_its_functions_make() -> None:
    inner = replace(NORM, client="AITER", function="softmax")
    assert of_engine([NORM, AROUND, inner], "sglang") == [NORM, AROUND, inner]
    assert of_engine([NORM, AROUND, inner], "vllm") == [NORM]


def test_coverage_asks_about_one_gpu_and_few_sizes() -> None:
    assert counted(DECODE) and counted(Place("gfx950", 1, "qkv", "prefill", 4096))
    assert not counted(replace(DECODE, ranks=8)) and not counted(replace(DECODE, tokens=8))
    assert not counted(replace(DECODE, step="other"))


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return repository.manifest()


@pytest.mark.parametrize("short", sorted(call_forms.load().models))
def test_coverage_and_the_page_count_the_same_calls(manifest: Manifest, short: str) -> None:
    """Of each model that ``coverage`` knows, on each target: all calls, and those of each engine."""
    forms = call_forms.load()
    only = ask.Filter(models=(forms.models[short].name,))
    every = models.read(ROOT)
    rows = [each.row for target in manifest.amd for each in ask.step_calls(every, manifest, target, only)]
    sums = Shapes(tuple(rows), {}).sums()
    assert len(sums) == 3 * len(manifest.amd)
    for row in sums:
        asked = coverage.model_calls(forms, short, row["engine"] or None)
        here = [each for each in asked if not each.form.targets or row["target"] in each.form.targets]
        assert row["steps"][1] == len(here) > 0, row
        assert row["sizes"][1] > len(here)
