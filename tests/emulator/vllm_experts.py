"""vLLM's wrappers around AITER's mixtures of experts."""

from __future__ import annotations

from typing import Any

from emulator.client_tools import Calls, Tools


def routing(t: Tools) -> Calls:
    """Which experts, and their weights."""
    torch = t.torch
    tokens, experts, k = 6, 64, 4

    def outputs() -> tuple[Any, Any, Any]:
        return (
            torch.full((tokens, k), -1.0),
            torch.full((tokens, k), -1, dtype=torch.int32),
            torch.full((tokens, k), -1, dtype=torch.int32),
        )

    def judged(
        weights: Any, ids: Any, scores: Any, chosen_by: Any, *, norm: bool, factor: float = 1.0
    ) -> list[str]:
        """Experts in any order, by the best of ``chosen_by``; weights are their scores."""
        best = chosen_by.topk(k, -1).indices
        problems = []
        if [sorted(row) for row in ids.tolist()] != [sorted(row) for row in best.tolist()]:
            problems.append(f"experts {ids.tolist()} instead of {best.tolist()}")
        want = scores.gather(-1, ids.long().clamp(0, experts - 1))
        want = (want / want.sum(-1, keepdim=True) if norm else want) * factor
        return problems + t.far("weights", weights, want, 1e-4)

    logits = torch.randn(tokens, experts)
    soft = logits.double().softmax(-1)

    def softmax(v: Any) -> list[str]:
        weights, ids, other = outputs()
        v.topk_softmax(weights, ids, other, logits, True)
        return judged(weights, ids, soft, soft, norm=True)

    def gating(v: Any) -> list[str]:
        weights, ids, other = outputs()
        v.topk_gating(weights, ids, other, logits, True)
        return judged(weights, ids, soft, soft, norm=True)

    def sigmoid(v: Any) -> list[str]:
        weights, ids = torch.full((tokens, 1), -1.0), torch.full((tokens, 1), -1, dtype=torch.int32)
        v.topk_sigmoid(weights, ids, ids.clone(), logits, False)
        want = logits.double().sigmoid().max(-1)
        problems = (
            []
            if ids[:, 0].tolist() == want.indices.tolist()
            else [f"{ids.tolist()}: {want.indices.tolist()}"]
        )
        return problems + t.far("weights", weights[:, 0], want.values, 1e-4)

    def biased(v: Any) -> list[str]:
        weights, ids, _ = outputs()
        scores, bias = logits.double().sigmoid(), torch.rand(experts)
        v.biased_grouped_topk(logits, bias, weights, ids, 1, 1, True, 2.5)
        return judged(weights, ids, scores, scores + bias.double(), norm=True, factor=2.5)

    def grouped(v: Any) -> list[str]:
        weights, ids, _ = outputs()
        v.grouped_topk(logits, weights, ids, 1, 1, True, "softmax", 1.0)
        return judged(weights, ids, soft, soft, norm=True)

    def fused(v: Any) -> list[str]:
        hidden = t.bf16(tokens, 64)
        weights, ids = v.fused_topk(hidden, logits, k, True)
        return judged(weights, ids, soft, soft, norm=True) + t.faked(
            torch.ops.vllm.rocm_aiter_fused_topk, hidden, logits, k, True
        )

    return {
        "topk_softmax": softmax, "topk_gating": gating, "topk_sigmoid": sigmoid, "biased_grouped_topk": biased,
        "grouped_topk": grouped, "fused_topk": fused,
    }  # fmt: skip


def experts(t: Tools) -> Calls:
    """Mixtures of experts."""
    torch = t.torch
    tokens, experts, hidden, inner, k = 4, 4, 256, 128, 2
    x = t.bf16(tokens, hidden)
    ids = torch.stack([torch.randperm(experts)[:k] for _ in range(tokens)]).int()
    weights = torch.rand(tokens, k) + 0.1

    def exact(w1: Any, w2: Any, inputs: Any = None) -> Any:
        out = torch.zeros(tokens, hidden, dtype=torch.float64)
        source = x.double() if inputs is None else inputs
        for row in range(tokens):
            for place in range(k):
                expert = int(ids[row, place])
                gate, up = (w1[expert].double() @ source[row]).chunk(2)
                out[row] += weights[row, place].double() * (
                    w2[expert].double() @ (torch.nn.functional.silu(gate) * up)
                )
        return out

    def plain(v: Any) -> list[str]:
        w1, w2 = t.bf16(experts, 2 * inner, hidden, scale=0.1), t.bf16(experts, hidden, inner, scale=0.1)
        s1, s2 = v.shuffle_weights(w1, w2)
        out = v.fused_moe(x, s1, s2, weights, ids)
        return t.far("out", out, exact(w1, w2), 2**-5)

    def blocks(v: Any) -> list[str]:
        w1, w2 = t.quantised(experts, 2 * inner, hidden), t.quantised(experts, hidden, inner)
        a, b = (t.scales(experts, w.shape[1] // 128, w.shape[2] // 128) * 0.2 for w in (w1, w2))
        wide = [s.double().repeat_interleave(128, 1).repeat_interleave(128, 2) for s in (a, b)]
        s1, s2 = v.shuffle_weights(w1, w2)
        out = v.fused_moe(x, s1, s2, weights, ids, quant_method=5, w1_scale=a, w2_scale=b)
        return t.far("out", out, exact(w1.double() * wide[0], w2.double() * wide[1]), 0.1)

    def weighted_first(v: Any) -> list[str]:
        one = torch.rand(tokens, 1) + 0.1
        first = ids[:, :1].contiguous()
        w1, w2 = t.quantised(experts, 2 * inner, hidden), t.quantised(experts, hidden, inner)
        a, b = t.scales(experts, 2 * inner), t.scales(experts, hidden)
        s1, s2 = v.shuffle_weights(w1, w2)
        out = v.asm_moe_tkw1(x, s1, s2, one, first, a, b, None, None, False, None, None, 0)
        want = torch.zeros(tokens, hidden, dtype=torch.float64)
        for row in range(tokens):
            expert = int(first[row])
            given = w1[expert].double() * a[expert].double()[:, None] @ x[row].double() * one[row].double()
            gate, up = given.chunk(2)
            act = torch.nn.functional.silu(gate) * up
            want[row] = w2[expert].double() * b[expert].double()[:, None] @ act
        return t.far("out", out, want, 0.1)

    return {"fused_moe": plain, "fused_moe, FP8 by blocks": blocks, "asm_moe_tkw1": weighted_first}
