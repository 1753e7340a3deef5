"""Quantisation in torch's own operations, on any device: ``get_torch_quant``, for weights when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.errors import ArgumentShapeError
from aiter_prebuilt.ops._common import number, refuse
from aiter_prebuilt.ops._quant_shapes import whole_groups
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.enumerations import QuantType
from aiter_prebuilt.ops.quant_hip import OLDER, UP, _as_it_is, _function_of
from aiter_prebuilt.ops.shuffle_scales import e8m0_shuffle

if TYPE_CHECKING:
    import torch

#: Between two neighbours of e2m1's 0, 0.5, 1, 1.5, 2, 3, 4, 6. A value halfway becomes the even code.
_HALFWAY: Final = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
#: Elements that are quantised at once: float32 copies of a whole KV cache would take four times its memory.
_AT_ONCE: Final = 1 << 26


@traced
def pertoken_quant(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    scale_dtype: torch.dtype | None = None,
    quant_dtype: torch.dtype | None = None,
    dtypeMax: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise each row with torch.

    The scale is ``amax(|row|) / qmax``, 1 for a row of zeros, or the one given.

    Args:
        x: [..., N], any float type.
        scale: [..., 1], or None.
        x_scale: what ``x`` is multiplied with first, or None.
        scale_dtype: float32 (None).
        quant_dtype: int8 (None) or an fp8.
        dtypeMax: qmax; the largest value of the type (None).

    Returns:
        codes [..., N], and scales [..., 1].

    Raises:
        RuntimeError: torch's, of shapes that do not broadcast, or a type that it has no codes of.

    Source: AITER ``pertoken_quant``.
    """
    import torch

    kind = quant_dtype or torch.int8
    if scale is None and x_scale is None and _divides(x):
        codes = torch.empty(x.shape, dtype=kind, device=x.device)
        scale = torch.empty((*x.shape[:-1], 1), dtype=scale_dtype or torch.float32, device=x.device)
        step = max(1, _AT_ONCE * x.shape[0] // x.numel())
        for first in range(0, x.shape[0], step):
            part = slice(first, first + step)
            codes[part], scale[part] = pertoken_quant(
                x[part], scale_dtype=scale_dtype, quant_dtype=kind, dtypeMax=dtypeMax
            )
        return codes, scale
    values = x.to(torch.float32) if x_scale is None else x.to(torch.float32) * x_scale
    if scale is None:
        scale = values.abs().amax(-1, keepdim=True) / (dtypeMax or _largest(kind))
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return _codes(values / scale, kind), scale.to(scale_dtype or torch.float32)


@traced
def per_tensor_quant(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    scale_dtype: torch.dtype | None = None,
    quant_dtype: torch.dtype | None = None,
    dtypeMax: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with one scale and torch.

    The scale is ``amax(|x|) / qmax``, or the one given.

    Args:
        x: any shape, any float type.
        scale: one value, or None.
        scale_dtype: the type of the scale: float32 (None).
        quant_dtype: the type of the codes: int8 (None) or an fp8.
        dtypeMax: qmax; None: the largest value of the type.

    Returns:
        codes of the shape of ``x``, and the scale, [1].

    Raises:
        RuntimeError: torch's, of a scale of several values, or a type that it has no codes of.

    Source: AITER ``per_tensor_quant``.
    """
    import torch

    kind = quant_dtype or torch.int8
    values = x.to(torch.float32)
    if scale is None and not values.numel():
        raise ArgumentShapeError(
            "per_tensor_quant", f"x must have elements to compute a scale, got {list(x.shape)}", "Pass scale"
        )
    if scale is None:
        scale = values.abs().amax() / (dtypeMax or _largest(kind))
    return _codes(values / scale, kind), scale.view(1).to(scale_dtype or torch.float32)


@traced
def per_1x32_f4_quant(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    shuffle: bool = False,
    pack_dim: int = -1,
    round_mode: Any = UP,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise to MXFP4 with torch.

    Codes are rounded to nearest even, with a power of two for each 32 elements of a row.

    Args:
        x: [..., N] any float type, N a multiple of 32.
        scale: None only, as in AITER.
        quant_dtype: torch.float4_e2m1fn_x2 (None).
        shuffle: the scales in the layout of ``e8m0_shuffle``.
        pack_dim: -1; 0: of two dims, whose first has groups and pairs.
        round_mode: how a scale follows from the largest size, a number or a member of AITER's ``MxScaleRoundMode``: 0 to 3 as of
            :func:`quant_mxfp4`. 5, ours: a quarter, rounded to a power, from 1.5 of one on to the next, as AITER's function of
            this name did in November 2025.

    Returns:
        codes [..., N / 2] pairs of fp4, and e8m0 scales [M, N / 32] for the M rows of all leading dims, the byte 0 for zeros;
        with pack_dim 0 [N / 2, M] and [N / 32, M].

    Raises:
        ArgumentShapeError: N is no multiple of 32.
        UnsupportedError: an option that is not covered.

    Source: AITER ``per_1x32_f4_quant``.
    """
    import torch

    if scale is not None:
        raise refuse("per_1x32_f4_quant", "scale", scale, "None")
    if quant_dtype not in (None, torch.float4_e2m1fn_x2):
        raise refuse("per_1x32_f4_quant", "quant_dtype", quant_dtype, "torch.float4_e2m1fn_x2")
    if pack_dim not in (-1, 0) or (pack_dim == 0 and x.dim() != 2):
        raise refuse("per_1x32_f4_quant", "pack_dim", pack_dim, "-1, or 0 for two dims")
    if pack_dim == 0:
        codes, scales = per_1x32_f4_quant(x.T.contiguous(), None, None, shuffle, -1, round_mode)
        return codes.view(torch.uint8).T.contiguous().view(codes.dtype), scales.view(
            torch.uint8
        ).T.contiguous().view(scales.dtype)
    whole_groups("per_1x32_f4_quant", x.shape[-1], 32)
    groups = x.to(torch.float32).unflatten(-1, (-1, 32))
    made = _powers(groups.abs().amax(-1), number(round_mode))
    packed = _pairs(groups, made)
    made = made.reshape(
        -1, made.shape[-1]
    )  # AITER's scales have two dims whatever x has, and what sorts them asks for two
    laid = e8m0_shuffle(made) if shuffle else made
    assert laid is not None  # it gives back None for None alone
    return packed, laid.view(torch.float8_e8m0fnu)


def _powers(amax: torch.Tensor, mode: int) -> torch.Tensor:
    """e8m0 as bytes: fp32's own exponent, one more by the mode; what is infinite or NaN stays 255."""
    import torch

    if mode not in (0, 1, 2, 3, OLDER):
        raise refuse("per_1x32_f4_quant", "round_mode", mode, "0 to 3, or 5")
    # Of AITER's ways only that to the nearest rounds before it divides.
    if mode == 2:
        amax = ((amax.view(torch.int32) + (1 << 21)) & 0x7F800000).view(torch.float32)
    bits = (amax / (6.0 if mode == UP else 4.0)).view(torch.int32)
    exponent = bits >> 23 & 0xFF
    fraction = bits & 0x7FFFFF
    more = torch.zeros_like(exponent)
    if mode in (UP, 3):
        more = (fraction > 0).int()
    elif mode == OLDER:
        more = ((fraction >= 1 << 22) & ((fraction > 1 << 22) | (exponent > 0))).int()
    return torch.where(exponent == 0xFF, exponent, exponent + more).to(torch.uint8)


def _pairs(groups: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    import torch

    # The byte 0 is 2^-127.
    sizes = torch.ldexp(groups.abs().double(), (127 - made.to(torch.int32)).unsqueeze(-1))
    codes = torch.zeros_like(sizes, dtype=torch.uint8)
    for place, bound in enumerate(_HALFWAY):
        codes += (sizes >= bound) if place % 2 else (sizes > bound)
    codes |= torch.signbit(groups).to(torch.uint8) << 3
    flat = codes.flatten(-2)
    return (flat[..., 1::2] << 4 | flat[..., ::2]).view(torch.float4_e2m1fn_x2)


def _per_1x128(
    x: torch.Tensor, scale: torch.Tensor | None = None, quant_dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    whole_groups("get_torch_quant", x.shape[-1], 128)
    codes, scales = pertoken_quant(x.unflatten(-1, (-1, 128)), scale, quant_dtype=quant_dtype)
    return codes.flatten(-2), scales.squeeze(-1)


def _largest(kind: torch.dtype) -> float:
    import torch

    if kind == torch.float4_e2m1fn_x2:  # torch has no largest value of it
        raise refuse("get_torch_quant", "quant_dtype", kind, "torch.int8 or an fp8, or QuantType.per_1x32")
    return float((torch.finfo if kind.is_floating_point else torch.iinfo)(kind).max)


def _divides(x: torch.Tensor) -> bool:
    """Tell whether a tensor is quantised in parts of its first dim, which saves memory."""
    import torch

    if x.numel() <= _AT_ONCE or x.dim() < 2 or x.shape[0] < 2 or torch.compiler.is_compiling():
        return False
    return not (x.requires_grad and torch.is_grad_enabled())


def _codes(values: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """Round values to codes, to nearest even, and saturate.

    A quotient may be one place above the largest code.
    """
    largest = _largest(kind)
    values = values.clamp(-largest, largest)
    return (values if kind.is_floating_point else values.round()).to(kind)


_KINDS: Final[dict[int, Callable[..., Any]]] = {
    QuantType.No: _as_it_is,
    QuantType.per_Tensor: per_tensor_quant,
    QuantType.per_Token: pertoken_quant,
    QuantType.per_1x32: per_1x32_f4_quant,
    QuantType.per_1x128: _per_1x128,
}
_OLDER_KINDS: Final = _KINDS | {QuantType.per_1x32: partial(per_1x32_f4_quant, round_mode=OLDER)}


@traced
def get_torch_quant(qType: Any, *, round_mode: int = UP) -> Callable[..., Any]:
    """Return the function that quantises in torch by a ``QuantType``.

    It serves any device: ``get_torch_quant(QuantType.per_Token)(x, quant_dtype=...)``.

    Args:
        qType: a ``QuantType`` of ours or of AITER, or its number: No, per_Tensor, per_Token, per_1x32 or per_1x128.
        round_mode: ours, of per_1x32: 1, or 5 for :func:`per_1x32_f4_quant` with it.

    Returns:
        ``per_tensor_quant``, ``pertoken_quant``, ``per_1x32_f4_quant``, or for per_1x128 what takes x, scale and quant_dtype; for
        No what gives back its first argument, and None; for another ``QuantType`` what raises UnsupportedError when it is
        called (AITER's per_256x128 and per_1024x128 end in an assertion then).

    Raises:
        UnsupportedError: no ``QuantType``, or another round_mode.

    Source: AITER ``get_torch_quant``.
    """
    if round_mode not in (UP, OLDER):
        raise refuse("get_torch_quant", "round_mode", round_mode, "1 or 5")
    return _function_of("get_torch_quant", qType, _OLDER_KINDS if round_mode == OLDER else _KINDS)
