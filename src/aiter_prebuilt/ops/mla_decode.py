"""Attention over a latent cache (MLA), decoding: AITER's assembly, and a kernel of ours for what it does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, outputs, refuse, scale_of
from aiter_prebuilt.ops._mla import Made, compute_units, of_parts, of_works, shaped
from aiter_prebuilt.ops._plans import Plan, plan_of, remembered
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.mla import refuse_mla_decode_fwd

if TYPE_CHECKING:
    import torch

_mla_decode_fwd = operator("mla_decode_fwd")


def _new_parts(
    q: Any, o: Any, qo_indptr: Any, kv_indices: Any, page_size: int, queries: int, wanted: int | None
) -> tuple[Any, ...]:
    """Logarithms, the parts (None: the only one is the result), and their number."""
    units = compute_units(q) if wanted is None else 0
    keys = kv_indices.shape[0] * page_size
    made = of_parts(q, o, qo_indptr, keys, queries, wanted, units, element_type(o, "f32"))
    return made.lse, made.logits, made.splits


_made_parts = outputs(_new_parts)


@traced
def mla_decode_fwd(
    q: torch.Tensor,
    kv_buffer: torch.Tensor,
    o: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_lens: torch.Tensor,
    max_seqlen_q: int,
    page_size: int = 1,
    nhead_kv: int = 1,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    num_kv_splits: int | None = None,
    num_kv_splits_indptr: torch.Tensor | None = None,
    work_meta_data: torch.Tensor | None = None,
    work_indptr: torch.Tensor | None = None,
    work_info_set: torch.Tensor | None = None,
    reduce_indptr: torch.Tensor | None = None,
    reduce_final_map: torch.Tensor | None = None,
    reduce_partial_map: torch.Tensor | None = None,
    q_scale: torch.Tensor | None = None,
    kv_scale: torch.Tensor | None = None,
    intra_batch_mode: bool = False,
    return_logits: bool = False,
    return_lse: bool = False,
    g_kv_indptr: torch.Tensor | None = None,
    cp_world_size: int = 1,
    cp_rank: int = 0,
    causal: bool = True,
) -> Any:
    """Attend the latest queries over a paged latent cache.

    AITER's assembly, a kernel of ours for what it does not take.

    Queries of a batch are the last of its context. The assembly takes pages of one key, without a cap: 16 heads, 128 heads with
    one query each or in fp8, fp8 with 16 heads and one query each; there may not be more queries than keys then, which nobody
    checks. The assembly reads page 0 of ``kv_buffer`` for keys behind the end of a context, whether a list names it or not:
    where it holds NaN or infinity, all of ``o`` is NaN, as in AITER. Keep it finite (zeros, as its callers do), or take heads or
    types of our kernel, which reads no key that is not listed. All else is taken by our kernel. Of a batch without keys ``o`` is
    0, but for one part or works by the assembly, which leaves it.

    With ``cp_world_size`` above 1 the keys are those of one rank of context parallelism, dealt out in turn. Key j of this rank is
    key ``j * cp_world_size + cp_rank`` of the whole sequence, and the mask is that of the whole sequence. A token that sees no
    key of this rank has 0 and -inf, so that results of all ranks can be merged by their logarithms. A kernel of ours takes it.

    Args:
        q: [tokens, heads, 576] bf16, fp16 or the target's fp8.
        kv_buffer: [pages, page_size, 1, 576] of the same type, or fp8; the first 512 numbers of a key are its values. Rows and
            pages lie at multiples of 16 bytes.
        o: [tokens, heads, 512] bf16, fp16 with fp16, written.
        qo_indptr: [batches + 1] int32, where the queries of each batch begin. Where the assembly has one query for each of 16
            heads, every batch has one: [0, 1, 2 ...].
        kv_indptr: [B + 1] int32, where the pages of each sequence start in kv_indices.
        kv_indices: int32, the pages.
        kv_last_page_lens: [batches] int32, the keys of the last page. A page that is not there is read as it is named.
        max_seqlen_q: the largest number of queries of a batch.
        page_size: that of kv_buffer.
        nhead_kv: 1 only.
        sm_scale: more than 0; 576**-0.5 when None.
        logit_cap: above 0 a score x is cap * tanh(x / cap); above about 1,000 logarithms lose digits (1e-3 at 10,000).
        num_kv_splits: parts of each context, up to 4096, fewer in fp8 where contexts are short; AITER's rule of the number of
            compute units, batches and keys when None. With works it is not looked at.
        num_kv_splits_indptr: accepted and ignored.
        work_meta_data: accepted and ignored.
        work_indptr: [W1] int32, or None; the five lists of works together: AITER's assembly where it has a kernel for them, else
            one of ours.
        work_info_set: [works, 8] int32, the work items of all compute units, or None.
        reduce_indptr: [tiles + 1] int32, where the parts of each tile begin, or None.
        reduce_final_map: [tiles, 2] int32, the rows of the result of each tile, or None.
        reduce_partial_map: [parts] int32, the first row of each partial result, or None.
        q_scale: [1] fp32, the factor of fp8 queries.
        kv_scale: [1] fp32, the factor of fp8 keys and values.
        intra_batch_mode: accepted and ignored.
        return_logits: accepted and ignored.
        return_lse: the logarithms are wanted, which without it are written only where parts were made one.
        g_kv_indptr: [batches + 1] int32, where the keys of each whole sequence would begin in a list of all ranks' keys. It is
            needed, and read, where ``cp_world_size`` is above 1.
        cp_world_size: ranks that the keys are dealt out to, 1 to 2**30 - 1. Above 1 pages have one key.
        cp_rank: this rank, 0 to ``cp_world_size - 1``; ignored where there is one.
        causal: a query sees the keys up to its own place; False: all of this rank.

    Returns:
        The parts and the natural logarithms of the sums of exponentials, fp32. The parts: [tokens, parts, heads, 512], with works
        [rows, 1, heads, 512]; ``o`` where there is one part which is the result (not so where 16 heads have one query each in
        bf16). The logarithms: [tokens, heads].

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``aiter.mla.mla_decode_fwd``.
    """
    del num_kv_splits_indptr, work_meta_data, intra_batch_mode, return_logits
    return _planned(
        q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, page_size, nhead_kv, sm_scale,
        logit_cap, num_kv_splits, work_indptr, work_info_set, reduce_indptr, reduce_final_map, reduce_partial_map,
        q_scale, kv_scale, g_kv_indptr, return_lse, cp_world_size, cp_rank, causal, _mla_decode_fwd,
    )  # fmt: skip


def _ranks(ranks: Any, rank: Any, wholes: Any, page_size: Any) -> tuple[Any, Any]:
    """Ranks of context parallelism, and this one.

    Raises:
        UnsupportedError: there is no such rank, or its mask cannot be known.
    """
    name = "mla_decode_fwd"
    if not 1 <= ranks < 1 << 30:
        raise refuse(name, "cp_world_size", ranks, f"1 to {(1 << 30) - 1}")
    if ranks == 1:
        return ranks, 0
    if not 0 <= rank < ranks:
        raise refuse(name, "cp_rank", rank, f"0 to {ranks - 1}, as cp_world_size is {ranks}")
    if wholes is None:
        raise refuse(name, "g_kv_indptr", None, f"a tensor, as cp_world_size is {ranks}")
    if page_size != 1:
        raise refuse(name, "page_size", page_size, f"1, as cp_world_size is {ranks}")
    return ranks, rank


def _decoded(
    q: Any, kv_buffer: Any, o: Any, qo_indptr: Any, kv_indptr: Any, kv_indices: Any, kv_last_page_lens: Any,
    max_seqlen_q: Any, page_size: Any, nhead_kv: Any, sm_scale: Any, logit_cap: Any, num_kv_splits: Any,
    work_indptr: Any, work_info_set: Any, reduce_indptr: Any, reduce_final_map: Any, reduce_partial_map: Any,
    q_scale: Any, kv_scale: Any, g_kv_indptr: Any, return_lse: Any, cp_world_size: Any, cp_rank: Any, causal: Any,
    operator: Any,
) -> Any:  # fmt: skip
    refuse_mla_decode_fwd(nhead_kv)
    ranks, rank = _ranks(cp_world_size, cp_rank, g_kv_indptr, page_size)
    lists = (work_indptr, work_info_set, reduce_indptr, reduce_final_map, reduce_partial_map)
    try:
        if page_size < 1:
            raise refuse("mla_decode_fwd", "page_size", page_size, "1 and more")
        if page_size != kv_buffer.shape[1]:
            raise refuse("mla_decode_fwd", "page_size", page_size, f"{kv_buffer.shape[1]}")
        scale = q.shape[2] ** -0.5 if sm_scale is None else sm_scale
        capped = logit_cap > 0
        if all(each is not None for each in lists):
            made = of_works(q, o, page_size, reduce_partial_map, max_seqlen_q, element_type(o, "f32"))
        else:
            lists = (None, None, None, None, None)
            found = _made_parts(q, o, qo_indptr, kv_indices, page_size, max_seqlen_q, num_kv_splits)
            lse, logits, splits = found
            made = Made(q, o, logits, o if logits is None else logits, lse, splits, 1)
    except AiterPrebuiltError:
        raise
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mla_decode_fwd", error) from error
    scale_of("mla_decode_fwd", scale, "sm_scale")
    operator(
        made.q, kv_buffer, made.o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, *lists, q_scale, kv_scale,
        g_kv_indptr, made.logits, made.lse, max_seqlen_q, scale, made.splits, made.fold, max(logit_cap, 0.0), capped,
        return_lse, ranks, rank, causal,
    )  # fmt: skip
    if isinstance(
        made.lse, tuple
    ):  # it has no framework: a golden call judges it as the operator writes it, heads folded
        return made.parts, made.lse
    return made.parts, shaped(made.lse, tuple(q.shape[:2]))


def _plan(
    q: Any, kv_buffer: Any, o: Any, qo_indptr: Any, _kv_indptr: Any, kv_indices: Any, _last: Any,
    max_seqlen_q: Any, page_size: Any, nhead_kv: Any, sm_scale: Any, logit_cap: Any, num_kv_splits: Any,
    *more: Any,
) -> Plan | None:  # fmt: skip
    """Plan :func:`_decoded` for calls without work lists."""
    *lists, _q_scale, _kv_scale, g_kv_indptr, return_lse, cp_world_size, cp_rank, causal, called = more
    refuse_mla_decode_fwd(nhead_kv)
    ranks, rank = _ranks(cp_world_size, cp_rank, g_kv_indptr, page_size)
    if page_size < 1 or page_size != kv_buffer.shape[1] or all(lists):
        return None
    scale = q.shape[2] ** -0.5 if sm_scale is None else sm_scale
    scale_of("mla_decode_fwd", scale, "sm_scale")
    lse, logits, splits = _new_parts(q, o, qo_indptr, kv_indices, page_size, max_seqlen_q, num_kv_splits)
    made = (lse,) if logits is None else (lse, logits)
    given = (
        *((place,) for place in range(7)), None, None, None, None, None, (18,), (19,), (20,),
        None if logits is None else (-2,), (-1,), max_seqlen_q, scale, splits, 1, max(logit_cap, 0.0), logit_cap > 0,
        return_lse, ranks, rank, causal,
    )  # fmt: skip
    return plan_of(made, ((called, given),), ((2,) if logits is None else (-2,), (-1,)))


#: The operator is among them, so that a call of another one is not that of a plan.
_KINDS: Final = "tttt" + "ptp" + "v" * 6 + "p" * 8 + "v" * 5
_planned = remembered(_decoded, _plan, _KINDS)
