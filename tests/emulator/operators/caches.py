"""Cases of the paged cache and of expert routing: operators that scatter."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from emulator.operators.tensors import (
    BF16,
    F16,
    F32,
    NAMES,
    Call,
    Case,
    Maker,
    Row,
    Verdict,
    compare,
    same_bytes,
    typed,
)
from reference import kv_cache, topk

CACHES: list[Row] = [
    (BF16, False, 5, 2, 64, 16, 3, False), (F16, False, 3, 3, 80, 8, 2, True),
    (BF16, True, 5, 2, 64, 16, 3, False, True), (F16, True, 7, 1, 128, 32, 1, True, True, 0, 8),
    (BF16, True, 4, 2, 48, 16, 2, True), (BF16, False, 4, 3, 40, 5, 3, False, False, 1),
    (F16, True, 3, 3, 16, 7, 2, False, True, 3, 5), (BF16, False, 2, 1, 128, 16, 1, True, False, 1, 3),
    (BF16, True, 2, 1, 64, 16, 1, True, True, 1, 0, 0, "fp8_e4m3"),
    (BF16, False, 70, 2, 72, 16, 6, False, False, 0, 0, 2), (F16, True, 66, 1, 80, 16, 5, True, True, 0, 0, 2),
    (BF16, False, 65, 1, 64, 8, 10, True, False, 0, 8, 2), (BF16, True, 65, 1, 64, 16, 10, False, False, 0, 8, 2),
    (BF16, False, 0, 2, 64, 16, 2, False),
]  # fmt: skip

ROUTES: list[Row] = [
    (BF16, 5, 8, 2, True), (F16, 4, 16, 16, False), (F32, 3, 32, 4, True), (BF16, 7, 60, 6, True, 3, (1, 2, 3)),
    (F32, 9, 64, 8, False, 0, (0, 0, 0), 1), (BF16, 5, 128, 8, True, 2),
    (F16, 6, 256, 8, True, 0, (0, 0, 0), 2, True), (F32, 2, 160, 6, True, 1), (BF16, 1, 384, 8, True),
    (F32, 5, 512, 10, False), (BF16, 3, 640, 64, True), (F16, 3, 40, 5, True), (BF16, 5, 72, 3, False),
    (F16, 2, 96, 4, True), (BF16, 2, 192, 8, True), (BF16, 0, 8, 2, True),
]  # fmt: skip


def _cache(dtype: torch.dtype, fp8: bool, tokens: int, heads: int, d: int, block: int, blocks: int, asm_layout: bool,
           scales: bool = False, offset: int = 0, pad: int = 0, cus: int = 0, spelled: str = "fp8") -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        kind = make.fp8 if fp8 else dtype
        x = 16 // kind.itemsize
        strides = (heads * d + pad, d, 1)
        key = make.random(tokens, heads, d, dtype=dtype, scale=5.0, strides=strides, offset=offset)
        value = make.random(tokens, heads, d, dtype=dtype, scale=100.0, strides=strides)
        slots = torch.randperm(blocks * block)[:tokens]
        if tokens > 2:
            slots[1] = -1

        def filled(*shape: int) -> torch.Tensor:
            return torch.randint(0, 120, (*shape, kind.itemsize), dtype=torch.uint8).view(kind).reshape(shape)

        keys = make.put(filled(blocks, heads, d // x, block, x))
        values = make.put(
            filled(blocks, heads, block // x, d, x) if asm_layout else filled(blocks, heads, d, block)
        )
        k_scale, v_scale = (
            (make.put(torch.tensor([0.37])), make.put(torch.tensor([0.9]))) if scales else (None, None)
        )
        wanted_k, wanted_v = kv_cache.reshape_and_cache(
            key.host, value.host, keys.host, values.host, slots,
            k_scale.host if k_scale else None, v_scale.host if v_scale else None, "fp8" if fp8 else "auto", asm_layout,
        )  # fmt: skip

        def check() -> dict[str, Verdict]:
            return {
                "key_cache": same_bytes(keys.now(), wanted_k),
                "value_cache": same_bytes(values.now(), wanted_v),
            }

        tensors = [key, value, keys, values, make.put(slots), k_scale, v_scale]
        return Call(tensors, [spelled if fp8 else "auto", asm_layout], [keys, values], check)

    label = f"t{tokens}-h{heads}-d{d}-{block}x{blocks}-{NAMES[dtype]}-fp8{fp8:d}-asm{asm_layout:d}-scales{scales:d}"
    return Case("reshape_and_cache", f"{label}-offset{offset}-pad{pad}-cus{cus}-{spelled}", build, cus)


def _route(dtype: torch.dtype, tokens: int, experts: int, k: int, renorm: bool, pad: int = 0,
           pads: tuple[int, int, int] = (0, 0, 0), offset: int = 0, ties: bool = False) -> Case:  # fmt: skip
    def build(make: Maker) -> Call:
        logits = (torch.randn(tokens, experts) * 2).to(dtype)
        if ties:
            logits = (logits * 2).round() / 2
        gates = make.put(logits, pad=pad, offset=offset)
        weights = make.output((tokens, k), F32, pad=pads[0])
        chosen, pairs = (make.output((tokens, k), torch.int32, pad=pad) for pad in pads[1:])
        wanted, indices, numbers = topk.topk_softmax(gates.host, k, renorm)

        def check() -> dict[str, Verdict]:
            return {
                "weights": compare(weights.now(), wanted, 2.0**-120, 2.0**-16),
                "indices": same_bytes(chosen.now(), indices),
                "pairs": same_bytes(pairs.now(), numbers),
            }

        return Call([weights, chosen, pairs, gates], [renorm], [weights, chosen, pairs], check)

    label = f"{tokens}x{experts}-k{k}-{NAMES[dtype]}-renorm{renorm:d}-pad{pad}-pads{pads}-offset{offset}-ties{ties:d}"
    return Case("topk_softmax", label, build)


def cases(swap: bool) -> Iterator[Case]:
    """Both layouts, every class of block size, skipped slots, ties, strided rows, every expert count with its own kernel."""
    for row in typed(CACHES, swap):
        yield _cache(*row)
    for row in typed(ROUTES, swap):
        yield _route(*row)
        if swap:
            yield _route(F32, *row[1:])
    for row in ROUTES:
        if row[0] is F32:
            # rows of 16-bit logits must be whole dwords
            yield _route(F16 if swap else BF16, *row[1:5], *(2 * pad for pad in row[5:6]), *row[6:])
