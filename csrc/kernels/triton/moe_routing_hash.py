"""What a table says of each token's experts, and their scores: the first step of AITER's `routing_from_hash`.

`routing_hash_kernel`: the k experts of a token stand in its row of a table, in any order and more than once. The score of one is
`sqrt(log(1 + exp(logit)))` in fp32, divided by (their sum + 1e-20) with RENORM, times a factor, and rounded to T. A token without
a row has no experts (-1, score 0), nor has a place whose expert is none of E.
  Arguments, in order
    0 scores *T [tokens, k] | 1 ids *i32 [tokens, k] | 2 logits *T [tokens, E] | 3 table *i32 [V, k] | 4 input *I [tokens]
    5 E i32 | 6 k i32 | 7 V i32 | 8 row i64: of logits, to the next token | 9 table_row i64: to the next row | 10 factor f32
  constexprs  LANES (a power of two), RENORM
  grid        (tokens, 1, 1)
guarantee   1 <= k <= LANES

The steps behind it are `routing_count_kernel` and `routing_place_kernel` of `moe_routing.py`.
"""

import triton
import triton.language as tl


@triton.jit
def routing_hash_kernel(
    scores,
    ids,
    logits,
    table,
    input,
    E,
    k,
    V,
    row,
    table_row,
    factor,
    LANES: tl.constexpr,
    RENORM: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    scores = scores.to(tl.pointer_type(logits.dtype.element_ty))
    ids = ids.to(tl.pointer_type(tl.int32))
    lane = tl.arange(0, LANES)
    inside = lane < k
    name = tl.load(input + token).to(tl.int64)
    known = (name >= 0) & (name < V)
    expert = tl.load(table + name * table_row + lane, mask=inside & known, other=-1)
    there = (expert >= 0) & (expert < E)
    x = tl.load(logits + token * row + expert, mask=there, other=float("-inf")).to(tl.float32)
    # log(1 + power) where 1 + power was rounded: times what that is off, so that small scores keep their digits
    power = tl.exp(-tl.abs(x))
    one = 1.0 + power
    rest = one - 1.0
    grown = tl.where(rest == 0.0, power, tl.log(one) * (power / tl.where(rest == 0.0, 1.0, rest)))
    score = tl.where(there, tl.sqrt(tl.maximum(x, 0.0) + grown), 0.0)
    if RENORM:
        score = score / (tl.sum(score, 0) + 1e-20)
    score = score * factor
    place = token * k + lane
    tl.store(scores + place, score.to(logits.dtype.element_ty), mask=inside)
    tl.store(ids + place, tl.where(there, expert, -1), mask=inside)
