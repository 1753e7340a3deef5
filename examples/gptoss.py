"""A decoder layer of gpt-oss as vLLM runs it: bf16 with biases and sinks, every other layer over a window, experts in MXFP4.

The heads and the experts of 120b, fewer columns, with zeros behind them where vLLM puts some. Of fewer than 256 tokens at once,
as here, AITER leaves the experts' inputs in bf16 on both targets.
"""

from __future__ import annotations

from typing import Final

import torch
from exact import gptoss as exact
from step import Batch, Model, Weights, chosen_columns, drawn, linear, norm_weight, quiet, router
from torch import Tensor

import aiter_prebuilt as aiter

HEADS, KV_HEADS, WIDTH = 64, 8, 64
EXPERTS, CHOSEN = 128, 4
#: 2880 in the model, both, which are 3072 with what is behind them.
HIDDEN, INTER = 480, 192
PADDED, INTER_PADDED = 512, 256
GROUP: Final = 32
EPSILON, WINDOW, LIMIT = 1e-5, 128, 7.0
PAGE: Final = 16
SCALE: Final = WIDTH**-0.5
SEEDS: Final = (1, 5, 14)
_SWIGLU, _PER_1X32 = 2, 3


def weights(random: torch.Generator, index: int) -> Weights:
    """One layer's; every other one has a window."""
    down, down_scale = mxfp4(random, HIDDEN - EXPERTS, INTER, PADDED, INTER_PADDED)
    gate, up = (mxfp4(random, INTER, HIDDEN, INTER_PADDED, PADDED) for _ in range(2))
    biases = torch.zeros(EXPERTS, 2, INTER_PADDED), torch.zeros(EXPERTS, PADDED)
    biases[0][..., :INTER] = torch.randn(EXPERTS, 2, INTER, generator=random) * 0.3
    biases[1][:, : HIDDEN - EXPERTS] = torch.randn(EXPERTS, HIDDEN - EXPERTS, generator=random) * 0.3
    o_bias = drawn(random, HIDDEN, size=0.3)
    o_bias[-EXPERTS:] = 0
    return {
        "window": torch.tensor(WINDOW if index % 2 == 0 else -1),
        "input_norm": norm_weight(random, HIDDEN),
        "qkv": linear(random, (HEADS + 2 * KV_HEADS) * WIDTH, HIDDEN),
        "qkv_bias": drawn(random, (HEADS + 2 * KV_HEADS) * WIDTH, size=0.3),
        "sinks": torch.randn(HEADS, generator=random) * 2,
        "o": quiet(linear(random, HIDDEN, HEADS * WIDTH, 3.0), EXPERTS),
        "o_bias": o_bias,
        "post_norm": norm_weight(random, HIDDEN, EXPERTS),
        "router": router(random, EXPERTS, HIDDEN),
        "router_bias": drawn(random, EXPERTS, size=0.02),
        "gate_up": torch.cat([gate[0], up[0]], 1),
        "gate_up_scale": torch.cat([gate[1], up[1]], 1),
        "gate_up_bias": biases[0].reshape(EXPERTS, -1),
        "down": down,
        "down_scale": down_scale,
        "down_bias": biases[1],
    }


