"""Attention of prompts by lists of works, forward: keys of 192 numbers, values of 128, all of 8 bits (DeepSeek's prefill).

    S[t, h, j]  = softmax_scale * q_scale * k_scale * q[t, h] . k[j, h / (HQ / HK)]       for visible keys j of token t's sequence
    out[t, h]   = v_scale * sum_j softmax(S[t, h])[j] * v[j, h / (HQ / HK)]
    lse[t, h]   = ln(sum_j exp(S[t, h, j]))                             natural logarithm, fp32

Each workgroup takes a list of works: the tokens q0 to q1 - 1, the keys k0 to k1 - 1 of their sequence (places in `pages`), and
query heads. A work that has a row writes out and lse there, fp32, a row for each of its tokens, to be made one with other works'
(`mla_reduce_v1`); one with row -1 writes the result itself. Token number i of n, of a sequence with m keys, sees keys up to
i + m - n when causal, else all. A token that sees no key of its work has 0, and lse -inf. The first product is exact in its
products and fp32 in its sums, the softmax is fp32, and the probabilities are rounded to bf16, which holds every value.

`mla_prefill_ps_kernel` arguments, in order
    0 out *bf16 [tokens, HQ, 128] | 1 parts *f32 [rows, HQ, 128] | 2 sums *f32 [rows, HQ]
    3 q *T [tokens, HQ, 192] | 4 k *T [pages, HK, 192] | 5 v *T [pages, HK, 128]: of pages of one key
    6 starts_q *i32 [n + 1] | 7 starts_k *i32 [n + 1]: where the tokens and the pages of each sequence start | 8 pages *i32
    9 borders *i32: where the works of each workgroup start | 10 works *i32 [-, 8]: sequence, row, q0, q1, k0, k1, not read, heads
       (first + end * 65536)
    11 q_scale | 12 k_scale | 13 v_scale *f32 [1], or null where 14, 15, 16 are 0
    14 has_q_scale i32 | 15 has_k_scale i32 | 16 has_v_scale i32 | 17 page_count i32, of `pages`, more than 0 | 18 HQ i32
    19 HK i32 | 20 causal i32 | 21 k_stride_p i64 | 22 k_stride_h i32 | 23 v_stride_p i64 | 24 v_stride_h i32
    25 softmax_scale f32
  constexprs  BM, BN, AWAY (rounds to bf16 with ties away from zero)
  grid        (workgroups, 1, 1)
  workspace   none

guarantee   pointers 0, 1, 3, 4, 5 at 16 bytes; strides 21 to 24 are multiples of 16 elements; lengths stay below 2^30

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 computes 2^x.
"""

import triton
import triton.language as tl
from attention import _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
#: Of a key, which is HEAD and behind it TAIL numbers; a value has as many as HEAD.
HEAD: tl.constexpr = tl.constexpr(128)
TAIL: tl.constexpr = tl.constexpr(64)


@triton.jit
def _attend(
    q_head,
    q_tail,
    k,
    v,
    pages,
    page_count,
    limit,
    begin,
    end,
    k_stride_p,
    v_stride_p,
    scale,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Online softmax over the keys `begin` to `end` - 1; row m sees key j when j < limit[m]."""
    rd = tl.arange(0, HEAD)
    rt = HEAD + tl.arange(0, TAIL)
    rn = tl.arange(0, BN)
    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, HEAD], tl.float32)
    # One turn at least: a pipelined loop of none would read from LDS what nobody wrote.
    edge = tl.minimum(tl.maximum(end, begin + 1), page_count) - 1
    for start in tl.range(begin, tl.maximum(end, begin + 1), BN):
        key = start + rn
        # A key past the end repeats the last one: the loads need no mask, the logits have one.
        page = tl.load(pages + tl.minimum(key, edge)).to(tl.int64)
        off = page * k_stride_p
        s = tl.dot(q_head, tl.load(k + (off[None, :] + rd[:, None])))
        s = tl.dot(q_tail, tl.load(k + (off[None, :] + rt[:, None])), s)
        s = tl.where(key[None, :] < limit[:, None], s * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        vt = tl.load(v + ((page * v_stride_p)[:, None] + rd[None, :])).to(tl.bfloat16)
        acc = tl.dot(_to_storage(p, vt, AWAY), vt, acc)
        peak = higher
    return acc, total, peak


@triton.jit
def mla_prefill_ps_kernel(
    out,
    parts,
    sums,
    q,
    k,
    v,
    starts_q,
    starts_k,
    pages,
    borders,
    works,
    q_scale,
    k_scale,
    v_scale,
    has_q_scale,
    has_k_scale,
    has_v_scale,
    page_count,
    HQ,
    HK,
    causal,
    k_stride_p,
    k_stride_h,
    v_stride_p,
    v_stride_h,
    softmax_scale,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
):
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E
    if has_q_scale != 0:
        scale *= tl.load(q_scale)
    if has_k_scale != 0:
        scale *= tl.load(k_scale)
    factor = 1.0
    if has_v_scale != 0:
        factor = tl.load(v_scale)
    rd = tl.arange(0, HEAD)
    rt = HEAD + tl.arange(0, TAIL)
    unit = tl.program_id(0)
    for number in range(tl.load(borders + unit), tl.load(borders + unit + 1)):
        work = works + number.to(tl.int64) * 8
        sequence = tl.load(work)
        part = tl.load(work + 1)
        q0 = tl.load(work + 2)
        q1 = tl.load(work + 3)
        k0 = tl.load(work + 4)
        k1 = tl.load(work + 5)
        heads = tl.load(work + 7)
        last_q = tl.load(starts_q + sequence + 1)
        last_k = tl.load(starts_k + sequence + 1)
        # Token t sees the keys before t + ahead.
        ahead = last_k - last_q + 1
        for head in range(heads & 0xFFFF, (heads >> 16) & 0xFFFF):
            own = (head // (HQ // HK)).to(tl.int64)
            for m0 in range(q0, q1, BM):
                token = tl.minimum(m0 + tl.arange(0, BM), q1 - 1)
                final = tl.minimum(m0 + BM, q1) - 1
                limit = tl.minimum(tl.where(causal != 0, token + ahead, last_k), k1)
                end = tl.minimum(tl.where(causal != 0, final + ahead, last_k), k1)
                row = q + (token.to(tl.int64) * HQ + head)[:, None] * (HEAD + TAIL)
                acc, total, peak = _attend(
                    tl.load(row + rd[None, :]),
                    tl.load(row + rt[None, :]),
                    k + own * k_stride_h,
                    v + own * v_stride_h,
                    pages,
                    page_count,
                    limit,
                    k0,
                    end,
                    k_stride_p,
                    v_stride_p,
                    scale,
                    BM,
                    BN,
                    AWAY,
                )
                # A row that saw no key has total 0; one with NaN has NaN there.
                some = total != 0.0
                acc = tl.where(some[:, None], acc * (factor / tl.where(some, total, 1.0))[:, None], 0.0)
                stored = (m0 + tl.arange(0, BM)) < q1
                if part < 0:
                    place = token.to(tl.int64) * HQ + head
                    tl.store(
                        out + (place[:, None] * HEAD + rd[None, :]), acc.to(tl.bfloat16), mask=stored[:, None]
                    )
                else:
                    place = (part + token - q0).to(tl.int64) * HQ + head
                    value = tl.where(some, (peak + tl.math.log2(total)) * LN2, float("-inf"))
                    tl.store(sums + place, value, mask=stored)
                    tl.store(parts + (place[:, None] * HEAD + rd[None, :]), acc, mask=stored[:, None])
