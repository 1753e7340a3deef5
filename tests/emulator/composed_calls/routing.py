"""The choice of experts, and lists of tokens in their order."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch
from emulator.composed_calls.place import Call, Place, host, near

import aiter_prebuilt as ap


def sorting(place: Place) -> None:
    """Each token's choices stand in a block of their expert."""
    ids = torch.stack([torch.randperm(8, generator=place.draw)[:2] for _ in range(20)]).int().to(place.device)
    shares = torch.rand(20, 2, generator=place.draw).to(place.device)
    listed, weights, experts, count, out = ap.moe_sorting(ids, shares, 8, 64, torch.bfloat16, 32)
    assert out.shape == (20, 64) and out.is_cuda and (host(out) == 0).all()
    total = int(count[0])
    seen = set()
    for at, word in enumerate(listed[:total].tolist()):
        token, choice = word & 0xFFFFFF, word >> 24
        if token < 20:
            assert int(ids[token, choice]) == int(experts[at // 32]) and weights[at] == shares[token, choice]
            seen.add((token, choice))
    assert len(seen) == 40


def choices(place: Place) -> None:
    """``fused_topk`` chooses by a softmax."""
    gates = place.normal(7, 32, kind=torch.float32)
    weights, ids = ap.fused_topk(place.normal(7, 64), gates, 4, True)
    right, chosen = host(gates).softmax(-1).topk(4)
    assert torch.equal(ids.cpu().long(), chosen)
    near(weights, right / right.sum(-1, keepdim=True), 1e-5)


def grouped(place: Place) -> None:
    """``biased_grouped_topk`` with one group."""
    gates, bias = place.normal(7, 32, kind=torch.float32), place.normal(32, kind=torch.float32)
    weights = torch.empty(7, 4, device=place.device)
    ids = torch.empty(7, 4, dtype=torch.int32, device=place.device)
    ap.biased_grouped_topk(gates, bias, weights, ids, 1, 1, True, 2.0)
    scores = host(gates).sigmoid()
    chosen = (scores + host(bias)).topk(4).indices
    assert torch.equal(ids.cpu().long().sort(-1).values, chosen.sort(-1).values)
    right = scores.gather(1, ids.cpu().long())
    near(weights, 2 * right / right.sum(-1, keepdim=True), 1e-4)


def plain_topk(place: Place) -> None:
    """``topk`` of rows."""
    x = place.normal(5, 700, kind=torch.float32)
    values, places = ap.topk(x, 16)
    right, chosen = host(x).topk(16)
    near(values, right, 0)
    assert torch.equal(places.cpu().long(), chosen)


def placed_tokens(place: Place, by_table: bool) -> None:
    """``routing`` and ``routing_from_hash``: places in the order of experts."""
    logits = place.normal(21, 16)
    if by_table:
        table = (
            torch.stack([torch.randperm(16, generator=place.draw)[:3] for _ in range(9)])
            .int()
            .to(place.device)
        )
        words = place.whole(9, 21)
        data, gather, scatter = ap.routing_from_hash(logits.float(), table, words, 3, 16)
        chosen = table.cpu().long()[words.cpu().long()]
    else:
        logits = torch.stack([torch.randperm(16, generator=place.draw) for _ in range(21)]).to(torch.bfloat16)
        data, gather, scatter = ap.routing(logits.to(place.device), 3)
        chosen = logits.topk(3).indices.sort(-1).values
    wanted = torch.argsort(chosen.flatten(), stable=True)
    assert torch.equal(gather.cpu(), wanted.int())
    assert torch.equal(gather.cpu()[scatter.cpu().long()], torch.arange(63, dtype=torch.int32))
    assert torch.equal(data.expt_hist.cpu(), torch.bincount(chosen.flatten(), minlength=16).int())


#: Function -> its call.
CALLS: Final[dict[str, Call]] = {
    "moe_sorting": sorting,
    "fused_topk": choices,
    "biased_grouped_topk": grouped,
    "topk": plain_topk,
    "routing": partial(placed_tokens, by_table=False),
    "routing_from_hash": partial(placed_tokens, by_table=True),
}
