"""A decoder layer of DeepSeek-V3 in float64. What is an input of a product in fp8 becomes codes here, too: the model is so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from exact.parts import attention, rms_norm, silu_mul, yarn

HEADS, NOPE, ROPE, WIDTH = 128, 128, 64, 128
Q_LATENT, LATENT = 256, 512
CHOSEN, GROUPS, BEST_GROUPS, SHARE = 8, 8, 4, 2.5
EPSILON, THETA = 1e-6, 10000.0
#: The context was so long before it was stretched so many times.
CONTEXT, STRETCHED = 4096, 40.0
SCALE = (NOPE + ROPE) ** -0.5 * (0.1 * math.log(STRETCHED) + 1) ** 2
BLOCK = 128


def weights(w: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What codes and scales mean: of experts in bf16, which has it exactly, of all others in float64."""
    found: dict[str, Tensor] = {}
    for name, value in w.items():
        if name.endswith("_scale"):
            continue
        if f"{name}_scale" in w:
            each = meant(value, w[f"{name}_scale"])
            found[name] = each.bfloat16() if value.ndim == 3 else each.double()
            found["kind"] = torch.empty(0, dtype=value.dtype)
        else:
            found[name] = value.double()
    return found


def meant(codes: Tensor, scales: Tensor) -> Tensor:
    """Codes by the scales of their blocks."""
    return codes.float() * spread(scales, codes.shape)


def spread(scales: Tensor, shape: Sequence[int]) -> Tensor:
    """The scale of each element."""
    each = scales.repeat_interleave(BLOCK, -2).repeat_interleave(BLOCK, -1)
    return each[..., : shape[-2], : shape[-1]]


def coded(x: Tensor, kind: torch.dtype) -> Tensor:
    """What codes of 8 bits mean, with a scale for each 128 of a row."""
    groups = x.unflatten(-1, (-1, BLOCK))
    scales = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / torch.finfo(kind).max
    found: Tensor = ((groups / scales).float().to(kind).double() * scales).flatten(-2)
    return found


def layer(w: Mapping[str, Tensor], hidden: Tensor) -> tuple[Tensor, Tensor]:
    """What the experts add to the residual, and the residual before that; ``hidden``: [tokens, H] of one sequence."""
    tokens, kind = len(hidden), w["kind"].dtype
    qkv = coded(rms_norm(hidden, w["input_norm"], EPSILON), kind) @ w["qkv_a"].T
    q, kv, k_rope = qkv.split((Q_LATENT, LATENT, ROPE), 1)
    q = coded(rms_norm(q, w["q_norm"], EPSILON), kind) @ w["q_b"].T
    kv = rms_norm(kv, w["kv_norm"], EPSILON) @ w["kv_b"].T
    keys, values = kv.reshape(tokens, HEADS, -1).split((NOPE, WIDTH), -1)
    turn = angles(tokens)
    q_nope, q_rope = q.reshape(tokens, HEADS, -1).split((NOPE, ROPE), -1)
    k_rope = turned(k_rope[:, None], turn).expand(-1, HEADS, -1)
    q = torch.cat([q_nope, turned(q_rope, turn)], -1)
    attended = attention(q, torch.cat([keys, k_rope], -1), values, SCALE)
    residual = hidden + coded(attended, kind) @ w["o"].T
    return experts(w, rms_norm(residual, w["post_norm"], EPSILON)), residual


def angles(tokens: int) -> Tensor:
    """[tokens, ROPE / 2]: how far each pair of elements is turned at each place."""
    places = torch.arange(tokens, dtype=torch.float64)
    return places[:, None] * yarn(ROPE, THETA, CONTEXT, STRETCHED, whole=True)


def turned(x: Tensor, turn: Tensor) -> Tensor:
    """Neighbours in each head, as a point in the plane."""
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turn.cos()[:, None], turn.sin()[:, None]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)


def experts(w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Each token's best experts of its best groups, by the sigmoids of their logits, and one that all tokens have."""
    kind = w["kind"].dtype
    scores = (x @ w["router"].T).sigmoid()
    by = (scores + w["bias"]).unflatten(-1, (GROUPS, -1))
    best = by.topk(2).values.sum(-1).topk(BEST_GROUPS).indices
    kept = torch.zeros(by.shape[:2], dtype=torch.bool).scatter(1, best, value=True)
    chosen = by.masked_fill(~kept[..., None], float("-inf")).flatten(1).topk(CHOSEN).indices
    shares = scores.gather(1, chosen)
    shares = shares / shares.sum(-1, keepdim=True) * SHARE
    rows = coded(x, kind)
    out = coded(silu_mul(rows @ w["shared_gate_up"].T), kind) @ w["shared_down"].T
    for expert in chosen.unique().tolist():
        tokens, place = (chosen == expert).nonzero(as_tuple=True)
        gate_up, down = (w[name][expert].double() for name in ("gate_up", "down"))
        out[tokens] += shares[tokens, place, None] * (
            coded(silu_mul(rows[tokens] @ gate_up.T), kind) @ down.T
        )
    return out
