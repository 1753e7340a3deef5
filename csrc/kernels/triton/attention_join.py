"""What several workgroups found of one row of attention, joined: the second launch of attention_ragged.py with SPLIT.

    out[i, h] = sum_p partial[p] * 2^(peak[p] - m) / sum_p total[p] * 2^(peak[p] - m)      m = max_p peak[p]
    lse[i, h] = (m + log2(sum_p total[p] * 2^(peak[p] - m))) / log2 e                      natural logarithm, fp32

`attn_join_kernel` arguments, in order
    0 out *T [SQ, HQ, DV] | 1 lse *f32 (not touched when write_lse is 0)
    2 partial *f32 [n, most_queries, HQ, parts, VHEAD] | 3 stats *f32 [n, most_queries, HQ, parts, 2]: peak (base 2) and total
    4 starts_q *i32 [n + 1]: sequence s has the queries from starts_q[s] to starts_q[s + 1]; null when equal_queries is 1
    5 HQ i32 | 6 DV i32 | 7 most_queries i32 | 8 parts i32, 1 to PARTS | 9 equal_queries i32 | 10 write_lse i32
    11 skip i32 | 12 longest i32: sequences with no more queries than skip, or more than longest, are left alone
    13 out_stride_b i64 | 14 out_stride_s i32 | 15 out_stride_h i32 | 16 lse_stride_b i64 | 17 lse_stride_h i32
  constexprs  VHEAD (padded DV), PARTS (most parts, a power of two)
  grid        (HQ * most_queries * n, 1, 1): one row each
  workspace   none

A part that saw no key has total 0, peak -inf and partial 0.
"""

import triton
import triton.language as tl

LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
CHUNK: tl.constexpr = tl.constexpr(8)


@triton.jit
def attn_join_kernel(
    out,
    lse,
    partial,
    stats,
    starts_q,
    HQ,
    DV,
    most_queries,
    parts,
    equal_queries,
    write_lse,
    skip,
    longest,
    out_stride_b,
    out_stride_s,
    out_stride_h,
    lse_stride_b,
    lse_stride_h,
    VHEAD: tl.constexpr,
    PARTS: tl.constexpr,
):
    # Null and workspace come as pointers to bytes.
    starts_q = starts_q.to(tl.pointer_type(tl.int32))
    partial = partial.to(tl.pointer_type(tl.float32))
    stats = stats.to(tl.pointer_type(tl.float32))
    pid = tl.program_id(0)
    head = pid % HQ
    query = pid // HQ % most_queries
    sequence = pid // HQ // most_queries
    first = 0
    queries = most_queries
    if equal_queries == 0:
        first = tl.load(starts_q + sequence)
        queries = tl.load(starts_q + sequence + 1) - first
    if (query >= queries) | (queries <= skip) | (queries > longest):
        return

    row = pid.to(tl.int64) * parts
    numbers = tl.arange(0, PARTS)
    peaks = tl.load(stats + (row + numbers) * 2, mask=numbers < parts, other=float("-inf"))
    totals = tl.load(stats + (row + numbers) * 2 + 1, mask=numbers < parts, other=0.0)
    peak = tl.max(peaks, 0)
    # -inf - -inf is NaN: what saw no key is measured from 0.
    base = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.sum(totals * tl.math.exp2(peaks - base), 0)

    columns = tl.arange(0, VHEAD)
    acc = tl.zeros([VHEAD], tl.float32)
    for begin in tl.range(0, parts, CHUNK):
        number = begin + tl.arange(0, CHUNK)
        here = number < parts
        weight = tl.math.exp2(tl.load(stats + (row + number) * 2, mask=here, other=float("-inf")) - base)
        found = tl.load(
            partial + ((row + number)[:, None] * VHEAD + columns[None, :]), mask=here[:, None], other=0.0
        )
        acc += tl.sum(found * weight[:, None], 0)

    seen = total != 0.0
    batch = sequence.to(tl.int64)
    place = (first + query).to(tl.int64)
    off_out = batch * out_stride_b + place * out_stride_s + head.to(tl.int64) * out_stride_h
    acc = acc / tl.where(seen, total, 1.0)
    tl.store(out + (off_out + columns), acc.to(out.dtype.element_ty), mask=columns < DV)
    value = tl.where(seen, (peak + tl.math.log2(total)) * LN2, float("-inf"))
    tl.store(
        lse + (batch * lse_stride_b + head.to(tl.int64) * lse_stride_h + place), value, mask=write_lse != 0
    )
