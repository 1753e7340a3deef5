"""A router's choices, and what a product by experts reads of them: AITER's `routing` without its bit matrices.

`routing_choose_kernel`: the k experts of a token with the largest logits, those of higher numbers of equal ones, in the order of
their numbers; logits are ordered by their bits, so that -0 is below 0, and a NaN with a sign below all, without one above all.
    FIRST = 0   scores are the softmax of the k chosen logits
    FIRST = 1   experts are chosen by the softmax of all logits, rounded to T, and scores are what it is
  Arguments, in order
    0 scores *T [tokens, k] | 1 ids *i32 [tokens, k] | 2 logits *T [tokens, E] | 3 E i32 | 4 k i32 | 5 row i64: to the next token
  constexprs  WIDTH (a power of two, E at least), FIRST
  grid        (tokens, 1, 1)

`routing_count_kernel`: how many choices are an expert's.
  Arguments   0 hist *i32 [E] | 1 ids *i32 [places] | 2 places i32
  constexprs  BLOCK
  grid        (E, 1, 1)

`routing_place_kernel`: choices in the order of their experts, each expert's in their own order; and the blocks of each expert.
  Arguments, in order
    0 gather *i32 [places]: choices in that order | 1 scatter *i32 [places]: where each is in it
    2 gates *T [places]: their scores
    3 starts *i32 [E + 1]: where each expert's begin | 4 tiles *i32 [E + 1]: which block is its first
    5 blocks *i32 [count]: of each block its number among its expert's << 16 | the expert; -1 behind the last
    6 hist *i32 [E] | 7 ids *i32 [places] | 8 scores *T [places] | 9 places i32 | 10 E i32 | 11 count i32
    12 block_m i32: choices of a block
  constexprs  WIDTH, BLOCK
  grid        (E, 1, 1)

guarantee   1 <= k <= E <= WIDTH; places below 2^31
"""

import triton
import triton.language as tl


@triton.jit
def routing_choose_kernel(scores, ids, logits, E, k, row, WIDTH: tl.constexpr, FIRST: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    scores = scores.to(tl.pointer_type(logits.dtype.element_ty))
    ids = ids.to(tl.pointer_type(tl.int32))
    expert = tl.arange(0, WIDTH)
    inside = expert < E
    x = tl.load(logits + token * row + expert, mask=inside, other=float("-inf"))
    if FIRST:
        x = x.to(tl.float32)
        power = tl.where(inside, tl.exp(x - tl.max(x, 0)), 0.0)
        x = (power / tl.sum(power, 0)).to(logits.dtype.element_ty)
    x = x.to(tl.float32)
    bits = x.to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    free = inside
    for _ in range(k):
        best = tl.max(tl.where(free, key, -0x80000000), 0)
        mine = tl.max(tl.where(free & (key == best), expert, -1), 0)
        free = free & (expert != mine)
    chosen = inside & (free == 0)
    if not FIRST:
        top = tl.max(tl.where(chosen, x, float("-inf")), 0)
        power = tl.where(chosen, tl.exp(x - top), 0.0)
        x = power / tl.sum(power, 0)
    place = token * k + tl.cumsum(chosen.to(tl.int32), 0) - 1
    tl.store(scores + place, x.to(logits.dtype.element_ty), mask=chosen)
    tl.store(ids + place, expert, mask=chosen)


@triton.jit
def routing_count_kernel(hist, ids, places, BLOCK: tl.constexpr):
    ids = ids.to(tl.pointer_type(tl.int32))
    expert = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    found = tl.zeros([BLOCK], tl.int32)
    for at in range(0, places, BLOCK):
        found += (tl.load(ids + at + lane, mask=lane < places - at, other=-1) == expert).to(tl.int32)
    tl.store(hist + expert, tl.sum(found, 0))


@triton.jit
def routing_place_kernel(
    gather,
    scatter,
    gates,
    starts,
    tiles,
    blocks,
    hist,
    ids,
    scores,
    places,
    E,
    count,
    block_m,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    ids = ids.to(tl.pointer_type(tl.int32))
    scores = scores.to(tl.pointer_type(gates.dtype.element_ty))
    expert = tl.program_id(0)
    each = tl.arange(0, WIDTH)
    own = tl.load(hist + each, mask=each < E, other=0)
    own_tiles = (own + block_m - 1) // block_m
    before = tl.sum(tl.where(each < expert, own, 0), 0)
    tile = tl.sum(tl.where(each < expert, own_tiles, 0), 0)
    mine = tl.sum(tl.where(each == expert, own_tiles, 0), 0)
    tl.store(starts + expert, before)
    tl.store(tiles + expert, tile)
    lane = tl.arange(0, BLOCK)
    for at in range(0, mine, BLOCK):
        number = at + lane
        tl.store(
            blocks + tile + number, (number << 16) | expert, mask=(number < mine) & (tile + number < count)
        )
    if expert == E - 1:
        tl.store(starts + E, places)
        tl.store(tiles + E, tile + mine)
        for at in range(tile + mine, count, BLOCK):
            tl.store(blocks + at + lane, -1, mask=lane < count - at)
    for at in range(0, places, BLOCK):
        choice = at + lane
        here = tl.load(ids + choice, mask=choice < places, other=-1) == expert
        ones = here.to(tl.int32)
        place = before + tl.cumsum(ones, 0) - 1
        tl.store(gather + place, choice, mask=here)
        tl.store(scatter + choice, place, mask=here)
        tl.store(gates + place, tl.load(scores + choice, mask=here), mask=here)
        before += tl.sum(ones, 0)
