"""The gated delta rule of whole prompts, 64 tokens at once: what `delta_rule.hip` does token by token, by matrix products.

    h_t = exp(g_t) * h_(t-1) + k_t u_t^T,   u_t = beta_t * (v_t - exp(g_t) * h_(t-1)^T k_t),   out_t = h_t^T q_t * scale

Within a chunk, D[i, j] = g_(j+1) + ... + g_i and G[i] = g_1 + ... + g_i; h is the state before it. Then
    (I + A) U = beta * (v - exp(G) * k h),   A[i, j] = beta_i * (k_i . k_j) * exp(D[i, j])   below the diagonal
    out = scale * (exp(G) * q h + P U),      P[i, j] = (q_i . k_j) * exp(D[i, j])            up to the diagonal
    h   = exp(G[64]) * h + k^T (exp(D[64, :]) * U)
I + A is inverted by blocks of 1, 2, 4, ... 32: with T the inverse of the blocks on the diagonal, T - T (A between them) T is that
of blocks twice as large. Products of q and k are exact and fp32 in their sums; all others are fp32 throughout, as are norms.
Matrix products would carry what is not finite to tokens before it: such a token counts as zeros, and it and those behind it get
NaN.

`delta_chunks_kernel` arguments, in order
    0 out *T [B, L, HV, V] | 1 last *f32 [sequences, HV, K, V] or null | 2 q | 3 k *T [B, L, H, K] | 4 v *T [B, L, HV, V]
    5 g *f32 [B, L, HV] | 6 beta *U [B, L, HV] | 7 first *f32, as last, or null
    8 starts *I [sequences + 1], or null where not PACKED
    9 has_last i32 | 10 has_first i32 | 11 L i32 | 12 H i32 | 13 HV i32 | 14 V i32 | 15 norm i32 | 16 scale f32
    17 q_b i64 | 18 q_t i64 | 19 q_h i64 | 20 k_b i64 | 21 k_t i64 | 22 k_h i64 | 23 v_b i64 | 24 v_t i64 | 25 v_h i64
  constexprs  BK (K: 64 or 128), BV, PACKED
  grid        (cdiv(V, BV), HV, sequences)
  workspace   none
"""

import triton
import triton.language as tl

TOKENS: tl.constexpr = tl.constexpr(64)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
INFINITY: tl.constexpr = tl.constexpr(float("inf"))
#: A decay whose logarithm is less is 0 all the same, and no sum of 64 is infinite.
LOWEST: tl.constexpr = tl.constexpr(-1e4)


