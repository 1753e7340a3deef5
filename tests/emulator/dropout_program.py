"""A child of ``test_dropout.py``: attention with dropout on the embedded device, beside float64 with the mask of its bytes.

Prints what is wrong, line by line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

import aiter_prebuilt
from aiter_prebuilt.errors import UnsupportedError

#: Called with arguments in lists: too much for a type checker.
ap: Any = aiter_prebuilt
DEVICE = "cuda"
PROBLEMS: list[str] = []
#: How far a result or a gradient may be away, of its largest element.
CLOSE = {torch.bfloat16: 0.015, torch.float16: 0.002}
SHARE = 0.17


def check(what: str, holds: bool) -> None:
    """Note what does not hold."""
    if not holds:
        PROBLEMS.append(what)


def near(what: str, found: Any, wanted: torch.Tensor, kind: torch.dtype) -> None:
    """Compare with float64."""
    off = ((found.detach().cpu().double() - wanted.detach()).abs().max() / wanted.abs().max()).item()
    check(
        f"{what}: {tuple(found.shape)}, off by {off:.1e}", found.shape == wanted.shape and off < CLOSE[kind]
    )


def kept(drawn: torch.Tensor, share: float) -> torch.Tensor:
    """Recover the mask as AITER's tests do."""
    return math.floor(255.0 * (1 - share)) - drawn.cpu().float() >= 0


def reference(q: Any, k: Any, v: Any, mask: torch.Tensor, share: float, left: int, right: int) -> Any:
    """Attention of one sequence in float64 with a mask [heads, queries, keys]."""
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    place = torch.arange(k.shape[0])[None] - (torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0])
    hidden = (place < -left) & (left >= 0) | (place > right) & (right >= 0)
    scores = torch.einsum("ihd,jhd->hij", q, k) * q.shape[2] ** -0.5
    weights = torch.nan_to_num(torch.softmax(scores.masked_fill(hidden, -torch.inf), -1))
    return torch.einsum("hij,jhd->ihd", weights * mask / (1 - share), v)


def made(kind: torch.dtype, *shape: int) -> torch.Tensor:
    """Draw a tensor that requires a gradient."""
    return torch.randn(shape).to(kind).to(DEVICE).requires_grad_()


