"""Meanings that changed under one name and signature: which AITER is here is read from its sources, and ours follow."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt_bridge import drifts, folder, record, serving
from aiter_prebuilt_bridge.drifts import ABOVE_HALF, FROM_HALF
from aiter_prebuilt_bridge.readings import PLAIN
from aiter_prebuilt_bridge.sources import Stub

FP4 = "dynamic_per_group_scaled_quant_fp4"
SCALES, ZEROS = drifts.DRIFTS


def tree(place: Path, text: str | None, parts: tuple[str, ...] = ("csrc",)) -> Path:
    """A package ``aiter`` with the file that the rule is read from."""
    (place / "aiter").mkdir(parents=True)
    (place / "aiter" / "__init__.py").write_text("")
    file = place.joinpath(*parts) / SCALES.file
    file.parent.mkdir(parents=True)
    if text is not None:
        file.write_text(text)
    return place


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    record.NAMES.clear()
    drifts.rule_of.cache_clear()
    yield
    drifts.rule_of.cache_clear()


def text_of(rule: str) -> str:
    return "\n".join(SCALES.rules[rule])


@pytest.mark.parametrize("parts", [("csrc",), ("aiter_meta", "csrc")])
@pytest.mark.parametrize("rule", [ABOVE_HALF, FROM_HALF])
def test_the_rule_is_read_from_a_checkout_and_from_a_wheel(
    rule: str, parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tree(tmp_path, text_of(rule), parts)))
    assert drifts.told() == {SCALES.what: rule, ZEROS.what: ""}
    assert drifts.of("aiter.ops.quant", FP4) == (SCALES.readings["aiter.ops.quant", FP4][rule], "")
    assert (
        drifts.of("aiter.ops.quant", "per_tensor_quant") is None and drifts.of("aiter.ops.other", FP4) is None
    )


@pytest.mark.parametrize("text", [None, "nothing", text_of(ABOVE_HALF) + text_of(FROM_HALF)])
def test_where_the_sources_do_not_say_it_aiters_stay(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tree(tmp_path, text)))
    reading, why = drifts.of("aiter.ops.quant", FP4) or (PLAIN, "")
    assert reading is PLAIN and why == f"csrc/{SCALES.file} does not say how {SCALES.what}"
    mine, cover = serving.decide("aiter.ops.quant", (FP4,), inspect.signature(getattr(aiter_prebuilt, FP4)))
    assert mine is None and cover.why == why and not any(drifts.told().values())


def test_each_rule_has_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signature = inspect.signature(getattr(aiter_prebuilt, FP4))
    chosen = {}
    for rule in (ABOVE_HALF, FROM_HALF):
        place = tree(tmp_path / rule, text_of(rule)) / "csrc"
        monkeypatch.setattr(drifts, "sources", partial(Path, place))
        mine, cover = serving.decide("aiter.ops.quant", (FP4,), signature)
        # By place, as fast as any other.
        assert not cover.why and cover.words is None
        chosen[rule] = mine.__name__
    assert chosen == {ABOVE_HALF: "dynamic_per_group_scaled_quant", FROM_HALF: FP4}


def test_what_ours_do_not_do_stays_aiters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "reshape_and_cache_with_pertoken_quant"
    monkeypatch.setattr(drifts, "sources", partial(Path, tmp_path))
    file = tmp_path / ZEROS.file
    file.parent.mkdir()
    found = {}
    for rule, words in ZEROS.rules.items():
        file.write_text("\n".join(words))
        drifts.rule_of.cache_clear()
        mine, cover = serving.decide(
            "aiter.ops.cache", (name,), inspect.signature(getattr(aiter_prebuilt, name))
        )
        found[rule] = cover.why
        assert (mine is None) is bool(cover.why)
    assert found == {drifts.NOT_A_NUMBER: "", drifts.ZERO: f"{ZEROS.what} {drifts.ZERO}, not as ours"}


@pytest.mark.parametrize(
    ("drift", "place", "name"), [(drift, *key) for drift in drifts.DRIFTS for key in drift.readings]
)
def test_each_reading_is_of_a_function_of_ours(drift: drifts.Drift, place: str, name: str) -> None:
    assert place.startswith("aiter.")
    for rule, reading in drift.readings[place, name].items():
        assert rule in drift.rules
        ours: Any = serving.ours(reading.ours or name)[0]
        assert reading.fixed.keys() <= inspect.signature(ours).parameters.keys()


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
        "": f"{FP4}: csrc/{SCALES.file} does not say how {SCALES.what}",
    }