def mxfp4(
    random: torch.Generator, rows: int, columns: int, all_rows: int, all_columns: int
) -> tuple[Tensor, Tensor]:
    """Of every expert pairs of codes, zeros behind the rows and columns that count, and a scale for each 32 of a row."""
    codes = torch.randint(16, (EXPERTS, all_rows, all_columns), generator=random, dtype=torch.uint8)
    codes[:, rows:] = 0
    codes[:, :, columns:] = 0
    scales = torch.randint(
        121, 124, (EXPERTS, all_rows, all_columns // GROUP), generator=random, dtype=torch.uint8
    )
    return codes[..., ::2] | codes[..., 1::2] << 4, scales


class GptOssLayer:
    """Attention with sinks, and a mixture of experts."""

    def __init__(self, weights: Weights, pages: int, longest: int) -> None:
        self.weights = weights
        window = int(weights["window"])
        self.window = (window - 1, 0) if window > 0 else (-1, -1)
        self.keys, self.values = torch.zeros(2, pages, PAGE, KV_HEADS, WIDTH, dtype=torch.bfloat16)
        cos, sin = exact.turns(longest)
        self.cos_sin = torch.cat([cos, sin], -1).bfloat16()
        # As vLLM does when it loads a model: rows of gate and of up take turns.
        self.gate_up = aiter.shuffle_weight_a16w4(weights["gate_up"], 16, True)
        self.down = aiter.shuffle_weight_a16w4(weights["down"], 16, False)
        self.gate_up_scale, self.down_scale = (
            aiter.shuffle_scale_a16w4(weights[name].reshape(-1, weights[name].shape[-1]), EXPERTS, turns)
            for name, turns in (("gate_up_scale", True), ("down_scale", False))
        )

    def __call__(self, hidden: Tensor, residual: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the experts add, and the residual."""
        w = self.weights
        if residual is None:
            hidden, residual = aiter.rms_norm(hidden, w["input_norm"], EPSILON), hidden
        else:
            out, total = torch.empty_like(hidden), torch.empty_like(hidden)
            aiter.rmsnorm2d_fwd_with_add(out, hidden, residual, total, w["input_norm"], EPSILON)
            hidden, residual = out, total
        attended = self.attention(hidden, batch)
        # Experts take whole tiles of columns.
        padded, residual = aiter.fused_add_rmsnorm_pad(
            attended, w["post_norm"], EPSILON, residual, x_pad_to_multiple=256
        )
        return self.experts(padded), residual

    def attention(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Rotation and cache in one call, prompts and later tokens alike over the cache."""
        tokens, w = len(hidden), self.weights
        qkv = aiter.gemm_a16w16(hidden, w["qkv"], w["qkv_bias"]).reshape(tokens, -1, WIDTH)
        q, k, v = qkv.split((HEADS, KV_HEADS, KV_HEADS), 1)
        cos, sin = self.cos_sin.chunk(2, -1)
        aiter.fused_qk_rope_reshape_and_cache(
            q, k, v, self.keys, self.values, batch.slots, batch.positions, cos, sin, None, None, True, flash_layout=True,
            apply_scale=False, q_out=q, k_out=k, output_zeros=False,
        )  # fmt: skip
        out = hidden.new_empty(tokens, HEADS, WIDTH)
        aiter.unified_attention(
            q=q, k=self.keys, v=self.values, out=out, cu_seqlens_q=batch.starts, max_seqlen_q=batch.most_queries,
            seqused_k=batch.lengths, max_seqlen_k=batch.most_keys, softmax_scale=SCALE, causal=True, alibi_slopes=None,
            window_size=self.window, block_table=batch.pages, softcap=0.0, q_descale=None, k_descale=None, v_descale=None,
            sinks=w["sinks"],
        )  # fmt: skip
        return aiter.gemm_a16w16(out.reshape(tokens, -1), w["o"], w["o_bias"])

    def experts(self, padded: Tensor) -> Tensor:
        """The four likeliest of each token, by their shares."""
        tokens, w = len(padded), self.weights
        logits = aiter.gemm_a16w16(padded[:, :HIDDEN], w["router"], w["router_bias"])
        shares = torch.empty(tokens, CHOSEN)
        chosen, order = torch.empty(2, tokens, CHOSEN, dtype=torch.int32)
        aiter.topk_softmax(shares, chosen, order, logits, True, 0, "")
        added = aiter.fused_moe(
            padded, self.gate_up, self.down, shares, chosen, None, _SWIGLU, _PER_1X32, False, self.gate_up_scale,
            self.down_scale, None, None, num_local_tokens=None, dtype=torch.bfloat16, hidden_pad=PADDED - HIDDEN,
            intermediate_pad=INTER_PADDED - INTER, bias1=w["gate_up_bias"], bias2=w["down_bias"],
            moe_sorting_dispatch_policy=0, swiglu_limit=LIMIT, gate_mode="interleave",
        )  # fmt: skip
        return added[:, :HIDDEN].contiguous()


def pattern(random: torch.Generator, tokens: int) -> Tensor:
    """Which experts each token is for."""
    return chosen_columns(random, tokens, EXPERTS, CHOSEN)


#: Norm, projection, rotation, shares, attention, projection, sum; then norm, logits, gate, each expert's, their sum,
#: and shares, which move by as many roundings as logits are large.
MODEL: Final = Model(
    HIDDEN,
    EPSILON,
    PAGE,
    (5, 17, 140),
    (7, 12 + 4),
    weights,
    GptOssLayer,
    exact.weights,
    exact.layer,
    SEEDS,
    pattern,
    (0, 1),
)
