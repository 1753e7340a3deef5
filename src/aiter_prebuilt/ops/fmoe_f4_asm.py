"""Fused mixtures of experts for MXFP4 by AITER's assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import codes, number
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.fmoe_f4_asm import refuse_fmoe_g1u1_mxfp4

if TYPE_CHECKING:
    from enum import Enum

    import torch

_fmoe_g1u1_mxfp4 = operator("fmoe_g1u1_mxfp4")


@traced
def fmoe_g1u1_mxfp4(
    out: torch.Tensor,
    input: torch.Tensor,
    gate: torch.Tensor,
    down: torch.Tensor,
    sorted_token_ids: torch.Tensor,
    sorted_weights: torch.Tensor,
    sorted_expert_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    topk: int,
    input_scale: torch.Tensor,
    fc1_scale: torch.Tensor,
    fc2_scale: torch.Tensor,
    kernelName: str,
    fc2_smooth_scale: torch.Tensor | None = None,
    activation: int | Enum = 0,
) -> None:
    """``out = sum over a token's experts of weight * (act(x @ gate.T) * (x @ up.T)) @ down.T``, MXFP4 in; AITER's assembly.

    What the activation gives becomes MXFP4, too, before the second product.

    Args:
        out: [T, D] bf16 or fp16, written; zeroed first.
        input: [T, D / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), one row a token; D is a multiple of 512.
        gate: [E, 2 * I, D / 2], rows of gate, then rows of up, in the layout of ``shuffle_weight``, (16, 16); I is a multiple of
            256. down: [E, D, I / 2], in the same layout.
        sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, topk: as for ``fmoe_g1u1``.
        input_scale: e8m0 (torch's, or bytes), D / 32 for each sorted id, as AITER's ``moe_mxfp4_sort`` gives them: blocks of 32
            rows and 8 columns, (r, c) of a block at place ((c % 4 * 16 + r % 16) * 2 + c // 4) * 2 + r // 16.
        fc1_scale: D / 32 for each row of gate, in the same layout, in any shape. fc2_scale: I / 32 for each row of down.
        kernelName: symbol of AITER's object to take; chosen when empty. fc2_smooth_scale: None only.
        activation: AITER's ``ActivationType`` or its number: 0 is SiLU, 1 is GELU in its tanh form.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``fmoe_g1u1`` with pairs of fp4.
    """
    activation = number(activation)
    refuse_fmoe_g1u1_mxfp4(fc2_smooth_scale, activation)
    _fmoe_g1u1_mxfp4(
        out, codes(input, "fp4x2"), codes(gate, "fp4x2"), codes(down, "fp4x2"), sorted_token_ids, sorted_weights,
        sorted_expert_ids, num_valid_ids, codes(input_scale, "e8m0"), codes(fc1_scale, "e8m0"),
        codes(fc2_scale, "e8m0"), topk, activation, kernelName,
    )  # fmt: skip
