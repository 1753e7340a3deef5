"""Attention over a latent cache (MLA), decoding: all heads share keys of 576 numbers, whose first 512 are the values.

    S[t, h, j]  = softmax_scale * q[t, h] . kv[j]                       for visible keys j of token t's sequence
    S[t, h, j]  = softcap * tanh(S[t, h, j] / softcap)                  where softcap > 0
    out[t, h]   = sum_j softmax(S[t, h])[j] * kv[j, :512]
    lse[t, h]   = ln(sum_j exp(S[t, h, j]))                             natural logarithm, fp32

The keys of a sequence lie in pages. Token number i of n, of a sequence with m keys, sees keys up to i + m - n when causal, else
all of them; one that sees none has out 0, and lse -inf. With several parts, blocks of 2^block keys go to the parts in turn: key j
is of part (j >> block) % splits. A part is a mean and an lse of its keys alone, and `mla_merge_kernel` makes one of them.

With ranks > 1 the keys of a sequence are dealt out to so many devices in turn: this one has those at rank, rank + ranks, ... of
the whole sequence. Its key j is key j * ranks + rank of g, and token i of n sees the keys up to i + g - n of the whole sequence.

T, of q, is bf16, fp16 or an 8-bit type; C, of the cache, is T or an 8-bit type. 8-bit types have one scale for all numbers, and
become W (bf16, or fp16 where q is fp16), which holds each of them. The softmax and both sums are fp32, the probabilities are
rounded to W before the second product.

`mla_decode_kernel` arguments, in order
    0 out: *W [tokens, H, 512], or with PARTS *f32 [tokens, splits, H, 512] | 1 lse *f32 [tokens, H], or [tokens, splits, H]
    2 q *T [tokens, H, 576] | 3 kv *C [stored_pages, page_size, 576], strides 25, 26
    4 starts_q *i32 [n + 1]: sequence s has the tokens from starts_q[s] to starts_q[s + 1]
    5 starts_k *i32 [n + 1]: and its pages are pages[starts_k[s]] to pages[starts_k[s + 1] - 1] | 6 pages *i32 [listed_pages]
    7 last *i32 [n]: the keys of the last page
    8 starts_whole *i32 [n + 1]: sequence s has starts_whole[s + 1] - starts_whole[s] keys on all ranks; null with one rank
    9 q_scale *f32 [1] | 10 kv_scale *f32 [1], or null where 11, 12 are 0
   11 has_q_scale i32 | 12 has_kv_scale i32 | 13 sequences i32 | 14 tokens i32 | 15 H i32 | 16 most_queries i32 | 17 page_size i32
   18 listed_pages i32 | 19 splits i32 | 20 block i32 | 21 causal i32 | 22 ranks i32 | 23 rank i32 | 24 write_lse i32
   25 stride_p i64 | 26 stride_k i64: in units of 16 bytes | 27 softmax_scale f32 | 28 softcap f32
  constexprs  BM, BN, PARTS, AWAY (rounds to bf16 with ties away from zero), XCDS
              A tile has BM rows: the heads of a token are rows, so that few tokens fill it and the keys are read once.
  grid        (cdiv(most_queries * H, BM) * splits * sequences, 1, 1); tokens of a sequence behind most_queries are not written,
              nor is out where a part has no key of the sequence
`mla_merge_kernel` arguments, in order
    0 out *W [tokens, H, 512] | 1 lse *f32 [tokens, H] | 2 parts *f32 [tokens, splits, H, 512] | 3 sums *f32 [tokens, splits, H]
    4 starts_q *i32 | 5 sequences i32 | 6 H i32 | 7 most_queries i32 | 8 splits i32
  constexprs  ROWS
  grid        (cdiv(most_queries * H, ROWS) * sequences, 1, 1)

guarantee   pointers 0, 2, 3 (of the merge 0, 2) at 16 bytes; lengths stay below 2^30; what the lists say of tokens that are not
            there, and of more pages than are listed, is not done. A listed page of a key that is there is read as it is named:
            a wrong one reaches the memory that it names

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 computes 2^x.
"""

import triton
import triton.language as tl
from attention import _renumber, _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
#: Columns of a key that are its value, and those behind them.
VALUE: tl.constexpr = tl.constexpr(512)
TAIL: tl.constexpr = tl.constexpr(64)


@triton.jit
def _own_keys(keys, part, splits, block):
    """How many of a sequence's first `keys` keys are of part number `part`."""
    size = 1 << block
    rounds = keys // (size * splits)
    left = keys - rounds * size * splits - part * size
    return rounds * size + tl.minimum(tl.maximum(left, 0), size)


@triton.jit
def _inside(number, least, most):
    """`number`, which lies in device memory and may be any, not below `least` nor above `most`."""
    return tl.minimum(tl.maximum(number, least), most)


