"""One call of ``fused_moe`` in its parts, for the functions of kinds of weights; and that of weights without quantisation."""

from __future__ import annotations

from math import prod
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output, number, refuse
from aiter_prebuilt.ops._plans import Plan, plan_of
from aiter_prebuilt.ops.generated.moe_gemm import fused_experts

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

NAME: Final = "fused_moe"
_fused_experts = operator("fused_experts")
#: Its number among activations, and the limit that it has where none is said.
_SWIGLU: Final = 2
_LIMIT: Final = 7.0
#: AITER's ``QuantType.per_1x32``, of which two columns are a byte.
_MXFP4: Final = 3


class MoeCall(NamedTuple):
    """The arguments that kinds of weights read, enumerations by their numbers."""

    hidden_states: torch.Tensor
    w1: torch.Tensor
    w2: torch.Tensor
    topk_weight: torch.Tensor
    topk_ids: torch.Tensor
    expert_mask: torch.Tensor | None
    num_local_tokens: torch.Tensor | None
    activation: int
    quant_type: int
    doweight_stage1: bool
    w1_scale: torch.Tensor | None
    w2_scale: torch.Tensor | None
    a1_scale: torch.Tensor | None
    a2_scale: torch.Tensor | None
    bias1: torch.Tensor | None
    bias2: torch.Tensor | None
    dtype: torch.dtype | None
    hidden_pad: int
    intermediate_pad: int
    swiglu_limit: float | None
    beta: float | None
    linear_beta: float | None
    gate_mode: Any
    quant_dtype_a: torch.dtype | None = None
    #: Into how many rows each token was copied: what is chosen by their number goes by that of the tokens.
    copies: int = 1


def per_choice(asked: MoeCall, serve: Callable[[MoeCall], torch.Tensor]) -> torch.Tensor:
    """[M, topk, H]: each choice as a token of its own, with its weight, so that nothing is added up."""
    try:
        tokens, topk = asked.topk_ids.shape
        scale, count = asked.a1_scale, asked.num_local_tokens
        if scale is not None and prod(scale.shape) != 1:
            scale = scale.reshape(tokens, -1).repeat_interleave(topk, 0)
        each = asked._replace(
            hidden_states=asked.hidden_states.repeat_interleave(topk, 0),
            topk_weight=asked.topk_weight.reshape(-1, 1),
            topk_ids=asked.topk_ids.reshape(-1, 1),
            a1_scale=scale,
            num_local_tokens=None if count is None else count * topk,
            copies=topk,
        )
    except NOT_A_TENSOR as error:
        raise no_output(NAME, error) from error
    rows = serve(each)
    return rows.reshape(tokens, topk, rows.shape[-1])


def refuse_unknown_values(asked: MoeCall) -> None:
    """Refuses values of options that mean nothing: of these AITER would make something else, or nothing.

    Raises:
        UnsupportedError: such a value.
    """
    if not (asked.swiglu_limit is asked.beta is asked.linear_beta is None):
        for option in ("swiglu_limit", "beta", "linear_beta"):
            value = getattr(asked, option)
            if value is not None and not isinstance(value, Real):
                raise refuse(NAME, option, value, "None or a number")
        if not (asked.swiglu_limit is None or asked.swiglu_limit >= 0):
            raise refuse(NAME, "swiglu_limit", asked.swiglu_limit, "None or a number of 0 and more")
    if (asked.hidden_pad, asked.intermediate_pad) == (0, 0):
        return
    try:
        _, width, columns = asked.w2.shape
    except NOT_A_TENSOR as error:
        raise no_output(NAME, error) from error
    most = {"hidden_pad": width, "intermediate_pad": columns * (2 if asked.quant_type == _MXFP4 else 1)}
    for option, size in most.items():
        found = number(getattr(asked, option))
        if not isinstance(found, int) or not 0 <= found < size:
            raise refuse(NAME, option, getattr(asked, option), f"a whole number from 0 to {size - 1}")


def own_type(asked: MoeCall, kind: torch.dtype | None, said: str) -> None:
    """Refuses that rows get another type than ``kind``."""
    if asked.quant_dtype_a is not None and asked.quant_dtype_a != kind:
        raise refuse(NAME, "quant_dtype_a", asked.quant_dtype_a, f"None or {said}")


def shuffled(weight: Any) -> bool:
    """Tell whether a weight is marked as shuffled by ``shuffle_weight``."""
    return bool(getattr(weight, "is_shuffled", False))


def limit(asked: MoeCall) -> float:
    """Return the bound of gate and up before the activation.

    0: no bound.
    """
    return asked.swiglu_limit or (_LIMIT if asked.activation == _SWIGLU else 0.0)


def gated(asked: MoeCall) -> int:
    """Return the number of the activation for our kernels.

    Rows of gate stand before those of up.

    AITER reads them so but for MXFP4, whatever ``gate_mode`` says, and SGLang says "interleave" of every kind.

    Raises:
        UnsupportedError: another activation, or a weight of gate alone.
    """
    if asked.activation not in (0, 1, _SWIGLU):
        raise refuse(NAME, "activation", asked.activation, "0 (ActivationType.Silu), 1 (Gelu) or 2 (Swiglu)")
    if getattr(asked.gate_mode, "value", asked.gate_mode) not in ("separated", "interleave"):
        raise refuse(NAME, "gate_mode", asked.gate_mode, "'separated'")
    return asked.activation


def places(*names: str) -> tuple[tuple[int], ...]:
    """Return the places of arguments in a plan."""
    return tuple((MoeCall._fields.index(name),) for name in names)


def _refused(asked: MoeCall) -> None:
    """Refuse options that tokens and weights of one type exclude.

    Raises:
        UnsupportedError: an option that no kernel covers.
    """
    own_type(asked, getattr(asked.hidden_states, "dtype", None), "hidden_states.dtype")
    if asked.dtype is not None and asked.dtype != getattr(asked.hidden_states, "dtype", None):
        raise refuse(NAME, "dtype", asked.dtype, "None or hidden_states.dtype")
    if not (asked.w1_scale is asked.w2_scale is asked.a1_scale is asked.a2_scale is None):
        for option in ("w1_scale", "w2_scale", "a1_scale", "a2_scale"):
            if getattr(asked, option) is not None:
                raise refuse(NAME, option, getattr(asked, option), "None")


def unquantised(asked: MoeCall) -> torch.Tensor:
    """Weights of the type of the tokens.

    Raises:
        UnsupportedError: an option that no kernel covers.
    """
    active = gated(asked)
    _refused(asked)
    return fused_experts(
        asked.hidden_states,
        asked.w1,
        asked.w2,
        asked.topk_weight,
        asked.topk_ids,
        asked.expert_mask,
        asked.num_local_tokens,
        active,
        asked.doweight_stage1,
        shuffled(asked.w1),
        shuffled(asked.w2),
        asked.bias1,
        asked.bias2,
        limit(asked),
    )


def plan_unquantised(asked: MoeCall) -> Plan | None:
    """Plan :func:`unquantised`."""
    active = gated(asked)
    _refused(asked)
    given = (
        *places("hidden_states", "w1", "w2", "topk_weight", "topk_ids", "expert_mask", "num_local_tokens", "bias1", "bias2"),
        (-1,), active, asked.doweight_stage1, shuffled(asked.w1), shuffled(asked.w2), limit(asked),
    )  # fmt: skip
    return plan_of((like(asked.hidden_states),), ((_fused_experts, given),), (-1,))
