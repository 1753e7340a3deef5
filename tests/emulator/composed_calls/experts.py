"""Mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from emulator.composed_calls.place import PACKAGE, Call, Place, dequantised, host, near

import aiter_prebuilt as ap


def chosen(place: Place) -> tuple[torch.Tensor, torch.Tensor]:
    """Of 9 tokens two of 4 experts each, and their shares."""
    ids = torch.stack([torch.randperm(4, generator=place.draw)[:2] for _ in range(9)]).int()
    return ids.to(place.device), torch.rand(9, 2, generator=place.draw).to(place.device)


def mixed(
    x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, shares: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """A mixture of experts in fp64."""
    right = torch.zeros(x.shape, dtype=torch.float64)
    for token, choices_of in enumerate(ids.tolist()):
        for choice, expert in enumerate(choices_of):
            gate, up = (w1[expert] @ host(x[token])).chunk(2)
            share = float(shares[token, choice])
            right[token] += share * (w2[expert] @ (torch.nn.functional.silu(gate) * up))
    return right


def fused_moe(call: Callable[..., Any], place: Place) -> None:
    """Experts in bf16 and in 8 bits against torch's products; 1408 columns of DeepSeek-V2-Lite over 8 and 16 GPUs, too."""
    for inner in (128, 176, 88):
        x = place.normal(9, 256)
        w1, w2 = place.normal(4, 2 * inner, 256) / 16, place.normal(4, 256, inner) / 16
        ids, shares = chosen(place)
        near(call(x, w1, w2, shares, ids), mixed(x, host(w1), host(w2), shares, ids), 0.03)
    for kind, inner in ((place.fp8, 176), (torch.int8, 176), (torch.int8, 48)):
        x = place.normal(9, 256)
        w1, w2 = ((place.normal(4, *shape) * 16).to(kind) for shape in ((2 * inner, 256), (256, inner)))
        s1, s2 = (torch.full((4, rows, 1), 1 / 256, device=place.device) for rows in (2 * inner, 256))
        ids, shares = chosen(place)
        found = call(x, w1, w2, shares, ids, quant_type=2, w1_scale=s1, w2_scale=s2)
        right = mixed(x, host(w1) / 256, host(w2) / 256, shares, ids)
        assert (host(found) - right).norm() / right.norm() < 0.06, (kind, inner)


def experts_of_one_scale(place: Place) -> None:
    """``fused_experts_a8w8_tensor``, by ``fused_moe`` with a scale for each tensor."""
    kind, width, inner = place.fp8, 256, 128
    x = place.normal(9, width)
    w1, w2 = place.normal(4, 2 * inner, width).to(kind), place.normal(4, width, inner).to(kind)
    ones = [torch.full((4,), 1 / 16, device=place.device) for _ in range(2)]
    ids = torch.stack([torch.randperm(4, generator=place.draw)[:2] for _ in range(9)]).int().to(place.device)
    shares = torch.rand(9, 2, generator=place.draw).to(place.device)
    right = torch.zeros(9, width, dtype=torch.float64)
    for token in range(9):
        for choice in range(2):
            expert = int(ids[token, choice])
            gate, up = (host(w1[expert]) / 16 @ host(x[token])).chunk(2)
            right[token] += float(shares[token, choice]) * (
                host(w2[expert]) / 16 @ (torch.nn.functional.silu(gate) * up)
            )
    found = ap.fused_moe(x, w1, w2, shares, ids, quant_type=1, w1_scale=ones[0], w2_scale=ones[1])
    off = (host(found) - right).norm() / right.norm()
    assert off < 0.06, off


def weighted_first(place: Place) -> None:
    """``asm_moe_tkw1``: each token's share stands in front of the first product."""
    kind, width, inner = place.fp8, 512, 256
    x = place.normal(9, width)
    w1, w2 = place.normal(4, 2 * inner, width).to(kind), place.normal(4, width, inner).to(kind)
    s1, s2 = (torch.full((4, rows, 1), 1 / 16, device=place.device) for rows in (2 * inner, width))
    ids = place.whole(4, 9, 1)
    shares = torch.rand(9, 1, generator=place.draw).to(place.device)
    right = torch.zeros(9, width, dtype=torch.float64)
    for token in range(9):
        expert = int(ids[token, 0])
        gate, up = (host(w1[expert]) / 16 @ host(x[token]) * float(shares[token, 0])).chunk(2)
        right[token] = host(w2[expert]) / 16 @ (torch.nn.functional.silu(gate) * up)
    found = ap.asm_moe_tkw1(
        x, ap.shuffle_weight(w1), ap.shuffle_weight(w2), shares, ids, s1, s2, activation=0
    )
    off = (host(found) - right).norm() / right.norm()
    assert found.is_cuda and off < 0.06, off


def fp4_products(place: Place, name: str) -> None:
    """A grouped product of MXFP4 weights after ``routing``, its tokens in 16 or 8 bits or FP4."""
    experts, width, columns, topk = 4, 256, 128, 2
    logits = torch.stack([torch.randperm(experts, generator=place.draw) for _ in range(13)]).to(
        torch.bfloat16
    )
    data, gather, _ = ap.routing(logits.to(place.device), topk)
    pairs = place.whole(256, experts, columns, width // 2, kind=torch.uint8)
    scales = (place.whole(3, experts, columns, width // 32) + 119).to(torch.uint8)
    weight = dequantised(pairs, scales)
    x = place.normal(13, width)
    keywords: dict[str, Any] = {"routing_data": data, "gather_indx": gather}
    if name == "moe_gemm_a4w4":
        codes, x_scales = ap.dynamic_mxfp4_quant(x)
        rows = dequantised(codes, x_scales)[:13]
        given: tuple[Any, ...] = (codes, pairs.transpose(1, 2), x_scales)
    elif name == "moe_gemm_a8w4":
        one = torch.tensor([1.0], device=place.device)
        codes = x.to(place.fp8)
        rows, given = host(codes), (codes, pairs.transpose(1, 2), None)
        keywords["x_static_scale"] = one
    else:
        rows, given = host(x), (x, pairs.transpose(1, 2), None)
    found = getattr(PACKAGE, name)(*given, scales.transpose(1, 2), **keywords)
    chosen = logits.topk(topk).indices.sort(-1).values.flatten()
    order = gather.cpu().long()
    right = torch.stack([weight[int(chosen[at])] @ rows[int(at) // topk] for at in order])
    off = (host(found) - right).norm() / right.norm()
    assert found.is_cuda and tuple(found.shape) == tuple(right.shape) and off < 0.02, (off, found.shape)


#: Function -> its call.
CALLS: Final[dict[str, Call]] = {
    "fused_moe": partial(fused_moe, ap.fused_moe),
    "fused_experts_a8w8_tensor": experts_of_one_scale,
    "asm_moe_tkw1": weighted_first,
    **{
        name: partial(fp4_products, name=name)
        for name in ("moe_gemm_a4w4", "moe_gemm_a8w4", "moe_gemm_a16w4")
    },
}
