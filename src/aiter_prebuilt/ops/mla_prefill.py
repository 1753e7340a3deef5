"""Lists of works for attention of prompts (MLA): their shapes, and the lists themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._current import units_here
from aiter_prebuilt.ops._prompts import beside
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.mla_prefill import refuse_get_ps_metadata_v1

if TYPE_CHECKING:
    import torch

_get_ps_metadata_v1 = operator("get_ps_metadata_v1")


@traced
def get_ps_metadata_info_v1(
    batch_size: int, num_head_k: int, max_qlen: int, qlen_granularity: int = 256
) -> tuple[tuple[Any, torch.dtype], ...]:
    """Return shapes and types of :func:`get_ps_metadata_v1`'s lists.

    They are those for the current device.

    Args:
        batch_size: the largest number of batches.
        num_head_k: heads of keys.
        max_qlen: the largest number of queries of a batch.
        qlen_granularity: queries of a tile.

    Returns:
        As AITER's: (shape, type) of work_metadata_ptrs, work_indptr, work_info, reduce_indptr, reduce_final_map and
        reduce_partial_map. A shape of one dim is an int.

    Raises:
        DriverError: there is no device.

    Source: AITER ``get_ps_metadata_info_v1``.
    """
    import torch

    units = units_here()
    own = units // math.gcd(num_head_k, units)
    tiles = math.ceil(max_qlen / qlen_granularity)
    return (
        (2, torch.uint64),
        (units + 1, torch.int32),
        (((batch_size + own - 1) * tiles * num_head_k, 8), torch.int32),
        (batch_size * tiles + 1, torch.int32),
        ((batch_size * tiles, 2), torch.int32),
        (min(batch_size + own - 1, (own - 1) * 2) * tiles, torch.int32),
    )


@traced
def get_ps_metadata_v1(
    seqlens_qo_indptr: torch.Tensor,
    pages_kv_indptr: torch.Tensor,
    context_lens: torch.Tensor,
    gqa_ratio: int,
    num_heads_k: int,
    work_metadata_ptrs: torch.Tensor | None,
    work_indptr: torch.Tensor,
    work_info: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor,
    reduce_partial_map: torch.Tensor,
    qhead_granularity: int = 1,
    qlen_granularity: int = 256,
    kvlen_granularity: int = 16,
    block_size: int = 16,
    is_causal: bool = True,
    need_lse: bool = False,
) -> None:
    """Share out prompt attention over the compute units.

    Writes the lists that ``mla_prefill_ps_asm_fwd`` takes.

    They are AITER's, but that tiles of queries that see no key always have a work. What of a list is not needed stays as it is.
    They are made on the device: where the lengths lie there, too, nothing waits for it.

    Args:
        seqlens_qo_indptr: [batches + 1] int32, where the queries of each batch begin. On the device of the lists, or on the host:
            then it is copied.
        pages_kv_indptr: [batches + 1] int32, where the pages of each batch begin. On the device of the lists, or on the host:
            then it is copied.
        context_lens: [batches] int32, the keys of each batch. On the device of the lists, or on the host: then it is copied.
        gqa_ratio: any value.
        num_heads_k: heads of keys.
        work_metadata_ptrs: any value; it stays as it is, as AITER leaves it.
        work_indptr: [workgroups + 1] int32, up to 1024 workgroups.
        work_info: [works, 8] int32, written. The lists have at least the lengths that ``get_ps_metadata_info_v1`` says; one that
            is too short is left incomplete.
        reduce_indptr: [tiles + 1] int32, written: where the parts of each tile begin.
        reduce_final_map: [tiles, 2] int32, written: the rows of each tile.
        reduce_partial_map: [parts] int32, written: the first row of each partial result.
        qhead_granularity: heads of queries that share a head of keys.
        qlen_granularity: queries of a tile.
        kvlen_granularity: keys that are not taken apart, a multiple of block_size.
        block_size: keys of a page.
        is_causal: queries are the last of their context, and see the keys up to their own place.
        need_lse: False only. In AITER True makes a part of a tile that is in one piece, too, so that its logarithms are kept.

    Raises:
        UnsupportedError: need_lse, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``get_ps_metadata_v1``.
    """
    del gqa_ratio, work_metadata_ptrs
    refuse_get_ps_metadata_v1(need_lse)
    lengths = [beside(each, work_info) for each in (seqlens_qo_indptr, pages_kv_indptr, context_lens)]
    _get_ps_metadata_v1(
        *lengths, work_indptr, work_info, reduce_indptr, reduce_final_map, reduce_partial_map, num_heads_k,
        qhead_granularity, qlen_granularity, kvlen_granularity, block_size, is_causal,
    )  # fmt: skip