@triton.jit
def _queries_of(starts_q, sequence, tokens):
    """The first token of a sequence, and how many it has."""
    first = _inside(tl.load(starts_q + sequence), 0, tokens)
    return first, _inside(tl.load(starts_q + sequence + 1), first, tokens) - first


@triton.jit
def _keys_of(starts_k, last, sequence, listed_pages, page_size):
    """Where the pages of a sequence begin, and how many keys they have."""
    first = _inside(tl.load(starts_k + sequence), 0, listed_pages)
    full = _inside(tl.load(starts_k + sequence + 1), first, listed_pages) - first
    keys = 0
    if full > 0:
        keys = (full - 1) * page_size + _inside(tl.load(last + sequence), 0, page_size)
    return first, keys


@triton.jit
def _whole_of(starts_whole, sequence, keys, ranks):
    """How many keys a sequence has on all ranks, of which this one has `keys`."""
    whole = keys
    if ranks > 1:
        first = _inside(tl.load(starts_whole + sequence), 0, (1 << 30) - 1)
        whole = _inside(tl.load(starts_whole + sequence + 1), first, (1 << 30) - 1) - first
    return whole


@triton.jit
def _hidden(later, whole, keys, ranks, rank):
    """How many of the last of `keys` keys a token does not see that has `later` tokens of its sequence behind it."""
    hidden = later
    if ranks > 1:
        hidden = keys - (tl.maximum(whole - later - rank, 0) + (ranks - 1)) // ranks
    return hidden


@triton.jit
def _scales(softmax_scale, q_scale, kv_scale, has_q_scale, has_kv_scale):
    """What a score in base 2 is multiplied with, and what a value is."""
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E
    if has_q_scale != 0:
        scale *= tl.load(q_scale)
    share = 1.0
    if has_kv_scale != 0:
        share = tl.load(kv_scale)
    return scale * share, share


