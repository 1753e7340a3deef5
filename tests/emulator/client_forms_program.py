"""A child of ``test_client_forms.py``: forms of calls that clients and AITER's own tests make.

Each form is called once with small tensors. Prints a JSON line for each: its name, and "served" or what it was refused with.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import aiter_prebuilt as ap

GFX942 = "gfx942" in torch.cuda.get_device_properties(0).gcnArchName
FP8 = torch.float8_e4m3fnuz if GFX942 else torch.float8_e4m3fn
BF16 = torch.bfloat16
Form = tuple[str, Callable[[], Any]]


def normal(*shape: int, kind: torch.dtype = BF16) -> torch.Tensor:
    """Normal numbers on the device."""
    return torch.randn(*shape).to(kind).cuda()


def zeros(*shape: int, kind: torch.dtype = BF16) -> torch.Tensor:
    """Zeros on the device."""
    return torch.zeros(*shape, dtype=kind).cuda()


def ints(*values: int, kind: torch.dtype = torch.int32) -> torch.Tensor:
    """A list of numbers on the device."""
    return torch.tensor(values, dtype=kind).cuda()


def far(dense: torch.Tensor) -> torch.Tensor:
    """The same rows, 2^31 elements apart."""
    strides = (1 << 31, *dense.stride()[1:])
    return torch.empty_strided(dense.shape, strides, dtype=dense.dtype, device=dense.device).copy_(dense)


def routed(tokens: int, experts: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and experts of tokens."""
    ids = torch.stack([torch.randperm(experts)[:k] for _ in range(tokens)]).int()
    return torch.rand(tokens, k).cuda(), ids.cuda()


def mixture(width: int, inner: int) -> Callable[[], Any]:
    """``fused_moe`` without quantisation."""

    def call() -> Any:
        weights, ids = routed(3, 4, 2)
        return ap.fused_moe(
            normal(3, width), normal(4, 2 * inner, width), normal(4, width, inner), weights, ids
        )

    return call


