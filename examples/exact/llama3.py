"""A decoder layer of Llama 3 in float64."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from exact.parts import angles, attention, rms_norm, rotated, silu_mul

HEADS, KV_HEADS, WIDTH = 32, 8, 128
EPSILON, THETA = 1e-5, 500000.0


def layer(w: Mapping[str, Tensor], hidden: Tensor) -> tuple[Tensor, Tensor]:
    """What the layer adds to the residual last, and the residual before that; ``hidden``: [tokens, H] of one sequence."""
    tokens = len(hidden)
    qkv = rms_norm(hidden, w["input_norm"], EPSILON) @ w["qkv"].T
    q, k, v = qkv.reshape(tokens, -1, WIDTH).split((HEADS, KV_HEADS, KV_HEADS), 1)
    turn = angles(tokens, WIDTH, THETA)
    attended = attention(rotated(q, turn), rotated(k, turn), v, WIDTH**-0.5)
    residual = hidden + attended @ w["o"].T
    return silu_mul(rms_norm(residual, w["post_norm"], EPSILON) @ w["gate_up"].T) @ w["down"].T, residual
