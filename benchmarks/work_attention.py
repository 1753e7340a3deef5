"""Attention: AITER's objects beside our kernels for the same work.

Ours are asked for in fp16, which AITER's objects do not take: the same instructions as in bf16, and the choice is then ours.
"""

from __future__ import annotations

from typing import Final

from work_tensors import Call, Tensors


def dense(tensors: Tensors, *, aiter: bool, causal: bool, depth: int = 128) -> None:
    """1,024 queries and keys of eight heads, four times: enough for tiles of 128 queries on each compute unit."""
    import aiter_prebuilt

    q, k, v = (tensors.normal("bf16" if aiter else "f16", 4, 1024, 8, depth) for _ in range(3))
    tensors.bytes += tensors.bytes // 3  # out
    if aiter:
        aiter_prebuilt.fmha_v3_fwd(q, k, v, 0.0, depth**-0.5, causal, -1, -1, False, False, 0)
    else:
        aiter_prebuilt.flash_attn_func(q, k, v, causal=causal)


def ragged(tensors: Tensors, *, aiter: bool) -> None:
    """Prompts of 384 and 128 tokens, two heads."""
    import aiter_prebuilt

    q, k, v = (tensors.normal("bf16" if aiter else "f16", 512, 2, 128) for _ in range(3))
    tensors.bytes += tensors.bytes // 3  # out
    starts = tensors.whole([0, 384, 512])
    if aiter:
        options = (384, 384, 0, 0.0, 128**-0.5, 0.0, False, True, -1, -1, False, False, 0)
        aiter_prebuilt.fmha_v3_varlen_fwd(q, k, v, starts, starts, *options)
    else:
        aiter_prebuilt.flash_attn_varlen_func(q, k, v, starts, starts, 384, 384, causal=True)


def decode(tensors: Tensors, *, aiter: bool, divided: bool = False) -> None:
    """One query of 16 heads on two for each of four sequences of 2,048 keys, pages of 16."""
    import numpy as np

    import aiter_prebuilt

    pages = 128
    q, out = (tensors.normal("bf16", 4, 16, 128) for _ in range(2))
    table, counts = tensors.whole(np.arange(4 * pages).reshape(4, pages)), tensors.whole([16 * pages] * 4)
    if aiter:
        k, v = (
            tensors.normal("bf16", 4 * pages, 2, 16, 16, 8),
            tensors.normal("bf16", 4 * pages, 2, 2, 128, 8),
        )
        aiter_prebuilt.pa_fwd_asm(q, k, v, table, counts, pages, 1, None, None, out)
        return
    k, v = (tensors.normal("bf16", 4 * pages, 16, 2, 128) for _ in range(2))
    one = tensors.normal("f32", 1)
    longest = 16 * pages if divided else 16
    words = (128**-0.5, table, None, counts, longest, None, "auto", "NHD", 0.0, one, one)
    aiter_prebuilt.paged_attention_v1(out, None, q, k, v, *words)


def latent(tensors: Tensors, *, aiter: bool) -> None:
    """One query of 16 heads for each of four sequences of 1,024 keys of 576 numbers."""
    import numpy as np

    import aiter_prebuilt

    kind, keys = "bf16" if aiter else "f16", 1024
    q, out = tensors.normal(kind, 4, 16, 576), tensors.normal(kind, 4, 16, 512)
    cache = tensors.normal(kind, 4 * keys, 1, 1, 576)
    rows, starts = tensors.whole(range(5)), tensors.whole(np.arange(5) * keys)
    pages, last = tensors.whole(range(4 * keys)), tensors.whole([1] * 4)
    aiter_prebuilt.mla_decode_fwd(q, cache, out, rows, starts, pages, last, 1, sm_scale=576**-0.5)


def backward(tensors: Tensors, *, aiter: bool) -> None:
    """The gradients of 256 queries and keys of two heads."""
    import aiter_prebuilt

    out, q, k, v, grad = (tensors.normal("bf16", 1, 256, 2, 128) for _ in range(5))
    lse = tensors.normal("f32", 1, 2, 256)
    tensors.bytes += 3 * 256 * 2 * 128 * 2  # the gradients
    words = (grad, q, k, v, out, lse, 0.0, 128**-0.5, True, -1, -1)
    if aiter:
        aiter_prebuilt.fmha_v3_bwd(*words, False, True, 1)
    else:
        aiter_prebuilt.mha_bwd(*words, True)


#: What is asked -> who answers -> the call.
ATTENTION: Final[dict[str, dict[str, Call]]] = {
    "forward, 1024 x 1024, D 128": {
        "AITER's": lambda made: dense(made, aiter=True, causal=False),
        "ours": lambda made: dense(made, aiter=False, causal=False),
    },
    "forward, causal, 1024 x 1024, D 128": {
        "AITER's": lambda made: dense(made, aiter=True, causal=True),
        "ours": lambda made: dense(made, aiter=False, causal=True),
    },
    "prompts of 384 and 128, D 128": {
        "AITER's": lambda made: ragged(made, aiter=True),
        "ours": lambda made: ragged(made, aiter=False),
    },
    "decoding, 4 x 2048 keys, 16 heads on 2": {
        "AITER's": lambda made: decode(made, aiter=True),
        "ours": lambda made: decode(made, aiter=False),
        "ours, divided": lambda made: decode(made, aiter=False, divided=True),
    },
    "latent decoding, 4 x 1024 keys, 16 heads": {
        "AITER's": lambda made: latent(made, aiter=True),
        "ours": lambda made: latent(made, aiter=False),
    },
    "gradients, causal, 256 x 256, D 128": {
        "AITER's": lambda made: backward(made, aiter=True),
        "ours": lambda made: backward(made, aiter=False),
    },
}
