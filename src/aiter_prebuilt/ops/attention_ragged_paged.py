"""Decoding over a paged cache: one query for each sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output, same_shape
from aiter_prebuilt.ops._plans import Plan, plan_of, remembered
from aiter_prebuilt.ops._ragged import tokens_first
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.attention_ragged import (
    refuse_paged_attention_ragged,
    refuse_paged_attention_v1,
)

if TYPE_CHECKING:
    import torch

_paged_attention_v1 = operator("paged_attention_v1")
_paged_attention_ragged = operator("paged_attention_ragged")
#: The place of cu_query_lens among the tensors of ``_planned``; context_lens is the next.
_STARTS: Final = 5


@traced
def paged_attention_v1(
    out: torch.Tensor,
    workspace_buffer: torch.Tensor | None,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    scale: float,
    block_tables: torch.Tensor,
    cu_query_lens: torch.Tensor | None,
    context_lens: torch.Tensor,
    max_context_len: int,
    alibi_slopes: torch.Tensor | None,
    kv_cache_dtype: str,
    kv_cache_layout: str,
    logits_soft_cap: float,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    fp8_out_scale: torch.Tensor | None = None,
    partition_size: int = 256,
    mtp: int = 1,
    sliding_window: int = 0,
) -> torch.Tensor:
    """``softmax(query @ k.T * scale) @ v`` of one query for each sequence, whose keys and values lie in pages of a cache.

    Args:
        out: [rows, hq, dv], written. query: [rows, hq, d] bf16 or fp16, d up to 256. The last dim of each tensor must be
            contiguous.
        key_cache: [pages, page size, hk, d], or with layout HND [pages, hk, page size, d]; of the type of query, or fp8;
            hq is a multiple of hk. value_cache: the same with dv.
        scale: what scores are multiplied with. logits_soft_cap: above 0, a score x becomes cap * tanh(x / cap).
        block_tables: [n, most pages] int32, the pages of each sequence in order.
        cu_query_lens: [n + 1] int32, where the queries of each sequence start: the row of one with more than one query, or none,
            stays as it is. Sequence i has row i when None. [n] means one query each, from row 0 on, and its values are not read:
            vLLM passes its list without the end.
        context_lens: [n] int32, the keys of each sequence, that of its query among them.
        max_context_len: the most of them, about: by it the keys of a sequence are divided among workgroups, and no result depends
            on it.
        kv_cache_dtype: "auto" where the cache is of the type of query, else "fp8" or "fp8_e4m3". kv_cache_layout: "NHD" or "HND".
        k_scale, v_scale: fp32, one scale of all keys and of all values of an fp8 cache: the first element counts.
        sliding_window: above 0, a query sees so many keys, the last ones.
        alibi_slopes: [hq] fp32: the score of key j of m gets slope * (j - m + 1), before the cap.
        workspace_buffer, partition_size: any value; they are not used. fp8_out_scale, mtp: None and 1 only.

    Returns:
        out.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``paged_attention_v1``; vLLM.
    """
    del workspace_buffer, partition_size
    _planned(
        query, key_cache, value_cache, out, block_tables, cu_query_lens, context_lens, alibi_slopes, k_scale, v_scale, scale,
        max_context_len, kv_cache_dtype, kv_cache_layout, logits_soft_cap, sliding_window, fp8_out_scale, mtp,
        _paged_attention_v1,
    )  # fmt: skip
    return out


def _run(*given: Any) -> None:
    """The arguments of ``_planned``."""
    *tensors, scale, most, dtype, layout, cap, window, fp8_out_scale, mtp, called = given
    refuse_paged_attention_v1(dtype, layout, fp8_out_scale, mtp)
    if same_shape(*tensors[_STARTS : _STARTS + 2]):
        tensors[_STARTS] = None
    if layout == "HND":
        tensors[1:3] = _tokens_first("paged_attention_v1", *tensors[1:3])
    called(*tensors, scale, most, dtype, layout, cap, window - 1 if window > 0 else -1)


def _plan(*given: Any) -> Plan | None:
    *tensors, scale, most, dtype, layout, cap, window, fp8_out_scale, mtp, called = given
    refuse_paged_attention_v1(dtype, layout, fp8_out_scale, mtp)
    if layout == "HND":
        return None
    left_out = _STARTS if same_shape(*tensors[_STARTS : _STARTS + 2]) else -1
    places = (None if place == left_out else (place,) for place in range(len(tensors)))
    return plan_of((), ((called, (*places, scale, most, dtype, layout, cap, max(window, 0) - 1)),), None)


_planned = remembered(_run, _plan, "ppppp" + "tt" + "ppp" + "v" * 9)


@traced
def paged_attention_ragged(
    out: torch.Tensor,
    workspace_buffer: torch.Tensor | None,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    scale: float,
    kv_indptr: torch.Tensor,
    kv_page_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    block_size: int,
    max_num_partitions: int,
    alibi_slopes: torch.Tensor | None,
    kv_cache_dtype: str,
    kv_cache_layout: str,
    logits_soft_cap: float,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    fp8_out_scale: torch.Tensor | None = None,
    partition_size: int = 256,
    mtp: int = 1,
) -> torch.Tensor:
    """``softmax(query @ k.T * scale) @ v`` of one query for each sequence, whose keys and values lie in pages that one list
    names.

    Args:
        out: [n, hq, dv], written. query: [n, hq, d] bf16 or fp16, d up to 256. The last dim of each tensor must be contiguous.
        key_cache: [pages, page size, hk, d], or with layout HND [pages, hk, page size, d]; of the type of query, or fp8;
            hq is a multiple of hk. value_cache: the same with dv.
        scale: what scores are multiplied with. logits_soft_cap: above 0, a score x becomes cap * tanh(x / cap).
        kv_indptr: [n + 1] int32: the pages of sequence i are kv_page_indices[kv_indptr[i]] to that before kv_indptr[i + 1].
            kv_page_indices: [m] int32. kv_last_page_lens: [n] int32, the keys of each sequence's last page; not read where a page
            is one key.
        block_size: any value; the cache says it. max_num_partitions, partition_size: their product is the most keys of a
            sequence, about: by it the keys of a sequence are divided among workgroups, and no result depends on it.
        kv_cache_dtype: "auto" where the cache is of the type of query, else "fp8" or "fp8_e4m3". kv_cache_layout: "NHD" or "HND".
        k_scale, v_scale: fp32, one scale of all keys and of all values of an fp8 cache: the first element counts.
        workspace_buffer: any value; it is not used. alibi_slopes, fp8_out_scale, mtp: None, None and 1 only.

    Returns:
        out.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``paged_attention_ragged``; SGLang.
    """
    del workspace_buffer, block_size
    _planned_ragged(
        query, key_cache, value_cache, out, kv_indptr, kv_page_indices, kv_last_page_lens, k_scale, v_scale, scale,
        max_num_partitions, partition_size, kv_cache_dtype, kv_cache_layout, logits_soft_cap, alibi_slopes, fp8_out_scale,
        mtp, _paged_attention_ragged,
    )  # fmt: skip
    return out


def _run_ragged(*given: Any) -> None:
    """The arguments of ``_planned_ragged``."""
    *tensors, scale, partitions, size, dtype, layout, cap, alibi_slopes, fp8_out_scale, mtp, called = given
    refuse_paged_attention_ragged(alibi_slopes, dtype, layout, fp8_out_scale, mtp)
    try:
        most = partitions * size
    except NOT_A_TENSOR as error:
        raise no_output("paged_attention_ragged", error) from error
    if layout == "HND":
        tensors[1:3] = _tokens_first("paged_attention_ragged", *tensors[1:3])
    called(*tensors, scale, most, dtype, layout, cap)


def _plan_ragged(*given: Any) -> Plan | None:
    *tensors, scale, partitions, size, dtype, layout, cap, alibi_slopes, fp8_out_scale, mtp, called = given
    refuse_paged_attention_ragged(alibi_slopes, dtype, layout, fp8_out_scale, mtp)
    if layout == "HND":
        return None
    places = ((place,) for place in range(len(tensors)))
    return plan_of((), ((called, (*places, scale, partitions * size, dtype, layout, cap)),), None)


_planned_ragged = remembered(_run_ragged, _plan_ragged, "p" * 9 + "v" * 10)


def _tokens_first(function: str, *caches: torch.Tensor) -> tuple[Any, ...]:
    """Caches of layout HND as those of NHD.

    Raises:
        ArgumentKindError: one is no tensor of pages.
    """
    try:
        return tuple(tokens_first(each, "HND") for each in caches)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output(function, error) from error
