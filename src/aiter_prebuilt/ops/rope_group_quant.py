"""Heads whose last elements are turned, the others as fp8 with a power of two for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, no_output
from aiter_prebuilt.ops._rope_group_quant import inverse_results, norm_results
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.rope_group_quant import (
    refuse_fused_kv_norm_rope_group_quant,
    refuse_fused_qk_norm_rope_group_quant,
    refuse_inverse_rope_group_quant,
)

if TYPE_CHECKING:
    import torch

_fused_kv_norm_rope_group_quant = operator("fused_kv_norm_rope_group_quant")
_fused_qk_norm_rope_group_quant = operator("fused_qk_norm_rope_group_quant")
_inverse_rope_group_quant = operator("inverse_rope_group_quant")


@traced
def fused_kv_norm_rope_group_quant(
    kv: torch.Tensor,
    kv_weight: torch.Tensor,
    positions: torch.Tensor,
    slot_mapping: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    eps: float,
    k_nope_scale_buff: torch.Tensor,
    k_rope_buff: torch.Tensor,
    is_neox: bool = False,
    quant_group_size: int = 64,
    scale_dtype: str = "e8m0",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise, rotate and quantise latent keys into caches.

    RMSNorm of the keys, rotary embedding of their last elements, the others as fp8, into two paged caches.

    Args:
        kv: [tokens, D] or [tokens, 1, D] bf16 or fp16, D a multiple of 8 and at most 512; rows at multiples of 16 bytes.
        kv_weight: [D], of the type of kv.
        positions: int64, at least one for each token, cut to the rows of cos_cache.
        slot_mapping: int64, block * page_size + offset, at least one for each token; a token whose slot is not in the cache is
            skipped.
        cos_cache: [positions, rot / 2], of the type of kv, rot a multiple of 16 and less than D.
        sin_cache: as cos_cache, with its strides.
        eps: what the norm adds to the mean of squares.
        k_nope_scale_buff: [blocks, page_size, entry] of the target's fp8 or bytes, written: D - rot codes, then the e8m0 byte of
            each group twice. The bytes behind stay as they are. Entries lie at multiples of 8 bytes.
        k_rope_buff: [blocks, page_size, rot], of the type of kv, written with the turned elements.
        is_neox: pairs are element i and i + rot / 2; else neighbours.
        quant_group_size: 32, 64 or 128; it divides D - rot. The scale of a group is the smallest power of two of which amax, 1e-8
            at least, is at most the largest code.
        scale_dtype: "e8m0".

    Returns:
        k_nope_scale_buff and k_rope_buff.

    Raises:
        UnsupportedError: another group size or type of scales, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: OCP Microscaling Formats (MX) 1.0; AITER ``fused_kv_norm_rope_group_quant``.
    """
    refuse_fused_kv_norm_rope_group_quant(quant_group_size, scale_dtype)
    _fused_kv_norm_rope_group_quant(
        kv, kv_weight, positions, slot_mapping, cos_cache, sin_cache, k_nope_scale_buff, k_rope_buff, eps, is_neox,
        quant_group_size,
    )  # fmt: skip
    return k_nope_scale_buff, k_rope_buff


