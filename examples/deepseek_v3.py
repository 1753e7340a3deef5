"""A decoder layer of DeepSeek-V3 as vLLM runs it: latent attention, and products in fp8 with a scale for each block.

The heads and the experts of the model, fewer columns between them. Prompts take keys and values out of the latent rows; for later
tokens the two products are absorbed into queries and results, and attention is over the latent rows themselves.
"""

from __future__ import annotations

from typing import Final

import torch
from exact import deepseek_v3 as exact
from step import Batch, Model, Weights, chosen_columns, drawn, fp8, norm_weight, quiet, router
from torch import Tensor

import aiter_prebuilt as aiter

HEADS, NOPE, ROPE, WIDTH = 128, 128, 64, 128
LATENT: Final = 512
EXPERTS, CHOSEN, GROUPS, BEST_GROUPS = 256, 8, 8, 4
SHARE: Final = 2.5
#: 7168, 1536 and 2048 in the model.
HIDDEN, Q_LATENT, INTER = 512, 256, 128
EPSILON: Final = 1e-6
PAGE: Final = 1
BLOCK: Final = 128
SEEDS: Final = (1, 3, 5)
_NEIGHBOURS, _PER_1X128, _PER_128X128 = 1, 4, 5


def weights(random: torch.Generator, index: int) -> Weights:
    """One layer's."""
    del index
    made = {
        "input_norm": norm_weight(random, HIDDEN),
        "q_norm": norm_weight(random, Q_LATENT),
        "kv_norm": norm_weight(random, LATENT),
        "post_norm": norm_weight(random, HIDDEN, EXPERTS),
        "router": router(random, EXPERTS, HIDDEN),
        "bias": torch.randn(EXPERTS, generator=random) * 0.002,
    }
    shapes: dict[str, tuple[tuple[int, ...], float]] = {
        "qkv_a": ((Q_LATENT + LATENT + ROPE, HIDDEN), 1.0), "q_b": ((HEADS * (NOPE + ROPE), Q_LATENT), 1.0),
        "kv_b": ((HEADS * (NOPE + WIDTH), LATENT), 1.0), "o": ((HIDDEN, HEADS * WIDTH), 1.5),
        "shared_gate_up": ((2 * INTER, HIDDEN), 1.4), "shared_down": ((HIDDEN, INTER), 0.5),
        "gate_up": ((EXPERTS, 2 * INTER, HIDDEN), 1.4), "down": ((EXPERTS, HIDDEN, INTER), 0.5),
    }  # fmt: skip
    for name, (shape, size) in shapes.items():
        weight = drawn(random, *shape, size=size * shape[-1] ** -0.5)
        if name in ("o", "shared_down", "down"):
            quiet(weight, EXPERTS)
        made[name], made[f"{name}_scale"] = blocks(weight)
    return made


def blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Codes in fp8, and a scale for each block of 128 x 128: here a power of two, so that bf16 has what they mean."""
    rows, columns = (-(-size // BLOCK) for size in weight.shape[-2:])
    largest = torch.zeros(*weight.shape[:-2], rows, columns)
    for row in range(rows):
        for column in range(columns):
            part = weight[..., row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]
            largest[..., row, column] = part.float().abs().amax((-2, -1))
    scales = torch.exp2(torch.ceil(torch.log2(largest.clamp(min=2.0**-20) / torch.finfo(fp8()).max)))
    return (weight.float() / exact.spread(scales, weight.shape)).to(fp8()), scales


class DeepSeekV3Layer:
    """Latent attention, a mixture of experts, and one that all tokens share."""

    def __init__(self, weights: Weights, pages: int, longest: int) -> None:
        self.weights = weights
        # The assembly reads page 0 for keys behind the end of a context: it must be finite.
        self.latent = torch.zeros(pages, PAGE, LATENT + ROPE, dtype=torch.bfloat16)
        turn = exact.angles(longest)
        self.cos, self.sin = (
            table.bfloat16().reshape(longest, 1, 1, -1) for table in (turn.cos(), turn.sin())
        )
        self.one = torch.ones(1)
        # As vLLM does when it loads a model: products for the absorbed form, experts in the order of the kernels.
        kv_b = (
            exact.meant(weights["kv_b"], weights["kv_b_scale"])
            .bfloat16()
            .reshape(HEADS, NOPE + WIDTH, LATENT)
        )
        self.to_keys, self.to_values = (
            kv_b[:, :NOPE].transpose(1, 2).contiguous(),
            kv_b[:, NOPE:].contiguous(),
        )
        self.gate_up, self.down = (
            aiter.shuffle_weight(weights[name], (16, 16)) for name in ("gate_up", "down")
        )
        self.quantised = aiter.get_hip_quant(_PER_1X128)

    def __call__(self, hidden: Tensor, residual: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the experts add, and the residual."""
        w = self.weights
        (codes, scales), _, _, total = aiter.fused_rms_fp8_group_quant(
            hidden,
            w["input_norm"],
            EPSILON,
            None,
            None,
            None,
            group_size=BLOCK,
            dtype_quant=fp8(),
            res1=residual,
        )
        residual = hidden if total is None else total
        attended = self.attention(codes, scales, batch)
        out, total = torch.empty_like(hidden), torch.empty_like(hidden)
        aiter.rmsnorm2d_fwd_with_add(out, attended, residual, total, w["post_norm"], EPSILON)
        return self.experts(out), total

    def product(self, codes: Tensor, scales: Tensor, name: str) -> Tensor:
        """By one of the weights in blocks."""
        w = self.weights
        return aiter.gemm_a8w8_blockscale(codes, w[name], scales, w[f"{name}_scale"], dtype=torch.bfloat16)

    def of_bf16(self, x: Tensor, name: str) -> Tensor:
        """The same of rows that are no codes yet."""
        codes, scales = self.quantised(x.contiguous(), quant_dtype=fp8(), transpose_scale=False)
        return self.product(codes, scales, name)

    def attention(self, codes: Tensor, scales: Tensor, batch: Batch) -> Tensor:
        """Latent rows of queries and of keys, rotation, the cache; then one of two forms."""
        tokens, w = len(codes), self.weights
        q_latent, kv, k_rope = self.product(codes, scales, "qkv_a").split((Q_LATENT, LATENT, ROPE), 1)
        codes, scales = codes.new_empty(tokens, Q_LATENT), scales.new_empty(tokens, Q_LATENT // BLOCK)
        kv_normed = kv.new_empty(tokens, LATENT)
        aiter.fused_qk_rmsnorm_group_quant(
            q_out_quantized=codes, q_out_scale=scales, q=q_latent, q_weight=w["q_norm"], q_epsilon=EPSILON,
            k_out=kv_normed, k=kv, k_weight=w["kv_norm"], k_epsilon=EPSILON, group_size=BLOCK, transpose_scale=False,
        )  # fmt: skip
        q = self.product(codes, scales, "q_b").reshape(tokens, HEADS, NOPE + ROPE)
        turned = (q[None, ..., NOPE:], k_rope[None, :, None])
        aiter.rope_cached_positions_2c_fwd_impl(
            *turned, *turned, self.cos, self.sin, batch.positions[None], _NEIGHBOURS, True, False
        )
        aiter.concat_and_cache_mla(kv_normed, k_rope, self.latent, batch.slots, "auto", self.one)
        out = self.decoded(q, batch) if batch.decodes else self.prompts(q, kv_normed, k_rope, batch)
        return self.of_bf16(out.reshape(tokens, -1), "o")

    def prompts(self, q: Tensor, kv: Tensor, k_rope: Tensor, batch: Batch) -> Tensor:
        """Heads of 192 and 128 elements."""
        tokens = len(q)
        keys, values = self.of_bf16(kv, "kv_b").reshape(tokens, HEADS, -1).split((NOPE, WIDTH), -1)
        keys = torch.cat([keys, k_rope[:, None].expand(-1, HEADS, -1)], -1)
        out: Tensor = aiter.flash_attn_varlen_func(
            q=q, k=keys, v=values, cu_seqlens_q=batch.starts, cu_seqlens_k=batch.starts, max_seqlen_q=batch.most_queries,
            max_seqlen_k=batch.most_keys, softmax_scale=exact.SCALE, causal=True,
        )  # fmt: skip
        return out

    def decoded(self, q: Tensor, batch: Batch) -> Tensor:
        """Heads of 576 and 512 elements, which share one row of the cache."""
        tokens = len(q)
        absorbed = q.new_empty(HEADS, tokens, LATENT)
        aiter.batched_gemm_bf16(q[..., :NOPE].transpose(0, 1).contiguous(), self.to_keys, absorbed)
        asked = torch.cat([absorbed.transpose(0, 1), q[..., NOPE:]], -1)
        found = q.new_empty(tokens, HEADS, LATENT)
        aiter.mla_decode_fwd(
            asked, self.latent.view(-1, PAGE, 1, LATENT + ROPE), found, batch.starts, batch.page_starts, batch.page_list,
            batch.last_page, batch.most_queries, sm_scale=exact.SCALE, logit_cap=0.0,
        )  # fmt: skip
        out = q.new_empty(HEADS, tokens, WIDTH)
        aiter.batched_gemm_bf16(found.transpose(0, 1).contiguous(), self.to_values, out)
        return out.transpose(0, 1)

    def experts(self, hidden: Tensor) -> Tensor:
        """The eight best of each token's four best groups, and the shared one."""
        tokens, w = len(hidden), self.weights
        logits = aiter.tgemm.mm(hidden, w["router"], None, otype=torch.float32)
        shares, chosen = torch.empty(tokens, CHOSEN), torch.empty(tokens, CHOSEN, dtype=torch.int32)
        aiter.biased_grouped_topk(logits, w["bias"], shares, chosen, GROUPS, BEST_GROUPS, True, SHARE)
        routed = aiter.fused_moe(
            hidden, self.gate_up, self.down, shares, chosen, None, 0, _PER_128X128, False, w["gate_up_scale"],
            w["down_scale"], None, None, num_local_tokens=None, dtype=torch.bfloat16,
        )  # fmt: skip
        both = self.of_bf16(hidden, "shared_gate_up")
        codes, scales = aiter.act_mul_and_fp8_group_quant(
            both, activation="silu", group_size=BLOCK, dtype_quant=fp8()
        )
        return routed + self.product(codes, scales, "shared_down")


def pattern(random: torch.Generator, tokens: int) -> Tensor:
    """Which experts each token is for: two of each of four groups."""
    each = EXPERTS // GROUPS
    two = chosen_columns(random, tokens * GROUPS, each, 2).reshape(tokens, GROUPS, each)
    worse = torch.rand(tokens, GROUPS, generator=random).argsort(-1) >= BEST_GROUPS
    return torch.where(worse[..., None], two - 2.5, two).reshape(tokens, EXPERTS)


#: As elsewhere, one product more, twice two of the absorbed form, the shared expert. Rows that become codes: where two codes are
#: as near, the other one is taken, an eighth away; that counts as eight roundings of the row, four times, and twice more.
MODEL: Final = Model(
    HIDDEN,
    EPSILON,
    PAGE,
    (5, 17, 40),
    (12 + 4 * 8, 17 + 4 + 6 * 8),
    weights,
    DeepSeekV3Layer,
    exact.weights,
    exact.layer,
    SEEDS,
    pattern,
)
