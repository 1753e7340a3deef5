"""Which operators a function launches is read from its code: all that it may, through helpers, tables and objects."""

from __future__ import annotations

from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt import loading, reached, signatures

pytest.importorskip("aiter_prebuilt._native", reason="operators are objects of the extension")


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("rms_norm", {"rms_norm"}),
        ("tgemm", {"gemm_a16w16", "gemm_a16w16_fp32"}),
        ("fused_topk", {"topk_softmax"}),
        ("mla_decode_fwd", {"mla_decode_fwd"}),
        ("get_hip_quant", {"dynamic_per_token_scaled_quant", "static_per_tensor_quant", "dynamic_per_tensor_quant"}),
        ("fused_moe", {"fused_experts", "fused_experts_a8w8", "fused_experts_mxfp4", "moe_sorting_fwd", "fmoe_g1u1"}),
        ("shuffle_weight", set()),
    ],
)  # fmt: skip
def test_operators_behind_a_function(name: str, operators: set[str]) -> None:
    found = set(reached.operators_of(reached.public(name)))
    assert operators <= found and bool(found) == bool(operators)
    assert found <= signatures.load().keys()


def test_every_operator_is_behind_its_own_function() -> None:
    """Of functions by hand as of generated ones, so that preload of a name is never of nothing."""
    names = signatures.load().keys() & set(aiter_prebuilt.ops.__all__)
    assert len(names) > 150
    # A function may have more than one operator, or stand on one of another name.
    empty = [name for name in names if not reached.operators_of(reached.public(name))]
    assert not empty, empty


def test_names_that_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that is no function is taken by its own name; of functions only operators that the device has."""
    assert reached.public("no_such_name") is None
    monkeypatch.setattr(loading, "operators", lambda vendor, ordinal: ("fused_experts", "rms_norm"))
    wanted: Any = loading._wanted
    assert wanted(("rms_norm", "fused_moe", "no_such_name"), "amd", 0) == (
        "rms_norm",
        "fused_experts",
        "no_such_name",
    )
    assert wanted((), "amd", 0) == ("fused_experts", "rms_norm")
