"""Attention over a latent cache (MLA), decoding, by lists of works: each workgroup takes those of one unit, one behind the other.

What is computed, and of which types, is said in `mla_decode.py`. A work is a row of 8 numbers, as `mla_works` (mla_works.hip)
makes them: context, row of its part or -1, first token and end, first page and end, keys of the context behind them, 0. Its pages
are places in `pages`, and its tokens see the keys up to their own place, the last token of the sequence all. Contexts are
sequences, or with fold > 1 the heads of a sequence in groups of H: group g of token t is then token t * fold + g, and context
s * fold + g. With ranks > 1 pages have one key, and works are of the keys of this rank, as `mla_decode.py` says.

A work with a row is a part: the mean of its values and the lse go to rows `row + token - first` of parts and sums. One without
writes out and lse. Tokens that see no key of their sequence have out 0 and lse -inf; no work need be about them.

`mla_works_kernel` arguments, in order
    0 out *W [tokens, H, 512] | 1 lse *f32 [tokens, H] | 2 parts *f32 [rows, H, 512] | 3 sums *f32 [rows, H]
    4 q *T [tokens, H, 576] | 5 kv *C [stored_pages, page_size, 576], strides 30, 31
    6 starts_q *i32 [n + 1]: sequence s has the tokens from starts_q[s] * fold to starts_q[s + 1] * fold
    7 starts_k *i32 [n + 1]: pages[starts_k[s]] to pages[starts_k[s + 1] - 1] are its pages | 8 pages *i32 [listed_pages]
    9 last *i32 [n]: the keys of the last page | 10 starts_whole *i32 [n + 1]: keys on all ranks; null with one rank
   11 starts_w *i32 [units + 1]: where the works of each unit begin | 12 works *i32 [listed_works, 8]
   13 q_scale *f32 [1] | 14 kv_scale *f32 [1], or null where 15, 16 are 0 | 15 has_q_scale i32 | 16 has_kv_scale i32
   17 sequences i32 | 18 tokens i32 | 19 H i32 | 20 most_queries i32 | 21 page_size i32 | 22 listed_pages i32
   23 listed_works i32 | 24 rows i32 | 25 units i32 | 26 fold i32 | 27 causal i32 | 28 ranks i32 | 29 rank i32
   30 stride_p i64 | 31 stride_k i64: in units of 16 bytes | 32 softmax_scale f32 | 33 softcap f32
  constexprs  BM, BN, AWAY, XCDS
  grid        (cdiv(most_queries * H, BM) * units, 1, 1); tokens of a work behind most_queries are not written

guarantee   pointers 0, 2, 4, 5 at 16 bytes; lengths stay below 2^30; what the lists say of tokens and rows that are not there,
            and of more pages than are listed, is not done. A listed page of a key that is there is read as it is named
"""

import triton
import triton.language as tl
from attention import _renumber
from mla_decode import (
    TAIL,
    VALUE,
    _attend,
    _hidden,
    _inside,
    _keys_of,
    _mean,
    _queries_of,
    _scales,
    _whole_of,
)


