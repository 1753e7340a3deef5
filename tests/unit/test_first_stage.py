"""What the reference of a mixture's first stage says of its bytes: every right quantisation is taken, and wrong ones are not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from build_tools.cases.interval import Interval, interval
from build_tools.cases.numbers import encode

ROOT = Path(__file__).resolve().parents[2]
TOKENS, TOPK, COLUMNS, BLOCK = 5, 3, 256, 128
CODES = TOKENS * TOPK * COLUMNS
SCALES = CODES // BLOCK * 4
#: As AITER makes a result: one row more for each 32 tokens.
ROWS = TOKENS + 1


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    path = ROOT / "manifests/moe_stage1_asm/reference.py"
    spec = importlib.util.spec_from_file_location("first_stage_reference", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _values(rng: np.random.Generator) -> Any:
    """Some blocks small, one of zeros."""
    values = rng.standard_normal((TOKENS, TOPK, COLUMNS)) * 10.0 ** rng.integers(-5, 3, (TOKENS, TOPK, 1))
    values[1, 2, :BLOCK] = 0
    return values


def _quantised(values: Any, kind: str) -> Any:
    """The bytes of a kernel that computes in fp32."""
    parts = values.astype(np.float32).reshape(TOKENS, TOPK, -1, BLOCK)
    scale = np.maximum(np.abs(parts).max(axis=3), np.float32(1e-6)) * np.float32(1 / 240)
    codes = encode(parts / scale[..., None], kind, saturate=True)
    return np.concatenate([codes.ravel(), scale.astype("<f4").view(np.uint8).ravel()])


def _wanted(reference: ModuleType, values: Any, kind: str, error: float = 1e-5) -> Interval:
    named = np.ones((TOKENS, TOPK), bool)
    named[3, 1] = False
    return interval(reference._stored(values, np.abs(values) * error, named, ROWS, kind), "u8")


def _misses(wanted: Interval, found: Any) -> Any:
    return wanted.misses(
        np.pad(found, (0, ROWS * TOPK * COLUMNS - found.size)).reshape(wanted.low.shape)
    ).ravel()


@pytest.mark.parametrize("kind", ["e4m3fnuz", "e4m3fn"])
@pytest.mark.parametrize("seed", range(5))
def test_a_right_result_is_taken_however_far_its_sums_were_off(
    reference: ModuleType, kind: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = _values(rng)
    for _ in range(10):
        moved = values * (1 + rng.uniform(-1e-5, 1e-5, values.shape))
        assert not _misses(_wanted(reference, values, kind), _quantised(moved, kind)).any()


@pytest.mark.parametrize("kind", ["e4m3fnuz", "e4m3fn"])
def test_a_code_a_scale_and_a_factor_that_are_wrong_are_not(reference: ModuleType, kind: str) -> None:
    values = _values(np.random.default_rng(7)) + 0.0
    wanted, right = _wanted(reference, values, kind), _quantised(values, kind)
    codes = right.copy()
    codes[:CODES] ^= 2  # another code of the same sign, or none
    free = wanted.low.ravel()[:CODES] + 3 > wanted.high.ravel()[:CODES]
    named = ~wanted.kept.ravel()[:CODES] if wanted.kept is not None else free
    assert _misses(wanted, codes)[:CODES][free & named].mean() > 0.99
    for factor in (1.02, 0.98, 240 / 448):
        scaled = right.copy()
        scaled[CODES:] = (right[CODES:].view("<f4") * np.float32(factor)).astype("<f4").view(np.uint8)
        found = _misses(wanted, scaled)[CODES : CODES + SCALES].reshape(-1, 4).any(axis=1)
        assert found.mean() > 0.9
    assert _misses(wanted, np.roll(right, BLOCK))[:CODES].mean() > 0.8


def test_what_no_id_names_and_what_lies_behind_the_scales_must_stay(reference: ModuleType) -> None:
    kept = _wanted(reference, _values(np.random.default_rng(1)), "e4m3fn").kept
    assert kept is not None and kept.shape == (ROWS, TOPK, COLUMNS)
    assert kept[3, 1].all() and not kept[3, 0].any() and not kept[4].any()
    scales = kept.ravel()[CODES : CODES + SCALES].reshape(TOKENS, TOPK, -1)
    assert scales[3, 1].all() and scales.sum() == scales[3, 1].size
    assert kept.ravel()[CODES + SCALES :].all()
