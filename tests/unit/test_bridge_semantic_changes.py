"""Meanings that changed under one name and signature: which AITER is here is read from its files, and ours follow."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt_bridge import folder, lookup_log, semantic_changes, serving
from aiter_prebuilt_bridge.semantic_changes import (
    ABOVE_HALF,
    BY_16,
    BY_32,
    FROM_HALF,
    SCALES,
    WEIGHTS,
    ZERO_HEADS,
    Change,
)
from aiter_prebuilt_bridge.signature_map import PLAIN
from aiter_prebuilt_bridge.sources import Stub

FP4 = "dynamic_per_group_scaled_quant_fp4"
NOT_SAID = f"{SCALES.files[0]} does not say which rule AITER follows: {SCALES.what} ..."


def tree(place: Path, text: str | None, change: Change = SCALES, *, wheel: bool = False) -> Path:
    """A package ``aiter`` with the file that the rule is read from."""
    (place / "aiter").mkdir(parents=True)
    (place / "aiter" / "__init__.py").write_text("")
    file = place / ("aiter_meta" if wheel else "") / change.files[0]
    file.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        file.write_text(text)
    return place


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    lookup_log.NAMES.clear()
    semantic_changes.rule_of.cache_clear()
    yield
    semantic_changes.rule_of.cache_clear()


def text_of(rule: str, change: Change = SCALES) -> str:
    return "\n".join(change.rules[rule].has)


@pytest.mark.parametrize("wheel", [False, True])
@pytest.mark.parametrize("rule", [ABOVE_HALF, FROM_HALF])
def test_the_rule_is_read_from_a_checkout_and_from_a_wheel(
    rule: str, wheel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tree(tmp_path, text_of(rule), wheel=wheel)))
    found = semantic_changes.rules()
    assert found.pop(SCALES.what) == rule and not any(found.values())
    assert semantic_changes.of("aiter.ops.quant", FP4) == (SCALES.readings["aiter.ops.quant", FP4][rule], "")
    assert semantic_changes.of("aiter.ops.quant", "per_tensor_quant") is None
    assert semantic_changes.of("aiter.ops.other", FP4) is None


@pytest.mark.parametrize("text", [None, "nothing", text_of(ABOVE_HALF) + text_of(FROM_HALF)])
def test_where_the_sources_do_not_say_it_aiters_stay(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tree(tmp_path, text)))
    reading, why = semantic_changes.of("aiter.ops.quant", FP4) or (PLAIN, "")
    assert reading is PLAIN and why == NOT_SAID
    mine, cover = serving.decide("aiter.ops.quant", (FP4,), inspect.signature(getattr(aiter_prebuilt, FP4)))
    assert mine is None and cover.why == why and not any(semantic_changes.rules().values())


def test_each_rule_has_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signature = inspect.signature(getattr(aiter_prebuilt, FP4))
    chosen = {}
    for rule in (ABOVE_HALF, FROM_HALF):
        package = tree(tmp_path / rule, text_of(rule)) / "aiter"
        monkeypatch.setattr(semantic_changes, "installed_package", partial(Path, package))
        mine, cover = serving.decide("aiter.ops.quant", (FP4,), signature)
        # By place, as fast as any other.
        assert not cover.why and cover.words is None
        chosen[rule] = mine.__name__
    assert chosen == {ABOVE_HALF: "dynamic_per_group_scaled_quant", FROM_HALF: FP4}


#: The tiles of AITER's table in November 2025, on 15 February 2026 and in August 2026.
TABLES = {BY_32: ("128x128", "192x128"), "": ("192x128", "112x256"), BY_16: ("112x256", "160x128")}


@pytest.mark.parametrize("rule", TABLES)
def test_a_weight_of_another_layout_stays_aiters(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``gemm_a8w8_ASM`` took (32, 16), and takes (16, 16) since February 2026; its docstring never changed."""
    table = "\n".join(f"1,I8gemm_bf16_perTokenI8_BpreShuffle_{tile}.co" for tile in TABLES[rule])
    package = tree(tmp_path, table, WEIGHTS) / "aiter"
    monkeypatch.setattr(semantic_changes, "installed_package", partial(Path, package))
    signature = inspect.signature(aiter_prebuilt.gemm_a8w8_ASM)
    mine, cover = serving.decide("aiter.ops.gemm_op_a8w8", ("gemm_a8w8_ASM",), signature)
    whys = {
        BY_32: "",
        "": f"{WEIGHTS.files[0]} does not say which rule AITER follows: {WEIGHTS.what} ...",
        BY_16: "the weight of gemm_a8w8_ASM has the layout (16, 16), not as ours",
    }
    assert cover.why == whys[rule] and (mine is None) is bool(cover.why)


def test_a_head_of_zeros_is_stored_as_each_tree_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "reshape_and_cache_with_pertoken_quant"
    signature = inspect.signature(getattr(aiter_prebuilt, name))
    of_aiter = [each for each in signature.parameters.values() if each.name != "clamp_scale"]
    fixed: dict[str, dict[str, Any]] = {}
    for rule in ZERO_HEADS.rules:
        package = tree(tmp_path / rule, text_of(rule, ZERO_HEADS), ZERO_HEADS) / "aiter"
        monkeypatch.setattr(semantic_changes, "installed_package", partial(Path, package))
        mine, cover = serving.decide("aiter.ops.cache", (name,), signature.replace(parameters=of_aiter))
        assert mine is getattr(aiter_prebuilt, name) and not cover.why
        fixed[rule] = dict(cover.words.fixed) if cover.words else {}
    assert fixed == {semantic_changes.NOT_A_NUMBER: {}, semantic_changes.ZERO: {"clamp_scale": True}}


@pytest.mark.parametrize(
    ("change", "place", "name"),
    [(change, *key) for change in semantic_changes.CHANGES for key in change.readings],
)
def test_each_reading_is_of_a_function_of_ours(change: Change, place: str, name: str) -> None:
    assert place.startswith("aiter.")
    for rule, reading in change.readings[place, name].items():
        assert rule in change.rules
        ours: Any = serving.ours(reading.ours or name)[0]
        assert reading.fixed.keys() <= inspect.signature(ours).parameters.keys()


@pytest.mark.parametrize("change", semantic_changes.CHANGES)
def test_no_text_follows_two_rules_of_a_change(change: Change) -> None:
    for rule in change.rules:
        assert [each for each, marks in change.rules.items() if marks.match(text_of(rule, change))] == [rule]
    keys = [key for each in semantic_changes.CHANGES for key in each.readings]
    assert len(keys) == len({*keys})  # the first change of a name decides


def test_a_folder_of_modules_has_what_its_aiter_means(tmp_path: Path) -> None:
    """There a module's functions are those of ours under their own names."""
    stub = Stub("module_quant", FP4, FP4, False, False, inspect.signature(getattr(aiter_prebuilt, FP4)))
    found = {
        rule: folder._why(stub, tree(tmp_path / place, text) / "aiter")
        for rule, place, text in (
            (ABOVE_HALF, "new", text_of(ABOVE_HALF)), (FROM_HALF, "old", text_of(FROM_HALF)), ("", "other", "nothing"),
        )
    }  # fmt: skip
    assert found == {
        ABOVE_HALF: f"{FP4}: {SCALES.what} {ABOVE_HALF}",
        FROM_HALF: "",
        "": f"{FP4}: {NOT_SAID}",
    }
