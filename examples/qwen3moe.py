"""A decoder layer of Qwen3-MoE as SGLang runs it: bf16, the heads and the experts of 235B-A22B, fewer columns."""

from __future__ import annotations

from typing import Final

import torch
from exact import parts
from exact import qwen3moe as exact
from step import Batch, Model, Weights, chosen_columns, doubled, drawn, linear, norm_weight, quiet, router
from torch import Tensor

import aiter_prebuilt as aiter

HEADS, KV_HEADS, WIDTH = 64, 4, 128
EXPERTS, CHOSEN = 128, 8
#: 4096 and 1536 in the model.
HIDDEN, INTER = 512, 64
EPSILON, THETA = 1e-6, 1000000.0
#: SGLang's pages have one key.
PAGE: Final = 1
SCALE: Final = WIDTH**-0.5
PART: Final = 256
SEEDS: Final = (3, 6, 7)


def weights(random: torch.Generator, index: int) -> Weights:
    """One layer's."""
    del index
    return {
        "input_norm": norm_weight(random, HIDDEN),
        "qkv": linear(random, (HEADS + 2 * KV_HEADS) * WIDTH, HIDDEN),
        "q_norm": norm_weight(random, WIDTH),
        "k_norm": norm_weight(random, WIDTH),
        "o": quiet(linear(random, HIDDEN, HEADS * WIDTH, 2.0), EXPERTS),
        "post_norm": norm_weight(random, HIDDEN, EXPERTS),
        "router": router(random, EXPERTS, HIDDEN),
        "gate_up": drawn(random, EXPERTS, 2 * INTER, HIDDEN, size=2.0 * HIDDEN**-0.5),
        "down": quiet(drawn(random, EXPERTS, HIDDEN, INTER, size=2.0 * INTER**-0.5), EXPERTS),
    }


class Qwen3MoeLayer:
    """Attention whose queries and keys have norms of their own, and a mixture of experts."""

    def __init__(self, weights: Weights, pages: int, longest: int) -> None:
        self.weights = weights
        self.keys, self.values = torch.zeros(2, pages, PAGE, KV_HEADS, WIDTH, dtype=torch.bfloat16)
        angles = parts.angles(longest, WIDTH, THETA)
        self.cos_sin = torch.cat([angles.cos(), angles.sin()], -1).bfloat16()
        self.one = torch.ones(1)
        # As SGLang does when it loads a model.
        self.gate_up, self.down = (
            aiter.shuffle_weight(weights[name], (16, 16)) for name in ("gate_up", "down")
        )

    def __call__(self, hidden: Tensor, residual: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the experts add, and the residual."""
        hidden, residual = add_norm(hidden, residual, self.weights["input_norm"])
        attended = self.attention(hidden, batch)
        hidden, residual = add_norm(attended, residual, self.weights["post_norm"])
        return self.experts(hidden), residual

    def attention(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Norms, rotation and the cache in one call; then over the cache."""
        tokens = len(hidden)
        qkv = aiter.tgemm.mm(hidden, self.weights["qkv"], None, otype=torch.bfloat16)
        q = hidden.new_empty(tokens, HEADS, WIDTH)
        aiter.fused_qk_norm_rope_cache_pts_quant_shuffle(
            qkv, self.weights["q_norm"], self.weights["k_norm"], self.cos_sin, batch.positions, tokens, HEADS, KV_HEADS,
            KV_HEADS, WIDTH, True, EPSILON, q, self.keys, self.values, batch.slots, 1.0, 1.0, None, None, False, False,
            PAGE, 8, WIDTH,
        )  # fmt: skip
        if batch.decodes:
            out = torch.empty_like(q)
            aiter.paged_attention_ragged(
                out, None, q, self.keys, self.values, SCALE, batch.page_starts, batch.page_list, batch.last_page, PAGE,
                -(-batch.most_keys // PART), None, "auto", "NHD", 0.0, self.one, self.one, None, PART,
            )  # fmt: skip
        else:
            out = aiter.mha_batch_prefill_func(
                q, self.keys.squeeze(1), self.values.squeeze(1), batch.starts, batch.page_starts, batch.page_list,
                batch.most_queries, batch.most_keys, causal=True, logits_soft_cap=0.0, window_size=(-1, -1),
            )  # fmt: skip
        return aiter.tgemm.mm(out.reshape(tokens, -1), self.weights["o"], None, otype=torch.bfloat16)

    def experts(self, hidden: Tensor) -> Tensor:
        """The eight likeliest of each token, by their shares."""
        logits = aiter.tgemm.mm(hidden, self.weights["router"], None, otype=torch.bfloat16)
        shares, chosen = aiter.fused_topk(hidden, logits, CHOSEN, True)
        return aiter.fused_moe(
            hidden_states=hidden, w1=self.gate_up, w2=self.down, topk_weight=shares, topk_ids=chosen, expert_mask=None,
            activation=0, quant_type=0, moe_sorting_dispatch_policy=2,
        )  # fmt: skip


def add_norm(hidden: Tensor, residual: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of the sum, and the sum."""
    if residual is None:
        return aiter.rmsnorm2d_fwd(hidden, weight, EPSILON), hidden
    out, total = torch.empty_like(hidden), torch.empty_like(hidden)
    aiter.rmsnorm2d_fwd_with_add(out, hidden, residual, total, weight, EPSILON)
    return out, total


def pattern(random: torch.Generator, tokens: int) -> Tensor:
    """Which experts each token is for."""
    return chosen_columns(random, tokens, EXPERTS, CHOSEN)


#: Norm, projection, norms of heads and rotation, shares, attention, projection, sum; then norm, logits, gate, each expert's,
#: their sum, and shares, which move by as many roundings as logits are large.
MODEL: Final = Model(
    HIDDEN,
    EPSILON,
    PAGE,
    (5, 17, 40),
    (7, 12 + 4),
    weights,
    Qwen3MoeLayer,
    doubled,
    exact.layer,
    SEEDS,
    pattern,
)
