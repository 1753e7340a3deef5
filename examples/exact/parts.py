"""What the exact layers share."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Each row in parts of its root mean square."""
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight


def angles(tokens: int, width: int, theta: float) -> Tensor:
    """[tokens, width / 2]: how far each pair of elements is turned at each place."""
    powers = torch.arange(0, width, 2, dtype=torch.float64) / width
    return torch.arange(tokens, dtype=torch.float64)[:, None] * theta**-powers


def rotated(x: Tensor, turn: Tensor) -> Tensor:
    """Element i and i + width / 2 of each head, as a point in the plane."""
    first, second = x.chunk(2, -1)
    cos, sin = turn.cos()[:, None], turn.sin()[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None = None, sinks: Tensor | None = None
) -> Tensor:
    """Each token sees itself and those before it, of a window the last ones; several query heads share one of keys. A sink is one
    more score of its head, without a value.
    """
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    place = torch.arange(len(q))
    back = place[:, None] - place
    seen = (back >= 0) if window is None else (back >= 0) & (back < window)
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(-1, len(q), 1)], -1)
    shares = scores.softmax(-1)[..., : len(q)]
    return torch.einsum("hij,jhd->ihd", shares, v).reshape(len(q), -1)


def yarn(width: int, theta: float, context: int, stretched: float, whole: bool) -> Tensor:
    """[width / 2]: how far a pair of elements turns from a token to the next. Those that turn often in the context that there was
    do as before, those that hardly turn are stretched, a ramp between, whose ends are ``whole`` pairs or not.
    """
    speed = theta ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    first, last = (width * math.log(context / (n * 2 * math.pi)) / (2 * math.log(theta)) for n in (32, 1))
    if whole:
        first, last = math.floor(first), math.ceil(last)
    ramp = ((torch.arange(width // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
    return speed / stretched * ramp + speed * (1 - ramp)


def silu_mul(both: Tensor) -> Tensor:
    """The first half of each row through silu, times the other half."""
    gate, up = both.chunk(2, -1)
    return gate * torch.sigmoid(gate) * up
