"""Flash attention of new tokens behind a prefix in a cache, forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, no_output
from aiter_prebuilt.ops._ragged import as_type
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_extend_attention_fwd = operator("extend_attention_fwd")


@traced
def extend_attention_fwd(
    q_extend: torch.Tensor,
    k_extend: torch.Tensor,
    v_extend: torch.Tensor,
    o_extend: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    custom_mask: torch.Tensor | None,
    is_causal: bool,
    mask_indptr: torch.Tensor | None,
    max_len_extend: int,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    skip_prefix_custom_mask: bool = True,
    config: Any = None,
) -> None:
    """``softmax(q @ k.T * sm_scale) @ v`` per head of new tokens that see their prefix in a cache and each other.

    Args:
        q_extend: [sq, hq, d] bf16 or fp16, the new tokens of all sequences, d up to 256, or 576 with bf16 and dv 512. The last
            dim of each tensor must be contiguous. k_extend: [sq, hk, d] of the same type, their keys, hq a multiple of hk.
            v_extend: [sq, hk, dv], dv up to 256. o_extend: [sq, hq, dv], written. Rows of no sequence stay as they are.
        k_buffer: [rows, hk, d], the cache. v_buffer: [rows, hk, dv].
        qo_indptr: [n + 1] int32: sequence i has the tokens from qo_indptr[i] to qo_indptr[i + 1].
        kv_indptr: [n + 1] int32: the keys of its prefix are the rows kv_indices[kv_indptr[i]] to that before
            kv_indices[kv_indptr[i + 1]] of the cache. kv_indices: made int32 if it is not.
        custom_mask: bool or uint8, for n tokens behind p keys of the cache n rows of p + n: a token sees a key where it is not 0,
            whatever is_causal says. mask_indptr: where the mask of each sequence starts; made int32 if it is not.
        is_causal: without a mask: a new token sees the new ones up to itself; else all of its sequence.
        max_len_extend: the most new tokens of a sequence. Rows behind it stay as they are.
        sm_scale: d**-0.5 when None or 0. logit_cap: above 0, a score x becomes cap * tanh(x / cap).
        skip_prefix_custom_mask: all keys of the cache are seen, whatever the mask says of them.
        config: any value; it changes nothing.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``extend_attention_fwd``; SGLang's attention of prompts behind a prefix.
    """
    del config
    try:
        scale = sm_scale or q_extend.shape[2] ** -0.5
        new = (q_extend, k_extend, v_extend, o_extend)
        rows = as_type(kv_indices, "i32")
        mask = (codes(custom_mask, "bool"), as_type(mask_indptr, "i32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("extend_attention_fwd", error) from error
    tensors = (*new, k_buffer, v_buffer, qo_indptr, kv_indptr, rows, *mask)
    _extend_attention_fwd(*tensors, is_causal, max_len_extend, scale, logit_cap, skip_prefix_custom_mask)
