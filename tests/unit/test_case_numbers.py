"""Codecs against torch's casts: every code of the small types, every tie between neighbours, and numbers at random."""

from __future__ import annotations

import numpy as np
import pytest

from build_tools.cases import numbers

torch = pytest.importorskip("torch")
TORCH = {
    "f16": torch.float16, "bf16": torch.bfloat16, "e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2": torch.float8_e5m2, "e5m2fnuz": torch.float8_e5m2fnuz, "e8m0": torch.float8_e8m0fnu,
}  # fmt: skip


def _codes(name: str) -> np.ndarray:
    kind = numbers.stored(name)
    return np.arange(1 << (8 * kind.itemsize)).astype(kind)


def _torch(codes: np.ndarray, name: str) -> np.ndarray:
    raw = codes.view({1: np.uint8, 2: np.int16}[codes.itemsize]).copy()
    meant: np.ndarray = torch.from_numpy(raw).view(TORCH[name]).double().numpy()
    return meant


@pytest.mark.parametrize("name", TORCH)
def test_every_code_means_what_torch_says(name: str) -> None:
    codes = _codes(name)
    assert np.array_equal(numbers.decode(codes, name), _torch(codes, name), equal_nan=True)


@pytest.mark.parametrize("name", TORCH)
def test_every_number_comes_back_as_its_code(name: str) -> None:
    codes = _codes(name)
    found = numbers.encode(numbers.decode(codes, name), name)
    nan = np.isnan(numbers.decode(codes, name))
    assert np.array_equal(found[~nan], codes[~nan])
    assert np.isnan(numbers.decode(found[nan], name)).all()


def _samples(name: str) -> np.ndarray:
    """Every tie, the float32 numbers beside it, numbers of all sizes, and the special ones, as float32."""
    finite = np.unique(numbers.decode(_codes(name), name))
    finite = finite[np.isfinite(finite)]
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(ties, np.float32(end)) for end in (np.inf, -np.inf)]
    rng = np.random.default_rng(0)
    any_size = rng.standard_normal(50000) * np.exp(rng.standard_normal(50000) * 20)
    return np.concatenate(
        [ties, *beside, any_size.astype(np.float32), np.array([0.0, -0.0, 1e30, -1e30], np.float32)]
    )


@pytest.mark.parametrize("name", sorted(TORCH.keys() - {"e8m0"}))
def test_rounding_is_torchs(name: str) -> None:
    samples = _samples(name)
    right = torch.from_numpy(samples.copy()).to(TORCH[name]).double().numpy()
    # What is too large is cut or lost by torch, as its version has it; the cut is the next test's.
    every = numbers.decode(_codes(name), name)
    inside = np.abs(samples) <= every[np.isfinite(every)].max()
    found = numbers.rounded(samples.astype(np.float64), name)
    assert inside.sum() > 1000
    assert np.array_equal(found[inside], right[inside])


def test_scales_are_rounded_as_in_torch() -> None:
    samples = np.abs(_samples("e8m0"))
    samples = samples[(samples > 2.0**-126) & (samples < 2.0**126)]
    assert np.array_equal(
        numbers.rounded(samples.astype(np.float64), "e8m0"),
        torch.from_numpy(samples.copy()).to(torch.float8_e8m0fnu).double().numpy(),
    )


@pytest.mark.parametrize(
    ("name", "largest", "beyond"),
    [("f16", 65504.0, np.inf), ("bf16", 3.3895313892515355e38, np.inf), ("e4m3fn", 448.0, np.nan), ("e4m3fnuz", 240.0, np.nan),
     ("e5m2", 57344.0, np.inf), ("e5m2fnuz", 57344.0, np.nan)],
)  # fmt: skip
def test_what_is_too_large(name: str, largest: float, beyond: float) -> None:
    huge = np.array([largest * 1.5, np.inf, -largest * 1.5, -np.inf, largest])
    assert np.array_equal(
        numbers.rounded(huge, name, saturate=True), [largest, largest, -largest, -largest, largest]
    )
    assert np.array_equal(
        numbers.rounded(huge, name), [beyond, beyond, -beyond, -beyond, largest], equal_nan=True
    )


def test_float32_and_float64_are_numpys() -> None:
    values = np.array([0.1, -1e300, 1e-46, np.nan])
    assert np.array_equal(numbers.rounded(values, "f64"), values, equal_nan=True)
    with np.errstate(over="ignore"):
        assert np.array_equal(
            numbers.rounded(values, "f32"), values.astype(np.float32).astype(np.float64), equal_nan=True
        )


def test_integers_are_rounded_to_even_and_cut_where_asked() -> None:
    values = np.array([0.5, 1.5, -2.5, 300.0, -300.0])
    assert numbers.rounded(values, "i8", saturate=True).tolist() == [0, 2, -2, 127, -128]
    with pytest.raises(ValueError, match=r"-300\.0 to 300\.0 do not fit i8"):
        numbers.encode(values, "i8")
    with pytest.raises(ValueError, match="NaN is no i32"):
        numbers.encode(np.array([np.nan]), "i32", saturate=True)
    assert numbers.rounded(np.array([2, -1]), "bool", saturate=True).tolist() == [1, 0]
    assert numbers.rounded(np.array([1e30, -1e30]), "i64", saturate=True).tolist() == [2**63 - 1024, -(2**63)]
    assert numbers.rounded(np.array([1e30, -1e30]), "i32", saturate=True).tolist() == [2**31 - 1, -(2**31)]
    large = np.array([2**62 + 1, -(2**63)])
    assert np.array_equal(numbers.rounded(large, "i64"), large)


def test_a_type_without_a_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="fp4x2"):
        numbers.encode(np.zeros(2), "fp4x2")


@pytest.mark.parametrize("name", sorted(TORCH.keys() - {"e8m0"}))
def test_poison_is_nan(name: str) -> None:
    kind = numbers.stored(name)
    assert np.isnan(
        numbers.decode(np.frombuffer(bytes([numbers.poison(name)]) * kind.itemsize, kind), name)
    ).all()
