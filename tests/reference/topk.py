"""Torch reference of expert routing: softmax over the experts of a token and the k largest.

The arithmetic is float64 and is rounded to float32 once. What a kernel may do otherwise: fp32 arithmetic, so a weight may be off by
about 2^-20 of itself (exp of a difference times log2(e), a sum of E terms, one quotient); indices must be equal, always.
"""

from __future__ import annotations

import torch


def topk_softmax(
    gating_output: torch.Tensor, topk: int, need_renorm: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The `topk` most probable experts of each token, most probable first.

    gating_output [T, E] (bf16, f16 or f32) -> weights f32 [T, topk], indices i32 [T, topk], token_expert_indices i32 [T, topk].
    weights[t, j] = softmax(gating_output[t])[indices[t, j]], divided by the sum of its row with `need_renorm`.
    token_expert_indices[t, j] = j * T + t (the order in which vLLM's kernels number the pairs).

    The order is that of the logits, not of the rounded probabilities (a softmax may make two different logits equal): a stable
    descending sort, so equal logits (-0 and +0 too) go by the lower index and NaN stands above everything. NaN or +inf anywhere in a row,
    or nothing but -inf, makes all its weights NaN; its indices stay distinct and below E. ValueError when topk is not in 1..E.
    """
    tokens, experts = gating_output.shape
    if not 1 <= topk <= experts:
        raise ValueError(f"topk must be between 1 and the number of experts {experts}, not {topk}")
    logits = gating_output.double()
    indices = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :topk]
    weights = torch.softmax(logits, dim=-1).gather(-1, indices)
    if need_renorm:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    pairs = torch.arange(topk, dtype=torch.int32)[None, :] * tokens + torch.arange(tokens, dtype=torch.int32)[:, None]
    return weights.float(), indices.int(), pairs.to(torch.int32)
