"""Torch reference of expert routing: softmax over the experts of a token and the k largest.

The arithmetic is float64 and is rounded to float32 once. A kernel computes in fp32, so a weight may be off by
about 2^-17 of itself (the argument of exp2 is rounded), and one below 2^-126 may be lost. Indices are equal.
"""

from __future__ import annotations

import torch


def topk_softmax(
    gating_output: torch.Tensor, topk: int, need_renorm: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The `topk` most probable experts of each token, most probable first.

    gating_output [T, E] (bf16, f16 or f32) -> weights f32 [T, topk], indices i32 [T, topk] and
    token_expert_indices i32 [T, topk].
    weights[t, j] = softmax(gating_output[t])[indices[t, j]]; with `need_renorm` divided by their sum over j.
    token_expert_indices[t, j] = j * T + t (the order in which vLLM's kernels number the pairs).

    The order is that of the logits, not of the rounded probabilities (softmax may make two logits equal):
    a stable descending sort, so equal logits (-0 and +0 too) go by the lower index and NaN stands above all.
    NaN or +inf anywhere in a row, or nothing but -inf, makes all its weights NaN; its indices stay distinct
    and below E.

    Raises:
        ValueError: topk is not in 1..E.
    """
    tokens, experts = gating_output.shape
    if not 1 <= topk <= experts:
        raise ValueError(f"topk must be between 1 and the number of experts {experts}, not {topk}")
    logits = gating_output.double()
    indices = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :topk]
    weights = torch.softmax(logits, dim=-1).gather(-1, indices)
    if need_renorm:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    token = torch.arange(tokens, dtype=torch.int32)[:, None]
    pairs = torch.arange(topk, dtype=torch.int32)[None, :] * tokens + token
    return weights.float(), indices.int(), pairs
