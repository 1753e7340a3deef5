"""Attention and its metadata."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch
from emulator.composed_calls.place import Call, Place, host, near

import aiter_prebuilt as ap


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention of one sequence in fp64; heads of keys are repeated."""
    keys, values = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = torch.einsum("nhd,mhd->hnm", q, keys) * q.shape[2] ** -0.5
    if causal:
        ahead = torch.arange(len(k))[None] > torch.arange(len(q))[:, None] + len(k) - len(q)
        scores = scores.masked_fill(ahead, -torch.inf)
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), values)


def starts(place: Place, lengths: list[int]) -> torch.Tensor:
    """Where sequences of such lengths begin, and where the last ends."""
    return torch.tensor([0, *lengths]).cumsum(0).int().to(place.device)


def padded_sequences(place: Place) -> None:
    """``flash_attn_varlen_func`` of sequences with padding behind them, of queries, of keys, and of both."""
    own, keys, heads, width = [5, 1, 9], [12, 7, 9], 4, 64
    for wide_q, wide_k in (([8, 1, 12], [12, 10, 16]), ([6, 4, 9], None), (None, [13, 7, 20])):
        q = place.normal(sum(wide_q or own), heads, width)
        k, v = (place.normal(sum(wide_k or keys), 2, width) for _ in range(2))
        out, lse, probabilities = ap.flash_attn_varlen_func(
            q, k, v, starts(place, own), starts(place, keys), 9, 12, causal=True, return_lse=True, return_attn_probs=True,
            cu_seqlens_q_padded=None if wide_q is None else starts(place, wide_q),
            cu_seqlens_k_padded=None if wide_k is None else starts(place, wide_k),
        )  # fmt: skip
        assert (tuple(lse.shape), tuple(probabilities.shape)) == ((heads, len(q)), (0,))
        at, to = (starts(place, each).tolist() for each in (wide_q or own, wide_k or keys))
        for number, (n, m) in enumerate(zip(own, keys, strict=True)):
            rows, first, last = slice(at[number], at[number] + n), to[number], to[number] + m
            right = attended(host(q[rows]), host(k[first:last]), host(v[first:last]), True)
            near(out[rows], right, 0.02)


def tables_of_pages(place: Place) -> None:
    """``mha_batch_prefill_func`` of a table of pages, a part of a wider one, and how many keys each sequence has."""
    own, keys, page = [5, 1, 9, 2], [33, 16, 9, 0], 16
    q, k = place.normal(sum(own), 4, 64), place.normal(11, page, 2, 64)
    v = place.normal(11, page, 2, 64)
    table = torch.stack([torch.randperm(11, generator=place.draw)[:5] for _ in own]).int()
    nothing = torch.zeros(5, dtype=torch.int32, device=place.device)
    out, lse = ap.mha_batch_prefill_func(
        q, k, v, starts(place, own), nothing, nothing, 9, 33, causal=True, return_lse=True,
        block_table=table.to(place.device)[:, :3], seqlen_k=torch.tensor(keys, dtype=torch.int32, device=place.device),
    )  # fmt: skip
    at = starts(place, own).tolist()
    for number, (n, m) in enumerate(zip(own, keys, strict=True)):
        rows, pages = slice(at[number], at[number] + n), table[number, :3].long()
        if m == 0:
            assert (host(out[rows]) == 0).all() and (host(lse[:, rows]) == -torch.inf).all()
            continue
        seen, held = (host(each)[pages].flatten(0, 1)[:m] for each in (k, v))
        right = attended(host(q[rows]), seen, held, True)
        near(out[rows], right, 0.02)


def linear_biases(place: Place) -> None:
    """``paged_attention_v1`` with a slope for each head."""
    counts, page, heads = [70, 1, 33], 16, 6
    q, k, v = place.normal(3, heads, 64), place.normal(9, page, 2, 64), place.normal(9, page, 2, 64)
    slopes = place.normal(heads, kind=torch.float32)
    table = torch.stack([torch.randperm(9, generator=place.draw)[:5] for _ in counts]).int()
    one = torch.ones(1, device=place.device)
    out = torch.full_like(q, torch.nan)
    ap.paged_attention_v1(
        out, None, q, k, v, 0.125, table.to(place.device), None, torch.tensor(counts, dtype=torch.int32, device=place.device),
        70, slopes, "auto", "NHD", 0.0, one, one,
    )  # fmt: skip
    for number, count in enumerate(counts):
        pages = table[number].long()
        keys, values = (host(each)[pages].flatten(0, 1)[:count].repeat_interleave(3, 1) for each in (k, v))
        scores = torch.einsum("hd,mhd->hm", host(q[number]), keys) * 0.125
        scores += host(slopes)[:, None] * (torch.arange(count) - count + 1)
        near(out[number], torch.einsum("hm,mhd->hd", scores.softmax(-1), values), 0.02)


def probabilities(place: Place) -> None:
    """``flash_attn_func`` with the empty tensor that AITER returns without dropout."""
    q, k, v = (place.normal(2, 5, 4, 64) for _ in range(3))
    out, lse, made = ap.flash_attn_func(q, k, v, causal=True, return_lse=True, return_attn_probs=True)
    assert (tuple(lse.shape), tuple(made.shape), made.dtype) == ((2, 4, 5), (0,), q.dtype)
    for found, *given in zip(out, q, k, v, strict=True):
        near(found, attended(host(given[0]), host(given[1]), host(given[2]), True), 0.02)


def sizes(place: Place, name: str) -> None:
    """Sizes of metadata, with which tensors of the device can be made."""
    fp8 = place.fp8
    found = (
        ap.get_mla_metadata_info_v1(4, 1, 16, fp8, fp8, 0)
        if name == "get_mla_metadata_info_v1"
        else ap.get_ps_metadata_info_v1(4, 1, 64)
    )
    made = [torch.empty(shape, dtype=kind, device=place.device) for shape, kind in found]
    assert len(made) == 6 or len(made) == 5, len(made)
    assert all(each.is_cuda and each.numel() for each in made)


def blocks(place: Place) -> None:
    """``swap_blocks`` copies whole blocks."""
    source, target = place.normal(6, 4, 8), place.normal(6, 4, 8)
    before = target.cpu()
    ap.swap_blocks(source, target, torch.tensor([[0, 3], [5, 1]]))
    torch.cuda.synchronize()
    before[3], before[1] = source[0].cpu(), source[5].cpu()
    assert torch.equal(target.cpu(), before)


#: Function -> its call.
CALLS: Final[dict[str, Call]] = {
    "flash_attn_func": probabilities,
    "flash_attn_varlen_func": padded_sequences,
    "mha_batch_prefill_func": tables_of_pages,
    "paged_attention_v1": linear_biases,
    "swap_blocks": blocks,
    **{name: partial(sizes, name=name) for name in ("get_mla_metadata_info_v1", "get_ps_metadata_info_v1")},
}
