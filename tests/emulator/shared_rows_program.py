"""A child of ``test_shared_rows.py``: attention whose tensors repeat one row over the sequence, beside float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import aiter_prebuilt as ap

B, SQ, SK, HQ, HK, D = 1, 200, 230, 2, 1, 128
SCALE = D**-0.5
#: Largest difference of a result from float64, as a share of its largest value: bf16 at the end and between the products.
WITHIN = 0.02


def drawn(length: int, heads: int, repeated: bool) -> Any:
    """Normal numbers [B, length, heads, D] in bf16; ``repeated``: one row, with a stride of 0."""
    rows = torch.randn(B, 1 if repeated else length, heads, D).bfloat16().cuda()
    return rows.expand(B, length, heads, D)


def inputs(repeated: str) -> list[Any]:
    torch.manual_seed(5)
    return [
        drawn(length, heads, name == repeated)
        for name, length, heads in (("q", SQ, HQ), ("k", SK, HK), ("v", SK, HK))
    ]


def exact(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any, list[Any]]:
    """Return the result, the log-sum-exp, and float64 leaves that have gradients."""
    leaves = [each.cpu().double().requires_grad_() for each in (q, k, v)]
    one, keys, values = leaves[0], *(each.repeat_interleave(HQ // HK, 2) for each in leaves[1:])
    scores = torch.einsum("bihd,bjhd->bhij", one, keys) * SCALE
    if causal:
        hidden = torch.arange(SK)[None] > torch.arange(SQ)[:, None] + SK - SQ
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), values), scores.logsumexp(-1), leaves


def near(found: Any, wanted: Any) -> None:
    """Compare a result with float64, or three gradients: equal keys or values leave some that are sums to 0."""
    if isinstance(wanted, torch.Tensor):
        found, wanted = [found], [wanted]
    largest = max(each.detach().abs().max() for each in wanted)
    for one, other in zip(found, wanted, strict=True):
        assert not one.isnan().any()
        assert (one.cpu().double() - other).abs().max() <= WITHIN * largest


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("repeated", ["q", "k", "v", ""])
def test_forward(repeated: str, causal: bool) -> None:
    q, k, v = inputs(repeated)
    assert not repeated or inputs(repeated)["qkv".index(repeated)].stride(1) == 0
    out, sums, _ = exact(q, k, v, causal)
    found, lse = ap.flash_attn_func(q, k, v, causal=causal, return_lse=True)
    near(found, out)
    near(lse, sums)
    found, lse, *_ = ap.fmha_v3_fwd(q, k, v, 0.0, SCALE, causal, -1, -1, True, False, 1)
    near(found, out)
    near(lse, sums)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("repeated", ["dout", "q", "k", "v"])
def test_backward(repeated: str, causal: bool) -> None:
    """``dout`` with a stride of 0 is the gradient of ``out.mean(dim=1)``."""
    q, k, v = inputs(repeated)
    dout = drawn(SQ, HQ, repeated == "dout")
    out, sums, leaves = exact(q, k, v, causal)
    wanted = torch.autograd.grad(out, leaves, dout.cpu().double())
    made, lse = out.detach().bfloat16().cuda(), sums.detach().float().cuda()
    found = ap.fmha_v3_bwd(dout, q, k, v, made, lse, 0.0, SCALE, causal, -1, -1, False, True, 1)
    near(found[:3], wanted)
    flat = [each.flatten(0, 1) if each.stride(1) else each[0] for each in (dout, q, k, v, made)]
    starts = [torch.tensor([0, each], dtype=torch.int32).cuda() for each in (SQ, SK)]
    backward: Any = ap.fmha_v3_varlen_bwd
    found = backward(
        *flat, lse[0], *starts, SQ, SK, 0.0, SCALE, False, causal, -1, -1, False, True, 1
    )  # fmt: skip
    near(found[:3], [each[0] for each in wanted])
