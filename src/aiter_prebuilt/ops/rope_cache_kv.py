"""Rotary embedding of queries and keys that are written into a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._caches import blocks_of, viewing
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_fused_qk_rope_cat_and_cache_mla = operator("fused_qk_rope_cat_and_cache_mla")
_fused_qk_rope_reshape_and_cache = operator("fused_qk_rope_reshape_and_cache")
# key_cache and value_cache are its tensors 3 and 4.
_with_rows = viewing(_fused_qk_rope_reshape_and_cache, 3, 4, True)
_with_tiles = viewing(_fused_qk_rope_reshape_and_cache, 3, 4, False)


@traced
def fused_qk_rope_reshape_and_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    pos: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    is_neox: bool,
    flash_layout: bool,
    apply_scale: bool = True,
    offs: torch.Tensor | None = None,
    q_out: torch.Tensor | None = None,
    k_out: torch.Tensor | None = None,
    output_zeros: bool = True,
    zeros_out: torch.Tensor | None = None,
    upcast_operand: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Turn queries and keys by the angles of their positions; keys and values into a paged cache of rows or tiles.

    Args:
        q: [tokens, hq, d] bf16 or fp16, d even and at most 512; of 64, 128 and 256 aligned calls are the fast ones. k, v:
            [tokens, hk, d]. All three may be parts of one tensor; the last dim must be contiguous.
        key_cache: with flash_layout [blocks, block_size, hk, d], else [blocks, hk, d / x, block_size, x]; of the type of q, or
            the target's fp8. value_cache: with flash_layout as keys, else [blocks, hk, d, block_size] or [blocks, hk,
            block_size / x, d, x]. Both may be strided.
        slot_mapping: [slots] int64 or int32, block * block_size + offset, at least one for each token. Of a token whose slot is
            not in the cache queries and keys are turned alone. Slots behind the tokens are not read.
        pos: int64, one for each token or more, cut to the rows of cos once offs, int64, was added.
        cos, sin: [positions, d / 2], or [positions, d], which has an angle for each element of a head; dims of 1 may lie between.
        k_scale, v_scale: fp32, one number by which keys and values are divided on their way into the cache, of 16 bits, too; fp8
            saturates. They are None where apply_scale is false.
        is_neox: pairs are element i and i + d / 2; else neighbours.
        q_out, k_out: written; made when None; q_out may be q, and k_out k.
        output_zeros: zeros of the shape of q are wanted, too. zeros_out: where, contiguous; given, they are wanted.
        upcast_operand: any value: all is computed in fp32, and rounded once.

    Returns:
        q_out, k_out, key_cache, value_cache, and the zeros where they are wanted.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_rope_reshape_and_cache``.
    """
    del upcast_operand
    try:
        q_out = like(q) if q_out is None else q_out
        k_out = like(k) if k_out is None else k_out
        if zeros_out is None and output_zeros:
            zeros_out = like(q)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_qk_rope_reshape_and_cache", error) from error
    scales = (k_scale, v_scale) if apply_scale else (None, None)
    run = _with_rows if flash_layout else _with_tiles
    run(
        q, k, v, key_cache, value_cache, slot_mapping, pos, cos, sin, *scales, offs, q_out, k_out, zeros_out, is_neox
    )  # fmt: skip
    made = (q_out, k_out, key_cache, value_cache)
    return made if zeros_out is None else (*made, zeros_out)


@traced
def fused_qk_rope_cat_and_cache_mla(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    k_nope: torch.Tensor,
    k_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    pos: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_scale: torch.Tensor | None,
    is_neox: bool,
    num_decode_toks_for_zeros: int = 0,
    apply_scale: bool = True,
    q_out: torch.Tensor | None = None,
    decode_q_pe_out: torch.Tensor | None = None,
    k_pe_out: torch.Tensor | None = None,
    q_out_dtype: torch.dtype | None = None,
    shuffled_kv_cache: bool = False,
    upcast_operand: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Turn ``q_pe`` and ``k_pe`` by the angles of their positions; queries side by side with ``q_nope``, keys with ``k_nope``
    into the latent cache.

    Args:
        q_nope: [tokens, hq, r] bf16 or fp16. q_pe: [tokens, hq, e], e even. k_nope: [rows, hk, r]. k_pe: [rows, hk, e]. There is
            a row for each token or more; keys of rows behind the tokens are not turned. The last dim of each must be contiguous.
        kv_cache: [slots, hk, r + e], of the type of q_nope, or the target's fp8. With shuffled_kv_cache [blocks, hk, block_size,
            r + e] in tiles of 16 keys and 16 bytes, all r columns of a block and then all e; all three are multiples of 16.
        slot_mapping: int64 or int32, at most one for each row of keys; a slot that is not in the cache is skipped.
        pos: int64, one for each token or more, cut to the rows of cos.
        cos, sin: [positions, e / 2], or [positions, e], which has an angle for each element; dims of 1 may lie between.
        k_scale: fp32, one number by which keys are divided on their way into the cache, of 16 bits, too; fp8 saturates. It is
            None where apply_scale is false.
        is_neox: pairs are element i and i + e / 2; else neighbours.
        num_decode_toks_for_zeros: of so many tokens, the first, there are turned q_pe in decode_q_pe_out, and zeros.
        q_out: [tokens, hq, r + e], written; made when None, of q_out_dtype, the type of q_nope when None; fp8 with an fp8 cache
            alone. decode_q_pe_out: [num_decode_toks_for_zeros, hq, e]; k_pe_out: as k_pe, whose rows with slots, in the cache or
            not, are written; both made when None.
        upcast_operand: any value: all is computed in fp32, and rounded once.

    Returns:
        q_out, decode_q_pe_out, k_pe_out, and zeros [num_decode_toks_for_zeros, hq, r].

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_rope_cat_and_cache_mla``.
    """
    del upcast_operand
    try:
        (rows, heads, rank), turned = q_nope.shape[:3], q_pe.shape[2]
        kind = q_nope.dtype if q_out_dtype is None else q_out_dtype
        few = (num_decode_toks_for_zeros, heads)
        cache = blocks_of(kv_cache)
        q_out = q_nope.new_empty((rows, heads, rank + turned), dtype=kind) if q_out is None else q_out
        decode_q_pe_out = q_nope.new_empty((*few, turned)) if decode_q_pe_out is None else decode_q_pe_out
        k_pe_out = like(k_pe) if k_pe_out is None else k_pe_out
        zeros = q_nope.new_empty((*few, rank))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_qk_rope_cat_and_cache_mla", error) from error
    _fused_qk_rope_cat_and_cache_mla(
        q_nope, q_pe, k_nope, k_pe, cache, slot_mapping, pos, cos, sin, k_scale if apply_scale else None,
        q_out, decode_q_pe_out, k_pe_out, zeros, is_neox, num_decode_toks_for_zeros, shuffled_kv_cache,
    )  # fmt: skip
    return q_out, decode_q_pe_out, k_pe_out, zeros