@traced
def inverse_rope_group_quant(
    o: torch.Tensor,
    positions: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    num_groups: int,
    quant_group_size: int = 128,
    scale_layout: str = "row",
    x_fp8: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Undo a rotation and quantise heads to fp8.

    Rotary embedding is undone in the last elements of each head; heads become fp8 with a power of two for each group.

    Args:
        o: [tokens, heads, head_dim] bf16 or fp16, head_dim at most 512; each head begins at a multiple of 16 bytes.
        positions: int64, at least one for each token, cut to the rows of cos_cache.
        cos_cache: [positions, rot / 2], of the type of o, rot a multiple of 8. The last rot elements are turned back, in
            neighbouring pairs.
        sin_cache: as cos_cache, with its strides.
        num_groups: parts of a token with scales of their own, of D = heads * head_dim / num_groups elements each.
        quant_group_size: 32, 64 or 128; it divides head_dim and D. The scale of a group is the smallest power of two of which
            amax, 1e-8 at least, is at most the largest code.
        scale_layout: how the K = D / quant_group_size scales of a part lie. "row": [tokens, num_groups, K]. "mfma_tile":
            [num_groups, rows, columns], rows a multiple of 32, columns of 8, or of 2 with groups of 128. "n32k4": [tokens / 32,
            num_groups, 32 K], with groups of 32, K a multiple of 4.
        x_fp8: [tokens, num_groups, D] of the target's fp8, written; made when None.
        x_scale: e8m0 (torch's, or bytes), written; made when None. What belongs to no token and no group stays as it is.

    Returns:
        x_fp8 and x_scale.

    Raises:
        UnsupportedError: another group size or layout, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: OCP Microscaling Formats (MX) 1.0; AITER ``inverse_rope_group_quant``.
    """
    refuse_inverse_rope_group_quant(quant_group_size, scale_layout)
    try:
        x_fp8, x_scale = inverse_results(o, num_groups, quant_group_size, scale_layout, x_fp8, x_scale)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("inverse_rope_group_quant", error) from error
    _inverse_rope_group_quant(
        o,
        positions,
        cos_cache,
        sin_cache,
        x_fp8,
        codes(x_scale, "e8m0"),
        num_groups,
        quant_group_size,
        scale_layout,
    )
    return x_fp8, x_scale


@traced
def fused_qk_norm_rope_group_quant(
    q: torch.Tensor,
    kv: torch.Tensor,
    k_weight: torch.Tensor,
    positions: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    eps: float,
    is_neox: bool = False,
    q_out_dtype: torch.dtype | None = None,
    q_nope_scale_buff: torch.Tensor | None = None,
    q_rope_buff: torch.Tensor | None = None,
    k_nope_scale_buff: torch.Tensor | None = None,
    k_rope_buff: torch.Tensor | None = None,
    q_weight: torch.Tensor | None = None,
    quant_group_size: int = 64,
    scale_dtype: str = "e8m0",
    swa_nope_scale_buff: torch.Tensor | None = None,
    swa_rope_buff: torch.Tensor | None = None,
    swa_block_tables: torch.Tensor | None = None,
    swa_dest_row: torch.Tensor | None = None,
    swa_block_size: int | None = None,
    batch_id_per_token: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor]:
    """Normalise, rotate and quantise queries and latent keys.

    RMSNorm of heads of queries and of latent keys, rotary embedding of their last elements, the others as fp8.

    Args:
        q: [tokens, heads, D] bf16 or fp16, D a multiple of 8 and at most 512; each head begins at a multiple of 16 bytes.
        kv: [tokens, D] or [tokens, 1, D], of the type of q; rows at multiples of 16 bytes.
        k_weight: [D], of the type of q.
        positions: int64, at least one for each token, cut to the rows of cos_cache.
        cos_cache: [positions, rot / 2], of the type of q, rot a multiple of 16 and D - rot of 64.
        sin_cache: as cos_cache, with its strides.
        eps: what the norms add to the mean of squares.
        is_neox: pairs are element i and i + rot / 2; else neighbours.
        q_out_dtype: of a new q_nope_scale_buff: the type of q (when None), or the target's fp8.
        q_nope_scale_buff: [tokens, heads, entry] of fp8, written: D - rot codes, then the e8m0 byte of each group twice. The
            bytes behind stay as they are. Or [tokens, heads, D] of the type of q: whole heads. Made when None.
        q_rope_buff: [tokens, heads, rot], of the type of q, written with the turned elements of fp8 queries; made when None.
        k_nope_scale_buff: [tokens, 1, entry] or [tokens, entry] of fp8 or bytes, as fp8 queries with groups of 64; made when
            None.
        k_rope_buff: [tokens, 1, rot] or [tokens, rot], of the type of q; made when None.
        q_weight: [D]; None: 1.
        quant_group_size: of fp8 queries, 32 or 64. The scale of a group is the smallest power of two of which amax, 1e-8 at
            least, is at most the largest code.
        scale_dtype: "e8m0".
        swa_nope_scale_buff: [rows, entry], a second place for keys, of the type of k_nope_scale_buff. A token
            of a negative sequence or position, or whose row is not there, is skipped.
        swa_rope_buff: [rows, rot], with swa_nope_scale_buff.
        swa_block_tables: int32, [sequences, blocks]: a token's row is that of its block, of swa_block_size tokens each.
        swa_dest_row: int32, the row of each token, in place of swa_block_tables.
        swa_block_size: tokens of a block; None is 0.
        batch_id_per_token: int32, the sequence of each token, with swa_nope_scale_buff.

    Returns:
        q_nope_scale_buff, q_rope_buff (None where queries are not fp8), k_nope_scale_buff and k_rope_buff.

    Raises:
        UnsupportedError: another type of scales, or a tensor that requires grad. ArgumentError, NoKernelError: the call does not
            fit.

    Source: OCP Microscaling Formats (MX) 1.0; AITER ``fused_qk_norm_rope_group_quant``.
    """
    refuse_fused_qk_norm_rope_group_quant(scale_dtype)
    try:
        results = norm_results(
            (q, kv, cos_cache), q_out_dtype, (q_nope_scale_buff, q_rope_buff, k_nope_scale_buff, k_rope_buff)
        )
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_qk_norm_rope_group_quant", error) from error
    _fused_qk_norm_rope_group_quant(
        q, kv, k_weight, positions, cos_cache, sin_cache, *results, q_weight, swa_nope_scale_buff, swa_rope_buff,
        swa_block_tables, swa_dest_row, batch_id_per_token, eps, is_neox, quant_group_size,
        0 if swa_block_size is None else swa_block_size,
    )  # fmt: skip
    return results
