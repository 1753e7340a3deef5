"""Attention over a latent cache (MLA) by AITER's assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output, scale_of
from aiter_prebuilt.ops._mla import address, reduced_to, rows_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.mla import refuse_mla_decode_stage1_asm_fwd, refuse_mla_prefill_fwd

if TYPE_CHECKING:
    import torch

_mla_decode_stage1_asm_fwd = operator("mla_decode_stage1_asm_fwd")
_mla_prefill_asm_fwd = operator("mla_prefill_asm_fwd")
_mla_reduce_v1 = operator("mla_reduce_v1")
_mla_prefill_fwd = operator("mla_prefill_fwd")


@traced
def mla_decode_stage1_asm_fwd(
    Q: torch.Tensor,
    KV: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_page_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    num_kv_splits_indptr: torch.Tensor | None,
    work_meta_data: torch.Tensor | None,
    work_indptr: torch.Tensor | None,
    work_info_set: torch.Tensor | None,
    max_seqlen_q: int,
    page_size: int,
    nhead_kv: int,
    softmax_scale: float,
    splitData: torch.Tensor,
    splitLse: torch.Tensor,
    output: torch.Tensor,
    lse: torch.Tensor | None = None,
    q_scale: torch.Tensor | None = None,
    kv_scale: torch.Tensor | None = None,
    g_kv_indptr: torch.Tensor | None = None,
    cp_world_size: int = 1,
    cp_rank: int = 0,
    valid_split_count: torch.Tensor | None = None,
    use_valid_split_count_reduce: int = 0,
    causal: bool = True,
) -> None:
    """Attend over parts of a paged latent cache.

    The parts of a context are computed separately, by AITER's assembly.

    Each part is the mean of its values, and the natural logarithm of the sum of its exponentials.
    Queries of a batch are the last of its context, and each sees the keys up to its own place.

    Args:
        Q: [tokens, heads, 576] bf16 or the target's fp8, 16 or 128 heads.
        KV: [pages, 1, 1, 576], one key a page, whose first 512 numbers are its values. bf16 with bf16, fp8 with fp8, and with
            work_info_set bf16 with fp8 (16 heads). Page 0 is read for keys behind the end of a context, whether a list names it
            or not: NaN or infinity there makes all results NaN, as in AITER.
        qo_indptr: [batches + 1] int32, where the queries of each batch begin.
        kv_indptr: [batches + 1] int32, where the pages of each batch begin.
        kv_page_indices: int32.
        kv_last_page_lens: [batches] int32, ones.
        num_kv_splits_indptr: [batches + 1] int32, 0, n, 2 * n ...: every context in n parts; blocks of 16 keys go to the parts in
            turn (32 for 128 heads in fp8, 64 for 16 heads and one query each). None: works are listed.
        work_meta_data: any value; the table of their addresses is made here.
        work_indptr: [units + 1] int32, where the work items of each compute unit begin, or None.
        work_info_set: [works, 8] int32, the work items of all compute units, or None.
        max_seqlen_q: the largest number of queries of a batch. 128 heads in bf16: 1. fp8 with 16 heads: 1. Works: up to 4.
        page_size: only 1 is supported.
        nhead_kv: only 1 is supported.
        softmax_scale: more than 0.
        splitData: [tokens, n, heads, 512] fp32, or with works [rows, 1, heads, 512]. One part is the result in bf16, unless 16
            heads have one query each in bf16.
        splitLse: fp32, with a last dim of 1. Parts without a key stay as they are.
        output: [tokens, heads, 512] bf16: works that are no part write it.
        lse: None only.
        q_scale: [1] fp32, the factor of fp8 queries.
        kv_scale: [1] fp32, the factor of fp8 keys and values.
        g_kv_indptr: accepted and ignored.
        cp_world_size: only 1 is supported.
        cp_rank: accepted and ignored.
        valid_split_count: accepted and ignored.
        use_valid_split_count_reduce: accepted and ignored.
        causal: True only; ``mla_decode_fwd`` takes more.

    Raises:
        UnsupportedError: an option that no kernel covers, a scale that is not above 0, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mla_decode_stage1_asm_fwd``.
    """
    del work_meta_data, g_kv_indptr, cp_rank, valid_split_count, use_valid_split_count_reduce
    refuse_mla_decode_stage1_asm_fwd(page_size, nhead_kv, lse, cp_world_size, causal)
    scale_of("mla_decode_stage1_asm_fwd", softmax_scale)
    if num_kv_splits_indptr is not None and address(output) == address(splitData):
        output = like(output)  # AITER hands on the result as one part, too; nothing is written to this one
    _mla_decode_stage1_asm_fwd(
        Q, KV, qo_indptr, kv_indptr, kv_page_indices, kv_last_page_lens, num_kv_splits_indptr, work_indptr,
        work_info_set, splitData, splitLse, output, q_scale, kv_scale, max_seqlen_q, softmax_scale,
    )  # fmt: skip


@traced
def mla_prefill_asm_fwd(
    Q: torch.Tensor,
    KV: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_page_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    max_seqlen_q: int,
    softmax_scale: float,
    splitData: torch.Tensor,
    splitLse: torch.Tensor,
) -> None:
    """Attend many queries over a paged latent cache.

    Causal, in one part; AITER's assembly.

    Args:
        Q: [tokens, heads, 576] bf16, 16 or 128 heads.
        KV: [pages, 1, 1, 576] bf16, one key a page, whose first 512 numbers are its values. Page 0 is read for keys behind the
            end of a context, as of ``mla_decode_stage1_asm_fwd``.
        qo_indptr: [batches + 1] int32, where the queries of each batch begin; they are the last of the context.
        kv_indptr: [batches + 1] int32, where the pages of each batch begin.
        kv_page_indices: int32.
        kv_last_page_lens: [batches] int32, ones.
        max_seqlen_q: the largest number of queries of a batch.
        softmax_scale: more than 0.
        splitData: [tokens, 1, heads, 512] bf16, written.
        splitLse: [tokens, 1, heads, 1] fp32, left as it is.

    Raises:
        UnsupportedError: a scale that is not above 0, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mla_prefill_asm_fwd``.
    """
    scale_of("mla_prefill_asm_fwd", softmax_scale)
    _mla_prefill_asm_fwd(
        Q, KV, qo_indptr, kv_indptr, kv_page_indices, kv_last_page_lens, splitData, splitLse, max_seqlen_q, softmax_scale
    )  # fmt: skip


@traced
def mla_reduce_v1(
    partial_output: torch.Tensor,
    partial_lse: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor | None,
    reduce_partial_map: torch.Tensor,
    max_seqlen_q: int,
    num_kv_splits: int | None = 0,
    final_output: torch.Tensor | None = None,
    final_lse: torch.Tensor | None = None,
) -> None:
    """Combine partial rows of persistent attention.

    Tile by tile, as its lists say.

    Args:
        partial_output: [rows, heads, 512] fp32, or [rows, 1, heads, 512]; of prompts (``mla_prefill_ps_asm_fwd``) 128 columns.
        partial_lse: [rows, heads] fp32, natural logarithms, with a last dim of 1 or without.
        reduce_indptr: [tiles + 1] int32, where the parts of each tile begin in reduce_partial_map, int32, which says the row of
            each part's first token. Tiles of fewer than two parts are left as they are.
        reduce_final_map: [tiles, 2] int32, first token and end of each tile; None: all tiles are one behind the other, of as many
            tokens as there are rows between the first two of reduce_partial_map.
        reduce_partial_map: [parts] int32, the first row of each partial result, tile by tile.
        max_seqlen_q: the most tokens of a tile, as a hint: many are shared by several workgroups.
        num_kv_splits: 0 and more; a tile may have any number of parts. None is 0.
        final_output: [tokens, heads, 512 or 128] bf16 or fp16, its last dim contiguous, written; it has to be given.
        final_lse: [tokens, heads] fp32, written. Callers of AITER's older trees, where final_output and final_lse stood in the
            place of num_kv_splits, or of max_seqlen_q, are understood, too.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mla_reduce_v1``.
    """
    given = reduced_to(max_seqlen_q, num_kv_splits, final_output, final_lse)
    _mla_reduce_v1(
        partial_output, rows_of(partial_lse, partial_output), reduce_indptr, reduce_final_map, reduce_partial_map,
        *given,
    )  # fmt: skip


@traced
def mla_prefill_fwd(
    q: torch.Tensor,
    kv_buffer: torch.Tensor,
    o: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    max_seqlen_q: int,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    num_kv_splits: int | None = None,
) -> Any:
    """Attend many queries over a paged latent cache.

    Causal; AITER's assembly, a kernel of ours for other heads and sizes.

    Args:
        q: [T, H, 576] bf16, any H; AITER's assembly takes 16 and 128.
        kv_buffer: [P, 1, 1, 576] bf16, the first dim may be strided, the others are dense; pages of one key; AITER's assembly
            reads page 0 for keys behind the end of a context, and where it holds NaN or infinity all of the result is NaN; more
            queries than keys give no result of use, and a sequence without keys may leave its rows of the result as they were, as
            AITER's objects do (0 where a context is in several parts).
        o: [tokens, heads, 512] bf16, written.
        qo_indptr: [batches + 1] int32, where the queries of each batch begin; they are the last of the context.
        kv_indptr: [batches + 1] int32, where the pages of each batch begin.
        kv_indices: [pages] int32, the pages of all batches, one behind the other.
        kv_last_page_lens: [batches] int32, the keys of each batch's last page.
        max_seqlen_q: the most queries of a batch.
        sm_scale: more than 0; 576**-0.5 when None.
        logit_cap: 0 only.
        num_kv_splits: any value; there is one part.

    Returns:
        ``o``, and logarithms fp32 [tokens, 1, heads, 1] that nobody writes, as AITER's are.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``aiter.mla.mla_prefill_fwd``.
    """
    del num_kv_splits
    refuse_mla_prefill_fwd(logit_cap)
    try:
        scale = q.shape[2] ** -0.5 if sm_scale is None else sm_scale
        lse = o.new_empty((o.shape[0], 1, o.shape[1], 1), dtype=element_type(o, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mla_prefill_fwd", error) from error
    scale_of("mla_prefill_fwd", scale, "sm_scale")
    _mla_prefill_fwd(
        q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, lse, max_seqlen_q, scale
    )  # fmt: skip
    return o, lse
