"""Results of attention, its gradients and recurrences, as AITER's Python of both trees allocates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from emulator.composed_calls.attention import starts
from emulator.composed_calls.place import PACKAGE, Place
from emulator.result_shapes import BF16, F32, I32, U8, Form, Result, like


def attention(place: Place) -> Iterator[Form]:
    """Results of attention are contiguous whatever the queries are; sizes of V count."""
    source = "ops/mha.py"
    none = Result((0,), BF16)
    for wide in (64, 32):
        q, k, v = place.normal(2, 5, 4, 64), place.normal(2, 7, 2, 64), place.normal(2, 7, 2, wide)
        out, lse = Result((2, 5, 4, wide), BF16), Result((2, 4, 5), F32)
        for queries in (q, place.normal(2, 4, 5, 64).transpose(1, 2)):
            yield Form(
                "flash_attn_func",
                lambda q=queries, k=k, v=v: PACKAGE.flash_attn_func(q, k, v),
                (out,),
                source,
            )
            yield Form(
                "flash_attn_func",
                lambda q=queries, k=k, v=v: PACKAGE.flash_attn_func(q, k, v, return_lse=True),
                (out, lse),
                source,
            )
        yield Form(
            "flash_attn_func", lambda q=q, k=k, v=v: PACKAGE.flash_attn_func(q, k, v, return_lse=True, return_attn_probs=True),
            (out, lse, none), source,
        )  # fmt: skip
        flat = tuple(each.flatten(0, 1) for each in (q, k, v))
        at = starts(place, [5, 5]), starts(place, [7, 7])
        yield Form(
            "flash_attn_varlen_func", lambda f=flat, a=at: PACKAGE.flash_attn_varlen_func(*f, *a, 5, 7, return_lse=True),
            (Result((10, 4, wide), BF16), Result((4, 10), F32)), source,
        )  # fmt: skip
        state = Result((2,), torch.int64)
        yield Form(
            "mha_fwd", lambda q=q, k=k, v=v: PACKAGE.mha_fwd(q, k, v, 0.0, 0.125, False, -1, -1, True, False),
            (out, lse, none, state), source,
        )  # fmt: skip
        yield Form(
            "mha_fwd", lambda q=q, k=k, v=v: PACKAGE.mha_fwd(q, k, v, 0.0, 0.125, False, -1, -1, False, False),
            (out, Result((0,), F32), none, state), source,
        )  # fmt: skip
        yield Form(
            "mha_fwd", lambda q=q, k=k, v=v: PACKAGE.mha_fwd(q, k, v, 0.5, 0.125, False, -1, -1, True, True),
            (out, lse, Result((2, 4, 5, 7), U8), state), source,
        )  # fmt: skip
        yield Form(
            "mha_varlen_fwd",
            lambda f=flat, a=at: PACKAGE.mha_varlen_fwd(*f, *a, 5, 7, 0, 0.0, 0.125, 0.0, False, False, -1, -1, True, False),
            (Result((10, 4, wide), BF16), Result((4, 10), F32), none, state), source,
        )  # fmt: skip
    q, k, v = (place.normal(2, 130, 2, 128) for _ in range(3))
    for asked in (False, True):
        lse = Result((2, 2, 130) if asked else (0,), F32)
        yield Form(
            "fmha_v3_fwd", lambda a=asked: PACKAGE.fmha_v3_fwd(q, k, v, 0.0, 0.125, False, -1, -1, a, False, 1),
            (Result((2, 130, 2, 128), BF16), lse, none, state), source,
        )  # fmt: skip
        at = starts(place, [130, 130])
        rows = [each.flatten(0, 1) for each in (q, k, v)]
        lse = Result((2, 260) if asked else (0,), F32)
        out = Result((260, 2, 128), BF16)
        yield Form(
            "fmha_v3_varlen_fwd",
            lambda a=asked, r=rows, at=at: PACKAGE.fmha_v3_varlen_fwd(
                *r, at, at, 130, 130, 0, 0.0, 0.125, 0.0, False, False, -1, -1, a, False, 1
            ),
            (out, lse, none, state), source,
        )  # fmt: skip
        pages = torch.arange(260, dtype=I32, device=place.device)
        yield Form(
            "mha_batch_prefill",
            lambda a=asked, r=rows, at=at, p=pages: PACKAGE.mha_batch_prefill(
                *r, at, at, p, 130, 130, 0.0, 0.125, 0.0, False, False, -1, -1, -1, a, False
            ),
            (out, lse, none, state), source,
        )  # fmt: skip
    yield from gradients(place)
    yield from paged(place)
    coded = [place.normal(2, 5, 2, 64).to(place.fp8) for _ in range(3)]
    scale = torch.ones(1, device=place.device)
    yield Form(
        "flash_attn_fp8_pertensor_func", lambda: PACKAGE.flash_attn_fp8_pertensor_func(*coded, scale, scale, scale),
        (Result((2, 5, 2, 64), BF16),), source,
    )  # fmt: skip


def gradients(place: Place) -> Iterator[Form]:
    """Gradients are contiguous where what they are of is; of transposed tensors AITER's lie as those do, and ours do not."""
    q, k, v = (place.normal(2, 130, heads, 128) for heads in (4, 2, 2))
    made = (like(q), like(k), like(v), Result((2, 4, 130), F32))

    def called(name: str, *ends: Any) -> Any:
        out, lse = PACKAGE.flash_attn_func(q, k, v, return_lse=True)
        return getattr(PACKAGE, name)(
            torch.ones_like(out), q, k, v, out, lse, 0.0, 0.125, False, -1, -1, *ends
        )

    yield Form("mha_bwd", lambda: called("mha_bwd", False), made, "ops/mha.py")
    yield Form("fmha_v3_bwd", lambda: called("fmha_v3_bwd", False, True, 1), made, "ops/mha.py")


