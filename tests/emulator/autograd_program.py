"""A child of ``test_autograd.py``: attention with gradients by torch's engine on the embedded device, beside autograd in float64.

Prints what is wrong, line by line.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

import aiter_prebuilt
from aiter_prebuilt.errors import AiterPrebuiltError, UnsupportedError
from aiter_prebuilt.launch import dispatch

#: Called with arguments in lists: too much for a type checker.
ap: Any = aiter_prebuilt
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


def reference(*given: Any) -> Any:
    """Attention of one sequence in float64, of q, k, v [rows, heads, elements], left, right, scale, and sinks [heads, rows]."""
    q, k, v, left, right, scale, *sinks = given
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    queries, keys = q.shape[0], k.shape[0]
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    place = torch.arange(keys)[None] - (torch.arange(queries)[:, None] + keys - queries)
    hidden = (place < -left) & (left >= 0) | (place > right) & (right >= 0)
    scores = scores.masked_fill(hidden, float("-inf"))
    if sinks:
        scores = torch.cat([scores, sinks[0][:, :, None]], 2)
    weights = torch.nan_to_num(torch.softmax(scores, -1))[:, :, :keys]
    return torch.einsum("hij,jhd->ihd", weights, v)


def near(what: str, found: Any, wanted: torch.Tensor, kind: torch.dtype, size: Any = None) -> None:
    """Compare with float64; ``size``: of what was added up, where that may cancel."""
    if found is None:
        PROBLEMS.append(f"{what}: there is none")
        return
    largest = (wanted if size is None else size).abs().max().clamp(min=1e-3)
    off = ((found.detach().cpu().double() - wanted.detach()).abs().max() / largest).item()
    if found.shape != wanted.shape or not off < CLOSE[kind]:
        PROBLEMS.append(f"{what}: {tuple(found.shape)}, off by {off:.1e} of the largest element")


def compare(
    what: str, found: Sequence[Any], whole: torch.Tensor, exact: Sequence[torch.Tensor], dout: torch.Tensor
) -> None:
    """Compare gradients of queries, keys, values, and of sinks where ``exact`` has [heads, rows] of them."""
    wanted = torch.autograd.grad(whole, exact, dout.double())
    for name, one, other in zip("qkv", found[:3], wanted[:3], strict=True):
        near(f"{what}: d{name}", one, torch.nan_to_num(other), dout.dtype)
    if len(exact) > 3:
        near(f"{what}: dsink", found[3], wanted[3].sum(1), dout.dtype, wanted[3].abs().sum(1))


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
    sizes = (
        (rows, shape.heads, shape.width),
        (keys, shape.shared, shape.width),
        (keys, shape.shared, shape.values),
    )
    return [torch.randn(*batch, *size).to(kind).to(DEVICE).requires_grad_() for size in sizes]


def doubles(tensors: Sequence[torch.Tensor], rows: int) -> list[torch.Tensor]:
    """The same numbers in float64, as leaves of another graph; a sink once for each of ``rows`` queries."""
    plain = [each.detach().cpu().double() for each in tensors]
    whole = [each if each.dim() > 1 else each[:, None].repeat(1, rows) for each in plain]
    return [each.requires_grad_() for each in whole]


def dense(
    shape: Shape, kind: torch.dtype, causal: bool, window: tuple[int, int], sinks: bool, deterministic: bool
) -> None:
    """Batches that are alike, more and fewer queries than keys."""
    batch, queries, keys = 2, random.randint(20, 90), random.randint(20, 90)
    q, k, v = leaves(shape, queries, keys, kind, batch)
    sink = torch.randn(shape.heads).to(DEVICE).requires_grad_() if sinks else None
    scale = random.uniform(0.5, 1.5) * shape.width**-0.5
    what = f"dense {shape} {kind} {causal=} {window} {sinks=} {deterministic=} {queries}x{keys}"
    out, lse = ap.flash_attn_func(
        q, k, v, softmax_scale=scale, causal=causal, window_size=window, sink_ptr=sink, return_lse=True,
        deterministic=deterministic,
    )  # fmt: skip
    check(f"{what}: requires grad", out.requires_grad and not lse.requires_grad)
    dout = torch.randn(out.shape).to(kind)
    asked = [q, k, v, *([] if sink is None else [sink])]
    found = torch.autograd.grad(out, asked, dout.to(DEVICE))
    exact = doubles(asked, batch * queries)
    left, right = window[0], 0 if causal else window[1]
    parts = [
        reference(
            *(each[i] for each in exact[:3]), left, right, scale,
            *(each[:, i * queries : (i + 1) * queries] for each in exact[3:]),
        )
        for i in range(batch)
    ]  # fmt: skip
    whole = torch.stack(parts)
    near(f"{what}: out", out, whole, kind)
    compare(what, found, whole, exact, dout)


def starts(lengths: Sequence[int], first: int = 0) -> torch.Tensor:
    """Where sequences begin and end."""
    return torch.tensor([*itertools.accumulate((first, *lengths))], dtype=torch.int32).to(DEVICE)


def ragged(
    shape: Shape,
    kind: torch.dtype,
    causal: bool,
    window: tuple[int, int],
    sinks: bool,
    deterministic: bool,
    padded: str,
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
        f"cu_seqlens_{name}_padded": starts(room)
        for name, room in (("q", room_q), ("k", room_k))
        if name in padded
    }
    what = f"ragged {shape} {kind} {causal=} {window} {sinks=} {deterministic=} {padded=} {lengths}"
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
    exact = doubles(asked, sum(queries))
    left, right = window[0], 0 if causal else window[1]
    scale, parts, before = shape.width**-0.5, [], 0
    for at, n, other, m in zip(begins[0], queries, begins[1], keys, strict=True):
        spans = exact[0][at : at + n], exact[1][other : other + m], exact[2][other : other + m]
        parts.append(
            reference(*spans, left, right, scale, *(each[:, before : before + n] for each in exact[3:]))
        )
        before += n
    whole = torch.cat(parts)
    near(f"{what}: out", out.detach().cpu()[real[0]], whole, kind)
    compare(what, found, whole, exact, dout[real[0]])


def some() -> tuple[list[torch.Tensor], torch.Tensor, list[torch.Tensor]]:
    """A small causal call: its leaves, its result in float64, and the leaves of that."""
    tensors = leaves(Shape(64, 64, 2, 1), 21, 34, torch.bfloat16, 1)
    exact = doubles(tensors, 0)
    return tensors, reference(*(each[0] for each in exact), -1, 0, 64**-0.5)[None], exact


def views() -> None:
    """Gradients of a sum and of a mean lie in one place; queries, keys and values may be views of one tensor."""
    ways: dict[str, Callable[[Any], Any]] = {
        "sum": lambda x: x.sum(),
        "mean of rows": lambda x: x.mean(dim=1).square().sum(),
        "mean of heads": lambda x: x.mean(dim=2).square().sum(),
        "transposed": lambda x: (x.transpose(1, 3).contiguous() ** 2).sum(),
    }
    for what, reduce in ways.items():
        tensors, whole, exact = some()
        for deterministic in (True, False):
            result = reduce(ap.flash_attn_func(*tensors, causal=True, deterministic=deterministic).float())
            found = torch.autograd.grad(result, tensors)
            wanted = torch.autograd.grad(reduce(whole), exact, retain_graph=True)
            for name, one, other in zip("qkv", found, wanted, strict=True):
                near(f"{what}, {deterministic=}: d{name}", one, other, torch.bfloat16)
    packed = torch.randn(1, 19, 3, 2, 64).to(torch.float16)
    leaf, exact = packed.to(DEVICE).requires_grad_(), [packed.double().requires_grad_()]
    q, k, v = leaf.unbind(2)
    (of_leaf,) = torch.autograd.grad(ap.flash_attn_func(q, k, v), leaf, torch.ones_like(q))
    (of_exact,) = torch.autograd.grad(reference(*exact[0][0].unbind(1), -1, -1, 0.125).sum(), exact)
    near("packed", of_leaf, of_exact, torch.float16)
    one = torch.randn(1, 9, 2, 64).to(torch.float16)
    leaf, exact = one.to(DEVICE).requires_grad_(), [one.double().requires_grad_()]
    (of_leaf,) = torch.autograd.grad(ap.flash_attn_func(leaf, leaf, leaf), leaf, torch.ones_like(leaf))
    (of_exact,) = torch.autograd.grad(reference(*(exact[0][0],) * 3, -1, -1, 0.125).sum(), exact)
    near("one tensor three times", of_leaf, of_exact, torch.bfloat16)  # three gradients of fp16 are added up


def asked() -> None:
    """One of the tensors alone, more than once, and the second derivative, which there is not."""
    tensors, whole, exact = some()
    dout = torch.randn(whole.shape).bfloat16()
    wanted = torch.autograd.grad(whole, exact, dout.double())
    for place, name in enumerate("qkv"):
        given = [each.detach().requires_grad_(i == place) for i, each in enumerate(tensors)]
        out = ap.flash_attn_func(*given, causal=True)
        out.backward(dout.to(DEVICE))
        near(f"d{name} alone", given[place].grad, wanted[place], torch.bfloat16)
        check(f"d{name} alone: others", [each.grad is not None for each in given].count(True) == 1)
    sink = torch.zeros(2).bfloat16().to(DEVICE).requires_grad_()
    out = ap.flash_attn_func(*(each.detach() for each in tensors), causal=True, sink_ptr=sink)
    (made,) = torch.autograd.grad(out, sink, dout.to(DEVICE))
    check("a sink alone", made.dtype == torch.bfloat16 and bool(torch.isfinite(made.float()).all()))
    out = ap.flash_attn_func(*tensors, causal=True)
    first = torch.autograd.grad(out, tensors, dout.to(DEVICE), retain_graph=True)
    second = torch.autograd.grad(out, tensors, dout.to(DEVICE), create_graph=True)
    check("twice", all(torch.equal(one.cpu(), other.cpu()) for one, other in zip(first, second, strict=True)))
    try:
        torch.autograd.grad(second[0].float().sum(), tensors)
    except RuntimeError as error:
        check(f"the second derivative: {error}", "differentiate" in str(error) or "grad" in str(error))
    else:
        PROBLEMS.append("the second derivative: there is one")
    again, lse, empty = ap.flash_attn_func(*tensors, causal=True, return_lse=True, return_attn_probs=True)
    check("forms", again.requires_grad and lse.dtype == torch.float32 and empty.shape == (0,))
    pair = ap.flash_attn_func(*tensors, causal=True, return_attn_probs=True)
    check("forms without lse", len(pair) == 2 and pair[1].shape == (0,))


def memory() -> None:
    """A result in memory of the caller's: a tensor, rows of one, and every second head of one."""
    for cut in (None, slice(2, -3), slice(None, None, 2)):
        tensors, whole, exact = some()
        dout = torch.randn(whole.shape).bfloat16()
        q, k, v = (each[0] for each in tensors)
        rows, heads, size = whole.shape[1:]
        shape = (rows + 5, heads, size) if cut == slice(2, -3) else (rows, 2 * heads, size)
        buffer = torch.full(whole.shape[1:] if cut is None else shape, float("nan")).bfloat16().to(DEVICE)
        kept = buffer if cut is None else buffer[cut] if cut == slice(2, -3) else buffer[:, cut]
        lists = starts([q.shape[0]]), starts([k.shape[0]])
        made = ap.flash_attn_varlen_func(q, k, v, *lists, q.shape[0], k.shape[0], causal=True, out=kept)
        check(f"out {cut}", made is kept and kept.requires_grad)
        near(f"out in memory {cut}", made, whole[0], torch.bfloat16)
        left = buffer.detach().isnan().sum().item()
        check(f"out {cut} leaves the rest", left == buffer.numel() - whole[0].numel())
        found = torch.autograd.grad(made, tensors, dout[0].to(DEVICE))
        compare("out", found, whole, exact, dout)


