"""The first stage of a mixture of experts by AITER's assembly, whose result may be codes and their scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import number
from aiter_prebuilt.ops._moe import quantised, result
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.moe_stage1_asm import refuse_moe_stage1_g1u1

if TYPE_CHECKING:
    from enum import Enum

    import torch

_moe_stage1_g1u1 = operator("moe_stage1_g1u1")


@traced
def moe_stage1_g1u1(
    input: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    sorted_token_ids: torch.Tensor,
    sorted_expert_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    out: torch.Tensor,
    inter_dim: int,
    kernelName: str,
    block_m: int,
    ksplit: int = 0,
    activation: int | Enum = 0,
    quant_type: int | Enum = 0,
    a1_scale: torch.Tensor | None = None,
    w1_scale: torch.Tensor | None = None,
    sorted_weights: torch.Tensor | None = None,
) -> None:
    """``out[token, choice] = act(x @ gate.T) * (x @ up.T)`` of each choice's expert, 8-bit in; AITER's assembly.

    AITER's objects lack waits, and but for per_1x128 a barrier: hsa/findings.toml.

    Args:
        input: [T, D] the target's own fp8, or int8; D a multiple of 128, at least 512.
        w1: [E, 2 * I, D] of the same type: rows of gate, then rows of up, in the layout of ``shuffle_weight`` (16, 16). w2:
            [E, D, I], of which only the shape counts. inter_dim: I, a multiple of 64, 128 or 192, by type and ``block_m``.
        sorted_token_ids: [P] int32, as ``moe_sorting`` with blocks of ``block_m`` makes them: choice << 24 | token, each expert's
            padded to whole blocks with topk << 24 | T. sorted_expert_ids: int32, the expert of each block. num_valid_ids: [2]
            int32, how many ids count, T. Rows of ``out`` that no sorted id names stay as they are.
        block_m: rows of a block: a multiple of 16, 16 to 160.
        activation: AITER's ``ActivationType`` or its number: 0 is SiLU, 1 is GELU in its tanh form.
        quant_type: AITER's ``QuantType`` or its number. 2 (per_Token): ``a1_scale`` has one fp32 number for each token,
            ``w1_scale`` 2 * I for each expert, and ``out`` is [T, topk, I] bf16. 4 (per_1x128), fp8 alone, I a multiple of 128:
            ``a1_scale`` is [D / 128, T], ``w1_scale`` [E, 2 * I / 128, D / 128], and ``out`` is fp8 of [T + T / 32 (rounded up),
            topk, I]: codes in rows below T, and in the bytes behind them [T, topk, I / 128] fp32, the scale of each 128 of them.
        sorted_weights: [P] fp32 or None: of each sorted id what its row of ``input`` is multiplied with first; per token in fp8
            alone.
        kernelName: symbol of AITER's object to take; chosen when empty. ksplit: 0 only.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``moe_stage1_g1u1``.
    """
    activation = number(activation)
    refuse_moe_stage1_g1u1(ksplit, activation, a1_scale, w1_scale)
    kind = quantised("moe_stage1_g1u1", quant_type)
    _moe_stage1_g1u1(
        input,
        w1,
        w2,
        sorted_token_ids,
        sorted_expert_ids,
        num_valid_ids,
        result(out, input),
        a1_scale,
        w1_scale,
        sorted_weights,
        inter_dim,
        block_m,
        activation,
        kind,
        kernelName,
    )