@triton.jit
def _attend(
    q,
    kv,
    pages,
    off_q,
    end,
    count,
    keys,
    part,
    splits,
    block,
    page_size,
    stride_p,
    stride_k,
    scale,
    softcap,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Of BM rows of q at `off_q`: sums of values, of probabilities, and the largest logits. A row sees keys below its `end`, of
    `keys` in `pages`; `count` keys of a part: number i of them is ((i >> block) * splits + part << block) + i % 2^block.
    """
    rd = tl.arange(0, VALUE)
    rt = VALUE + tl.arange(0, TAIL)
    narrow: tl.constexpr = q.dtype.element_ty.primitive_bitwidth == 8
    W: tl.constexpr = tl.bfloat16 if narrow else q.dtype.element_ty
    q_head = tl.load(q + (off_q[:, None] + rd[None, :])).to(W)
    q_tail = tl.load(q + (off_q[:, None] + rt[None, :])).to(W)
    # Strides in elements, which the compiler then knows to be whole vectors.
    unit: tl.constexpr = 128 // kv.dtype.element_ty.primitive_bitwidth
    page_step = stride_p * unit
    key_step = stride_k * unit
    inside_block = (1 << block) - 1

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, VALUE], tl.float32)
    rn = tl.arange(0, BN)
    for start in tl.range(0, count, BN):
        own = start + rn
        key = (((own >> block) * splits + part) << block) + (own & inside_block)
        # A key past the end repeats the last one: the loads need no mask, the logits have one.
        at = tl.minimum(key, keys - 1)
        page = tl.load(pages + at // page_size).to(tl.int64)
        off = page * page_step + (at % page_size).to(tl.int64) * key_step
        value = tl.load(kv + (off[:, None] + rd[None, :])).to(W)
        tail = tl.load(kv + (off[:, None] + rt[None, :])).to(W)
        s = tl.dot(q_head, tl.trans(value))
        s = tl.dot(q_tail, tl.trans(tail), s)
        s = s * scale
        if softcap > 0.0:
            # tanh(x) = 1 - 2 / (e^2x + 1), and s is x * softcap * log2 e.
            s = softcap * LOG2E * (1.0 - 2.0 / (tl.math.exp2(s * (2.0 / softcap)) + 1.0))
        s = tl.where(key[None, :] < end[:, None], s, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(_to_storage(p, value, AWAY), value, acc)
        peak = higher
    return acc, total, peak


@triton.jit
def _mean(acc, total, peak, share):
    """Means of values, and natural logarithms of sums: of a row that saw no key 0 and -inf, of one with NaN NaN."""
    some = total != 0.0
    mean = acc * (share / tl.where(some, total, 1.0))[:, None]
    return mean, tl.where(some, (peak + tl.math.log2(total)) * LN2, float("-inf"))


@triton.jit
def mla_decode_kernel(
    out,
    lse,
    q,
    kv,
    starts_q,
    starts_k,
    pages,
    last,
    starts_whole,
    q_scale,
    kv_scale,
    has_q_scale,
    has_kv_scale,
    sequences,
    tokens,
    H,
    most_queries,
    page_size,
    listed_pages,
    splits,
    block,
    causal,
    ranks,
    rank,
    write_lse,
    stride_p,
    stride_k,
    softmax_scale,
    softcap,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PARTS: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
):
    tiles = tl.cdiv(most_queries * H, BM)
    # The tiles of one part read the same keys: they lie behind each other, on one die.
    pid = _renumber(tl.program_id(0), tiles * splits * sequences, XCDS)
    tile = pid % tiles
    part = pid // tiles % splits
    sequence = pid // tiles // splits

    first_q, queries = _queries_of(starts_q, sequence, tokens)
    rows = tl.minimum(queries, most_queries) * H
    m0 = tile * BM
    if m0 >= rows:
        return
    first_page, keys = _keys_of(starts_k, last, sequence, listed_pages, page_size)

    row = tl.minimum(m0 + tl.arange(0, BM), rows - 1)
    token = row // H
    place = (first_q + token).to(tl.int64)
    head = row % H
    scale, share = _scales(softmax_scale, q_scale, kv_scale, has_q_scale, has_kv_scale)
    whole = _whole_of(starts_whole, sequence, keys, ranks)
    hidden = _hidden(queries - 1 - token, whole, keys, ranks, rank)
    end = tl.minimum(keys - tl.where(causal != 0, hidden, 0), keys)
    final = (tl.minimum(m0 + BM, rows) - 1) // H
    hidden = _hidden(queries - 1 - final, whole, keys, ranks, rank)
    seen = tl.minimum(keys - tl.where(causal != 0, hidden, 0), keys)
    count = _own_keys(tl.maximum(seen, 0), part, splits, block)
    off_q = (place * H + head) * (VALUE + TAIL)
    acc, total, peak = _attend(
        q, kv, pages + first_page, off_q, end, count, keys, part, splits, block, page_size, stride_p,
        stride_k, scale, softcap, BM, BN, AWAY,
    )  # fmt: skip
    mean, logarithm = _mean(acc, total, peak, share)

    rd = tl.arange(0, VALUE)
    stored = (m0 + tl.arange(0, BM)) < rows
    target = place * H + head
    if PARTS:
        # They lie in a workspace, which has no type.
        lse = lse.to(tl.pointer_type(tl.float32), bitcast=True)
        target = (place * splits + part) * H + head
        tl.store(lse + target, logarithm, mask=stored)
        stored = stored & ((part << block) < keys)
    else:
        tl.store(lse + target, logarithm, mask=stored & (write_lse != 0))
    tl.store(
        out + (target[:, None] * VALUE + rd[None, :]), mean.to(out.dtype.element_ty), mask=stored[:, None]
    )


@triton.jit
def mla_merge_kernel(
    out,
    lse,
    parts,
    sums,
    starts_q,
    sequences,
    H,
    most_queries,
    splits,
    ROWS: tl.constexpr,
):
    tiles = tl.cdiv(most_queries * H, ROWS)
    pid = tl.program_id(0)
    sequence = pid // tiles
    first_q = tl.load(starts_q + sequence)
    rows = tl.minimum(tl.load(starts_q + sequence + 1) - first_q, most_queries) * H
    m0 = pid % tiles * ROWS
    if m0 >= rows:
        return
    row = tl.minimum(m0 + tl.arange(0, ROWS), rows - 1)
    place = (first_q + row // H).to(tl.int64)
    head = row % H
    rd = tl.arange(0, VALUE)
    at = place * splits * H + head
    sums = sums.to(tl.pointer_type(tl.float32), bitcast=True)  # of a workspace, which has no type

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    for part in range(splits):
        peak = tl.maximum(peak, tl.load(sums + (at + part * H)), propagate_nan=tl.PropagateNan.ALL)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, VALUE], tl.float32)
    for part in range(splits):
        own = tl.load(sums + (at + part * H))
        weight = tl.math.exp2((own - base) * LOG2E)
        # A part without a key may have no values.
        there = own != float("-inf")
        value = tl.load(
            parts + ((at + part * H)[:, None] * VALUE + rd[None, :]), mask=there[:, None], other=0.0
        )
        acc += value * weight[:, None]
        total += weight
    some = total != 0.0
    acc = acc * (1.0 / tl.where(some, total, 1.0))[:, None]
    stored = (m0 + tl.arange(0, ROWS)) < rows
    target = place * H + head
    tl.store(lse + target, tl.where(some, base + tl.math.log2(total) * LN2, float("-inf")), mask=stored)
    tl.store(
        out + (target[:, None] * VALUE + rd[None, :]), acc.to(out.dtype.element_ty), mask=stored[:, None]
    )
