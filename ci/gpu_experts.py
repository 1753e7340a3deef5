"""Measure mixtures of experts on this GPU.

Rows of ``gpu_bench.py ops``.

Compared with what no mixture can beat: its products as two dense ones of as many rows (cuBLAS), or a copy of as many bytes as the
weights of the experts that are chosen have, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from gpu_clock import Clock, TimedRow, random, row

import aiter_prebuilt

#: Experts, how many a token chooses, columns of the model and of an expert.
MODELS: Final = {
    "Mixtral 8x7B": (8, 2, 4096, 14336),
    "Mixtral 8x7B / 8": (8, 2, 4096, 1792),
    "Qwen3 30B A3B": (128, 8, 2048, 768),
    "gpt-oss 120B": (128, 4, 2880, 2880),
}
TOKENS: Final = (1024, 4096, 16384)


def experts(clock: Clock) -> Iterator[TimedRow]:
    """Rows of each model; experts are chosen at random, so that some get more tokens than others."""
    for model, (count, topk, columns, inner) in MODELS.items():
        w1 = random(count, 2 * inner, columns) * 0.05
        w2 = random(count, columns, inner) * 0.05
        for tokens in TOKENS:
            x = random(tokens, columns)
            weights, ids = torch.softmax(torch.randn(tokens, count, device="cuda"), -1).topk(topk)
            weights, ids = weights.contiguous(), ids.int().contiguous()

            def ours(x: Any = x, w1: Any = w1, w2: Any = w2, weights: Any = weights, ids: Any = ids) -> Any:
                return (aiter_prebuilt.fused_moe(x, w1, w2, weights, ids),)

            floor = _floor(clock, tokens * topk, w1, w2, int(ids.unique().numel()))
            right = (_right(x, w1, w2, weights, ids),)
            yield row("experts", f"{model}: {tokens} x {columns} x {inner}", clock, ours, floor, right)


def _floor(clock: Clock, rows: int, w1: Any, w2: Any, chosen: int) -> dict[str, Callable[[], Any]]:
    """Return the slower of both floors, by its name."""
    x, between = random(rows, w1.shape[2]), random(rows, w2.shape[2])
    source = torch.empty((w1[0].numel() + w2[0].numel()) * chosen, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    linear = torch.nn.functional.linear
    floors: dict[str, Callable[[], Any]] = {
        "dense": lambda: (linear(x, w1[0]), linear(between, w2[0])),
        "copy": lambda: target.copy_(source),
    }
    times = dict(zip(floors, clock(*floors.values()), strict=True))
    slower = max(times, key=lambda name: times[name])
    return {slower: floors[slower]}


def _right(x: Any, w1: Any, w2: Any, weights: Any, ids: Any) -> torch.Tensor:
    """Compute the mixture, an expert at a time."""
    out = torch.zeros_like(x, dtype=torch.float32)
    for expert in ids.unique().tolist():
        token, choice = (ids == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ w1[expert].t()).chunk(2, -1)
        part = (torch.nn.functional.silu(gate) * up) @ w2[expert].t()
        out.index_add_(0, token, part.float() * weights[token, choice][:, None])
    return out


GROUPS: Final[dict[str, Callable[[Clock], Iterator[TimedRow]]]] = {"experts": experts}
