"""Norm and rotary embedding of one tensor of queries, keys and values, and the write of keys and values into a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._caches import viewing
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._norm_rope_caches import TILES, cache_of, codes_in, rank, sections_of
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_fused_qk_norm_rope_cache_pts_quant_shuffle = operator("fused_qk_norm_rope_cache_pts_quant_shuffle")
_fused_qk_norm_mrope_3d_cache_pts_quant_shuffle = operator("fused_qk_norm_mrope_3d_cache_pts_quant_shuffle")
# k_cache and v_cache are their tensors 6 and 7.
_with_rows = viewing(_fused_qk_norm_rope_cache_pts_quant_shuffle, 6, 7, True)
_by_sections = viewing(_fused_qk_norm_mrope_3d_cache_pts_quant_shuffle, 6, 7, True)


@traced
def fused_qk_norm_rope_cache_pts_quant_shuffle(
    qkv: torch.Tensor,
    qw: torch.Tensor,
    kw: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    num_tokens: int,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_size: int,
    is_neox_style: bool,
    eps: float,
    q_out: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    per_tensor_k_scale: float,
    per_tensor_v_scale: float,
    k_out: torch.Tensor | None,
    v_out: torch.Tensor | None,
    return_kv: bool,
    use_shuffle_layout: bool,
    block_size: int,
    x: int,
    rotary_dim: int = 0,
) -> None:
    """RMSNorm of each head of the queries and keys in ``qkv``, and rotary embedding; queries into ``q_out``, keys and values into
    a cache.

    Args:
        qkv: [..., last] bf16 or fp16, contiguous, of each token the heads of queries, then keys, then values.
        qw, kw: [head_size], the weights of the norms, of the type of qkv.
        cos_sin: [P, rot], rows of cosines, then sines. positions: int64, one for each token or more, cut to the rows of cos_sin.
        num_tokens: how many tokens there are. num_heads_q, num_heads_k, num_heads_v: how many heads a token has.
        head_size: even, at most 512; of 64, 128 and 256 aligned calls are the fast ones.
        is_neox_style: pairs are element i and i + half; else neighbours. eps: what the norms add to the mean of squares.
        q_out: [num_tokens, num_heads_q, head_size], written.
        k_cache: [blocks, block_size, num_heads_k, head_size], or without blocks [slots, num_heads_k, head_size]; of the type of
            qkv, or the target's fp8. Blocks, tokens and heads may lie apart. With use_shuffle_layout [blocks, num_heads_k,
            head_size / x, block_size, x], strided, or memory of that order in another shape whose blocks may lie apart.
        v_cache: as k_cache with num_heads_v; with use_shuffle_layout [blocks, num_heads_v, block_size / x, head_size, x].
        slot_mapping: int64 or int32, block * block_size + offset; a slot that is not in the cache is skipped.
        per_tensor_k_scale, per_tensor_v_scale: numbers, or tensors with one: stored = value / scale, saturating; a cache of 16
            bits does not use them.
        k_out, v_out: [num_tokens, heads, head_size], written with what is stored, of the type of the cache; or None. Of one of 16
            bits beside an fp8 cache the first half of the bytes gets the codes, as in AITER.
        return_kv: whether k_out and v_out are written; those of a token without a slot (a negative one) stay as they are.
        block_size: 0: a cache without blocks. x: with use_shuffle_layout the width of a tile.
        rotary_dim: how many elements of a head are turned; 0 is all.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_norm_rope_cache_pts_quant_shuffle``.
    """
    try:
        if rank(k_cache) != TILES or rank(v_cache) != TILES:
            sizes = (block_size if block_size > 0 else 1, x if use_shuffle_layout else 0)
            k_cache = cache_of(k_cache, (num_heads_k, head_size), sizes, keys=True)
            v_cache = cache_of(v_cache, (num_heads_v, head_size), sizes, keys=False)
        if k_out is not None:
            k_out = codes_in(k_out, k_cache)
        if v_out is not None:
            v_out = codes_in(v_out, v_cache)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_qk_norm_rope_cache_pts_quant_shuffle", error) from error
    _with_rows(
        qkv, qw, kw, cos_sin, positions, q_out, k_cache, v_cache, slot_mapping, k_out, v_out, num_tokens, num_heads_q,
        num_heads_k, num_heads_v, head_size, is_neox_style, eps, per_tensor_k_scale, per_tensor_v_scale, return_kv,
        use_shuffle_layout, block_size, x, rotary_dim,
    )  # fmt: skip


@traced
def fused_qk_norm_mrope_3d_cache_pts_quant_shuffle(
    qkv: torch.Tensor,
    qw: torch.Tensor,
    kw: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    num_tokens: int,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_size: int,
    is_neox_style: bool,
    mrope_section_: Sequence[int],
    is_interleaved: bool,
    eps: float,
    q_out: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    per_tensor_k_scale: float,
    per_tensor_v_scale: float,
    k_out: torch.Tensor | None,
    v_out: torch.Tensor | None,
    return_kv: bool,
    use_shuffle_layout: bool,
    block_size: int,
    x: int,
    rotary_dim: int = 0,
    gemma_norm: bool = False,
) -> None:
    """RMSNorm of each head of the queries and keys in ``qkv``, and rotary embedding by three positions of each token; queries
    into ``q_out``, keys and values into a cache.

    Args:
        qkv: [..., last] bf16 or fp16, contiguous, of each token the heads of queries, then keys, then values.
        qw, kw: [head_size], the weights of the norms, of the type of qkv.
        cos_sin: [P, rot], rows of cosines, then sines.
        positions: [3, tokens] int64, of which either dim may lie apart: time, height and width of each token or more tokens, cut
            to the rows of cos_sin.
        num_tokens: how many tokens there are. num_heads_q, num_heads_k, num_heads_v: how many heads a token has.
        head_size: even, at most 512; of 64, 128 and 256 aligned calls are the fast ones.
        is_neox_style: pairs are element i and i + half; else neighbours.
        mrope_section_: how many pairs have their angles from each of the three positions: together half of what is turned.
        is_interleaved: pair p has position p % 3; 1 and 2 end after 3 times their numbers of pairs, and 0 has the rest. Else the
            first pairs have position 0, the next ones 1, the last ones 2.
        eps: what the norms add to the mean of squares.
        q_out: [num_tokens, num_heads_q, head_size], written.
        k_cache: [blocks, block_size, num_heads_k, head_size], or without blocks [slots, num_heads_k, head_size]; of the type of
            qkv, or the target's fp8. Blocks, tokens and heads may lie apart. With use_shuffle_layout [blocks, num_heads_k,
            head_size / x, block_size, x], strided, or memory of that order in another shape whose blocks may lie apart.
        v_cache: as k_cache with num_heads_v; with use_shuffle_layout [blocks, num_heads_v, block_size / x, head_size, x].
        slot_mapping: int64 or int32, block * block_size + offset; a slot that is not in the cache is skipped.
        per_tensor_k_scale, per_tensor_v_scale: numbers, or tensors with one: stored = value / scale, saturating; a cache of 16
            bits does not use them.
        k_out, v_out: [num_tokens, heads, head_size], written with what is stored, of the type of the cache; or None. Of one of 16
            bits beside an fp8 cache the first half of the bytes gets the codes, as in AITER.
        return_kv: whether k_out and v_out are written; those of a token without a slot (a negative one) stay as they are.
        use_shuffle_layout: caches are tiles. block_size: 0: a cache without blocks. x: the width of a tile.
        rotary_dim: how many elements of a head are turned; 0 is all. gemma_norm: the norms multiply by 1 + weight.

    Raises:
        UnsupportedError: a tensor that requires grad, or not three numbers in mrope_section_. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``fused_qk_norm_mrope_3d_cache_pts_quant_shuffle``.
    """
    name = "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle"
    try:
        sections = sections_of(name, mrope_section_)
        if rank(k_cache) != TILES or rank(v_cache) != TILES:
            sizes = (block_size if block_size > 0 else 1, x if use_shuffle_layout else 0)
            k_cache = cache_of(k_cache, (num_heads_k, head_size), sizes, keys=True)
            v_cache = cache_of(v_cache, (num_heads_v, head_size), sizes, keys=False)
        if k_out is not None:
            k_out = codes_in(k_out, k_cache)
        if v_out is not None:
            v_out = codes_in(v_out, v_cache)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output(name, error) from error
    _by_sections(
        qkv, qw, kw, cos_sin, positions, q_out, k_cache, v_cache, slot_mapping, k_out, v_out, num_tokens, num_heads_q,
        num_heads_k, num_heads_v, head_size, is_neox_style, *sections, is_interleaved, eps, per_tensor_k_scale,
        per_tensor_v_scale, return_kv, use_shuffle_layout, block_size, x, rotary_dim, gemma_norm,
    )  # fmt: skip
