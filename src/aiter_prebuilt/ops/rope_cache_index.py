"""Norm and rotary embedding of queries and keys in one tensor, and of an indexer's, and the write into their caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._caches import viewing
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._index_caches import caches_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.rope_cache import refuse_fused_qknorm_idxrqknorm

if TYPE_CHECKING:
    import torch

# kv_cache_k and kv_cache_v are its tensors 8 and 9.
_fused_qknorm_idxrqknorm = viewing(operator("fused_qknorm_idxrqknorm"), 8, 9, True)


@traced
def fused_qknorm_idxrqknorm(
    qkv: torch.Tensor,
    q_norm_weight: torch.Tensor,
    k_norm_weight: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    positions: torch.Tensor,
    num_heads: int,
    num_kv_heads: int,
    rotary_dim: int,
    eps: float,
    index_q_norm_weight: torch.Tensor | None = None,
    index_k_norm_weight: torch.Tensor | None = None,
    num_index_heads: int = 0,
    slot_mapping: torch.Tensor | None = None,
    kv_cache_k: torch.Tensor | None = None,
    kv_cache_v: torch.Tensor | None = None,
    index_cache: torch.Tensor | None = None,
    block_size: int = 0,
    q_out: torch.Tensor | None = None,
    index_q_out: torch.Tensor | None = None,
    index_slot_mapping: torch.Tensor | None = None,
    kv_cache_dtype: str = "auto",
    index_cache_dtype: str | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    asm_layout: bool = False,
) -> None:
    """Normalise, rotate and cache heads, also an indexer's.

    RMSNorm and rotary embedding of the queries and keys in ``qkv``, and of an indexer's; keys and values into a cache.

    Args:
        qkv: [tokens, heads * 128] bf16 or fp16: of each token the heads of queries, keys and values, then with num_index_heads
            the indexer's queries and one head of its key. Rows may lie apart. What has no memory of its own is written here.
        q_norm_weight: [128], of the type of qkv. The norm multiplies by 1 + weight.
        k_norm_weight: [128], the same for keys.
        cos_sin_cache: [P, rotary_dim], rows of cosines, then sines, of the type of qkv.
        positions: int64, at least one for each token, cut to the rows of cos_sin_cache.
        num_heads: heads of queries.
        num_kv_heads: heads of keys, and of values.
        rotary_dim: how many elements of a head are turned, a multiple of 8 up to 128: element i and i + half are a pair.
        eps: what the norms add to the mean of squares.
        index_q_norm_weight: [128], for the indexer's queries; None: there is no indexer.
        index_k_norm_weight: [128], for the indexer's key; None: there is no indexer.
        num_index_heads: heads of the indexer's queries; 0: there is no indexer.
        slot_mapping: int64 or int32, block * block_size + offset; a slot that is not in the cache is skipped.
        kv_cache_k: [blocks, block_size, num_kv_heads, 128]; blocks, tokens and heads may lie apart. With asm_layout [blocks,
            num_kv_heads, 128 / x, block_size, x], where x is 16 / item size. None: keys are written in place.
        kv_cache_v: as kv_cache_k; with asm_layout [blocks, num_kv_heads, block_size / x, 128, x].
        index_cache: [..., 128], a row for each slot, contiguous.
        block_size: tokens of a block of the cache.
        q_out: [tokens, num_heads * 128], written; None: in place.
        index_q_out: [tokens, num_index_heads * 128], written; None: in place.
        index_slot_mapping: rows of index_cache; None: those of slot_mapping.
        kv_cache_dtype: "auto": the type of qkv. "fp8", "fp8_e4m3": the target's codes, value / scale. "fp8_e4m3_unit": codes of
            the values. Codes may lie in uint8.
        index_cache_dtype: "auto" or "fp8", which has no scales; None: "fp8" where kv_cache_dtype is not "auto".
        k_scale: fp32, written with "fp8" and "fp8_e4m3": for each head of a token amax / qmax, or 1 where amax is 0.
            [num_kv_heads, slots or more], with asm_layout [blocks, num_kv_heads, block_size].
        v_scale: as k_scale, for values.
        asm_layout: the caches are tiles.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qknorm_idxrqknorm``.
    """
    refuse_fused_qknorm_idxrqknorm(kv_cache_dtype)
    try:
        kinds = (kv_cache_dtype, index_cache_dtype)
        kv_cache_k, kv_cache_v, index_cache, index_kind = caches_of(
            kv_cache_k, kv_cache_v, index_cache, kinds
        )
        if index_slot_mapping is None:
            index_slot_mapping = slot_mapping
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_qknorm_idxrqknorm", error) from error
    _fused_qknorm_idxrqknorm(
        qkv, q_norm_weight, k_norm_weight, cos_sin_cache, positions, index_q_norm_weight, index_k_norm_weight, slot_mapping,
        kv_cache_k, kv_cache_v, index_cache, q_out, index_q_out, index_slot_mapping, k_scale, v_scale, num_heads, num_kv_heads,
        rotary_dim, eps, num_index_heads, block_size, kv_cache_dtype, index_kind, asm_layout,
    )  # fmt: skip
