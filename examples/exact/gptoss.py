"""A decoder layer of gpt-oss in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from exact.parts import attention, rms_norm, yarn

HEADS, KV_HEADS, WIDTH = 64, 8, 64
CHOSEN, HIDDEN, INTER = 4, 480, 192
EPSILON, THETA = 1e-5, 150000.0
#: The context was so long before it was stretched so many times.
CONTEXT, STRETCHED = 4096, 32.0
SLOPE, LIMIT = 1.702, 7.0
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def weights(w: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """In float64, but for experts' products: what their codes mean, which bf16 has, without what only fills them up."""
    found = {name: value.double() if value.ndim < 3 else value for name, value in w.items()}
    found["gate_up"] = mxfp4(w["gate_up"], w["gate_up_scale"])[..., :HIDDEN]
    found["down"] = mxfp4(w["down"], w["down_scale"])[:, :HIDDEN, :INTER]
    return found


def layer(w: Mapping[str, Tensor], hidden: Tensor) -> tuple[Tensor, Tensor]:
    """What the experts add to the residual, and the residual before that; ``hidden``: [tokens, H] of one sequence."""
    tokens = len(hidden)
    qkv = rms_norm(hidden, w["input_norm"], EPSILON) @ w["qkv"].T + w["qkv_bias"]
    q, k, v = qkv.reshape(tokens, -1, WIDTH).split((HEADS, KV_HEADS, KV_HEADS), 1)
    cos, sin = turns(tokens)
    window = int(w["window"])
    attended = attention(
        turned(q, cos, sin), turned(k, cos, sin), v, WIDTH**-0.5, window if window > 0 else None, w["sinks"]
    )
    residual = hidden + attended @ w["o"].T + w["o_bias"]
    return experts(w, rms_norm(residual, w["post_norm"], EPSILON)), residual


def turns(tokens: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [tokens, WIDTH / 2], by YaRN: a little longer than 1."""
    speed = yarn(WIDTH, THETA, CONTEXT, STRETCHED, whole=False)
    angle = torch.arange(tokens, dtype=torch.float64)[:, None] * speed
    longer = 0.1 * math.log(STRETCHED) + 1
    return angle.cos() * longer, angle.sin() * longer


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Element i and i + WIDTH / 2 of each head, as a point in the plane."""
    first, second = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def experts(w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Each token's likeliest experts, by the softmax of their logits alone."""
    best = (x @ w["router"].T + w["router_bias"]).topk(CHOSEN)
    shares = best.values.softmax(-1)
    out = torch.zeros_like(x)
    for expert in best.indices.unique().tolist():
        tokens, place = (best.indices == expert).nonzero(as_tuple=True)
        gate_up, down = (w[name][expert].double() for name in ("gate_up", "down"))
        gate, up = (x[tokens] @ gate_up.T + w["gate_up_bias"][expert]).chunk(2, -1)
        found = swiglu(gate, up)[:, :INTER] @ down.T + w["down_bias"][expert][:HIDDEN]
        out[tokens] += shares[tokens, place, None] * found
    return out


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gpt-oss's own, of what is cut off at the limit."""
    gate, up = gate.clamp(max=LIMIT), up.clamp(-LIMIT, LIMIT)
    made: Tensor = gate * torch.sigmoid(SLOPE * gate) * (up + 1)
    return made


def mxfp4(codes: Tensor, scales: Tensor) -> Tensor:
    """What pairs of codes with a power of two for each 32 of a row mean."""
    byte = torch.arange(256)
    pairs = torch.stack([byte & 15, byte >> 4], -1)
    meant = ((1 - 2 * (pairs >> 3)) * FP4[pairs & 7]).bfloat16()
    powers = torch.exp2(scales.float() - 127).bfloat16()
    each = meant[codes.int()].flatten(-2).unflatten(-1, (-1, 32))
    found: Tensor = (each * powers[..., None]).flatten(-2)
    return found
