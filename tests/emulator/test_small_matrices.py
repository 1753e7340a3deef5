"""Products of few elements: AITER's object reads behind the end of A where that has fewer than 192 (``hsa/findings.toml``), so
they are refused, and the smallest that are served are right.
"""

from __future__ import annotations

import pytest
from support.emulator import bundles

from aiter_prebuilt import _native


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(
    ("rows", "k", "served"), [(1, 64, False), (2, 64, False), (1, 128, False), (3, 64, True), (0, 64, True)]
)
def test_a_matrix_of_fewer_than_192_elements_is_refused(target: str, rows: int, k: int, served: bool) -> None:
    """What `explain` says is what a call does. cases.toml has M=3 K=64, M=2 K=128 and M=1 K=192 executed."""
    opened = tuple(_native.Bundle(str(path)) for path in bundles(target, "ck-free"))
    operator = _native.Operator("gemm_a16w16_asm", lambda vendor, ordinal: (opened, 256))
    device = ("amd", 0)
    tensors = [
        (0x1000000, "bf16", (rows, k), (k, 1), device), (0x2000000, "bf16", (64, k), (k, 1), device),
        (0x3000000, "f32", (rows, 64), (64, 1), device), None,
    ]  # fmt: skip
    decisions = operator.explain(opened, 256, tensors, [0])
    assert any(decision["chosen"] for decision in decisions) is served
    if not served:
        assert any("M * K >= 192" in decision["reason"] for decision in decisions)