@triton.jit
def _blind(out, lse, starts_q, starts_k, last, starts_whole, tile, tiles, unit, units, sequences, tokens, H,
           page_size, listed_pages, fold, causal, ranks, rank, BM: tl.constexpr):  # fmt: skip
    """Tokens that see no key; the units take the sequences in turn."""
    rd = tl.arange(0, VALUE)
    for sequence in range(unit, sequences, units):
        first_q, queries = _queries_of(starts_q, sequence, tokens // fold)
        _, keys = _keys_of(starts_k, last, sequence, listed_pages, page_size)
        blind = queries
        if keys > 0:
            whole = _whole_of(starts_whole, sequence, keys, ranks)
            blind = tl.where(causal != 0, _inside(queries - whole + rank, 0, queries), 0)
        rows = blind * fold * H
        for m0 in range(tile * BM, rows, tiles * BM):
            row = m0 + tl.arange(0, BM)
            target = first_q.to(tl.int64) * fold * H + row
            stored = row < rows
            tl.store(lse + target, tl.full([BM], float("-inf"), tl.float32), mask=stored)
            nothing = tl.zeros([BM, VALUE], out.dtype.element_ty)
            tl.store(out + (target[:, None] * VALUE + rd[None, :]), nothing, mask=stored[:, None])


@triton.jit
def mla_works_kernel(
    out,
    lse,
    parts,
    sums,
    q,
    kv,
    starts_q,
    starts_k,
    pages,
    last,
    starts_whole,
    starts_w,
    works,
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
    listed_works,
    rows,
    units,
    fold,
    causal,
    ranks,
    rank,
    stride_p,
    stride_k,
    softmax_scale,
    softcap,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
):
    tiles = tl.cdiv(most_queries * H, BM)
    # The tiles of one unit read the same keys: they lie behind each other, on one die.
    pid = _renumber(tl.program_id(0), tiles * units, XCDS)
    tile = pid % tiles
    unit = pid // tiles
    m0 = tile * BM
    sums = sums.to(tl.pointer_type(tl.float32), bitcast=True)  # of a workspace, which has no type
    rd = tl.arange(0, VALUE)
    _blind(
        out, lse, starts_q, starts_k, last, starts_whole, tile, tiles, unit, units, sequences, tokens, H,
        page_size, listed_pages, fold, causal, ranks, rank, BM,
    )  # fmt: skip
    scale, share = _scales(softmax_scale, q_scale, kv_scale, has_q_scale, has_kv_scale)

    begin = _inside(tl.load(starts_w + unit), 0, listed_works)
    final = _inside(tl.load(starts_w + unit + 1), 0, listed_works)
    for work in range(begin, final):
        own = works + work * 8
        context = tl.load(own)
        part = tl.load(own + 1)
        first = _inside(tl.load(own + 2), 0, tokens)
        length = _inside(tl.load(own + 3), first, tokens) - first
        own_rows = tl.minimum(length, most_queries) * H
        there = (context >= 0) & (context < sequences * fold) & (part <= rows - length)
        if there & (m0 < own_rows):
            sequence = context // fold
            first_q, queries = _queries_of(starts_q, sequence, tokens // fold)
            page = _inside(tl.load(own + 4), 0, listed_pages)
            keys = (_inside(tl.load(own + 5), page, listed_pages) - page) * page_size
            behind = _inside(tl.load(own + 6), 0, (1 << 30) - 1)
            if behind == 0:
                keys -= page_size - _inside(tl.load(last + sequence), 1, page_size)
            keys = tl.maximum(keys, 0)

            row = tl.minimum(m0 + tl.arange(0, BM), own_rows - 1)
            token = first + row // H
            head = row % H
            # The last token of the sequence sees all of them.
            final_q = first_q + queries - 1
            _, owned = _keys_of(starts_k, last, sequence, listed_pages, page_size)
            whole = _whole_of(starts_whole, sequence, owned, ranks)
            hidden = _hidden(final_q - token // fold, whole, owned, ranks, rank)
            end = tl.minimum(keys + behind - tl.where(causal != 0, hidden, 0), keys)
            newest = (first + (tl.minimum(m0 + BM, own_rows) - 1) // H) // fold
            hidden = _hidden(final_q - newest, whole, owned, ranks, rank)
            seen = tl.minimum(keys + behind - tl.where(causal != 0, hidden, 0), keys)
            place = token.to(tl.int64)
            off_q = (place * H + head) * (VALUE + TAIL)
            acc, total, peak = _attend(
                q, kv, pages + page, off_q, end, tl.maximum(seen, 0), keys, 0, 1, 0, page_size,
                stride_p, stride_k, scale, softcap, BM, BN, AWAY,
            )  # fmt: skip
            mean, logarithm = _mean(acc, total, peak, share)
            stored = (m0 + tl.arange(0, BM)) < own_rows
            if part < 0:
                stored = stored & (end > 0)
                target = place * H + head
                tl.store(lse + target, logarithm, mask=stored)
                tl.store(
                    out + (target[:, None] * VALUE + rd[None, :]),
                    mean.to(out.dtype.element_ty),
                    mask=stored[:, None],
                )
            else:
                target = (part + place - first) * H + head
                tl.store(sums + target, logarithm, mask=stored)
                tl.store(parts + (target[:, None] * VALUE + rd[None, :]), mean, mask=stored[:, None])