def paged(place: Place) -> Iterator[Form]:
    """Attention over pages: the form of the queries."""
    keys, values = place.normal(4, 2, 16, 16, 8), place.normal(4, 2, 2, 128, 8)
    table = torch.arange(4, dtype=I32, device=place.device).view(2, 2)
    counts = torch.full((2,), 20, dtype=I32, device=place.device)
    queries = place.normal(2, 4, 128)
    yield Form(
        "pa_fwd_asm",
        lambda: PACKAGE.pa_fwd_asm(queries, keys, values, table, counts, 2),
        (like(queries),),
        "ops/attention.py",
    )
    q, rows = place.normal(10, 4, 64), place.normal(14, 2, 64)
    at, to = starts(place, [5, 5]), starts(place, [7, 7])
    pages = torch.arange(14, dtype=I32, device=place.device)
    out, lse, none = Result((10, 4, 64), BF16), Result((4, 10), F32), Result((0,), BF16)
    for asked, results in (
        ({}, (out,)),
        ({"return_lse": True}, (out, lse)),
        ({"return_lse": True, "return_attn_probs": True}, (out, lse, none)),
    ):
        yield Form(
            "mha_batch_prefill_func", lambda a=asked: PACKAGE.mha_batch_prefill_func(q, rows, rows, at, to, pages, 5, 7, **a),
            results, "ops/mha.py",
        )  # fmt: skip
    coded = [place.normal(10, 2, 64).to(place.fp8) for _ in range(3)]
    scale = torch.ones(1, device=place.device)
    yield Form(
        "flash_attn_varlen_fp8_pertensor_func",
        lambda: PACKAGE.flash_attn_varlen_fp8_pertensor_func(*coded, scale, scale, scale, at, at, 5, 5),
        (Result((10, 2, 64), BF16),), "ops/mha.py",
    )  # fmt: skip


def recurrences(place: Place) -> Iterator[Form]:
    """Gated delta rules: the state is fp32, and there when it is asked for."""
    q, k = place.normal(1, 6, 2, 64), place.normal(1, 6, 2, 64)
    v, beta = place.normal(1, 6, 4, 64), place.normal(1, 6, 4).sigmoid()
    g = -place.normal(1, 6, 4, kind=F32).abs()
    state = Result((1, 4, 64, 64), F32)
    for asked in (False, True):
        results = (like(v), state if asked else None)
        source = "ops/triton/gated_delta_net/gated_delta_rule.py"
        yield Form(
            "chunk_gated_delta_rule",
            lambda a=asked: PACKAGE.chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=a),
            results,
            source,
        )
        yield Form(
            "fused_recurrent_gated_delta_rule",
            lambda a=asked: PACKAGE.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, output_final_state=a),
            results, source,
        )  # fmt: skip
    one, two = place.normal(5, 256), place.normal(5, 384)[:, :128]
    weights = place.normal(256), place.normal(128)
    yield Form(
        "_fused_qk_rmsnorm", lambda: PACKAGE._fused_qk_rmsnorm(None, one, weights[0], 1e-6, None, two, weights[1], 1e-6),
        (like(one), like(two)), "ops/fused_qk_norm_rope_cache_quant.py",
    )  # fmt: skip


def others(place: Place) -> Iterator[Form]:
    """Convolution, gates, logits and samples."""
    x = place.normal(12, 64).T
    states = torch.zeros(3, 64, 3, dtype=BF16, device=place.device)
    yield Form(
        "causal_conv1d_fn", lambda: PACKAGE.causal_conv1d_fn(x, place.normal(64, 4), None, states, starts(place, [5, 7])),
        (like(x),), "ops/triton/conv/causal_conv1d.py",
    )  # fmt: skip
    a, b = place.normal(5, 8), place.normal(5, 8)
    yield Form(
        "fused_gdn_gating_and_sigmoid",
        lambda: PACKAGE.fused_gdn_gating_and_sigmoid(place.normal(8, kind=F32), a, b, place.normal(8, kind=F32)),
        (like(a, F32), like(b, F32)), "ops/triton/_triton_kernels/gated_delta_rule/prefill/fused_gdn_gating_prefill.py",
    )  # fmt: skip
    q, kv = place.normal(4, 32, 128).to(place.fp8), place.normal(9, 128).to(place.fp8)
    ends = torch.full((4,), 9, dtype=I32, device=place.device)
    yield Form(
        "fp8_mqa_logits",
        lambda: PACKAGE.fp8_mqa_logits(q, kv, torch.ones(9, device=place.device), place.normal(4, 32, kind=F32), ends - 9, ends),
        (Result((4, 9), F32, None),), "ops/triton/attention/fp8_mqa_logits.py",
    )  # fmt: skip
    odds = place.normal(5, 64, kind=F32).softmax(-1)
    yield Form(
        "top_k_renorm_probs",
        lambda: PACKAGE.top_k_renorm_probs(odds, None, 4),
        (Result((5, 64), F32),),
        "ops/sampling.py",
    )
    draw = torch.Generator(device=place.device)
    for name, given in (
        ("top_p_sampling_from_probs", (None, None, 0.5)),
        ("top_k_top_p_sampling_from_probs", (None, None, 4, None, 0.5)),
    ):
        yield Form(
            name,
            lambda n=name, g=given: getattr(PACKAGE, n)(odds, *g, True, generator=draw),
            (Result((5,), I32),),
            "ops/sampling.py",
        )
