"""A decoder layer of Llama 3 as vLLM runs it (``VLLM_ROCM_USE_AITER=1``, ROCM_AITER_FA): bf16, the heads of 8B, fewer
columns between them.
"""

from __future__ import annotations

from typing import Final

import torch
from exact import llama3 as exact
from exact import parts
from step import Batch, Model, Weights, doubled, linear, norm_weight
from torch import Tensor

import aiter_prebuilt as aiter

HEADS, KV_HEADS, WIDTH = 32, 8, 128
#: 4096 and 14336 in the model.
HIDDEN, INTER = 512, 1792
EPSILON, THETA = 1e-5, 500000.0
PAGE: Final = 16
SCALE: Final = WIDTH**-0.5
_NEOX: Final = 0
SEEDS: Final = (3, 5, 6)


def weights(random: torch.Generator, index: int) -> Weights:
    """One layer's."""
    del index
    return {
        "input_norm": norm_weight(random, HIDDEN),
        "qkv": linear(random, (HEADS + 2 * KV_HEADS) * WIDTH, HIDDEN, 1.4),
        "o": linear(random, HIDDEN, HEADS * WIDTH, 2.0),
        "post_norm": norm_weight(random, HIDDEN),
        "gate_up": linear(random, 2 * INTER, HIDDEN, 1.4),
        "down": linear(random, HIDDEN, INTER),
    }


class Llama3Layer:
    """Attention and MLP, each behind a norm that adds to the residual first."""

    def __init__(self, weights: Weights, pages: int, longest: int) -> None:
        self.weights = weights
        self.keys, self.values = torch.zeros(2, pages, PAGE, KV_HEADS, WIDTH, dtype=torch.bfloat16)
        angles = parts.angles(longest, WIDTH, THETA)
        self.cos, self.sin = (
            table.bfloat16().reshape(longest, 1, 1, -1) for table in (angles.cos(), angles.sin())
        )
        self.one = torch.ones(1)

    def __call__(self, hidden: Tensor, residual: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the MLP adds, and the residual."""
        hidden, residual = add_norm(hidden, residual, self.weights["input_norm"])
        attended = self.attention(hidden, batch)
        hidden, residual = add_norm(attended, residual, self.weights["post_norm"])
        return self.mlp(hidden), residual

    def attention(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Prompts over their own keys, later tokens over the cache."""
        tokens = len(hidden)
        qkv = aiter.tgemm.mm(hidden, self.weights["qkv"], None)
        q, k, v = qkv.reshape(tokens, -1, WIDTH).split((HEADS, KV_HEADS, KV_HEADS), 1)
        turned = (q[None], k[None])
        aiter.rope_cached_positions_2c_fwd_impl(
            *turned, *turned, self.cos, self.sin, batch.positions[None], _NEOX, True, False
        )
        aiter.reshape_and_cache_flash(k, v, self.keys, self.values, batch.slots, "auto", self.one, self.one)
        out = hidden.new_empty(tokens, HEADS, WIDTH)
        if batch.decodes:
            aiter.paged_attention_v1(
                out, None, q.contiguous(), self.keys, self.values, SCALE, batch.pages, batch.starts, batch.lengths,
                batch.most_keys, None, "auto", "NHD", 0.0, self.one, self.one, None, 256, 1, 0,
            )  # fmt: skip
        else:
            aiter.flash_attn_varlen_func(
                q=q, k=k, v=v, cu_seqlens_q=batch.starts, cu_seqlens_k=batch.starts, max_seqlen_q=batch.most_queries,
                max_seqlen_k=batch.most_keys, softmax_scale=SCALE, causal=True, window_size=(-1, -1), out=out,
            )  # fmt: skip
        return aiter.tgemm.mm(out.reshape(tokens, -1), self.weights["o"], None)

    def mlp(self, hidden: Tensor) -> Tensor:
        """down(silu(gate) * up)."""
        both = aiter.tgemm.mm(hidden, self.weights["gate_up"], None)
        gated = both.new_empty(len(both), INTER)
        aiter.silu_and_mul(gated, both)
        return aiter.tgemm.mm(gated, self.weights["down"], None)


def add_norm(hidden: Tensor, residual: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of the sum, and the sum."""
    if residual is None:
        return aiter.rms_norm(hidden, weight, EPSILON), hidden
    out, total = torch.empty_like(hidden), torch.empty_like(hidden)
    aiter.rmsnorm2d_fwd_with_add(out, hidden, residual, total, weight, EPSILON)
    return out, total


#: Norm, projection, rotation, shares, attention, projection, sum; then norm, projection, gate, projection.
MODEL: Final = Model(
    HIDDEN, EPSILON, PAGE, (5, 17, 40), (7, 11), weights, Llama3Layer, doubled, exact.layer, SEEDS
)
