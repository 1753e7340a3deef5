"""AITER's functions around the choice of experts, which allocate or rename what the operators write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.ops._plans import Plan, plan_of, remembered
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.moe_tokens import biased_grouped_topk_hip
from aiter_prebuilt.ops.generated.topk import _topk_softmax, topk_softmax

if TYPE_CHECKING:
    import torch


@traced
def biased_grouped_topk(
    gating_output: torch.Tensor,
    correction_bias: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    num_expert_group: int,
    topk_group: int,
    need_renorm: bool,
    routed_scaling_factor: float = 1.0,
) -> None:
    """Choose the best experts of the best groups, biased.

    As ``biased_grouped_topk_hip``, for any number of tokens: AITER changes over to ``moe_fused_gate`` above some 60,000.

    Args:
        gating_output: [M, E].
        correction_bias: [E].
        topk_weights: [M, topk] fp32, written.
        topk_ids: [M, topk] int32, written.
        num_expert_group: the number of groups of experts.
        topk_group: the number of groups that are chosen.
        need_renorm: make the weights of a token sum to 1.
        routed_scaling_factor: the factor of the weights.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``biased_grouped_topk_hip``.

    Source: AITER ``biased_grouped_topk``.
    """
    biased_grouped_topk_hip(
        gating_output, correction_bias, topk_weights, topk_ids, num_expert_group, topk_group, need_renorm,
        routed_scaling_factor,
    )  # fmt: skip


@traced
def fused_topk(
    hidden_states: torch.Tensor,
    gating_output: torch.Tensor,
    topk: int,
    renormalize: bool,
    topk_ids: torch.Tensor | None = None,
    topk_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose the largest of each token's softmax over experts.

    The ``topk`` largest, best first.

    Args:
        hidden_states: [M, H]; its rows and its device count.
        gating_output: [M, E] bf16, fp16 or fp32.
        topk: experts of a token.
        renormalize: make their weights sum to 1.
        topk_ids: [M, topk] int32, written, or None.
        topk_weights: [M, topk] fp32, written, or None. Of a buffer with more rows the first M are written.

    Returns:
        the weights [M, topk] fp32 and the ids [M, topk] int32: those given, their first M rows, or new ones.

    Raises:
        ValueError: another number of tokens in ``gating_output``.
        UnsupportedError, ArgumentError, NoKernelError: as ``topk_softmax``.

    Source: AITER ``fused_topk``.
    """
    if topk_ids is topk_weights is None:
        found: tuple[torch.Tensor, torch.Tensor] = _planned(
            hidden_states, gating_output, topk, renormalize, _topk_softmax
        )
        return found
    return _chosen(hidden_states, gating_output, topk, renormalize, topk_ids, topk_weights)


def _chosen(
    hidden_states: torch.Tensor,
    gating_output: torch.Tensor,
    topk: int,
    renormalize: bool,
    topk_ids: torch.Tensor | None = None,
    topk_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose into the tensors given, or into new ones."""
    made = _new_choices(hidden_states, gating_output, topk, topk_weights is None, topk_ids is None)
    if topk_weights is None:
        topk_weights = made[1]
    if topk_ids is None:
        topk_ids = made[-1]
    tokens = hidden_states.shape[0]
    if topk_weights.shape[0] > tokens:
        topk_weights = topk_weights[:tokens]
    if topk_ids.shape[0] > tokens:
        topk_ids = topk_ids[:tokens]
    topk_softmax(topk_weights, topk_ids, made[0], gating_output, renormalize)
    return topk_weights, topk_ids


def _run(hidden_states: Any, gating_output: Any, topk: Any, renormalize: Any, _: Any) -> Any:
    return _chosen(hidden_states, gating_output, topk, renormalize)


def _plan(hidden_states: Any, gating_output: Any, topk: Any, renormalize: Any, called: Any) -> Plan | None:
    made = _new_choices(hidden_states, gating_output, topk, True, True)
    given = ((-2,), (-3,), (-1,), (1,), renormalize, 0, "")
    return plan_of(made, ((called, given),), ((-2,), (-3,)))


_planned = remembered(_run, _plan, "ttvvv")


def _new_choices(
    hidden_states: torch.Tensor, gating_output: torch.Tensor, topk: int, weights: bool, ids: bool
) -> tuple[torch.Tensor, ...]:
    """Allocate the operator's scratch outputs, then weights and ids.

    Weights and ids are made only where they are asked for.

    Raises:
        ValueError: another number of tokens in ``gating_output``.
    """
    import torch

    tokens = hidden_states.shape[0]
    if gating_output.shape[0] != tokens:
        raise ValueError(
            f"fused_topk: gating_output has {gating_output.shape[0]} rows, hidden_states {tokens}"
        )
    kinds = [torch.int32, *([torch.float32] if weights else []), *([torch.int32] if ids else [])]
    return tuple(torch.empty((tokens, topk), dtype=kind, device=hidden_states.device) for kind in kinds)
