"""Torch references of the gated activations: act(gate) * up over the two halves of the last dimension.

Every function takes `input` [..., 2 * d] (bf16 or f16) and returns [..., d] of the same dtype. The arithmetic is float64 and
is rounded once, so a kernel may differ by the rounding of its own fp32 arithmetic: at most one unit in the last place of
the output type, for the erf GELU 2^-22 * |gate * up| more (1 + erf cancels in the negative tail), and for the others
2^-125 * |gate * up| (a sigmoid below the normal numbers is 0 in hardware). NaN goes through.
The first half is the gate, as in AITER's `activation` module.
"""

from __future__ import annotations

import math

import torch


def _halves(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate and up in float64."""
    if input.shape[-1] % 2:
        raise ValueError(f"the last dimension must be even, not {input.shape[-1]}")
    gate, up = input.double().chunk(2, dim=-1)
    return gate, up


def silu_and_mul(input: torch.Tensor, limit: float = 0.0) -> torch.Tensor:
    """silu(gate) * up; limit > 0 cuts the gate at +limit (rounded to the input's dtype) and up at +-limit."""
    gate, up = _halves(input)
    if limit > 0.0:
        gate = gate.clamp(max=float(torch.tensor(limit, dtype=torch.float32).to(input.dtype)))
        bound = float(torch.tensor(limit, dtype=torch.float32))
        up = up.clamp(min=-bound, max=bound)
    return (gate * torch.sigmoid(gate) * up).to(input.dtype)


def gelu_and_mul(input: torch.Tensor) -> torch.Tensor:
    """Exact GELU: gate * (1 + erf(gate / sqrt(2))) / 2 * up."""
    gate, up = _halves(input)
    upper: torch.Tensor = torch.special.erfc(-gate * math.sqrt(0.5))
    return (0.5 * gate * upper * up).to(input.dtype)


def gelu_tanh_and_mul(input: torch.Tensor) -> torch.Tensor:
    """GELU by tanh: gate * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate^3))) / 2 * up."""
    gate, up = _halves(input)
    inner = math.sqrt(2.0 / math.pi) * (gate + 0.044715 * gate**3)
    return (gate * torch.sigmoid(2.0 * inner) * up).to(input.dtype)


def swiglu_and_mul(input: torch.Tensor) -> torch.Tensor:
    """gpt-oss form: gate cut at 7, up cut at +-7, gate * sigmoid(1.702 * gate) * (up + 1)."""
    gate, up = _halves(input)
    gate = gate.clamp(max=7.0)
    up = up.clamp(min=-7.0, max=7.0)
    return (gate * torch.sigmoid(1.702 * gate) * (up + 1.0)).to(input.dtype)
