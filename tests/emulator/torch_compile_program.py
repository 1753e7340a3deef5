"""A child of ``test_torch_compile.py``: public functions in whole graphs of ``torch.compile``, beside the calls without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import aiter_prebuilt as ap

BF16 = torch.bfloat16


def norm(x: Any, weight: Any) -> Any:
    return ap.rms_norm(x, weight, 1e-6)


def norm_among_others(x: Any, weight: Any) -> Any:
    shift = torch.ones(x.shape[1], dtype=x.dtype, device="cuda")
    return torch.cat([ap.rms_norm(x * 2 + shift, weight, 1e-6), torch.zeros_like(x)]) * 3


def activation(x: Any, weight: Any) -> Any:
    out = torch.empty(x.shape[0], x.shape[1] // 2, dtype=x.dtype, device=x.device)
    ap.silu_and_mul(out, x * weight)
    return out + 1


def inputs(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return (torch.randn(rows, 128).to(BF16).cuda(), torch.randn(128).to(BF16).cuda())


@pytest.mark.parametrize("form", [{}, {"backend": "eager"}, {"mode": "max-autotune"}, {"dynamic": True}])
@pytest.mark.parametrize("function", [norm, norm_among_others, activation])
def test_a_whole_graph_gives_what_the_calls_give(function: Callable[..., Any], form: dict[str, Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, **form)
    for rows in (5, 8):
        given = inputs(rows)
        out = compiled(*given)
        assert out.device == torch.device("cuda", 0)
        assert torch.equal(out.cpu(), function(*given).cpu())


def test_a_tensor_that_requires_a_gradient_is_refused() -> None:
    torch._dynamo.reset()
    x, weight = inputs(3)
    compiled = torch.compile(norm_among_others, fullgraph=True)
    with pytest.raises(Exception, match="traces no tensor that requires a gradient"):
        compiled(x.requires_grad_(), weight)
    with torch.no_grad():
        assert torch.equal(compiled(x, weight).cpu(), norm_among_others(x, weight).cpu())
