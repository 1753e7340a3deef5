"""Lists of places for a mixture of experts, by atomic additions: what `moe_sorting_place` makes, where no HIP kernel runs.

A place is a token and one of its choices. Those of an expert stand together, in blocks of BM, in any order: what is made of a row
does not depend on where it stands. Four launches, one after the other:

`moe_lists_clear_kernel` makes every entry of the list padding, and every count 0. Arguments, in order
    0 ids *i32 [blocks * BM] | 1 counts *i32 [experts] | 2 tokens i32 | 3 topk i32 | 4 size i32: blocks * BM | 5 experts i32
  grid        (cdiv(max(size, experts), BLOCK), 1, 1)
`moe_lists_rank_kernel` counts each expert's places, and numbers them.
    0 ranks *i32 [tokens * topk] | 1 counts *i32 | 2 topk_ids *i32 [tokens, topk]
    3 mask *i32 [experts]: 0 where an expert is not here; not read where masked is 0
    4 local *i32 [1]: so many of the tokens are there; not read where limited is 0
    5 tokens i32 | 6 topk i32 | 7 experts i32 | 8 masked i32 | 9 limited i32
  grid        (cdiv(tokens * topk, BLOCK), 1, 1)
`moe_lists_start_kernel`: where each expert's blocks begin, and its number among those that are here.
    0 starts *i32 [experts] | 1 numbers *i32 [experts] | 2 valid *i32 [1]: how many entries count | 3 counts *i32 | 4 mask *i32
    5 experts i32 | 6 masked i32
  constexprs  BM, EXPERTS (a power of two, experts or more)
  grid        (1, 1, 1)
`moe_lists_place_kernel` writes each place into the list: choice << 24 | token, its weight, and its block's expert.
    0 ids *i32 | 1 weights *f32 [blocks * BM], nothing where padding is | 2 owners *i32 [blocks] | 3 ranks *i32 | 4 starts *i32
    5 numbers *i32 | 6 topk_ids *i32 | 7 topk_weight *f32 [tokens, topk] | 8 mask *i32 | 9 local *i32
    10 tokens i32 | 11 topk i32 | 12 experts i32 | 13 masked i32 | 14 limited i32
  constexprs  BM, BLOCK
  grid        (cdiv(tokens * topk, BLOCK), 1, 1)

Ids that are no expert's, and experts that are not here, are left out.
"""

import triton
import triton.language as tl


@triton.jit
def _words(pointer):
    """A workspace has no element type of its own."""
    return pointer.to(tl.pointer_type(tl.int32))


@triton.jit
def _chosen(topk_ids, mask, local, place, tokens, topk, experts, masked, limited):
    """The expert of each place, and whether it is asked for here."""
    count = tokens
    if limited != 0:
        count = tl.minimum(tl.load(local), tokens)
    expert = tl.load(topk_ids + place, mask=place < count * topk, other=-1)
    here = (expert >= 0) & (expert < experts)
    expert = tl.where(here, expert, 0)
    if masked != 0:
        here &= tl.load(mask + expert) != 0
    return expert, here


@triton.jit
def moe_lists_clear_kernel(ids, counts, tokens, topk, size, experts, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    padding = tl.full([BLOCK], 0, tl.int32) + (topk << 24 | tokens)
    tl.store(_words(ids) + at, padding, mask=at < size)
    tl.store(_words(counts) + at, tl.zeros([BLOCK], tl.int32), mask=at < experts)


@triton.jit
def moe_lists_rank_kernel(
    ranks,
    counts,
    topk_ids,
    mask,
    local,
    tokens,
    topk,
    experts,
    masked,
    limited,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert, here = _chosen(topk_ids, mask, local, place, tokens, topk, experts, masked, limited)
    rank = tl.atomic_add(_words(counts) + expert, 1, mask=here, sem="relaxed")
    tl.store(_words(ranks) + place, rank, mask=here)


@triton.jit
def moe_lists_start_kernel(
    starts, numbers, valid, counts, mask, experts, masked, BM: tl.constexpr, EXPERTS: tl.constexpr
):
    expert = tl.arange(0, EXPERTS)
    inside = expert < experts
    here = inside
    if masked != 0:
        here &= tl.load(mask + expert, mask=inside, other=0) != 0
    padded = tl.cdiv(tl.load(_words(counts) + expert, mask=inside, other=0), BM) * BM
    ends = tl.cumsum(padded, 0)
    tl.store(_words(starts) + expert, ends - padded, mask=inside)
    tl.store(_words(numbers) + expert, tl.cumsum(here.to(tl.int32), 0) - 1, mask=inside)
    tl.store(_words(valid), tl.sum(padded, 0))


@triton.jit
def moe_lists_place_kernel(
    ids,
    weights,
    owners,
    ranks,
    starts,
    numbers,
    topk_ids,
    topk_weight,
    mask,
    local,
    tokens,
    topk,
    experts,
    masked,
    limited,
    BM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert, here = _chosen(topk_ids, mask, local, place, tokens, topk, experts, masked, limited)
    rank = tl.load(_words(ranks) + place, mask=here, other=0)
    at = tl.load(_words(starts) + expert, mask=here, other=0) + rank
    token = place // topk
    tl.store(_words(ids) + at, (place - token * topk) << 24 | token, mask=here)
    factors = weights.to(tl.pointer_type(tl.float32))
    tl.store(factors + at, tl.load(topk_weight + place, mask=here, other=0.0), mask=here)
    first = here & (rank % BM == 0)
    tl.store(_words(owners) + at // BM, tl.load(_words(numbers) + expert, mask=first, other=0), mask=first)