@triton.jit
def _product(a, b):
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _joined(inverse, lower, row, column, SIZE: tl.constexpr):
    """The inverse of blocks of SIZE on the diagonal -> that of blocks twice as large."""
    between = (row // (2 * SIZE) == column // (2 * SIZE)) & (row // SIZE != column // SIZE)
    return inverse - _product(_product(inverse, tl.where(between, lower, 0.0)), inverse)


@triton.jit
def _inverse(lower, row, column):
    """Of I + lower, which is 0 on the diagonal and above it."""
    inverse = tl.where(row == column, 1.0, tl.where(row // 2 == column // 2, -lower, 0.0))
    inverse = _joined(inverse, lower, row, column, 2)
    inverse = _joined(inverse, lower, row, column, 4)
    inverse = _joined(inverse, lower, row, column, 8)
    inverse = _joined(inverse, lower, row, column, 16)
    return _joined(inverse, lower, row, column, 32)


@triton.jit
def delta_chunks_kernel(  # noqa: C901  # one launch, two halves of 128 rows
    out,
    last,
    q,
    k,
    v,
    g,
    beta,
    first,
    starts,
    has_last,
    has_first,
    L,
    H,
    HV,
    V,
    norm,
    scale,
    q_b,
    q_t,
    q_h,
    k_b,
    k_t,
    k_h,
    v_b,
    v_t,
    v_h,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
):
    head, sequence = tl.program_id(1), tl.program_id(2).to(tl.int64)
    columns = tl.program_id(0) * BV + tl.arange(0, BV)
    batch, begin, end = sequence, tl.zeros([], tl.int64), tl.zeros([], tl.int64) + L
    if PACKED:
        batch = sequence * 0
        begin = tl.maximum(tl.load(starts + sequence).to(tl.int64), 0)
        end = tl.minimum(tl.load(starts + sequence + 1).to(tl.int64), L)
    group = head // (HV // H)
    deep, place = tl.arange(0, 64), tl.arange(0, TOKENS)
    row, column = place[:, None], place[None, :]
    inside = columns < V
    state = (sequence * HV + head) * BK * V + deep[:, None] * V + columns[None, :]
    low, high = tl.zeros([64, BV], tl.float32), tl.zeros([64, BV], tl.float32)
    if has_first:
        low += tl.load(first + state, mask=inside[None, :], other=0.0)
        if BK == 128:
            high += tl.load(first + state + 64 * V, mask=inside[None, :], other=0.0)
    for start in range(begin, end, TOKENS):
        token = start + place
        there = token < end
        gate = (batch * L + token) * HV + head
        gs = tl.load(g + gate, mask=there, other=0.0)
        betas = tl.load(beta + gate, mask=there, other=0.0).to(tl.float32)
        at_k = k + batch * k_b + group * k_h + token[:, None] * k_t + deep[None, :]
        ks = tl.load(at_k, mask=there[:, None], other=0.0)
        squares = tl.sum(ks.to(tl.float32) * ks.to(tl.float32), 1)
        if BK == 128:
            behind = tl.load(at_k + 64, mask=there[:, None], other=0.0)
            squares += tl.sum(behind.to(tl.float32) * behind.to(tl.float32), 1)
        wrong = (squares < INFINITY) & (tl.abs(betas) < INFINITY) & (gs < INFINITY) == 0
        ks = tl.where(wrong[:, None], 0.0, ks).to(ks.dtype)
        of_k = tl.zeros([TOKENS], tl.float32) + 1.0
        if norm:
            of_k = tl.rsqrt(tl.where(wrong, 0.0, squares) + 1e-6)
        betas, gs = tl.where(wrong, 0.0, betas), tl.where(wrong, 0.0, tl.maximum(gs, LOWEST))
        between = _product(tl.where(row >= column, 1.0, 0.0), tl.where(row > column, gs[:, None], 0.0))
        decays = tl.where(row >= column, tl.exp2(between * LOG2E), 0.0)
        whole = tl.exp2(tl.sum(tl.where(row <= column, gs[:, None], 0.0), 0) * LOG2E)
        near = tl.dot(ks, tl.trans(ks))
        if BK == 128:
            behind = tl.where(wrong[:, None], 0.0, behind).to(ks.dtype)
            near = tl.dot(behind, tl.trans(behind), near)
        near = near * of_k[:, None] * of_k[None, :] * decays * betas[:, None]
        inverse = _inverse(tl.where(row > column, near, 0.0), row, column)
        some = there[:, None] & inside[None, :]
        at_v = v + batch * v_b + head * v_h + token[:, None] * v_t + columns[None, :]
        vs = tl.load(at_v, mask=some, other=0.0).to(tl.float32)
        least = tl.min(tl.where(tl.abs(vs) < INFINITY, TOKENS, row), 0)
        least = tl.minimum(least, tl.min(tl.where(wrong, place, TOKENS), 0))
        vs = tl.where(row < least[None, :], vs, 0.0)
        known = _product(ks.to(tl.float32), low)
        if BK == 128:
            known += _product(behind.to(tl.float32), high)
        known *= (of_k * whole)[:, None]
        us = _product(inverse, (vs - known) * betas[:, None])
        at_q = q + batch * q_b + group * q_h + token[:, None] * q_t + deep[None, :]
        qs = tl.load(at_q, mask=there[:, None], other=0.0)
        squares = tl.sum(qs.to(tl.float32) * qs.to(tl.float32), 1)
        seen = tl.dot(qs, tl.trans(ks))
        result = _product(qs.to(tl.float32), low)
        if BK == 128:
            qs = tl.load(at_q + 64, mask=there[:, None], other=0.0)
            squares += tl.sum(qs.to(tl.float32) * qs.to(tl.float32), 1)
            seen = tl.dot(qs, tl.trans(behind), seen)
            result += _product(qs.to(tl.float32), high)
        of_q = tl.zeros([TOKENS], tl.float32) + scale
        if norm:
            of_q *= tl.rsqrt(squares + 1e-6)
        seen *= of_q[:, None] * of_k[None, :] * decays
        result *= (of_q * whole)[:, None]
        result += _product(tl.where(row >= column, seen, 0.0), us)
        result = tl.where(row < least[None, :], result, float("nan"))
        to = out + ((batch * L + token[:, None]) * HV + head) * V + columns[None, :]
        tl.store(to, result.to(out.dtype.element_ty), mask=some)
        rest = tl.exp2(tl.sum(tl.where(row > column, gs[:, None], 0.0), 0) * LOG2E)
        kept, us = tl.exp2(tl.sum(gs, 0) * LOG2E), us * (of_k * rest)[:, None]
        low = low * kept + _product(tl.trans(ks.to(tl.float32)), us)
        low = tl.where(least[None, :] < TOKENS, float("nan"), low)
        if BK == 128:
            high = high * kept + _product(tl.trans(behind.to(tl.float32)), us)
            high = tl.where(least[None, :] < TOKENS, float("nan"), high)
    if has_last:
        tl.store(last + state, low, mask=inside[None, :])
        if BK == 128:
            tl.store(last + state + 64 * V, high, mask=inside[None, :])
