"""A child of ``test_autograd.py``: attention with gradients by torch's engine on the embedded device, beside autograd in float64.

Prints what is wrong, line by line.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

import aiter_prebuilt as ap
from aiter_prebuilt.errors import AiterPrebuiltError, UnsupportedError
from aiter_prebuilt.launch import dispatch

DEVICE = "cuda"
PROBLEMS: list[str] = []
#: How far a gradient may be away, of its largest element.
CLOSE = {torch.bfloat16: 0.015, torch.float16: 0.002}


class Shape(NamedTuple):
    """Elements of a key and of a value, heads, and heads that queries share."""

    width: int
    values: int
    heads: int
    shared: int


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, left: int, right: int, scale: float, sink: Any = None
) -> torch.Tensor:
    """Attention of one sequence, [rows, heads, elements], in float64."""
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    queries, keys = q.shape[0], k.shape[0]
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    place = torch.arange(keys)[None] - (torch.arange(queries)[:, None] + keys - queries)
    hidden = (place < -left) & (left >= 0) | (place > right) & (right >= 0)
    scores = scores.masked_fill(hidden, float("-inf"))
    if sink is not None:
        scores = torch.cat([scores, sink[:, None, None].expand(-1, queries, 1)], 2)
    weights = torch.nan_to_num(torch.softmax(scores, -1))[:, :, :keys]
    return torch.einsum("hij,jhd->ihd", weights, v)


def near(what: str, found: Any, wanted: torch.Tensor, kind: torch.dtype) -> None:
    """Compare with float64."""
    if found is None:
        PROBLEMS.append(f"{what}: there is none")
        return
    off = ((found.cpu().double() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-3)).item()
    if found.shape != wanted.shape or not off < CLOSE[kind]:
        PROBLEMS.append(f"{what}: {tuple(found.shape)}, off by {off:.1e} of the largest element")


def check(what: str, holds: bool) -> None:
    """Note what does not hold."""
    if not holds:
        PROBLEMS.append(what)


def refused(what: str, asked: str, call: Callable[[], Any]) -> None:
    """It must be refused by name before anything is launched."""
    names = ("flash_attn_func", "flash_attn_varlen_func")
    before = [dispatch.operator(name).stats()["launches"] for name in names]
    try:
        call()
    except UnsupportedError as error:
        check(f"{what}: {error.asked}", error.asked.startswith(asked) and error.__context__ is None)
    else:
        PROBLEMS.append(f"{what}: it ran")
    check(f"{what}: launched", before == [dispatch.operator(name).stats()["launches"] for name in names])


def leaves(shape: Shape, rows: int, keys: int, kind: torch.dtype, *batch: int) -> list[torch.Tensor]:
    """Queries, keys and values on the device that require gradients."""
    sizes = ((rows, shape.heads, shape.width), (keys, shape.shared, shape.width), (keys, shape.shared, shape.values))
    return [torch.randn(*batch, *size).to(kind).to(DEVICE).requires_grad_() for size in sizes]


def doubles(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same numbers in float64, as leaves of another graph."""
    return [each.detach().cpu().double().requires_grad_() for each in tensors]


def dense(shape: Shape, kind: torch.dtype, causal: bool, window: tuple[int, int], sinks: bool, deterministic: bool) -> None:
    """Batches that are alike, more and fewer queries than keys."""
    batch, queries, keys = 2, random.randint(20, 90), random.randint(20, 90)
    q, k, v = leaves(shape, queries, keys, kind, batch)
    sink = torch.randn(shape.heads).to(DEVICE).requires_grad_() if sinks else None
    scale = random.uniform(0.5, 1.5) * shape.width**-0.5
    what = f"dense {shape} {kind} causal={causal} {window} sinks={sinks} {deterministic=} {queries}x{keys}"
    out, lse = ap.flash_attn_func(
        q, k, v, softmax_scale=scale, causal=causal, window_size=window, sink_ptr=sink, return_lse=True,
        deterministic=deterministic,
    )  # fmt: skip
    check(f"{what}: lse requires grad", out.requires_grad and not lse.requires_grad)
    dout = torch.randn(out.shape).to(kind)
    asked = [q, k, v, *([] if sink is None else [sink])]
    found = torch.autograd.grad(out, asked, dout.to(DEVICE))
    exact = doubles(asked)
    left, right = window[0], 0 if causal else window[1]
    wanted_out = torch.stack(
        [reference(*(each[i] for each in exact[:3]), left, right, scale, *exact[3:]) for i in range(batch)]
    )
    near(f"{what}: out", out.detach(), wanted_out.detach(), kind)
    for name, one, other in zip("qkvs", found, torch.autograd.grad(wanted_out, exact, dout.double()), strict=False):
        near(f"{what}: d{name}", one, other, kind)


