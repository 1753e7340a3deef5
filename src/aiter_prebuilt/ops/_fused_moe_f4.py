"""``fused_moe`` of weights in MXFP4, with rows in as many bits as AITER chooses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output, outputs, refuse
from aiter_prebuilt.ops._fused_moe import NAME, MoeCall, limit, places, shuffled
from aiter_prebuilt.ops._plans import Plan, plan_of
from aiter_prebuilt.ops._target import target_of

if TYPE_CHECKING:
    import torch

    from aiter_prebuilt.errors import UnsupportedError

_SWIGLU: Final = 2
#: Whether rows of gate and of up take turns, by AITER's ``GateMode``.
_MODES: Final = {"separated": False, "interleave": True}
#: From how many tokens on rows become codes, where gate and up take turns, and where they do not.
_BOUNDS: Final = {
    True: int(os.environ.get("AITER_BF16_FP8_MOE_BOUND", "256")),
    False: int(os.environ.get("GPTOSS_SWIGLU_MXFP4_BF16_BOUND", "256")),
}
_COLUMNS: Final = 32
#: Bits of a number of a row that stays as it is.
_WHOLE: Final = 16
#: Places of w1, w2 and their scales among the tensors of both operators.
_BYTES: Final = (("bytes", 1, "fp4x2"), ("bytes", 2, "fp4x2"), ("bytes", 5, "e8m0"), ("bytes", 6, "e8m0"))
_a16w4 = operator("fused_experts_a16w4").viewing(_BYTES)
_mxfp4 = operator("fused_experts_mxfp4").viewing(_BYTES)
_made = outputs(like)


def mxfp4(asked: MoeCall) -> torch.Tensor:
    """Weights in MXFP4.

    Raises:
        UnsupportedError: an option that no kernel covers.
    """
    bits, placed, interleaved, pads = _chosen(asked)
    return _run(
        bits, asked.hidden_states, asked.w1, asked.w2, asked.topk_weight, asked.topk_ids, asked.w1_scale, asked.w2_scale,
        asked.expert_mask, asked.num_local_tokens, asked.activation, asked.doweight_stage1, placed, placed, interleaved,
        asked.bias1, asked.bias2, limit(asked), *pads,
    )  # fmt: skip


def plan_mxfp4(asked: MoeCall) -> Plan | None:
    """Plan :func:`mxfp4`."""
    bits, placed, interleaved, pads = _chosen(asked)
    called, width = (_a16w4, ()) if bits == _WHOLE else (_mxfp4, (bits,))
    given = (
        *places(
            "hidden_states", "w1", "w2", "topk_weight", "topk_ids", "w1_scale", "w2_scale", "expert_mask",
            "num_local_tokens", "bias1", "bias2",
        ),
        (-1,), asked.activation, *width, asked.doweight_stage1, placed, placed, interleaved, limit(asked), *pads,
    )  # fmt: skip
    return plan_of((like(asked.hidden_states),), ((called, given),), (-1,))


def _chosen(asked: MoeCall) -> tuple[int, bool, bool, tuple[int, int]]:
    """Bits of each number of a row, whether weights are shuffled, whether rows take turns, and groups of padding.

    Raises:
        UnsupportedError: an option that no kernel covers.
    """
    interleaved = _MODES.get(getattr(asked.gate_mode, "value", asked.gate_mode))
    if interleaved is None:
        raise refuse(NAME, "gate_mode", asked.gate_mode, "'separated' or 'interleave'")
    if asked.activation not in (0, 1, _SWIGLU):
        raise refuse(NAME, "activation", asked.activation, "0 (ActivationType.Silu), 1 (Gelu) or 2 (Swiglu)")
    if asked.dtype is not None and asked.dtype != getattr(asked.hidden_states, "dtype", None):
        raise refuse(NAME, "dtype", asked.dtype, "None or hidden_states.dtype")
    if not (asked.a1_scale is asked.a2_scale is None) or asked.w1_scale is None or asked.w2_scale is None:
        raise _other_scales(asked)
    # A mark is easily lost; AITER takes that of either weight, and none where rows take turns.
    placed = interleaved or shuffled(asked.w1) or shuffled(asked.w2)
    return (
        _bits(asked, interleaved),
        placed,
        interleaved,
        (asked.hidden_pad // _COLUMNS, asked.intermediate_pad // _COLUMNS),
    )


def _other_scales(asked: MoeCall) -> UnsupportedError:
    """Build the error for scales of rows, or missing weight scales.

    Scales of rows are made here.
    """
    for option in ("a1_scale", "a2_scale"):
        if getattr(asked, option) is not None:
            return refuse(NAME, option, getattr(asked, option), "None")
    option = "w1_scale" if asked.w1_scale is None else "w2_scale"
    return refuse(NAME, option, None, "the scales that e8m0_shuffle or shuffle_scale_a16w4 gives")


def _run(
    bits: int, hidden_states: Any, w1: Any, w2: Any, topk_weight: Any, topk_ids: Any, w1_scale: Any, w2_scale: Any,
    expert_mask: Any, num_local_tokens: Any, activation: int, doweight_stage1: bool, w1_shuffled: bool,
    w2_shuffled: bool, interleaved: bool, bias1: Any, bias2: Any, swiglu_limit: float, hidden_pads: int,
    intermediate_pads: int,
) -> torch.Tensor:  # fmt: skip
    """Call the native operator with weights and scales as bytes.

    ``bits``: of each number of a row.
    """
    try:
        out: torch.Tensor = _made(hidden_states)
    except NOT_A_TENSOR as error:
        raise no_output(NAME, error) from error
    tensors = (
        hidden_states, w1, w2, topk_weight, topk_ids, w1_scale, w2_scale, expert_mask, num_local_tokens, bias1, bias2, out,
    )  # fmt: skip
    options = (
        doweight_stage1, w1_shuffled, w2_shuffled, interleaved, swiglu_limit, hidden_pads, intermediate_pads,
    )  # fmt: skip
    if bits == _WHOLE:
        _a16w4(*tensors, activation, *options)
    else:
        _mxfp4(*tensors, activation, bits, *options)
    return out


def _bits(asked: MoeCall, interleaved: bool) -> int:
    """Choose the bits of each number of a row.

    AITER's choice for so many tokens and this GPU.

    Where AITER would have fp4 and the matrix units take none, rows of SwiGLU stay as they are; those of others are refused by
    the native call.
    """
    if asked.quant_dtype_a is not None:
        return _said(asked)
    if asked.activation != _SWIGLU and not interleaved:
        return 4
    try:
        few = asked.hidden_states.shape[0] // asked.copies < _BOUNDS[interleaved]
        if few or target_of(asked.hidden_states) == "gfx942":
            return 16
    except NOT_A_TENSOR as error:
        raise no_output(NAME, error) from error
    return 8 if interleaved else 4


def _said(asked: MoeCall) -> int:
    """Return the bits that ``quant_dtype_a`` asks for.

    Raises:
        UnsupportedError: another type.
    """
    kind = asked.quant_dtype_a
    if kind == asked.hidden_states.dtype:
        return 16
    for name, bits in (("e4m3fn", 8), ("fp4x2", 4)):
        if kind == element_type(asked.hidden_states, name):
            return bits
    raise refuse(NAME, "quant_dtype_a", kind, "None, hidden_states.dtype, e4m3fn or fp4")
