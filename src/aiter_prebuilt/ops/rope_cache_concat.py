"""Rotary embedding of MLA's queries and keys, and the write of keys into a paged latent cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

#: Keys and a cache without a dim of heads get one of size 1: kv_c, k_pe and kv_cache are the operator's tensors 2, 3 and 4.
_HEADS: Final = (("order", 2, 2, (0, -1, 1)), ("order", 3, 2, (0, -1, 1)), ("order", 4, 3, (0, 1, -1, 2)))
_fused_qk_rope_concat_and_cache_mla = operator("fused_qk_rope_concat_and_cache_mla").viewing(_HEADS)


@traced
def fused_qk_rope_concat_and_cache_mla(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv_c: torch.Tensor,
    k_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    q_out: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: torch.Tensor,
    q_scale: torch.Tensor,
    positions: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    is_neox: bool,
    is_nope_first: bool,
    compute_all_q_rope: bool = False,
) -> None:
    """Turn ``q_pe`` and ``k_pe`` by the angles of their positions, and write them beside what is not turned.

    Queries go with ``q_nope`` into ``q_out``, keys with ``kv_c`` into the latent cache.

    Args:
        q_nope: [rows, heads, r] bf16 or fp16, at least a row for each slot. q_pe: [rows, heads, e], e even. The last dim of each
            tensor must be contiguous.
        kv_c: [rows, r], or with several heads of keys [rows, key heads, r]. k_pe: [rows, e] or [rows, key heads, e]. Both have at
            least a row for each slot.
        kv_cache: [blocks, block_size, r + e], or [blocks, block_size, key heads, r + e], written; of the type of q_nope, or the
            target's fp8. Its rows must lie evenly.
        q_out: [rows, heads, r + e], written; of the type of q_nope, or fp8 where the cache is.
        slot_mapping: [tokens] int64 or int32, block * block_size + offset; a token whose slot is not in the cache is skipped.
        k_scale: one fp32 number, which a cache of 16 bits does not read; stored = value / scale, saturating.
        q_scale: the same for q_out.
        positions: int64, at least one for each token, cut to the rows of cos_cache.
        cos_cache, sin_cache: [positions, e / 2], of the type of q_nope.
        is_neox: pairs are element i and i + e / 2; else neighbours.
        is_nope_first: the turned part lies behind the rest; else before it.
        compute_all_q_rope: queries of tokens whose slot is not in the cache are written, too.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_rope_concat_and_cache_mla``.
    """
    _fused_qk_rope_concat_and_cache_mla(
        q_nope, q_pe, kv_c, k_pe, kv_cache, q_out, slot_mapping, k_scale, q_scale, positions, cos_cache, sin_cache,
        is_neox, is_nope_first, compute_all_q_rope,
    )  # fmt: skip
