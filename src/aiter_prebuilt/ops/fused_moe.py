"""AITER's ``fused_moe``: one function for each kind of weights (``_KINDS``), in a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output, number, refuse
from aiter_prebuilt.ops._fused_moe import (
    NAME,
    MoeCall,
    per_choice,
    plan_unquantised,
    refuse_unknown_values,
    unquantised,
)
from aiter_prebuilt.ops._fused_moe_8bit import plan_quantised, quantised
from aiter_prebuilt.ops._fused_moe_f4 import mxfp4, plan_mxfp4
from aiter_prebuilt.ops._plans import Plan, remembered
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

    import torch

#: What serves AITER's ``QuantType``, by its number.
_KINDS: Final[dict[int, Callable[[MoeCall], torch.Tensor]]] = {
    0: unquantised,
    1: quantised,
    2: quantised,
    3: mxfp4,
    4: quantised,
    5: quantised,
}
#: What says how it does.
_PLANS: Final[dict[Callable[[MoeCall], torch.Tensor], Callable[[MoeCall], Plan | None]]] = {
    unquantised: plan_unquantised,
    quantised: plan_quantised,
    mxfp4: plan_mxfp4,
}
_SERVED: Final = (
    "0 (QuantType.No), 1 (per_Tensor), 2 (per_Token), 3 (per_1x32), 4 (per_1x128) or 5 (per_128x128)"
)


@traced
def fused_moe(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weight: torch.Tensor,
    topk_ids: torch.Tensor,
    expert_mask: torch.Tensor | None = None,
    activation: int | Enum = 0,
    quant_type: int | Enum = 0,
    doweight_stage1: bool = False,
    w1_scale: torch.Tensor | None = None,
    w2_scale: torch.Tensor | None = None,
    a1_scale: torch.Tensor | None = None,
    a2_scale: torch.Tensor | None = None,
    block_size_M: int | None = None,
    num_local_tokens: torch.Tensor | None = None,
    moe_sorting_dispatch_policy: int | None = 0,
    dtype: torch.dtype | None = None,
    hidden_pad: int = 0,
    intermediate_pad: int = 0,
    bias1: torch.Tensor | None = None,
    bias2: torch.Tensor | None = None,
    splitk: int | None = 0,
    swiglu_limit: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
    gate_mode: str | None = "separated",
    shared_w1: torch.Tensor | None = None,
    shared_w2: torch.Tensor | None = None,
    shared_w1_scale: torch.Tensor | None = None,
    shared_w2_scale: torch.Tensor | None = None,
    shared_expert_id: int = -1,
    stage2_scatter: Any = None,
    *,
    quant_dtype_a: torch.dtype | None = None,
    no_combine: bool = False,
    output: torch.Tensor | None = None,
) -> torch.Tensor:
    """Run a mixture of experts.

    ``out[t] = sum over c of weight[t, c] * (act(x[t] @ gate.T) * (x[t] @ up.T)) @ down.T`` of each choice's expert.

    Accumulated in fp32; what each choice adds is rounded to the type of the result, and choices are added in their order, so that
    the result is the same each time. What the activation gives is rounded to the type of hidden_states, or with weights in 8 bits
    to codes again, with a scale for each 128 columns.

    per_Tensor quantises twice, as AITER does: all tokens get one scale. What the activation gives is rounded to the type of the
    result, and gets one scale, too. With num_local_tokens, which AITER refuses there, each token gets its own.

    Where AITER takes its assembly without measured rows, and its objects fit, it is taken here, too: bf16, SiLU, both weights
    shuffled; fp8 by blocks above 32 tokens; on gfx942 fp8 by rows above 16, int8 above 32; on gfx950 fp8 by rows above 16 with
    doweight_stage1, with an intermediate size of 512 at most, or with 32 rows an expert at most. It adds a token's choices in
    bf16 and in any order, and of int8 it cuts what is between the products off towards zero, where ours rounds to nearest: 1 %
    smaller in the mean.

    Of weights in 8 bits a token that is not finite gets the codes that AITER's quantisation gives it. With a scale of its own for
    each row NaN makes the row NaN in fp8, and counts as 0 in int8; with one for each 128 columns it counts as the largest of the
    block's other numbers, negative. An infinity makes the row NaN in all three, and with one scale for all tokens every row. With
    a1_scale an infinity is cut at 448 times that, and NaN is as ``static_per_tensor_quant`` has it.
    Where what the activation gives is not finite, the row is NaN.

    Args:
        hidden_states: [M, H] bf16 or fp16, H a multiple of 32; of 128 with blocks. Or codes of the type of the weights.
        w1: [E, 2 * EI, H], of each expert rows of gate, then rows of up; EI a multiple of 32.
        w2: [E, H, EI]. But for MXFP4 EI may be an odd multiple of 16, without quantisation of 8, with w2 as its shape says (of 8:
            w1, too): ``shuffle_weight`` takes no such weight. Of the type of hidden_states, the target's own fp8, or int8. Each
            in the layout of ``shuffle_weight`` (16, 16) where its attribute ``is_shuffled`` says so, else as usual. Of MXFP4
            pairs of fp4 (torch's, or bytes), H and EI multiples of 32, in that layout where either says so, or gate_mode is
            "interleave"; of 64 then.
        topk_weight: [M, topk] fp32.
        topk_ids: [M, topk] int32; a number that is no expert's adds nothing.
        expert_mask: int32, 0 or 1 for each of all devices' experts. 1: the expert is here. The weights are those of these, in
            their order, so there are E ones. It is no map of indices (-1, 0, 1, ...), as vLLM's ``expert_map`` is: pass
            ``(expert_map >= 0).int()``. The GPU alone reads the values; AITER_PREBUILT_CHECK=1 checks them before each launch.
        activation: AITER's ``ActivationType`` or its number: 0 is SiLU, 1 GELU in its erf form, 2 gpt-oss's SwiGLU, ``g *
            sigmoid(1.702 * g) * (u + 1)``.
        quant_type: AITER's ``QuantType`` or its number: 0 (No), or of weights in 8 bits 1 (per_Tensor), 2 (per_Token), 4
            (per_1x128) or 5 (per_128x128), which mean the same here, fp8 alone; or 3 (per_1x32): MXFP4. Rows become fp4 for that,
            as AITER has them (gfx950), with SwiGLU from 256 tokens on (environment: GPTOSS_SWIGLU_MXFP4_BF16_BOUND); where gate
            and up take turns fp8, from 256 tokens on (AITER_BF16_FP8_MOE_BOUND; gfx942: never).
        doweight_stage1: multiply the input of the activation by the weight, and not the result.
        w1_scale: fp32 in any shape; per_Tensor: E numbers; per_Token: one for each row, [E, 2 * EI]; blocks: [E, 2 * cdiv(EI,
            128), H / 128], gate's before up's. Of MXFP4 e8m0 (torch's, or bytes) of each 32 columns, in the layout of
            ``e8m0_shuffle`` of all experts' rows. None where quant_type is 0.
        w2_scale: fp32 in any shape; per_Tensor: E numbers; per_Token: one for each row, [E, H]; blocks: [E, H / 128, cdiv(EI,
            128)]. Of MXFP4 as w1_scale. None where quant_type is 0.
        a1_scale: of codes one fp32 number for each token, or one for all; of blocks [M, H / 128]. Of 16-bit tokens None, or of
            fp8 by rows one number, with which they are quantised; None: each row, or each 128 columns of it, gets its own, of
            per_Tensor all get one.
        a2_scale: one number, with which what the activation gives is quantised, or None.
        block_size_M: an int of at least -1, or None; accepted and ignored: AITER divides its work by it.
        num_local_tokens: [1] int32, the number of valid tokens; rows of the others become 0.
        moe_sorting_dispatch_policy: an int or None; accepted and ignored: AITER divides its work by it.
        dtype: bf16 or fp16, the type of the result; None: that of hidden_states, which it is without quantisation.
        hidden_pad: the number of last columns of H that are padding, less than H: their weights are zero. Of MXFP4 whole groups
            of 32 are left out.
        intermediate_pad: the number of last columns of EI that are padding, less than EI: their weights are zero. Of MXFP4 whole
            groups of 32 are left out.
        bias1: [E, 2 * EI] fp32, added to the sums of gate and up, after the weight of ``doweight_stage1``.
        bias2: [E, H] fp32, added to each choice's, before its weight.
        splitk: an int or None; accepted and ignored: AITER divides its work by it.
        swiglu_limit: before it gate is at most that, up too, or its negative; 0, None: 7 for SwiGLU, else as they are. Not
            negative, and not NaN.
        beta: a number, or None; ignored: it belongs to an activation that is not supported.
        linear_beta: a number, or None; ignored: it belongs to an activation that is not supported.
        gate_mode: "separated", or "interleave": of MXFP4 16 rows of gate and 16 of up take turns in w1 and w1_scale, as
            ``shuffle_weight_a16w4`` and ``shuffle_scale_a16w4`` have them with gate_up. Of other weights it means nothing, as in
            AITER; SGLang always says it.
        shared_w1: only None is supported.
        shared_w2: only None is supported.
        shared_w1_scale: only None is supported.
        shared_w2_scale: only None is supported.
        shared_expert_id: only -1 is supported.
        stage2_scatter: only None is supported.
        quant_dtype_a: what rows become before the products; None: what AITER would have. Of MXFP4 that of hidden_states, which
            leaves them as they are, e4m3fn or fp4 (gfx950); of other weights what they have anyway.
        no_combine: return each choice's weighted result in a row of its own. A choice of no expert, or of a token that is not
            valid, gives zeros.
        output: [M, H] of the type of the result, written and returned; made when None.

    Returns:
        [M, H], with no_combine [M, topk, H].

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.
        ValueError: H is no multiple of 128 with blocks.

    Source: AITER ``fused_moe``.
    """
    if not (block_size_M is None and type(moe_sorting_dispatch_policy) is type(splitk) is int):
        _how(block_size_M, moe_sorting_dispatch_policy, splitk)
    if (
        no_combine
        or output is not None
        or shared_expert_id != -1
        or not (shared_w1 is shared_w2 is shared_w1_scale is shared_w2_scale is stage2_scatter is None)
    ):
        if shared_expert_id != -1:
            raise refuse(NAME, "shared_expert_id", shared_expert_id, "-1")
        _no_shared(shared_w1, shared_w2, shared_w1_scale, shared_w2_scale, stage2_scatter)
        serve, asked = _read(
            hidden_states, w1, w2, topk_weight, topk_ids, expert_mask, num_local_tokens, activation, quant_type,
            doweight_stage1, w1_scale, w2_scale, a1_scale, a2_scale, bias1, bias2, dtype, hidden_pad, intermediate_pad,
            swiglu_limit, beta, linear_beta, gate_mode, quant_dtype_a,
        )  # fmt: skip
        return _delivered(serve, asked, bool(no_combine), output)
    found: torch.Tensor = _planned(
        hidden_states, w1, w2, topk_weight, topk_ids, expert_mask, num_local_tokens, activation, quant_type,
        doweight_stage1, w1_scale, w2_scale, a1_scale, a2_scale, bias1, bias2, dtype, hidden_pad, intermediate_pad,
        swiglu_limit, beta, linear_beta, gate_mode, quant_dtype_a, getattr(w1, "is_shuffled", False),
        getattr(w2, "is_shuffled", False),
    )  # fmt: skip
    return found


def _read(*given: Any) -> tuple[Callable[[MoeCall], torch.Tensor], MoeCall]:
    """Choose the function that serves the arguments, and pack them.

    Raises:
        UnsupportedError: weights of a kind that nothing serves, or a value that means nothing.
    """
    kind = number(given[8])
    serve = _KINDS.get(kind)
    if serve is None:
        raise refuse(NAME, "quant_type", given[8], _SERVED)
    asked = MoeCall._make((*given[:7], number(given[7]), kind, bool(given[9]), *given[10:], 1))
    refuse_unknown_values(asked)
    return serve, asked


def _served(*given: Any) -> torch.Tensor:
    """Serve the arguments, reading the weights' marks too."""
    serve, asked = _read(*given[:-2])
    return serve(asked)


def _plan(*given: Any) -> Plan | None:
    serve, asked = _read(*given[:-2])
    plan = _PLANS.get(serve)
    return None if plan is None else plan(asked)


#: Tensors whose types and shapes are read are told whole, by their places in :class:`Asked`: tokens, weights, and the choices.
_TOLD: Final = "tttptpp" + "vvv" + "pppppp" + "v" * 8 + "vv"
_planned = remembered(_served, _plan, _TOLD)


def _how(block_size_M: Any, moe_sorting_dispatch_policy: Any, splitk: Any) -> None:
    """Refuses what is no whole number; how work is divided changes no result."""
    least = {"block_size_M": -1}
    words = {
        "block_size_M": block_size_M, "moe_sorting_dispatch_policy": moe_sorting_dispatch_policy, "splitk": splitk,
    }  # fmt: skip
    for option, value in words.items():
        found = 0 if value is None else number(value)
        if not isinstance(found, int) or found < least.get(option, found):
            raise refuse(
                NAME, option, value, "None or a whole number" + (", -1 and more" if option in least else "")
            )


def _no_shared(*given: Any) -> None:
    """Refuses the first that is there."""
    options = ("shared_w1", "shared_w2", "shared_w1_scale", "shared_w2_scale", "stage2_scatter")
    for option, tensor in zip(options, given, strict=True):
        if tensor is not None:
            raise refuse(NAME, option, tensor, "None")


def _delivered(
    serve: Callable[[MoeCall], torch.Tensor], asked: MoeCall, no_combine: bool, output: torch.Tensor | None
) -> torch.Tensor:
    """Run ``serve`` and write its result to ``output`` if given.

    The result is one row for each choice, or for each token.

    Raises:
        UnsupportedError: ``output`` is another tensor than the result.
    """
    if output is not None:
        try:
            shape: tuple[int, ...] = (*asked.topk_ids.shape[: 1 + no_combine], asked.w2.shape[1])
            kind = asked.dtype or asked.hidden_states.dtype
            fits = (tuple(output.shape), output.dtype) == (shape, kind)
        except NOT_A_TENSOR as error:
            raise no_output(NAME, error) from error
        if not fits:
            raise refuse(NAME, "output", output, f"a tensor of shape {shape} and type {kind}")
    found = per_choice(asked, serve) if no_combine else serve(asked)
    return found if output is None else output.copy_(found)
