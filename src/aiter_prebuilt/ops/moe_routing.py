"""AITER's ``routing`` and ``routing_from_hash``: functions around the operators of ``moe_routing`` and ``moe_routing_hash``.

What multiplies by what they give is in ``moe_gemm_f4``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, refuse
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.moe_routing import moe_routing_lists
from aiter_prebuilt.ops.generated.moe_routing_hash import moe_routing_hash_lists

if TYPE_CHECKING:
    import torch

    _Lists = tuple[
        torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor
    ]


@dataclass
class ExptData:
    """The places of each expert: int32 on the device.

    ``hist``: how many; ``token_offs_raw``: the first; ``token_offs_pad``: the number of its first block; ``block_pid_map``: of
    each block its number among its expert's << 16 | the expert, -1 behind the last.
    """

    hist: torch.Tensor
    token_offs_raw: torch.Tensor
    token_offs_pad: torch.Tensor
    block_pid_map: torch.Tensor


@dataclass
class RoutingData:
    """The routing that products by experts read.

    ``gate_scal`` is the score of each place, ``block_m`` the places of a block.
    """

    block_m: int
    gate_scal: torch.Tensor
    expt_hist: torch.Tensor
    n_expts_tot: int
    n_expts_act: int
    expt_data: ExptData | None = None

    def n_blocks(self, n_rows: int, block_m: int) -> int:
        """Return the most blocks that so many places can have."""
        if n_rows <= self.n_expts_tot:
            return n_rows
        return -(-(n_rows - self.n_expts_tot + 1) // block_m) + self.n_expts_tot - 1


@traced
def routing(
    logits: torch.Tensor,
    n_expts_act: int,
    sm_first: bool = False,
    *,
    score_mode: str | None = None,
    bias: torch.Tensor | None = None,
    renorm: bool = True,
    routed_scaling_factor: float = 1.0,
    use_grouped_topk: bool = False,
    num_expert_group: int | None = None,
    topk_group: int | None = None,
    expert_group: torch.Tensor | None = None,
) -> tuple[RoutingData, torch.Tensor, torch.Tensor]:
    """Choose each token's experts by logits.

    Gives the experts with the largest logits of each token, and their places in the order of experts.

    Args:
        logits: [M, E] bf16, fp16 or fp32, up to 512 experts; rows may be apart. Of equal ones the expert of the higher number is
            chosen.
        n_expts_act: the number of experts of a token.
        sm_first: choose experts by the softmax of all logits, which are the scores; else scores are the softmax of the chosen
            logits.
        score_mode: only None is supported.
        bias: accepted and ignored, as in AITER without score_mode.
        renorm: accepted and ignored, as in AITER without score_mode.
        routed_scaling_factor: accepted and ignored, as in AITER without score_mode.
        use_grouped_topk: accepted and ignored, as in AITER without score_mode.
        num_expert_group: accepted and ignored, as in AITER without score_mode.
        topk_group: accepted and ignored, as in AITER without score_mode.
        expert_group: accepted and ignored, as in AITER without score_mode.

    Returns:
        (:class:`RoutingData`, of each place its choice, of each choice its place), both int32, where AITER has 16 bits for fewer
        than 65536 places. A choice is token * n_expts_act + its number among the token's, which are in the order of experts.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``routing``.
    """
    del bias, renorm, routed_scaling_factor, use_grouped_topk, num_expert_group, topk_group, expert_group
    if score_mode is not None:
        raise refuse("routing", "score_mode", score_mode, "None")
    try:
        tokens, experts = logits.shape
        average = max(1, tokens * n_expts_act // max(1, experts))
        block_m = max(16, min(1 << (average - 1).bit_length(), 128))
        data, lists = _empty(logits, n_expts_act, block_m)
    except NOT_A_TENSOR as error:
        raise no_output("routing", error) from error
    moe_routing_lists(logits, n_expts_act, block_m, *lists, bool(sm_first))
    return data, lists[0], lists[1]


@traced
def routing_from_hash(
    router_logits: torch.Tensor,
    tid2eid: torch.Tensor,
    input_ids: torch.Tensor,
    n_expts_act: int,
    block_m: int,
    *,
    score_mode: str = "sqrtsoftplus",
    renorm: bool = True,
    routed_scaling_factor: float = 1.0,
) -> tuple[RoutingData, torch.Tensor, torch.Tensor]:
    """Look up each token's experts in a table.

    Gives the experts that the table names for each token of the input, and their places in the order of experts.

    Args:
        router_logits: [M, E] bf16, fp16 or fp32, up to 512 experts; rows may be apart.
        tid2eid: [V, n_expts_act] int32, the experts of each token of the vocabulary in any order; rows may be apart. An expert
            that stands twice in a row has two places, each with its score, and both count in the sum; AITER counts it once, and
            writes over what another one has. One below 0 or above E - 1 has no place, and a score of 0.
        input_ids: [M] int32 or int64: the row of each token. One that the table lacks has no place.
        n_expts_act: experts of a token, up to 64.
        block_m: the places of a block.
        score_mode: "sqrtsoftplus": the square root of ``log(1 + exp(logit))``, in fp32.
        renorm: scores are divided by (their sum + 1e-20).
        routed_scaling_factor: they are multiplied with it at last.

    Returns:
        As :func:`routing`; a choice is token * n_expts_act + its number in the row of the table. Where choices have no place,
        the last elements of gather and of ``gate_scal`` say nothing, and scatter says nothing of these choices.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``routing_from_hash`` of August 2026.
    """
    if score_mode != "sqrtsoftplus":
        raise refuse("routing_from_hash", "score_mode", score_mode, "'sqrtsoftplus'")
    try:
        data, lists = _empty(router_logits, n_expts_act, block_m)
    except NOT_A_TENSOR as error:
        raise no_output("routing_from_hash", error) from error
    moe_routing_hash_lists(
        router_logits, tid2eid, input_ids, n_expts_act, block_m, *lists, bool(renorm), routed_scaling_factor
    )
    return data, lists[0], lists[1]


def _empty(logits: torch.Tensor, n_expts_act: int, block_m: int) -> tuple[RoutingData, _Lists]:
    """Allocate routing data, and list its tensors for the operators."""
    tokens, experts = logits.shape
    places = tokens * n_expts_act
    whole = element_type(logits, "i32")
    gates = logits.new_empty((places,))
    hist = logits.new_empty((experts,), dtype=whole)
    data = RoutingData(block_m, gates, hist, experts, n_expts_act)
    sizes = (places, places, experts + 1, experts + 1, data.n_blocks(places, block_m))
    gather, scatter, starts, tiles, blocks = (logits.new_empty((size,), dtype=whole) for size in sizes)
    data.expt_data = ExptData(hist, starts, tiles, blocks)
    return data, (gather, scatter, gates, hist, starts, tiles, blocks)
