"""Mixtures of experts in two stages by Composable Kernel, which write a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import number
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.moe_ck import refuse_ck_moe_stage1_fwd, refuse_ck_moe_stage2_fwd

if TYPE_CHECKING:
    from enum import Enum

    import torch

_ck_moe_stage1_fwd = operator("ck_moe_stage1_fwd")
_ck_moe_stage2_fwd = operator("ck_moe_stage2_fwd")


@traced
def ck_moe_stage1_fwd(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    sorted_token_ids: torch.Tensor,
    sorted_expert_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    out: torch.Tensor,
    topk: int,
    kernelName: str = "",
    w1_scale: torch.Tensor | None = None,
    a1_scale: torch.Tensor | None = None,
    block_m: int | None = 32,
    sorted_weights: torch.Tensor | None = None,
    quant_type: int | Enum = 0,
    activation: int | Enum = 0,
) -> torch.Tensor:
    """``out[token, choice] = act(x @ gate.T) * (x @ up.T)`` of each choice's expert; Composable Kernel.

    Accumulated in fp32 on the matrix cores.

    Args:
        hidden_states: [T, D] bf16, or the target's own fp8; D a multiple of 64, more than 128, in fp8 of 128, more than 256, and
            where ``block_m`` is not 32 an even multiple.
        w1: [E, 2 * I, D] of the same type: rows of gate, then rows of up, in the layout of ``shuffle_weight`` (16, 16); I a
            multiple of 64, of 128 where ``block_m`` is 128. w2: [E, D, I], of which only the shape counts.
        sorted_token_ids: [P] int32, as ``moe_sorting`` with blocks of ``block_m`` makes them: choice << 24 | token, each expert's
            padded to whole blocks with topk << 24 | T. sorted_expert_ids: int32, the expert of each block. num_valid_ids: [2]
            int32, how many ids count, T.
        out: [T, topk, I] bf16, written; rows of choices that no sorted id names stay as they are. All contiguous.
        topk: choices of a token. block_m: rows of a block: 32, 64 or 128.
        sorted_weights: [P] fp32 or None: of each sorted id what its sums are multiplied with, before the activation.
        quant_type: AITER's ``QuantType`` or its number: 0 (No) for bf16, 2 (per_Token) for fp8. w1_scale: 2 * I fp32 numbers
            for each expert, a1_scale: one for each token; both with 2. activation: AITER's ``ActivationType`` or its number: 0 is
            SiLU, 1 is GELU in its erf form.
        kernelName: AITER's name of an instance; any is taken, the instance is chosen from the shape.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``ck_moe_stage1_fwd``.
    """
    del kernelName
    kind, active = number(quant_type), number(activation)
    refuse_ck_moe_stage1_fwd(kind, active)
    lists = (sorted_token_ids, sorted_expert_ids, num_valid_ids)
    given = (out, w1_scale, a1_scale, sorted_weights)
    _ck_moe_stage1_fwd(hidden_states, w1, w2, *lists, *given, topk, block_m, kind, active)
    return out


@traced
def ck_moe_stage2_fwd(
    inter_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    sorted_token_ids: torch.Tensor,
    sorted_expert_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    out: torch.Tensor,
    topk: int,
    kernelName: str = "",
    w2_scale: torch.Tensor | None = None,
    a2_scale: torch.Tensor | None = None,
    block_m: int | None = 32,
    sorted_weights: torch.Tensor | None = None,
    quant_type: int | Enum = 0,
    activation: int | Enum = 0,
) -> torch.Tensor:
    """``out[token] += (x @ down.T) * weight`` of each choice's expert; Composable Kernel.

    Accumulated in fp32 on the matrix cores, and added to ``out`` by atomic additions of bf16, in any order: ``moe_sorting`` makes
    it zeros, nothing here does.

    Args:
        inter_states: [T, topk, I] bf16, or the target's own fp8, a row for each choice of each token; I a multiple of 64, 128 or
            more, and for ``block_m`` 64 and 128 a multiple of 128, 256 and more; in fp8 twice as much each.
        w2: [E, D, I] of the same type, in the layout of ``shuffle_weight`` (16, 16); D a multiple of 64, of 128 where ``block_m``
            is 64 or 128. w1: [E, 2 * I, D], of which only the shape counts.
        sorted_token_ids: [P] int32, as ``moe_sorting`` with blocks of ``block_m`` makes them: choice << 24 | token, each expert's
            padded to whole blocks with topk << 24 | T. sorted_expert_ids: int32, the expert of each block. num_valid_ids: [2]
            int32, how many ids count, T.
        out: [T, D] bf16, added to. All contiguous.
        topk: choices of a token. block_m: rows of a block: 32, 64 or 128.
        sorted_weights: [P] fp32 or None: of each sorted id what its sums are multiplied with; not None where ``block_m`` is 64 or
            128.
        quant_type: AITER's ``QuantType`` or its number: 0 (No) for bf16, 2 (per_Token) for fp8. w2_scale: D fp32 numbers for
            each expert, a2_scale: one for each choice of each token; both with 2. activation: not read.
        kernelName: AITER's name of an instance; any is taken, the instance is chosen from the shape.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``ck_moe_stage2_fwd``.
    """
    del kernelName, activation
    kind = number(quant_type)
    refuse_ck_moe_stage2_fwd(kind)
    lists = (sorted_token_ids, sorted_expert_ids, num_valid_ids)
    given = (out, w2_scale, a2_scale, sorted_weights)
    _ck_moe_stage2_fwd(inter_states, w1, w2, *lists, *given, topk, block_m, kind)
    return out