def mixture_f4(width: int, inner: int) -> Callable[[], Any]:
    """``fused_moe`` of MXFP4 weights."""

    def call() -> Any:
        weights, ids = routed(3, 4, 2)
        w1, w2 = (
            torch.randint(0, 256, shape, dtype=torch.uint8).cuda()
            for shape in ((4, 2 * inner, width // 2), (4, width, inner // 2))
        )
        s1, s2 = (
            ap.e8m0_shuffle(torch.full(shape, 120, dtype=torch.uint8).cuda())
            for shape in ((4 * 2 * inner, width // 32), (4 * width, inner // 32))
        )
        return ap.fused_moe(
            normal(3, width),
            w1,
            w2,
            weights,
            ids,
            quant_type=3,
            w1_scale=s1,
            w2_scale=s2,
        )

    return call


def mixture_rows(kind: torch.dtype, inner: int) -> Callable[[], Any]:
    """``fused_moe`` of codes of 8 bits with a scale for each row."""

    def call() -> Any:
        weights, ids = routed(3, 4, 2)
        w1, w2 = normal(4, 2 * inner, 256).to(kind), normal(4, 256, inner).to(kind)
        s1, s2 = torch.rand(4, 2 * inner, 1).cuda(), torch.rand(4, 256, 1).cuda()
        return ap.fused_moe(
            normal(3, 256), w1, w2, weights, ids, quant_type=2, w1_scale=s1, w2_scale=s2
        )  # fmt: skip

    return call


def mixture_f8(kind: int) -> Callable[[], Any]:
    """``fused_moe`` of fp8 weights with MX scales, whose rows become fp8."""

    def call() -> Any:
        weights, ids = routed(3, 4, 2)
        width, inner = 256, 128
        w1, w2 = normal(4, 2 * inner, width).to(FP8), normal(4, width, inner).to(FP8)
        s1, s2 = (
            torch.full(shape, 120, dtype=torch.uint8).cuda()
            for shape in ((4 * 2 * inner, width // 32), (4 * width, inner // 32))
        )
        return ap.fused_moe(normal(3, width), w1, w2, weights, ids, quant_type=kind, w1_scale=s1, w2_scale=s2)

    return call


def routing() -> Iterator[Form]:
    """Choices of experts, lists of them."""

    def chosen(m: int, k: int, extra: int = 0, rows: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        kinds = (torch.float32, torch.int32)
        weights, ids = (zeros(m + rows, k + extra, kind=kind)[:, :k] for kind in kinds)
        return weights, ids

    def gating() -> None:
        ap.topk_gating(
            zeros(3, 3, kind=torch.float32), zeros(3, 2, kind=torch.int32), normal(3, 9), num_shared_experts=1
        )

    yield "topk_gating(num_shared_experts=1)", gating
    yield (
        "topk_gating(correction_bias of [0])",
        lambda: ap.topk_gating(*chosen(3, 2), normal(3, 8), zeros(0, kind=torch.float32)),
    )
    yield (
        "biased_grouped_topk of strided gating",
        lambda: ap.biased_grouped_topk(
            normal(3, 80, kind=torch.float32)[:, :64],
            normal(64, kind=torch.float32),
            *chosen(3, 4),
            4,
            2,
            True,
        ),
    )
    yield (
        "grouped_topk of strided gating",
        lambda: ap.grouped_topk(normal(3, 80, kind=torch.float32)[:, :64], *chosen(3, 4), 4, 2, True),
    )
    yield (
        "moe_fused_gate of strided tensors",
        lambda: ap.moe_fused_gate(
            normal(3, 300, kind=torch.float32)[:, :256],
            normal(256, kind=torch.float32),
            *chosen(3, 8, 3),
            8,
            4,
            8,
            0,
        ),
    )
    yield (
        "topk_softmax into larger buffers",
        lambda: ap.topk_softmax(
            *chosen(3, 4, 3, 2), zeros(5, 4, kind=torch.int32), normal(3, 64, kind=torch.float32), True
        ),
    )
    yield (
        "fused_topk into larger buffers",
        lambda: ap.fused_topk(
            normal(3, 64), normal(3, 64, kind=torch.float32), 4, True,
            zeros(5, 4, kind=torch.int32), zeros(5, 4, kind=torch.float32),
        ),
    )  # fmt: skip

    def assembled(kind: torch.dtype) -> None:
        ap.topk_softmax_asm(*chosen(4, 8, 3), zeros(4, 8, kind=torch.int32), normal(4, 128, kind=kind), True)

    for kind in (torch.float32, BF16):
        yield f"topk_softmax_asm of {kind}, strided results", partial(assembled, kind)

    def padded_ids() -> Any:
        weights, ids = routed(5, 8, 2)
        ids[3:] = 99
        return ap.moe_sorting(ids, weights[:3].contiguous(), 8, 64, BF16, num_local_tokens=ints(3))

    yield "moe_sorting of ids beyond the weights", padded_ids


def mixtures() -> Iterator[Form]:
    """Mixtures of odd widths."""
    for inner in (176, 88, 48):
        yield f"fused_moe of {inner} columns", mixture(256, inner)
        for kind in (FP8, torch.int8):
            yield (
                f"fused_moe of {'int8' if kind == torch.int8 else 'fp8'}, {inner} columns",
                mixture_rows(kind, inner),
            )
    for inner in (96, 160, 224, 352, 416):
        yield f"fused_moe of MXFP4, {inner} columns", mixture_f4(256, inner)
    yield "fused_moe of MXFP4, hidden size 288", mixture_f4(288, 128)
    yield "fused_moe of mxfp8", mixture_f8(3)

    def gelu(inner: int) -> Callable[[], Any]:
        def call() -> None:
            weights, ids = routed(4, 4, 2)
            lists = ap.moe_sorting(ids, weights, 4, 512, BF16)
            gate, down = ap.shuffle_weight(normal(4, inner, 512)), ap.shuffle_weight(normal(4, 512, inner))
            ap.fmoe(lists[4], normal(4, 512), gate, down, lists[0], lists[1], lists[2], lists[3], 2)

        return call

    yield "fmoe of 16 bits, inter_dim 256", gelu(256)


def caches() -> Iterator[Form]:
    """Keys and values on their way into caches."""
    tokens, blocks, size = 3, 4, 16
    slots = ints(3, 17, 40)
    one = torch.ones(1).cuda()
    k = normal(tokens, 2, 64)
    paged = zeros(blocks, 2, 8, size, 8), zeros(blocks, 2, 64, size)
    flash = [zeros(blocks, size, 2, 64) for _ in range(2)]
    yield "reshape_and_cache, int32 slots", lambda: ap.reshape_and_cache(k, k, *paged, slots, "auto")
    yield (
        "reshape_and_cache_flash, int32 slots",
        lambda: ap.reshape_and_cache_flash(k, k, flash[0], flash[1], slots, "auto", one, one),
    )
    yield (
        "concat_and_cache_mla, int32 slots",
        lambda: ap.concat_and_cache_mla(
            normal(tokens, 512), normal(tokens, 64), zeros(blocks, size, 576), slots, "auto", one
        ),
    )
    yield (
        "indexer_k_quant_and_cache, int32 slots",
        lambda: ap.indexer_k_quant_and_cache(
            normal(tokens, 128), zeros(blocks, size, 132, kind=torch.uint8), slots, 128, "ue8m0"
        ),
    )
    yield (
        "indexer_k_quant_and_cache, block size 1, width 132",
        lambda: ap.indexer_k_quant_and_cache(
            normal(tokens, 128), zeros(48, 1, 132, kind=torch.uint8), slots, 128, "ue8m0"
        ),
    )
    yield (
        "reshape_and_cache, values in tiles",
        lambda: ap.reshape_and_cache(
            k, k, paged[0], zeros(blocks, 2, 2, 64, 8), slots, "auto", asm_layout=True
        ),
    )
    yield (
        "reshape_and_cache, values in tiles that have the shape of rows",
        lambda: ap.reshape_and_cache(k, k, *paged, slots, "auto", asm_layout=True),
    )
    yield (
        "reshape_and_cache_flash of far keys",
        lambda: ap.reshape_and_cache_flash(
            far(k[:2].contiguous()), k[:2], flash[0], flash[1], slots[:2], "auto", one, one
        ),
    )

    def fused(
        cache: torch.Tensor, other: torch.Tensor, made: torch.Tensor | None, tiles: bool
    ) -> Callable[[], Any]:
        def call() -> None:
            ap.fused_qk_norm_rope_cache_pts_quant_shuffle(
                normal(tokens, 6 * 64), normal(64), normal(64), normal(99, 64), ints(1, 2, 3, kind=torch.int64), tokens, 2, 2, 2,
                64, True, 1e-6, zeros(tokens, 2, 64), cache, other, slots.long(), 1.0, 1.0, made,
                None if made is None else made.clone(), made is not None, tiles, size, 16 // cache.element_size(),
            )  # fmt: skip

        return call

    name = "fused_qk_norm_rope_cache_pts_quant_shuffle"
    strided = zeros(blocks, size, 4, 64)[:, :, :2]
    yield f"{name}, strided caches", fused(strided, zeros(blocks, size, 4, 64)[:, :, :2], None, False)
    codes = [zeros(blocks, size, 2, 64).to(FP8) for _ in range(2)]
    yield f"{name}, 16-bit k_out, fp8 cache", fused(codes[0], codes[1], zeros(tokens, 2, 64), False)
    whole = [zeros(blocks, size, 2, 64) for _ in range(2)]
    yield f"{name}, tiles in a cache of four dims", fused(whole[0], whole[1], None, True)


def rows() -> Iterator[Form]:
    """Norms, rotations, activations, quantisation."""
    view = normal(33, 6144)[:, :4096].unflatten(-1, (32, 128))
    weight = normal(128)
    yield "rms_norm of a view", lambda: ap.rms_norm(view, weight, 1e-6)
    yield (
        "rmsnorm2d_fwd_with_add of a view",
        lambda: ap.rmsnorm2d_fwd_with_add(
            torch.empty_like(view), view, view.contiguous(), normal(33, 32, 128), weight, 1e-6
        ),
    )
    yield "per_token_quant_hip of a view", lambda: ap.per_token_quant_hip(view, None, FP8)
    f32, f32_weight = normal(3, 128, kind=torch.float32), normal(128, kind=torch.float32)
    yield "rms_norm of fp32", lambda: ap.rms_norm(f32, f32_weight, 1e-6)
    yield (
        "rmsnorm2d_fwd_with_add of fp32",
        lambda: ap.rmsnorm2d_fwd_with_add(
            torch.empty_like(f32), f32, f32.clone(), torch.empty_like(f32), f32_weight, 1e-6
        ),
    )
    yield (
        "rmsnorm2d_fwd(use_model_sensitive_rmsnorm=1)",
        lambda: ap.rmsnorm2d_fwd(normal(3, 128), weight, 1e-6, 1),
    )
    yield (
        "silu_and_mul of fp32 to 16 bits",
        lambda: ap.silu_and_mul(zeros(3, 64), normal(3, 128, kind=torch.float32)),
    )
    smooth = torch.rand(128).cuda() + 0.5
    yield (
        "smooth_per_token_scaled_quant to int8",
        lambda: ap.smooth_per_token_scaled_quant(
            zeros(3, 128, kind=torch.int8), normal(3, 128), zeros(3, 1, kind=torch.float32), smooth
        ),
    )
    yield (
        "smoothquant_fwd, y_scale of one dim",
        lambda: ap.smoothquant_fwd(
            zeros(3, 128, kind=torch.int8), normal(3, 128), smooth, zeros(3, kind=torch.float32)
        ),
    )
    asks = normal(3, 2, 2, 32).requires_grad_()
    yield (
        "rope_fwd that asks for a gradient",
        lambda: ap.rope_fwd(asks, normal(3, 1, 1, 16, kind=torch.float32), 0, True, False),
    )
    table = normal(99, 64)
    cos, sin = (each[:, None, None] for each in table.chunk(2, -1))
    x = normal(3, 1, 2, 64)
    yield (
        "rope_cached_positions_2c_fwd_impl of chunks of a table",
        lambda: ap.rope_cached_positions_2c_fwd_impl(
            torch.empty_like(x),
            torch.empty_like(x),
            x,
            x.clone(),
            cos,
            sin,
            ints(1, 2, 3, kind=torch.int64)[:, None],
            0,
            True,
            False,
        ),
    )
    yield (
        "rope_cached_2c_fwd_impl of chunks of a table",
        lambda: ap.rope_cached_2c_fwd_impl(
            torch.empty_like(x), torch.empty_like(x), x, x.clone(), cos[:3], sin[:3], 0, True, False
        ),
    )
    yield (
        "rope_cached_bwd_impl of chunks of a table",
        lambda: ap.rope_cached_bwd_impl(torch.empty_like(x), x, cos[:3], sin[:3], 0, True, False),
    )
    yield (
        "get_torch_quant(per_128x128)",
        lambda: ap.get_torch_quant(ap.QuantType.per_128x128)(normal(256, 256), quant_dtype=FP8),
    )


def products() -> Iterator[Form]:
    """Matrix products."""
    m, n, k = 3, 256, 256
    a, b = normal(m, k), normal(n, k)
    codes, weights = (torch.randint(-9, 9, (each, k)).to(torch.int8).cuda() for each in (m, n))
    rows, columns = torch.rand(m, 1).cuda(), torch.rand(n, 1).cuda()
    yield (
        "gemm_a8w8_blockscale of int8",
        lambda: ap.gemm_a8w8_blockscale(codes, weights, torch.rand(m, 2).cuda(), torch.rand(2, 2).cuda()),
    )
    yield (
        "gemm_a8w8_blockscale_bpreshuffle of int8",
        lambda: ap.gemm_a8w8_blockscale_bpreshuffle(
            codes, ap.shuffle_weight(weights), torch.rand(m, 2).cuda(), torch.rand(2, 2).cuda()
        ),
    )
    yield "gemm_a16w16, fp32 bias", lambda: ap.gemm_a16w16(a, b, normal(n, kind=torch.float32))
    yield "gemm_a16w16(activation)", lambda: ap.gemm_a16w16(a, b, activation="silu")
    yield (
        "gemm_a8w8, fp32 bias",
        lambda: ap.gemm_a8w8(codes, weights, rows, columns, normal(n, kind=torch.float32)),
    )
    yield (
        "gemm_a8w8_bpreshuffle, bias",
        lambda: ap.gemm_a8w8_bpreshuffle(
            codes.to(FP8), ap.shuffle_weight(weights.to(FP8)), rows, columns, normal(n)
        ),
    )
    for kind in (torch.float32, torch.float16):
        yield f"gemm_a16w16(otype={kind})", partial(ap.gemm_a16w16, a, b, otype=kind)
    yield (
        "gemm_a16w16_asm(bpreshuffle)",
        lambda: ap.gemm_a16w16_asm(a, ap.shuffle_weight(b), zeros(m, n), bpreshuffle=True),
    )
    yield (
        "gemm_a8w8_ASM of padded rows",
        lambda: ap.gemm_a8w8_ASM(
            zeros(m, k + 16, kind=torch.int8)[:, :k].copy_(codes), ap.shuffle_weight(weights, layout=(32, 16)), rows, columns,
            normal(n, kind=torch.float32),
        ),
    )  # fmt: skip
    yield (
        "batched_gemm_bf16 into a tensor",
        lambda: ap.batched_gemm_bf16(normal(2, m, k), normal(2, n, k), zeros(2, m, n)),
    )
    half = torch.float16
    yield (
        "deepgemm of fp16",
        lambda: ap.deepgemm(
            normal(2, m, k, kind=half),
            ap.shuffle_weight(normal(2, n, k, kind=half)),
            zeros(2, m, n, kind=half),
            ints(m, 1),
        ),
    )
    yield (
        "gemm_a8w8_bpreshuffle of far rows",
        lambda: ap.gemm_a8w8_bpreshuffle(
            far(codes[:2].contiguous()).view(FP8), ap.shuffle_weight(weights.to(FP8)), rows[:2], columns
        ),
    )


def attention() -> Iterator[Form]:
    """Attention, forward and backward."""
    q, k = normal(1, 5, 2, 64), normal(1, 7, 2, 64)
    yield "flash_attn_func(dropout_p=0.1)", lambda: ap.flash_attn_func(q, k, k, 0.1)
    yield "flash_attn_func(return_attn_probs)", lambda: ap.flash_attn_func(q, k, k, return_attn_probs=True)
    ends_q, ends_k, padded = ints(0, 3, 5), ints(0, 4, 7), ints(0, 4, 8)
    yield (
        "flash_attn_varlen_func(cu_seqlens_q_padded)",
        lambda: ap.flash_attn_varlen_func(
            normal(8, 2, 64),
            normal(7, 2, 64),
            normal(7, 2, 64),
            ends_q,
            ends_k,
            3,
            4,
            cu_seqlens_q_padded=padded,
        ),
    )
    pages = normal(6, 16, 2, 64)
    yield (
        "mha_batch_prefill_func(block_table)",
        lambda: ap.mha_batch_prefill_func(
            normal(5, 2, 64), pages, pages, ends_q, ints(0, 2, 4), ints(1, 3, 0, 5), 3, 30, causal=True,
            kv_last_page_lens=ints(9, 14), block_table=torch.tensor([[1, 3], [0, 5]]).int().cuda(), seqlen_k=ints(25, 30),
        ),
    )  # fmt: skip
    one = torch.ones(1).cuda()
    table = torch.tensor([[1, 3], [0, 5]]).int().cuda()

    def decode(query: torch.Tensor, cache: torch.Tensor, slopes: torch.Tensor | None, kind: str) -> Any:
        return ap.paged_attention_v1(
            torch.empty_like(query), None, query, cache, cache, 0.125, table, None, ints(25, 30), 30, slopes, kind, "NHD", 0.0,
            one, one,
        )  # fmt: skip

    slopes = torch.rand(2).cuda()
    yield "paged_attention_v1(alibi)", lambda: decode(normal(2, 2, 64), pages, slopes, "auto")
    yield (
        "paged_attention_v1, fp16 queries, fp8 cache",
        lambda: decode(normal(2, 2, 64, kind=torch.float16), pages.to(FP8), None, "fp8"),
    )

    def asm(queries: int, most: int, ends: torch.Tensor | None) -> Any:
        keys, values = normal(6, 1, 16, 16, 8), normal(6, 1, 2, 128, 8)
        return ap.pa_fwd_asm(
            normal(queries, 8, 128), keys, values, table, ints(25, 30), 2, most, qo_indptr=ends
        )

    yield "pa_fwd_asm(max_qlen=26), one query each", lambda: asm(2, 26, None)
    yield "pa_fwd_asm(max_qlen=26), qo_indptr", lambda: asm(40, 26, ints(0, 20, 40))

    def backward() -> Any:
        queries, keys, values = normal(1, 70, 2, 192), normal(1, 90, 2, 192), normal(1, 90, 2, 128)
        out, sums = ap.flash_attn_func(queries, keys, values, causal=True, return_lse=True)
        return ap.fmha_v3_bwd(
            normal(1, 70, 2, 128),
            queries,
            keys,
            values,
            out,
            sums,
            0.0,
            192**-0.5,
            True,
            -1,
            0,
            False,
            True,
            1,
        )

    yield "fmha_v3_bwd, 192/128, causal, 70 queries of 90 keys", backward


def samplers() -> Iterator[Form]:
    """Choices of tokens."""

    def greedy(columns: int) -> None:
        ap.greedy_sample(zeros(3, kind=torch.int32), normal(3, columns))

    for columns in (1024, 1000, 777, 16385):
        yield f"greedy_sample of {columns} columns", partial(greedy, columns)
    yield (
        "random_sample of 1024 columns",
        lambda: ap.random_sample(zeros(3, kind=torch.int32), normal(3, 1024), torch.ones(3).cuda()),
    )
    yield (
        "mixed_sample of 1024 columns",
        lambda: ap.mixed_sample(zeros(3, kind=torch.int32), normal(3, 1024), torch.ones(3).cuda()),
    )


def main() -> int:
    """Call every form."""
    for group in (routing, caches, mixtures, rows, products, attention, samplers):
        for name, call in group():
            try:
                call()
                torch.cuda.synchronize()
                found = "served"
            except Exception as error:  # noqa: BLE001  # the line says which
                found = f"{type(error).__name__}: {error}"
            print(json.dumps([name, found]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
