"""Torch reference of dense attention."""

from __future__ import annotations

import torch


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out in q's type, lse f32 in natural logarithm), in float64 with one rounding at the end.

    q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk, dv], hq a multiple of hk; out [b, sq, hq, dv], lse [b, hq, sq].
    softmax_scale defaults to d^-1/2. causal is aligned bottom-right: query i sees key j when j <= i + sk - sq; a row that sees
    no key has out 0 and lse -inf. A kernel rounds the probabilities to the input type before the second product: about one
    unit in the last place of that type, relative to max |v|.
    """
    sq, sk = q.shape[1], k.shape[1]
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    group = q.shape[2] // k.shape[2]
    keys = k.double().repeat_interleave(group, dim=2)
    values = v.double().repeat_interleave(group, dim=2)
    logits = torch.einsum("bihd,bjhd->bhij", q.double(), keys) * scale
    if causal:
        hidden = torch.arange(sk)[None, :] > torch.arange(sq)[:, None] + (sk - sq)
        logits = logits.masked_fill(hidden.to(logits.device), float("-inf"))
    lse = torch.logsumexp(logits, dim=-1) if sk else logits.new_full(logits.shape[:-1], float("-inf"))
    weights = torch.exp(logits - lse[..., None]).nan_to_num(nan=0.0)
    out = torch.einsum("bhij,bjhd->bihd", weights, values)
    return out.to(q.dtype), lse.float()