def starts(lengths: Sequence[int], first: int = 0) -> torch.Tensor:
    """Where sequences begin and end."""
    return torch.tensor([*itertools.accumulate((first, *lengths))], dtype=torch.int32).to(DEVICE)


def ragged(
    shape: Shape, kind: torch.dtype, causal: bool, window: tuple[int, int], sinks: bool, deterministic: bool, padded: str
) -> None:
    """Sequences of different lengths, some of no queries or keys, some with padding that is not finite, and rows behind them."""
    lengths = [(40, 70), (1, 30), (0, 9), (33, 20), (5, 0)]
    random.shuffle(lengths)
    queries, keys = zip(*lengths, strict=True)
    room_q = [n + (random.randint(0, 12) if "q" in padded else 0) for n in queries]
    room_k = [n + (random.randint(0, 12) if "k" in padded else 0) for n in keys]
    behind = 3
    q, k, v = leaves(shape, sum(room_q) + behind, sum(room_k) + behind, kind)
    begins = [list(itertools.accumulate((0, *room)))[:-1] for room in (room_q, room_k)]
    real = [
        torch.cat([torch.arange(at, at + n) for at, n in zip(each, counts, strict=True)])
        for each, counts in zip(begins, (queries, keys), strict=True)
    ]
    with torch.no_grad():
        for tensor, rows in ((q, real[0]), (k, real[1]), (v, real[1])):
            poison = torch.ones(tensor.shape[0], dtype=torch.bool)
            poison[rows] = False
            tensor.masked_fill_(poison.to(DEVICE)[:, None, None], float("nan"))
    sink = torch.randn(shape.heads).to(DEVICE).requires_grad_() if sinks else None
    padding = {
        f"cu_seqlens_{name}_padded": starts(room) for name, room in (("q", room_q), ("k", room_k)) if name in padded
    }
    what = f"ragged {shape} {kind} causal={causal} {window} sinks={sinks} {deterministic=} padded={padded} {lengths}"
    out, lse, empty = ap.flash_attn_varlen_func(
        q, k, v, starts(queries), starts(keys), max(queries), max(keys), causal=causal, window_size=window,
        sink_ptr=sink, return_lse=True, return_attn_probs=True, deterministic=deterministic, **padding,
    )  # fmt: skip
    check(f"{what}: requires grad", out.requires_grad and not lse.requires_grad and empty.shape == (0,))
    dout = torch.randn(out.shape).to(kind)
    hidden = torch.ones(out.shape[0], dtype=torch.bool)
    hidden[real[0]] = False
    dout[hidden] = float("nan")
    asked = [q, k, v, *([] if sink is None else [sink])]
    found = torch.autograd.grad(out, asked, dout.to(DEVICE))
    exact = doubles(asked)
    left, right = window[0], 0 if causal else window[1]
    scale = shape.width**-0.5
    parts = []
    for at, n, other, m in zip(begins[0], queries, begins[1], keys, strict=True):
        spans = exact[0][at : at + n], exact[1][other : other + m], exact[2][other : other + m]
        parts.append(reference(*spans, left, right, scale, *exact[3:]))
    whole = torch.cat(parts)
    near(f"{what}: out", out.detach().cpu()[real[0]], whole.detach(), kind)
    wanted = torch.autograd.grad(whole, exact, dout[real[0]].double())
    for name, one, other_grad in zip("qkvs", found, wanted, strict=False):
        near(f"{what}: d{name}", one, torch.nan_to_num(other_grad), kind)


def main() -> int:
    """Ask everything."""
    seed = random.randrange(2**31)
    random.seed(seed)
    torch.manual_seed(seed)
    half = torch.float16
    dense(Shape(64, 64, 4, 2), torch.bfloat16, True, (-1, -1), False, True)
    dense(Shape(64, 64, 4, 2), torch.bfloat16, True, (-1, -1), False, False)
    dense(Shape(128, 128, 2, 2), half, False, (-1, -1), True, False)
    dense(Shape(192, 128, 2, 1), torch.bfloat16, False, (13, 9), True, True)
    ragged(Shape(64, 64, 4, 2), torch.bfloat16, True, (-1, -1), False, False, "")
    ragged(Shape(128, 128, 2, 1), half, False, (-1, -1), False, False, "qk")
    ragged(Shape(192, 128, 2, 1), torch.bfloat16, True, (-1, -1), True, True, "q")
    ragged(Shape(64, 64, 2, 2), half, False, (10, 7), True, False, "k")
    if PROBLEMS:
        print(f"seed {seed}", *PROBLEMS, sep="\n")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