def checkpoints() -> None:
    """A forward that is computed anew for the backward gives the same gradients."""
    tensors, whole, _ = some()
    dout = torch.randn(whole.shape).bfloat16().to(DEVICE)
    wanted = torch.autograd.grad(ap.flash_attn_func(*tensors, causal=True), tensors, dout)
    for reentrant in (False, True):
        again = [each.detach().requires_grad_() for each in tensors]
        out = checkpoint(partial(ap.flash_attn_func, causal=True), *again, use_reentrant=reentrant)
        out.backward(dout)
        found: list[Any] = [each.grad for each in again]
        same = all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
        check(f"checkpoint {reentrant=}", same)


def nothing() -> None:
    """No batch, no query, no key."""
    for batch, queries, keys in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        tensors = leaves(Shape(64, 64, 2, 1), queries, keys, torch.bfloat16, batch)
        out = ap.flash_attn_func(*tensors)
        found = torch.autograd.grad(out, tensors, torch.ones_like(out))
        good = all(not each.cpu().float().any() for each in found)
        check(
            f"nothing {batch} {queries} {keys}",
            good and [x.shape for x in found] == [x.shape for x in tensors],
        )
    tensors = leaves(Shape(64, 64, 2, 1), 0, 0, torch.bfloat16)
    out = ap.flash_attn_varlen_func(*tensors, starts([0]), starts([0]), 0, 0)
    check(
        "no rows", all(not each.numel() for each in torch.autograd.grad(out, tensors, torch.ones_like(out)))
    )


