"""A child of ``test_padded_batch.py``: AITER's ``flash_attn_func`` with lengths of padded batches, as the bridge serves it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

from aiter_prebuilt_bridge.serving import ours

LENGTHS = {
    "both": ([40, 17, 33, 40], [70, 70, 9, 31]),
    "queries": ([1, 40, 20, 5], None),
    "keys": (None, [1, 70, 12, 64]),
}


def starts(lengths: list[int] | None) -> torch.Tensor | None:
    return None if lengths is None else torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32).cuda()


def attention(q: Any, k: Any, v: Any, causal: bool, window: tuple[int, int]) -> tuple[Any, Any]:
    """Return the result and the log-sum-exp of one sequence in float64."""
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * q.shape[2] ** -0.5
    place = torch.arange(len(k))[None] - (torch.arange(len(q))[:, None] + len(k) - len(q))
    left, right = window[0], 0 if causal else window[1]
    hidden = ((place < -left) & (left >= 0)) | ((place > right) & (right >= 0))
    scores = scores.masked_fill(hidden, float("-inf"))
    return torch.einsum("hij,jhd->ihd", torch.nan_to_num(torch.softmax(scores, -1)), v), torch.logsumexp(
        scores, -1
    )


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("causal", "window"), [(False, (-1, -1)), (True, (-1, -1)), (False, (9, 4)), (True, (13, 0))]
)
@pytest.mark.parametrize("which", LENGTHS)
def test_padding_is_not_seen(which: str, causal: bool, window: tuple[int, int], kind: torch.dtype) -> None:
    q, k, v = torch.randn(4, 40, 6, 64), torch.randn(4, 70, 3, 64), torch.randn(4, 70, 3, 64)
    q, k, v = (each.to(kind) for each in (q, k, v))
    queries, keys = LENGTHS[which]
    for i in range(4):  # nothing of the padding may count
        q[i, (queries or [40] * 4)[i] :] = float("nan")
        for each in (k, v):
            each[i, (keys or [70] * 4)[i] :] = float("nan")
    function, _ = ours("adapted.flash_attn_func")
    how: dict[str, Any] = {
        "causal": causal,
        "window_size": window,
        "cu_seqlens_q": starts(queries),
        "cu_seqlens_kv": starts(keys),
    }
    given = [each.cuda() for each in (q, k, v)]
    out, lse, probabilities = function(*given, return_lse=True, return_attn_probs=True, **how)
    assert out.shape == q.shape and lse.shape == (4, 6, 40) and probabilities.numel() == 0
    assert torch.equal(function(*given, **how).cpu().nan_to_num(), out.cpu().nan_to_num())
    for i in range(4):
        rows, columns = (queries or [40] * 4)[i], (keys or [70] * 4)[i]
        want, sums = attention(
            q[i, :rows].double(), k[i, :columns].double(), v[i, :columns].double(), causal, window
        )
        assert (out[i, :rows].cpu().double() - want).abs().max() < 0.02
        assert torch.allclose(lse[i, :, :rows].cpu().double(), sums, atol=1e-4)


def test_one_graph_of_torch_compile() -> None:
    function, _ = ours("adapted.flash_attn_func")
    given = [torch.randn(2, 30, 4, 64).to(torch.bfloat16).cuda() for _ in range(3)]
    compiled = torch.compile(lambda q, k, v: function(q * 2, k, v, causal=True), fullgraph=True)
    assert torch.equal(compiled(*given).cpu(), function(given[0] * 2, *given[1:], causal=True).cpu())


def test_without_lengths_it_is_the_dense_function() -> None:
    dense: Any = importlib.import_module("aiter_prebuilt").flash_attn_func
    given = [torch.randn(2, 30, 4, 64).to(torch.bfloat16).cuda() for _ in range(3)]
    function, _ = ours("adapted.flash_attn_func")
    how: dict[str, Any] = {"causal": True, "return_lse": True}
    found = function(*given, **how), dense(*given, **how)
    assert all(torch.equal(one.cpu(), other.cpu()) for one, other in zip(*found, strict=True))
