"""A decoder layer of Qwen3-MoE in float64."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from exact.parts import angles, attention, rms_norm, rotated, silu_mul

HEADS, KV_HEADS, WIDTH = 64, 4, 128
CHOSEN = 8
EPSILON, THETA = 1e-6, 1000000.0


def layer(w: Mapping[str, Tensor], hidden: Tensor) -> tuple[Tensor, Tensor]:
    """What the experts add to the residual, and the residual before that; ``hidden``: [tokens, H] of one sequence."""
    tokens = len(hidden)
    qkv = rms_norm(hidden, w["input_norm"], EPSILON) @ w["qkv"].T
    q, k, v = qkv.reshape(tokens, -1, WIDTH).split((HEADS, KV_HEADS, KV_HEADS), 1)
    q, k = rms_norm(q, w["q_norm"], EPSILON), rms_norm(k, w["k_norm"], EPSILON)
    turn = angles(tokens, WIDTH, THETA)
    attended = attention(rotated(q, turn), rotated(k, turn), v, WIDTH**-0.5)
    residual = hidden + attended @ w["o"].T
    return experts(w, rms_norm(residual, w["post_norm"], EPSILON)), residual


def experts(w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Each token's likeliest experts, by shares that sum to 1."""
    best = (x @ w["router"].T).softmax(-1).topk(CHOSEN)
    shares = best.values / best.values.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    for expert in best.indices.unique().tolist():
        tokens, place = (best.indices == expert).nonzero(as_tuple=True)
        gate_up, down = (w[name][expert].double() for name in ("gate_up", "down"))
        found = silu_mul(x[tokens] @ gate_up.T) @ down.T
        out[tokens] += shares[tokens, place, None] * found
    return out