def refusals() -> None:
    """Options without a backward."""
    tensors, _, _ = some()
    rows = [each[0] for each in tensors]
    lists = (starts([21]), starts([34]), 21, 34)
    name = "flash_attn_func("
    refused(
        "first keys",
        f"{name}window_size=(3, 4, 2)",
        lambda: ap.flash_attn_func(*tensors, window_size=(3, 4, 2)),
    )
    refused("dropout", f"{name}dropout_p", lambda: ap.flash_attn_func(*tensors, dropout_p=1.0))
    slopes = torch.ones(2).to(DEVICE)
    refused("alibi", f"{name}alibi_slopes", lambda: ap.flash_attn_func(*tensors, alibi_slopes=slopes))
    refused("bias", f"{name}bias", lambda: ap.flash_attn_func(*tensors, bias=slopes.requires_grad_()))
    name = "flash_attn_varlen_func("
    for asked_for, options in (
        ("logits_soft_cap=5.0", {"logits_soft_cap": 5.0}),
        ("block_table=...", {"block_table": torch.zeros(1, 1, dtype=torch.int32).to(DEVICE)}),
        ("min_seqlen_q=3", {"min_seqlen_q": 3}),
        ("out=...", {"out": torch.zeros(21, 2, 64).bfloat16().to(DEVICE).requires_grad_()}),
        ("window_size=(3, 4, 2)", {"window_size": (3, 4, 2)}),
        ("alibi_slopes=...", {"alibi_slopes": slopes}),
    ):
        refused(asked_for, f"{name}{asked_for}", partial(ap.flash_attn_varlen_func, *rows, *lists, **options))
    word: Any = "z"
    calls: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("a wrong call", lambda: ap.flash_attn_func(tensors[0], tensors[1][:, :, :, :32], tensors[2])),
        ("a word for a number", lambda: ap.flash_attn_func(*tensors, how_v3_bf16_cvt=word)),
        ("a word for a number", lambda: ap.flash_attn_varlen_func(*rows, *lists, how_v3_bf16_cvt=word)),
    )
    for what, wrong in calls:
        try:
            wrong()
        except AiterPrebuiltError as error:
            check(f"{what}: {error}", "gradient" not in str(error))
        else:
            PROBLEMS.append(f"{what} ran")


