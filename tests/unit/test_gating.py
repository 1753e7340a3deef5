"""``topk_gating`` traced by torch.compile, with the references as kernels: shared experts, and a bias of no element."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


import aiter_prebuilt as ap  # noqa: E402

TOKENS, EXPERTS, K = 5, 64, 6


def _gate(compiled: Any, logits: Any, columns: int, *given: Any, **options: Any) -> tuple[Any, Any]:
    weights = torch.full((TOKENS, columns), torch.nan)
    ids = torch.full((TOKENS, K), -1, dtype=torch.int32)
    compiled(lambda w, i, g: ap.topk_gating(w, i, g, *given, **options))(weights, ids, logits)
    return weights, ids


@pytest.mark.parametrize("shared", [1, 3])
def test_shared_experts_have_the_sigmoids_of_their_logits(compiled: Any, shared: int) -> None:
    """As vLLM calls it: the buffer of weights is wider than that of choices, and softmax does not see the last columns."""
    logits = torch.randn(TOKENS, EXPERTS + shared).bfloat16()
    weights, ids = _gate(compiled, logits, K + shared, None, True, 1.0, "softmax", num_shared_experts=shared)
    best = logits[:, :EXPERTS].double().softmax(-1).topk(K, -1)
    torch.testing.assert_close(
        weights[:, :K].double(), best.values / best.values.sum(-1, keepdim=True), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(
        weights[:, K:].double(), logits[:, EXPERTS:].double().sigmoid(), rtol=1e-5, atol=0
    )
    assert ids.max() < EXPERTS


def test_a_bias_of_no_element_is_none(compiled: Any) -> None:
    """So AITER's own function hands it on."""
    logits = torch.randn(TOKENS, EXPERTS)
    for found, wanted in zip(
        _gate(compiled, logits, K, torch.empty(0)), _gate(compiled, logits, K, None), strict=True
    ):
        assert torch.equal(found, wanted)


def test_fused_topk_fills_the_first_rows_of_larger_buffers(compiled: Any) -> None:
    """AITER allocates whole groups of four tokens."""
    hidden, logits = torch.randn(TOKENS, 8), torch.randn(TOKENS, EXPERTS)
    weights, ids = torch.full((8, K), torch.nan), torch.full((8, K), -1, dtype=torch.int32)
    found = compiled(lambda h, g, i, w: ap.fused_topk(h, g, K, True, topk_ids=i, topk_weights=w))(
        hidden, logits, ids, weights
    )
    wanted = compiled(lambda h, g: ap.fused_topk(h, g, K, True))(hidden, logits)
    for given, one, other in zip((weights, ids), found, wanted, strict=True):
        assert torch.equal(one, other) and torch.equal(given[:TOKENS], other)
        assert one.data_ptr() == given.data_ptr()
    assert weights[TOKENS:].isnan().all() and (ids[TOKENS:] == -1).all()
