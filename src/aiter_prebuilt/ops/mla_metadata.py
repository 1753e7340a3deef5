"""Lists of works for attention over a latent cache (MLA): their shapes, and the lists themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import number, refuse
from aiter_prebuilt.ops._current import units_here
from aiter_prebuilt.ops._mla import addresses, contexts_of, in_order
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.mla import refuse_get_mla_metadata_v1

if TYPE_CHECKING:
    import torch

_get_mla_metadata_v1 = operator("get_mla_metadata_v1")


@traced
def get_mla_metadata_info_v1(
    batch_size: int,
    max_seqlen_qo: int,
    num_head_qo: int,
    q_dtype: torch.dtype,
    kv_dtype: torch.dtype,
    is_sparse: int,
    fast_mode: bool = True,
    num_kv_splits: int = 32,
    intra_batch_mode: bool = False,
    max_split_per_batch: int = -1,
) -> tuple[tuple[Any, torch.dtype], ...]:
    """Return shapes and types of :func:`get_mla_metadata_v1`'s lists.

    They are those for the current device.

    Args:
        batch_size: the largest number of batches.
        max_seqlen_qo: the largest number of queries of a batch.
        num_head_qo: the number of heads of queries.
        q_dtype: accepted and ignored; the lists are the same.
        kv_dtype: accepted and ignored; the lists are the same.
        is_sparse: every query has keys of its own.
        fast_mode: accepted and ignored; the lists are the same.
        num_kv_splits: with ``intra_batch_mode``, the work items of each tile of queries.
        intra_batch_mode: make room for ``num_kv_splits`` work items of each tile of queries; the lists have no more parts then.
        max_split_per_batch: as of :func:`get_mla_metadata_v1`; -1: as many parts as there are compute units.

    Returns:
        (shape, type) of work_metadata_ptrs, work_indptr, work_info_set, reduce_indptr, reduce_final_map and reduce_partial_map. A
        shape of one dim is an int. The lists have room for what ``get_mla_metadata_v1`` makes: AITER's may be longer, and are
        shorter where the queries of a batch are several works, of which it counts one for each cut between two units.

    Raises:
        UnsupportedError: num_head_qo, num_kv_splits or max_split_per_batch is none.
        DriverError: there is no device.

    Source: AITER ``get_mla_metadata_info_v1``.
    """
    import torch

    del q_dtype, kv_dtype, fast_mode
    name = "get_mla_metadata_info_v1"
    if batch_size < 0:
        raise refuse(name, "batch_size", batch_size, "0 and more")
    if num_head_qo < 1:
        raise refuse(name, "num_head_qo", num_head_qo, "1 and more")
    if num_kv_splits < 1:
        raise refuse(name, "num_kv_splits", num_kv_splits, "1 and more")
    if max_split_per_batch == 0:
        raise refuse(name, "max_split_per_batch", max_split_per_batch, "-1, 1 and more")
    units = units_here()
    queries = max(max_seqlen_qo, 1)
    fold, tiles = contexts_of(num_head_qo, 1, queries, 1 if is_sparse else queries, -1)
    contexts = batch_size * fold * (queries if is_sparse else 1)
    shares = units if max_split_per_batch < 0 else min(units, max_split_per_batch * contexts)
    made = contexts * tiles
    # Every cut is between two units, and makes of each tile of a context two works.
    works, parts = (contexts + shares - 1) * tiles, min(contexts + shares - 1, (shares - 1) * 2) * tiles
    if intra_batch_mode:
        works = parts = made * num_kv_splits
    return (
        (2, torch.uint64),
        (units + 1, torch.int32),
        ((works, 8), torch.int32),
        (made + 1, torch.int32),
        ((made, 2), torch.int32),
        (max(parts, 1), torch.int32),
    )


@traced
def get_mla_metadata_v1(
    seqlens_qo_indptr: torch.Tensor,
    seqlens_kv_indptr: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    num_heads_per_head_k: int,
    num_heads_k: int,
    is_causal: bool,
    work_metadata_ptrs: torch.Tensor,
    work_info_set: torch.Tensor,
    work_indptr: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor,
    reduce_partial_map: torch.Tensor,
    page_size: int = 1,
    kv_granularity: int = 16,
    max_seqlen_qo: int = -1,
    uni_seqlen_qo: int = -1,
    fast_mode: bool = True,
    topk: int = -1,
    max_split_per_batch: int = -1,
    intra_batch_mode: bool = False,
    is_cp_round_robin: bool = False,
    mla_version: int = 0,
    dtype_q_nope: torch.dtype | None = None,
    dtype_q_rope: torch.dtype | None = None,
    dtype_kv_nope: torch.dtype | None = None,
    dtype_kv_rope: torch.dtype | None = None,
    dtype_q: torch.dtype | None = None,
    dtype_kv: torch.dtype | None = None,
) -> None:
    """Share out latent attention over the compute units.

    Writes the lists that ``mla_decode_fwd`` takes.

    They are AITER's, but that batches without queries or keys have no work (one would end its unit's list), and that no part is
    so short that one of its queries sees no key. What of a list is not needed stays as it is. Nothing is read back to the host.

    Args:
        seqlens_qo_indptr: [batches + 1] int32, where the queries of each batch begin.
        seqlens_kv_indptr: [batches + 1] int32, where the pages of each batch begin.
        kv_last_page_lens: [batches] int32, the keys of each batch's last page.
        num_heads_per_head_k: any number of heads. Other multiples of 16 than 16 and 128, up to 512, are batches of 16 heads each
            where pages have one key and ``uni_seqlen_qo`` is 1; there ``mla_decode_fwd`` takes one query no other way, so that
            without ``uni_seqlen_qo=1`` there are several: ``max_seqlen_qo`` says so.
        num_heads_k: 1 only.
        is_causal: queries are the last of their context, and see the keys up to their own place.
        work_metadata_ptrs: [2] uint64 (or int64), the addresses of work_indptr and work_info_set.
        work_info_set: [works, 8] int32, written. A work item: batch, row of its part or -1, queries from and to, pages from and
            to, keys behind them, 0. It may change places with work_indptr, as in AITER's older trees.
        work_indptr: [units + 1] int32, written: where the work items of each compute unit begin.
        reduce_indptr: [tiles + 1] int32, written. The lists have at least the lengths that ``get_mla_metadata_info_v1`` says;
            shorter ones are of fewer parts, and are refused where they have no room for one work item of each tile. Where
            ``max_seqlen_qo`` and ``uni_seqlen_qo`` leave open how many queries there are, a list that is too short is left
            incomplete.
        reduce_final_map: [tiles, 2] int32, written; its length as of ``reduce_indptr``.
        reduce_partial_map: [parts] int32, written; its length as of ``reduce_indptr``.
        page_size: keys of a page.
        kv_granularity: a power of two; parts are whole multiples of so many pages.
        max_seqlen_qo: the largest number of queries of a batch; -1: unknown.
        uni_seqlen_qo: queries of each batch; -1: seqlens_qo_indptr says it.
        fast_mode: the lists are those of the fast mode; accepted and ignored.
        topk: each query has keys of its own, so many at most, one list of that length behind the other; -1: it does not. Every
            batch has as many queries as the first in seqlens_qo_indptr then, also where ``uni_seqlen_qo`` says 1.
        max_split_per_batch: so many parts of a batch on average at most; -1: as many as there are units.
        intra_batch_mode: the lists are those of the fast mode, of as many works as they have room for; any value; it changes
            nothing.
        is_cp_round_robin: the keys are those of one rank of context parallelism. The lists are those of ``is_causal=False`` then:
            only ``mla_decode_fwd`` knows where its keys lie in the whole sequence.
        mla_version: 0 (AITER's ``MlaVersion.V32``) only.
        dtype_q_nope: accepted and ignored.
        dtype_q_rope: accepted and ignored.
        dtype_kv_nope: accepted and ignored.
        dtype_kv_rope: accepted and ignored.
        dtype_q: accepted and ignored.
        dtype_kv: accepted and ignored.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``get_mla_metadata_v1``, fast mode.
    """
    del (
        fast_mode,
        intra_batch_mode,
        dtype_q_nope,
        dtype_q_rope,
        dtype_kv_nope,
        dtype_kv_rope,
        dtype_q,
        dtype_kv,
    )
    refuse_get_mla_metadata_v1(num_heads_k, number(mla_version))
    fold, tiles = contexts_of(num_heads_per_head_k, page_size, max_seqlen_qo, uni_seqlen_qo, topk)
    units, works = in_order(work_indptr, work_info_set)
    _get_mla_metadata_v1(
        seqlens_qo_indptr, seqlens_kv_indptr, kv_last_page_lens, addresses(work_metadata_ptrs), works, units,
        reduce_indptr, reduce_final_map, reduce_partial_map, num_heads_per_head_k,
        is_causal and not is_cp_round_robin, page_size, kv_granularity, uni_seqlen_qo, topk, max_split_per_batch, fold, tiles,
    )  # fmt: skip