def without() -> None:
    """A call without gradients runs as it did: nothing of this is imported, and what it was asked is remembered."""
    tensors, whole, _ = some()
    plain = [each.detach() for each in tensors]
    for guard, given in (
        (torch.enable_grad(), plain), (torch.no_grad(), tensors), (torch.inference_mode(), tensors)
    ):  # fmt: skip
        with guard:
            found = ap.flash_attn_func(*given, causal=True)
        check("without: requires grad", not found.requires_grad and found.grad_fn is None)
        near("without", found, whole, torch.bfloat16)
    check("without: memo", dispatch.operator("flash_attn_func").stats()["memo_hits"] == 2)
    check("without: imported", "aiter_prebuilt.tracing.attention_autograd" not in sys.modules)


def main() -> int:
    """Ask everything."""
    seed = random.randrange(2**31)
    random.seed(seed)
    torch.manual_seed(seed)
    half = torch.float16
    without()
    dense(Shape(64, 64, 4, 2), torch.bfloat16, True, (-1, -1), False, True)
    dense(Shape(64, 64, 4, 2), torch.bfloat16, True, (-1, -1), False, False)
    dense(Shape(128, 128, 2, 2), half, False, (-1, -1), True, False)
    dense(Shape(192, 128, 2, 1), torch.bfloat16, False, (13, 9), True, True)
    ragged(Shape(64, 64, 4, 2), torch.bfloat16, True, (-1, -1), False, False, "")
    ragged(Shape(128, 128, 2, 1), half, False, (-1, -1), False, False, "qk")
    ragged(Shape(192, 128, 2, 1), torch.bfloat16, True, (-1, -1), True, True, "q")
    ragged(Shape(64, 64, 2, 2), half, False, (10, 7), True, False, "k")
    ragged(Shape(64, 64, 4, 2), torch.bfloat16, False, (-1, -1), False, False, "k")
    views()
    asked()
    memory()
    checkpoints()
    nothing()
    refusals()
    if PROBLEMS:
        print(f"seed {seed}", *PROBLEMS, sep="\n")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