def exact(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copy tensors to leaves in float64."""
    return [each.detach().cpu().double().requires_grad_() for each in tensors]


def dense(kind: torch.dtype, width: int, values: int, causal: bool, window: tuple[int, int]) -> None:
    """Result, bytes and gradients of batches that are alike."""
    what = f"dense {width} {values} {causal} {window}"
    tensors = [made(kind, 2, 37, 4, width), made(kind, 2, 70, 2, width), made(kind, 2, 70, 2, values)]
    out, lse, drawn = ap.flash_attn_func(*tensors, SHARE, causal=causal, window_size=window, return_lse=True,
                                         return_attn_probs=True)  # fmt: skip
    check(f"{what}: bytes", (tuple(drawn.shape), drawn.dtype) == ((2, 4, 37, 70), torch.uint8))
    plain = ap.flash_attn_func(
        *(each.detach() for each in tensors), causal=causal, window_size=window, return_lse=True
    )
    near(f"{what}: lse", lse, plain[1].cpu().double(), kind)
    leaves, mask = exact(tensors), kept(drawn, SHARE)
    bounds = (window[0], 0 if causal else window[1])
    q, k, v = leaves
    batches = [reference(q[b], k[b], v[b], mask[b], SHARE, bounds[0], bounds[1]) for b in range(2)]
    whole = torch.stack(batches)
    compare(what, out, tensors, whole, leaves, kind)


def ragged(kind: torch.dtype, width: int, values: int, causal: bool, padded: bool) -> None:
    """The same of sequences, with padding between them and without."""
    what = f"ragged {width} {values} {causal} {padded}"
    queries, keys = [0, 21, 33, 70], [0, 40, 41, 90]
    rows, columns = ([0, 25, 40, 80], [0, 40, 50, 100]) if padded else (queries, keys)
    tensors = [
        made(kind, rows[-1], 4, width),
        made(kind, columns[-1], 2, width),
        made(kind, columns[-1], 2, values),
    ]
    lists = [torch.tensor(each, dtype=torch.int32).to(DEVICE) for each in (queries, keys, rows, columns)]
    more = {"cu_seqlens_q_padded": lists[2], "cu_seqlens_k_padded": lists[3]} if padded else {}
    out, _, drawn = ap.flash_attn_varlen_func(
        *tensors,
        *lists[:2],
        37,
        49,
        dropout_p=SHARE,
        causal=causal,
        return_lse=True,
        return_attn_probs=True,
        **more,
    )
    check(f"{what}: bytes", (tuple(drawn.shape), drawn.dtype) == ((4, rows[-1], 49), torch.uint8))
    leaves, mask = exact(tensors), kept(drawn, SHARE)
    parts = []
    places: list[Any] = []
    for i in range(3):
        n, m = queries[i + 1] - queries[i], keys[i + 1] - keys[i]
        at, of = slice(rows[i], rows[i] + n), slice(columns[i], columns[i] + m)
        parts.append(
            reference(
                leaves[0][at], leaves[1][of], leaves[2][of], mask[:, at, :m], SHARE, -1, 0 if causal else -1
            )
        )
        places += range(rows[i], rows[i] + n)
    whole = torch.zeros(out.shape, dtype=torch.float64).index_put((torch.tensor(places),), torch.cat(parts))
    compare(what, out, tensors, whole, leaves, kind, torch.tensor(places))


def forward_only(kind: torch.dtype, width: int, values: int) -> None:
    """``mha_fwd`` and its state, which gives ``mha_bwd`` the same mask; without bytes it returns none."""
    what = f"mha_fwd {width} {values}"
    tensors = [made(kind, 2, 37, 4, width), made(kind, 2, 70, 2, width), made(kind, 2, 70, 2, values)]
    plain, scale = [each.detach() for each in tensors], width**-0.5
    given = torch.full((2, 37, 4, values), math.nan, dtype=kind).to(DEVICE)
    out, lse, drawn, state = ap.mha_fwd(*plain, SHARE, scale, True, -1, -1, True, True, out=given)
    check(f"{what}: out", out is given and (tuple(state.shape), state.dtype) == ((2,), torch.int64))
    leaves, mask = exact(tensors), kept(drawn, SHARE)
    q, k, v = leaves
    whole = torch.stack([reference(q[b], k[b], v[b], mask[b], SHARE, -1, 0) for b in range(2)])
    near(f"{what}: out", out, whole, kind)
    dout = torch.randn(whole.shape).to(kind)
    wanted = torch.autograd.grad(whole, leaves, dout.double())
    found = ap.mha_bwd(dout.to(DEVICE), *plain, out, lse, SHARE, scale, True, -1, -1, True, rng_state=state)
    for name, one, other in zip("qkv", found, wanted, strict=False):
        near(f"{what}: d{name}", one, other, kind)
    torch.manual_seed(5)
    first = ap.mha_fwd(*plain, SHARE, scale, True, 9, -1, False, False)
    torch.manual_seed(5)
    second = ap.mha_fwd(*plain, SHARE, scale, True, 9, -1, False, True)
    check(f"{what}: no lse, no bytes", first[1].numel() == first[2].numel() == 0)
    check(
        f"{what}: state",
        torch.equal(first[3].cpu(), second[3].cpu()) and torch.equal(first[0].cpu(), second[0].cpu()),
    )
    check(f"{what}: bytes", second[1].numel() == 0 and tuple(second[2].shape) == (2, 4, 37, 70))


def forward_only_ragged(kind: torch.dtype, width: int, padded: bool) -> None:
    """``mha_varlen_fwd`` of sequences of which one has no key, one no query, with padding between them and without."""
    what = f"mha_varlen_fwd {width} {padded}"
    queries, keys = [0, 21, 33, 33, 70], [0, 40, 40, 51, 90]
    rows, columns = ([0, 25, 40, 44, 85], [0, 41, 45, 60, 100]) if padded else (queries, keys)
    shapes = ((rows[-1], 4, width), (columns[-1], 2, width), (columns[-1], 2, width))
    tensors = [made(kind, *shape).detach() for shape in shapes]
    lists = [torch.tensor(each, dtype=torch.int32).to(DEVICE) for each in (queries, keys, rows, columns)]
    more = {"cu_seqlens_q_padded": lists[2], "cu_seqlens_k_padded": lists[3]} if padded else {}
    out, lse, drawn, state = ap.mha_varlen_fwd(
        *tensors, *lists[:2], 37, 49, 0, SHARE, width**-0.5, 0.0, False, False, 12, -1, True, True, **more
    )
    check(f"{what}: bytes", (tuple(drawn.shape), drawn.dtype) == ((4, rows[-1], 49), torch.uint8))
    check(f"{what}: state", (tuple(state.shape), state.dtype) == ((2,), torch.int64))
    exactly, mask = [each.cpu().double() for each in tensors], kept(drawn, SHARE)
    for i in range(4):
        n, m = queries[i + 1] - queries[i], keys[i + 1] - keys[i]
        at, of = slice(rows[i], rows[i] + n), slice(columns[i], columns[i] + m)
        own = out[at]
        if n and m:
            wanted = reference(exactly[0][at], exactly[1][of], exactly[2][of], mask[:, at, :m], SHARE, 12, -1)
            near(f"{what}: out of {i}", own, wanted, kind)
        check(
            f"{what}: no key of {i}",
            m > 0 or (bool((own == 0).all()) and bool((lse[:, at] == -math.inf).all())),
        )


def compare(
    what: str,
    out: Any,
    tensors: list[Any],
    whole: Any,
    leaves: list[Any],
    kind: torch.dtype,
    rows: Any = None,
) -> None:
    """Compare a result, of some rows alone, and its gradients."""
    near(
        f"{what}: out",
        out if rows is None else out.detach().cpu()[rows],
        whole if rows is None else whole[rows],
        kind,
    )
    dout = torch.randn(whole.shape)
    if rows is not None:  # padding gives no gradient, whatever it is given
        dout = torch.zeros(whole.shape).index_put((rows,), dout[rows])
    found = torch.autograd.grad(out, tensors, dout.to(kind).to(DEVICE))
    for name, one, other in zip(
        "qkv", found, torch.autograd.grad(whole, leaves, dout.to(kind).double()), strict=True
    ):
        near(f"{what}: d{name}", one, other, kind)


def states() -> None:
    """Equal states of the generator give equal masks, with gradients, in a trace and in a checkpoint, too."""
    tensors = [made(torch.bfloat16, 1, 64, 2, 64) for _ in range(3)]
    plain = [each.detach() for each in tensors]
    call = partial(ap.flash_attn_func, dropout_p=0.5, causal=True, return_attn_probs=True)

    def drawn(function: Callable[..., Any], given: list[Any]) -> Any:
        torch.manual_seed(7)
        return function(*given)

    first, second = drawn(call, plain), drawn(call, plain)
    other = call(*plain)
    check("states: equal", all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(first, second, strict=True)))
    check("states: different", not torch.equal(first[1].cpu(), other[1].cpu()))
    recorded = drawn(call, tensors)
    check(
        "states: recorded", all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(first, recorded, strict=True))
    )
    dout = torch.ones_like(recorded[0])
    wanted = torch.autograd.grad(recorded[0], tensors, dout)
    again = drawn(
        lambda *given: checkpoint(lambda *each: call(*each)[0], *given, use_reentrant=False), tensors
    )
    found = torch.autograd.grad(again, tensors, dout)
    check(
        "states: checkpoint", all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(found, wanted, strict=True))
    )
    graph = torch.compile(call, backend="eager", fullgraph=True)
    traced = drawn(graph, plain)
    check("states: traced", all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(first, traced, strict=True)))


def shares() -> None:
    """So many probabilities are kept as the byte says, in all rows, columns and heads alike."""
    q = torch.zeros(2, 256, 4, 64, dtype=torch.float16).to(DEVICE)
    for share in (0.001, 0.17, 0.5, 0.9):
        out, drawn = ap.flash_attn_func(q, q, q + 1, share, return_attn_probs=True)
        bytes_ = drawn.cpu().long()
        counts = torch.bincount(bytes_.flatten(), minlength=256).double()
        even = counts.sum() / 256
        check(
            f"shares: bytes of {share}",
            ((counts - even) ** 2 / even).sum().item() < 255 + 6 * (2 * 255) ** 0.5,
        )
        rate = (math.floor(255 * (1 - share)) + 1) / 256
        mask = kept(drawn, share).double()
        for dims in ((0,), (1,), (2,), (3,)):
            rest = [each for each in range(4) if each not in dims]
            count = math.prod(mask.shape[each] for each in rest)
            spread = (rate * (1 - rate) / count) ** 0.5
            check(f"shares: {share} by {dims}", (mask.mean(rest) - rate).abs().max().item() < 6 * spread)
        # Values of 1 and equal scores: a row's result is the share of its keys that is kept, over 1 - share.
        near(
            f"shares: rows of {share}", out[..., 0], mask.mean(3).transpose(1, 2) / (1 - share), torch.float16
        )


def refused(what: str, wanted: str, call: Callable[[], Any]) -> None:
    """Note a call that is not refused by name."""
    try:
        call()
    except UnsupportedError as error:
        check(f"{what}: {error}", wanted in str(error))
    else:
        PROBLEMS.append(f"{what} ran")


def refusals() -> None:
    """Shares that are none, pages, a backward without a state."""
    q = torch.ones(1, 9, 2, 64, dtype=torch.bfloat16).to(DEVICE)
    starts = torch.tensor([0, 9], dtype=torch.int32).to(DEVICE)
    for share in (1.0, -0.1, math.nan, 2):
        refused(
            f"share {share}",
            f"flash_attn_func(dropout_p={share!r})",
            partial(ap.flash_attn_func, q, q, q, share),
        )
    more = (0.1, False, -1, -1, False)
    refused(
        "bytes of no dropout",
        "mha_fwd(return_dropout_randval=True)",
        lambda: ap.mha_fwd(q, q, q, 0.0, *more, True),
    )
    refused("share of all", "mha_fwd(dropout_p=1.0)", lambda: ap.mha_fwd(q, q, q, 1.0, *more, False))
    refused(
        "lengths",
        "dropout_p=0.0 with cu_seqlens_q",
        lambda: ap.mha_fwd(q, q, q, 0.5, *more, False, cu_seqlens_q=starts),
    )
    pages = torch.zeros(1, 1, dtype=torch.int32).to(DEVICE)
    refused(
        "pages",
        "dropout_p=0.0 with a block_table",
        lambda: ap.flash_attn_varlen_func(q[0], q, q, starts, starts, 9, 9, dropout_p=0.5, block_table=pages),
    )
    lse = torch.zeros(1, 2, 9).to(DEVICE)
    refused(
        "no state",
        "mha_bwd(rng_state=None)",
        lambda: ap.mha_bwd(q, q, q, q, q, lse, 0.5, 0.1, False, -1, -1, True),
    )


def main() -> int:
    """Ask everything."""
    torch.manual_seed(0)
    half = torch.float16
    refusals()
    shares()
    dense(torch.bfloat16, 64, 64, True, (-1, -1))
    dense(half, 128, 128, False, (20, 9))
    dense(torch.bfloat16, 192, 128, True, (-1, -1))
    dense(half, 40, 56, False, (-1, -1))
    ragged(torch.bfloat16, 64, 64, True, False)
    ragged(half, 128, 128, False, True)
    ragged(torch.bfloat16, 96, 96, True, True)
    forward_only(torch.bfloat16, 64, 64)
    forward_only(half, 40, 56)
    forward_only_ragged(torch.bfloat16, 64, False)
    forward_only_ragged(half, 128, True)
    states()
    print("\n".join(PROBLEMS))
    return bool(PROBLEMS)


if __name__ == "__main__":
    sys.exit(main())
