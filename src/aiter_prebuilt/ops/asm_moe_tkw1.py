"""AITER's ``asm_moe_tkw1``, which vLLM calls where a router's weights multiply the tokens: a function around operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiter_prebuilt.ops._common import number, refuse
from aiter_prebuilt.ops._fused_moe import MoeCall
from aiter_prebuilt.ops._fused_moe_8bit import weighted_first
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    from enum import Enum

    import torch

_NAME: Final = "asm_moe_tkw1"


@traced
def asm_moe_tkw1(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weight: torch.Tensor,
    topk_ids: torch.Tensor,
    fc1_scale: torch.Tensor | None = None,
    fc2_scale: torch.Tensor | None = None,
    fc1_smooth_scale: torch.Tensor | None = None,
    fc2_smooth_scale: torch.Tensor | None = None,
    a16: bool = False,
    per_tensor_quant_scale: torch.Tensor | None = None,
    expert_mask: torch.Tensor | None = None,
    activation: int | Enum = 0,
) -> torch.Tensor:
    """Run experts on tokens that are weighted first.

    ``out[t] = sum over c of (act(y @ gate.T) * (y @ up.T)) @ down.T`` of each choice's expert; ``y = weight[t, c] * x[t]``.

    As :func:`fused_moe` of scales of rows with ``doweight_stage1``; AITER's assembly of SiLU in bf16 wherever its objects fit,
    else kernels of ours.

    Args:
        hidden_states: [M, H] bf16 or fp16, H a multiple of 32.
        w1: [E, 2 * EI, H] the target's own fp8, or int8, of each expert rows of gate, then rows of up; EI a multiple of 32.
        w2: [E, H, EI]. Both in the layout of ``shuffle_weight`` (16, 16).
        topk_weight: [M, topk] fp32.
        topk_ids: [M, topk] int32.
        fc1_scale: [E, 2 * EI] fp32, one for each row of w1.
        fc2_scale: [E, H] fp32, one for each row of w2.
        fc1_smooth_scale: only None is supported.
        fc2_smooth_scale: only None is supported.
        a16: only False is supported.
        per_tensor_quant_scale: one fp32 number, with which tokens become fp8; None: each row gets its own.
        expert_mask: int32, of all devices' experts 1 where one is here.
        activation: AITER's ``ActivationType`` or its number: 0 is SiLU, 1 GELU in its erf form.

    Returns:
        [M, H] of the type of hidden_states.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``asm_moe_tkw1``.
    """
    active = number(activation)
    if active not in (0, 1):
        raise refuse(_NAME, "activation", activation, "0 (ActivationType.Silu) or 1 (Gelu)")
    if a16:
        raise refuse(_NAME, "a16", a16, "False")
    for option, smooth in (("fc1_smooth_scale", fc1_smooth_scale), ("fc2_smooth_scale", fc2_smooth_scale)):
        if smooth is not None:
            raise refuse(_NAME, option, smooth, "None")
    for option, scale in (("fc1_scale", fc1_scale), ("fc2_scale", fc2_scale)):
        if scale is None:
            raise refuse(_NAME, option, scale, "a tensor")
    return weighted_first(
        MoeCall(
            hidden_states=hidden_states,
            w1=w1,
            w2=w2,
            topk_weight=topk_weight,
            topk_ids=topk_ids,
            expert_mask=expert_mask,
            num_local_tokens=None,
            activation=active,
            quant_type=2,
            doweight_stage1=True,
            w1_scale=fc1_scale,
            w2_scale=fc2_scale,
            a1_scale=per_tensor_quant_scale,
            a2_scale=None,
            bias1=None,
            bias2=None,
            dtype=None,
            hidden_pad=0,
            intermediate_pad=0,
            swiglu_limit=None,
            beta=None,
            linear_beta=None,
            gate_mode="separated",
        )
    )
