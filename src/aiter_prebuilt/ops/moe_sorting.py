"""AITER's ``moe_sorting``, which allocates what ``moe_sorting_fwd`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiter_prebuilt.ops._common import refuse
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.moe_sorting import moe_sorting_fwd

if TYPE_CHECKING:
    import torch

_NAME: Final = "moe_sorting"


@traced
def moe_sorting(
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    num_experts: int,
    model_dim: int,
    moebuf_dtype: torch.dtype,
    block_size: int = 32,
    expert_mask: torch.Tensor | None = None,
    num_local_tokens: torch.Tensor | None = None,
    dispatch_policy: int = 0,
    return_local_topk_ids: bool = False,
    accumulate: bool = True,
    flat: bool = False,
    output_aux: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Sort choices by expert for a fused mixture.

    The lists are new tensors: choices by expert, each expert's padded to whole blocks.

    Args:
        topk_ids: [T, topk] int32, experts of each token; ids that are none of ``num_experts`` are left out.
        topk_weights: [T, topk] fp32. With ``num_local_tokens`` they may have fewer rows than ids, at least as many as tokens are
            there.
        num_experts: of all devices, where ``expert_mask`` is given.
        model_dim: columns of a token.
        moebuf_dtype: bf16, fp16 or fp32, the type of a result.
        block_size: rows of a block.
        expert_mask: [num_experts] int32, 1 where an expert is here, or None.
        num_local_tokens: [1] int32, so many of the tokens are there, or None.
        dispatch_policy: accepted and ignored; the lists are the same.
        return_local_topk_ids: return the ids of the experts here as a sixth result.
        accumulate: accepted and ignored; the buffer becomes 0.
        flat: only False is supported.
        output_aux: only False is supported.

    Returns:
        sorted ids [P] int32, their weights [P] fp32, the expert of each block int32, [2] int32 how many ids count and how many
        tokens there are, and zeros [T, model_dim], but for rows of tokens that are not there, which have no meaning;
        P = T * topk + num_experts * block_size - topk. What is behind those that count has no meaning. Then, if they are asked
        for, [T, topk] int32: with ``expert_mask`` the number of each choice among the experts here, -1 where it is none of them;
        without it ``topk_ids``.

    Raises:
        UnsupportedError: an option that no kernel covers.
        ArgumentError, NoKernelError: as ``moe_sorting_fwd``.

    Source: AITER ``moe_sorting``.
    """
    del accumulate
    for option, value in (("flat", flat), ("output_aux", output_aux)):
        if value:
            raise refuse(_NAME, option, value, "False")
    tokens, topk = topk_ids.shape
    most = tokens * topk + num_experts * block_size - topk
    ids = topk_ids.new_empty((most,))
    weights = topk_weights.new_empty((most,))
    experts = topk_ids.new_empty((-(-most // block_size),))
    valid = topk_ids.new_empty((2,))
    buffer = topk_ids.new_empty((tokens, model_dim), dtype=moebuf_dtype)
    chosen = topk_ids
    rows, written = topk_weights.shape[0], buffer
    if (
        num_local_tokens is not None and rows < tokens
    ):  # ids padded beyond the weights, as a server's dispatch leaves them
        topk_ids, written = topk_ids[:rows], buffer[:rows]
    moe_sorting_fwd(
        topk_ids, topk_weights, ids, weights, experts, valid, written, num_experts, block_size, expert_mask, num_local_tokens,
        dispatch_policy,
    )  # fmt: skip
    made = (ids, weights, experts, valid, buffer)
    return (*made, _local(chosen, expert_mask)) if return_local_topk_ids else made


def _local(topk_ids: torch.Tensor, expert_mask: torch.Tensor | None) -> torch.Tensor:
    """Return the numbers of choices among the experts here, -1 for others, in a new tensor."""
    if expert_mask is None:
        return topk_ids.clone()
    here = expert_mask != 0
    numbers = here.cumsum(0).sub(1).masked_fill(~here, -1).to(topk_ids.dtype)
    last = expert_mask.shape[0] - 1
    found = numbers[topk_ids.clamp(0, last).long()]
    return found.masked_fill((topk_ids < 0) | (topk_ids > last), -1)
