"""Lists of works for attention over a latent cache (MLA): their shapes, and the lists themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aiter_prebuilt import device
from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import refuse
from aiter_prebuilt.ops._mla import addresses, in_order
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.mla_works import refuse_get_mla_metadata_v1

if TYPE_CHECKING:
    import torch

_get_mla_metadata_v1 = operator("get_mla_metadata_v1")


def get_mla_metadata_info_v1(
    batch_size: int,
    max_seqlen_qo: int,
    num_head_qo: int,
    q_dtype: torch.dtype,
    kv_dtype: torch.dtype,
    is_sparse: int,
    fast_mode: bool = True,
) -> tuple[tuple[Any, torch.dtype], ...]:
    """Shapes and types of the lists that :func:`get_mla_metadata_v1` fills, for the current device.

    Args:
        batch_size, max_seqlen_qo: how many batches, and queries of a batch, at most. num_head_qo: heads, a multiple of 16.
        q_dtype: any. kv_dtype: with fp8, 128 heads are one work, not eight.
        is_sparse: every query has keys of its own. fast_mode: what the lists are to be made with.

    Returns:
        As AITER's: (shape, type) of work_metadata_ptrs, work_indptr, work_info, reduce_indptr, reduce_final_map and
        reduce_partial_map. A shape of one dim is an int. AITER counts one work for each cut between two units; where the queries
        of a batch are several works (128 heads in fp8 with more than one query), there is room for one for each here.

    Raises:
        UnsupportedError: num_head_qo is no multiple of 16. DriverError: there is no device.

    Source: AITER ``get_mla_metadata_info_v1``.
    """
    import torch

    del q_dtype
    if num_head_qo % 16:
        raise refuse("get_mla_metadata_info_v1", "num_head_qo", num_head_qo, "a multiple of 16")
    units = device.facts("amd", torch.cuda.current_device()).compute_units
    own = num_head_qo == 16 or (num_head_qo == 128 and "float8_e4m3" in str(kv_dtype))
    tiles = math.ceil(max_seqlen_qo * num_head_qo / (128 if own else 16))
    contexts = batch_size * max_seqlen_qo if is_sparse else batch_size
    made = contexts * tiles
    works, parts = made * units, made * units
    if fast_mode:
        cut = tiles if own else 1  # of each context that is cut between two units, every tile has a work more
        works, parts = made + (units - 1) * cut, min(contexts + units - 1, (units - 1) * 2) * tiles
    return (
        (2, torch.uint64),
        (units + 1, torch.int32),
        ((works, 8), torch.int32),
        (made + 1, torch.int32),
        ((made, 2), torch.int32),
        (parts, torch.int32),
    )


@traced
def get_mla_metadata_v1(
    seqlens_qo_indptr: torch.Tensor,
    seqlens_kv_indptr: torch.Tensor,
    num_heads_per_head_k: int,
    num_heads_k: int,
    is_causal: bool,
    work_metadata_ptrs: torch.Tensor,
    work_indptr: torch.Tensor,
    work_info: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor,
    reduce_partial_map: torch.Tensor,
    kv_granularity: int = 16,
    max_seqlen_qo: int = -1,
    uni_seqlen_qo: int = -1,
    fast_mode: bool = True,
    topk: int = -1,
    max_split_per_batch: int = -1,
) -> None:
    """Attention over a latent cache shared out over the compute units: the lists that ``mla_decode_fwd`` takes.

    They are AITER's, but that batches without queries or keys have no work (one would end its unit's list), and that no part is
    so short that one of its queries sees no key. What of a list is not needed stays as it is. Nothing is read back to the host.

    Args:
        seqlens_qo_indptr, seqlens_kv_indptr: [batches + 1] int32, where the queries and the keys of each batch begin; a batch
            has no more queries than keys.
        num_heads_per_head_k: 16 or 128 heads, or 32 to 112 in steps of 16 with ``uni_seqlen_qo=1``: each 16 of them are a batch
            of their own then. num_heads_k: 1 only. is_causal: any value; queries are the last of their context.
        work_metadata_ptrs: [2] uint64 (or int64), the addresses of the two lists behind it.
        work_indptr, work_info: [units + 1], [works, 8] int32. Either may come first: AITER's kernel takes them the other way
            round than its Python function names them.
        reduce_indptr, reduce_final_map, reduce_partial_map: [tiles + 1], [tiles, 2], [parts] int32. The lists have at least the
            lengths that ``get_mla_metadata_info_v1`` says; where ``max_seqlen_qo`` and ``uni_seqlen_qo`` leave open how many
            queries there are, a list that is too short is left incomplete.
        kv_granularity: a power of two; parts are whole multiples of it.
        max_seqlen_qo: the largest number of queries of a batch, for the check of lengths; -1: unknown.
        uni_seqlen_qo: queries of each batch; -1: seqlens_qo_indptr says it. fast_mode: True only.
        topk: each query has keys of its own, so many at most, one list of that length behind the other; -1: it does not.
        max_split_per_batch: so many parts of a batch on average at most; -1: as many as there are units.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``get_mla_metadata_v1``, fast mode.
    """
    del is_causal
    refuse_get_mla_metadata_v1(num_heads_k, fast_mode)
    units, works = in_order(work_indptr, work_info)
    _get_mla_metadata_v1(
        seqlens_qo_indptr, seqlens_kv_indptr, addresses(work_metadata_ptrs), units, works, reduce_indptr,
        reduce_final_map, reduce_partial_map, num_heads_per_head_k, kv_granularity, max_seqlen_qo, uni_seqlen_qo,
        topk, max_split_per_batch,
    )  # fmt: skip
