"""Mixtures of experts in fp8: AITER's objects beside our kernels for the same work, sorting and all."""

from __future__ import annotations

from typing import Any, Final

from work_tensors import Call, Tensors

#: Rows of a block of sorted ids, as AITER's assembly has them.
_UNIT: Final = 32


def mixture(
    tensors: Tensors,
    tokens: int,
    experts: int,
    topk: int,
    width: int,
    inner: int,
    *,
    blocks: bool,
    aiter: bool,
) -> None:
    """Codes of tokens and weights with scales of rows, or of blocks of 128; bf16 out, SiLU; each expert has as many tokens."""
    import numpy as np

    import aiter_prebuilt

    kind = "e4m3fnuz" if tensors.target == "gfx942" else "e4m3fn"
    x = tensors.codes(kind, tokens, width)
    w1, w2 = tensors.codes(kind, experts, 2 * inner, width), tensors.codes(kind, experts, width, inner)
    ids = tensors.whole(np.arange(tokens * topk).reshape(tokens, topk) % experts)
    weights = tensors.normal("f32", tokens, topk)
    if blocks:
        of_x = tensors.normal("f32", *((width // 128, tokens) if aiter else (tokens, width // 128)))
        of_w1 = tensors.normal("f32", experts, 2 * inner // 128, width // 128)
        of_w2 = tensors.normal("f32", experts, width // 128, inner // 128)
    else:
        of_x = tensors.normal("f32", tokens, 1)
        of_w1, of_w2 = tensors.normal("f32", experts, 2 * inner, 1), tensors.normal("f32", experts, width, 1)
    if not aiter:
        options: dict[str, Any] = {
            "w1_shuffled": True,
            "w2_shuffled": True,
            "block_scaled": blocks,
            "dtype": "bf16",
        }
        aiter_prebuilt.fused_experts_a8w8(x, w1, w2, weights, ids, of_x, of_w1, of_w2, **options)
        tensors.bytes += tokens * width * 2
        return
    least = tensors.bytes
    units = -(-(tokens * topk + experts * (_UNIT - 1)) // _UNIT)
    sorted_ids, owners, valid = (tensors.whole(np.zeros(size, "i4")) for size in (units * _UNIT, units, 2))
    factors, out = tensors.normal("f32", units * _UNIT), tensors.normal("bf16", tokens, width)
    tensors.bytes = least + tokens * width * 2
    aiter_prebuilt.moe_sorting_fwd(ids, weights, sorted_ids, factors, owners, valid, out, experts, _UNIT)
    run: Any = aiter_prebuilt.fmoe_fp8_blockscale_g1u1 if blocks else aiter_prebuilt.fmoe_g1u1
    run(out, x, w1, w2, sorted_ids, factors, owners, valid, topk, of_x, of_w1, of_w2, "")


def _both(*sizes: int, blocks: bool) -> dict[str, Call]:
    return {
        "AITER's": lambda made: mixture(made, *sizes, blocks=blocks, aiter=True),
        "ours": lambda made: mixture(made, *sizes, blocks=blocks, aiter=False),
    }


EXPERTS: Final[dict[str, dict[str, Call]]] = {
    "mixture in fp8 by rows, 512 tokens, 2 of 8 experts, 1024 x 512": _both(
        512, 8, 2, 1024, 512, blocks=False
    ),
    "mixture in fp8 by blocks, 512 tokens, 2 of 8 experts, 1024 x 512": _both(
        512, 8, 2, 1024, 512, blocks=True
    ),
}
