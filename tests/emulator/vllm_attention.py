"""vLLM's wrappers around AITER's attention, and around its rotations and caches."""

from __future__ import annotations

import math
from typing import Any

from emulator.client_tools import EPS, Calls, Tools


def attention(t: Tools) -> Calls:
    """Of prompts, of pages and of MLA's latents."""
    torch = t.torch

    def varlen(v: Any) -> list[str]:
        heads, few, size = 4, 2, 128
        lengths = [5, 11]
        ends = torch.tensor([0, 5, 16], dtype=torch.int32)
        q, k, value = t.bf16(16, heads, size), t.bf16(16, few, size), t.bf16(16, few, size)
        out, lse = v.flash_attn_varlen_func(
            q=q, k=k, v=value, cu_seqlens_q=ends, cu_seqlens_k=ends, max_seqlen_q=11, max_seqlen_k=11, min_seqlen_q=1,
            dropout_p=0.0, softmax_scale=size**-0.5, causal=True, window_size=(-1, -1), return_lse=True,
        )  # fmt: skip
        want, sums, start = torch.zeros(16, heads, size, dtype=torch.float64), [], 0
        for length in lengths:
            rows = slice(start, start + length)
            keys = k[rows].double().repeat_interleave(2, 1)
            values = value[rows].double().repeat_interleave(2, 1)
            scores = torch.einsum("ihd,jhd->hij", q[rows].double(), keys) * size**-0.5
            scores += torch.full((length, length), -math.inf).triu(1)
            want[rows] = torch.einsum("hij,jhd->ihd", scores.softmax(-1), values)
            sums.append(scores.logsumexp(-1))
            start += length
        return t.far("out", out, want) + t.far("lse", lse, torch.cat(sums, -1), 1e-3)

    def latent(v: Any, *, lse: bool) -> list[str]:
        batch, heads, pages = 2, 16, 40
        q, cache = t.bf16(batch, heads, 576), t.bf16(pages, 1, 576)
        lengths = [13, 20]
        indptr = torch.tensor([0, 13, 33], dtype=torch.int32)
        indices = torch.randperm(pages)[:33].int()
        qo = torch.arange(batch + 1, dtype=torch.int32)
        last = torch.ones(batch, dtype=torch.int32)
        o = torch.full((batch, heads, 512), math.nan, dtype=torch.bfloat16)
        scale = 1 / math.sqrt(192)
        sums = None
        if lse:
            sums = v.mla_decode_fwd_lse(q, cache, o, scale, qo, 1, indptr, indices, last)
        else:
            v.mla_decode_fwd(q, cache, o, scale, qo, 1, indptr, indices, last)
        want, exact, start = torch.zeros(batch, heads, 512, dtype=torch.float64), [], 0
        for row, length in enumerate(lengths):
            keys = cache[indices[start : start + length].long(), 0].double()
            scores = q[row].double() @ keys.t() * scale
            want[row] = scores.softmax(-1) @ keys[:, :512]
            exact.append(scores.logsumexp(-1))
            start += length
        problems = t.far("out", o, want)
        return problems + (t.far("lse", sums, torch.stack(exact), 1e-3) if lse else [])

    def of_fp8(v: Any) -> list[str]:
        q, k, value = (t.bf16(1, 32, 2, 128).to(t.fp8) for _ in range(3))
        one = torch.tensor([1.0])
        out = v.fp8_attn_wrapper(q, k, value, one, one, one, 1, torch.bfloat16, 128**-0.5)
        scores = torch.einsum("ihd,jhd->hij", q[0].double(), k[0].double()) * 128**-0.5
        return t.far("out", out[0], torch.einsum("hij,jhd->ihd", scores.softmax(-1), value[0].double()), 0.06)

    def paged(v: Any) -> list[str]:
        seqs, few, heads, size, block = 2, 1, 8, 128, 16
        q = t.bf16(seqs, heads, size)
        keys, values = t.bf16(8, few, block, size), t.bf16(8, few, block, size)
        packed = keys.view(8, few, block, size // 8, 8).permute(0, 1, 3, 2, 4).contiguous()
        turned = values.view(8, few, block // 8, 8, size).permute(0, 1, 2, 4, 3).contiguous()
        tables = torch.tensor([[3, 1], [0, 5]], dtype=torch.int32)
        lengths = torch.tensor([20, 31], dtype=torch.int32)
        out = torch.full_like(q, math.nan)
        v.pa_fwd_asm(q, packed, turned, tables, lengths, tables.stride(0), None, None, out)
        want = torch.zeros(seqs, heads, size, dtype=torch.float64)
        for row in range(seqs):
            length = int(lengths[row])
            some = keys[tables[row].long(), 0].reshape(-1, size)[:length].double()
            rest = values[tables[row].long(), 0].reshape(-1, size)[:length].double()
            want[row] = (q[row].double() @ some.t() * size**-0.5).softmax(-1) @ rest
        return t.far("out", out, want)

    def gathered(v: Any) -> list[str]:
        heads, length = 2, 3
        cache, weight = t.bf16(8, 1, 576), t.bf16(heads * 256, 512, scale=0.05)
        indices = torch.tensor([4, 1, 6], dtype=torch.int32)
        ends = torch.tensor([0, length], dtype=torch.int32)
        k, value = torch.empty(length, heads, 192).bfloat16(), torch.empty(length, heads, 128).bfloat16()
        v.gather_kv_b_proj(cache, torch.ones(1), ends, indices, ends, weight, k, value)
        latent = cache[indices.long(), 0, :512].double() @ weight.double().t()
        return t.far("v", value, latent.view(length, heads, 256)[..., 128:], 2**-6)

    return {
        "gather_kv_b_proj": gathered, "flash_attn_varlen_func": varlen, "mla_decode_fwd": lambda v: latent(v, lse=False),
        "mla_decode_fwd_lse": lambda v: latent(v, lse=True), "fp8_attn_wrapper": of_fp8, "pa_fwd_asm": paged,
    }  # fmt: skip


def _turned(t: Tools, x: Any, cosine: Any, sine: Any) -> Any:
    """NeoX's rotation of each head of x[tokens, heads, size] by angles[tokens, size / 2]."""
    one, two = x.double().chunk(2, -1)
    c, s = cosine.double()[:, None], sine.double()[:, None]
    return t.torch.cat([one * c - two * s, two * c + one * s], -1)


def rope(t: Tools) -> Calls:
    """Rotations, and what is written into caches after them."""
    torch = t.torch
    tokens, heads, few, size = 5, 4, 2, 64
    cache = t.bf16(50, size)
    positions = torch.randint(0, 50, (tokens,))
    cosine, sine = (each[positions] for each in cache.chunk(2, -1))

    def rotated(v: Any) -> list[str]:
        q, k = t.bf16(tokens, heads * size), t.bf16(tokens, few * size)
        want = [_turned(t, each.view(tokens, -1, size), cosine, sine).reshape(each.shape) for each in (q, k)]
        v.get_triton_rotary_embedding_op()(positions, q, k, size, cache, True, None)
        return t.far("q", q, want[0]) + t.far("k", k, want[1])

    def cached(v: Any) -> list[str]:
        q, k, value = t.bf16(tokens, heads, size), t.bf16(tokens, few, size), t.bf16(tokens, few, size)
        want = [_turned(t, each, cosine, sine) for each in (q, k)]
        keys, values = torch.zeros(4, 16, few, size).bfloat16(), torch.zeros(4, 16, few, size).bfloat16()
        slots = torch.randperm(64)[:tokens]
        one = torch.ones(1)
        v.triton_rope_and_cache(
            q, k, value, positions, cache, True, keys, values, slots, one, one, True, False
        )
        rows, kept = keys.view(64, few, size)[slots], values.view(64, few, size)[slots]
        problems = t.far("q", q, want[0]) + t.far("k", k, want[1]) + t.far("key cache", rows, want[1])
        return problems + t.far("value cache", kept, value, 0)

    def normed(v: Any) -> list[str]:
        heads, few, size, block, x = 4, 2, 128, 16, 8
        table = t.bf16(50, size)
        c, s = (each[positions] for each in table.chunk(2, -1))
        qkv = t.bf16(tokens, (heads + 2 * few) * size)
        before = qkv.clone().view(tokens, -1, size)
        by_q, by_k = t.bf16(size), t.bf16(size)
        keys = torch.zeros(4, few, size // x, block, x).bfloat16()
        values = torch.zeros(4, few, block // x, size, x).bfloat16()
        slots, one = torch.randperm(64)[:tokens], torch.ones(1)
        out = torch.empty(tokens, heads * size).bfloat16()
        v.fused_qk_norm_rope_and_cache(
            qkv, by_q, by_k, table, positions, heads, few, few, size, True, EPS, out, keys, values, slots, one, one,
            None, None, False, True, block, x, size,
        )  # fmt: skip
        want = [
            _turned(t, t.norm(before[:, :heads], by_q), c, s),
            _turned(t, t.norm(before[:, heads : heads + few], by_k), c, s),
        ]
        rows = keys.permute(0, 3, 1, 2, 4).reshape(64, few, size)[slots]
        kept = values.permute(0, 2, 4, 1, 3).reshape(64, few, size)[slots]
        problems = t.far("q", out.view(tokens, heads, size), want[0], 2**-6) + t.far(
            "keys", rows, want[1], 2**-6
        )
        return problems + t.far("values", kept, before[:, heads + few :], 0)

    return {
        "rocm_aiter_triton_rotary_embedding": rotated, "triton_rope_and_cache": cached,
        "fused_qk_norm_rope_and_cache": normed,
    }  # fmt: skip
