"""Codes of fp8 with a scale for each group of columns, and what is computed before them in the same kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, new_results, no_output
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.norm_group_quant import (
    refuse_act_mul_and_fp8_group_quant,
    refuse_fused_rms_fp8_group_quant,
)

if TYPE_CHECKING:
    import torch

_act_mul_and_fp8_group_quant = operator("act_mul_and_fp8_group_quant")
_fused_rms_fp8_group_quant = operator("fused_rms_fp8_group_quant")
_fused_rms_fp8_per_tensor_static_quant = operator("fused_rms_fp8_per_tensor_static_quant")
_fused_add_rmsnorm_pad = operator("fused_add_rmsnorm_pad")


def _new_gated(x: torch.Tensor, group_size: int, dtype_quant: torch.dtype | None) -> tuple[Any, ...]:
    """Codes and scales of half of the columns."""
    rows, width = x.shape[0], x.shape[1] // 2
    codes = x.new_empty((rows, width), dtype=fp8_of(x) if dtype_quant is None else dtype_quant)
    return codes, x.new_empty((rows, -(-width // group_size)), dtype=element_type(x, "f32"))


def _new_normed(
    inp1: torch.Tensor,
    inp2: torch.Tensor | None,
    group_size: int,
    dtype_quant: torch.dtype | None,
    normed: bool,
    total: bool,
) -> tuple[Any, ...]:
    """Codes, scales, and what is wanted of the norm of inp1, that of inp2, and the sum."""
    rows, width = inp1.shape
    codes = inp1.new_empty((rows, width), dtype=fp8_of(inp1) if dtype_quant is None else dtype_quant)
    scales = inp1.new_empty((rows, -(-width // group_size)), dtype=element_type(inp1, "f32"))
    second = None if inp2 is None else like(inp2)
    return codes, scales, like(inp1) if normed else None, second, like(inp1) if total else None


def _new_padded(x: torch.Tensor, multiple: int, total: bool) -> tuple[Any, ...]:
    """The norm, with so many more columns, and what is wanted of the sum."""
    rows, width = x.shape
    columns = width if multiple <= 0 else -(-width // multiple) * multiple
    return x.new_empty((rows, columns)), like(x) if total else None


_gated = new_results("act_mul_and_fp8_group_quant", _new_gated, "tvvvv", (0, 2, 3), (-1, -2, 0, 1, 2), 2)
_normed = new_results(
    "fused_rms_fp8_group_quant", _new_normed, "tptppvvvvvvvv", (0, 2, 7, 9, 10, 11),
    (-1, -2, -3, -4, -5, 0, 1, 2, 3, 4, 5, 6, 7, 8), 5,
)  # fmt: skip
_padded = new_results("fused_add_rmsnorm_pad", _new_padded, "tppvvvv", (0, 4, 5), (-1, -2, 0, 1, 2, 3), 2)


@traced
def act_mul_and_fp8_group_quant(
    x: torch.Tensor, activation: str, group_size: int, dtype_quant: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """``v = act(x[:, :i]) * x[:, i:]`` as fp8 codes with a scale for each ``group_size`` columns, computed in fp32.

    Args:
        x: [tokens, 2 * i] bf16 or fp16, the gate first; rows may be strided. Rows of multiples of 16 at aligned addresses, and
            groups of 128, are the fast ones.
        activation: "silu", "gelu" (by erf) or "gelu_tanh".
        group_size: 128 or 64; the last group may have fewer columns.
        dtype_quant: the fp8 of the device: torch.float8_e4m3fnuz on gfx942, torch.float8_e4m3fn on gfx950; that when None.

    Returns:
        codes [tokens, i] and scales [tokens, ceil(i / group_size)] fp32, new and contiguous: ``v`` is about codes * scales. A
        scale is the largest size in its group, at least 1e-10, divided by the largest code (240 or 448); NaN is left out of it,
        and has the lowest code.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``act_mul_and_fp8_group_quant``.
    """
    refuse_act_mul_and_fp8_group_quant(activation, group_size)
    made: tuple[torch.Tensor, torch.Tensor] = _gated(
        x, activation, group_size, dtype_quant, _act_mul_and_fp8_group_quant
    )
    return made


@traced
def fused_rms_fp8_group_quant(
    inp1: torch.Tensor,
    inp1_weight: torch.Tensor,
    inp1_epsilon: float,
    inp2: torch.Tensor | None = None,
    inp2_weight: torch.Tensor | None = None,
    inp2_epsilon: float | None = None,
    group_size: int = 128,
    dtype_quant: torch.dtype | None = None,
    res1: torch.Tensor | None = None,
    output_unquantized_inp1: bool = False,
    transpose_scale: bool = False,
    is_x_scale_strided: bool = False,
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """The RMS norm of ``inp1 + res1`` as fp8 codes with a scale for each ``group_size`` columns; beside it that of ``inp2``.

    Args:
        inp1: [tokens, n] bf16 or fp16, rows may be strided; n up to 8192, a multiple of 16, at aligned addresses is the fast one,
            with groups of 128. inp1_weight: [n] of the same type. inp1_epsilon: added to the mean square.
        inp2: [tokens, n2], rows may be strided; it is normed alone, with inp2_weight [n2] and inp2_epsilon (0 when None).
        group_size: 128 or 64; the last group may have fewer columns.
        dtype_quant: the fp8 of the device: torch.float8_e4m3fnuz on gfx942, torch.float8_e4m3fn on gfx950; that when None.
        res1: [tokens, n], rows may be strided, added before the norm, which reads the sum before it is rounded.
        output_unquantized_inp1: the norm is wanted as well.
        transpose_scale: scales lie column after column. is_x_scale_strided: with strides (1, tokens), else of rows.

    Returns:
        (codes [tokens, n], scales [tokens, ceil(n / group_size)] fp32), the norm of inp1 where it is wanted, the norm of inp2,
        and the sum with res1; None for what is not. A scale is the largest size in its group, at least 1e-10, divided by the
        largest code (240 or 448); NaN is left out of it, and has the lowest code.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``fused_rms_fp8_group_quant``.
    """
    refuse_fused_rms_fp8_group_quant(group_size)
    codes, scales, normed, second, total = _normed(
        inp1, inp1_weight, inp2, inp2_weight, res1, inp1_epsilon, 0.0 if inp2_epsilon is None else inp2_epsilon,
        group_size, transpose_scale, dtype_quant, bool(output_unquantized_inp1), res1 is not None,
        _fused_rms_fp8_group_quant,
    )  # fmt: skip
    plain: object = scales
    if isinstance(plain, tuple):  # it has no framework, and no views: what was made, one behind the other
        made: tuple[Any, ...] = tuple(
            each for each in (codes, scales, normed, second, total) if each is not None
        )
        return made
    if transpose_scale and is_x_scale_strided:
        scales = scales.view(scales.shape[1], scales.shape[0]).t()
    return (codes, scales), normed, second, total


@traced
def fused_rms_fp8_per_tensor_static_quant(
    inp1: torch.Tensor,
    inp1_weight: torch.Tensor,
    inp1_epsilon: float,
    inp1_scale: torch.Tensor,
    inp2: torch.Tensor | None = None,
    inp2_weight: torch.Tensor | None = None,
    inp2_epsilon: float | None = None,
    dtype_quant: torch.dtype | None = None,
    res1: torch.Tensor | None = None,
    output_unquantized_inp1: bool = False,
    rmsnorm_convert_to_inp1_type: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """The RMS norm of ``inp1 + res1`` as fp8 codes of one scale that is given; beside it the norm of ``inp2``.

    Args:
        inp1, inp1_weight, inp1_epsilon, inp2, inp2_weight, inp2_epsilon, dtype_quant, res1, output_unquantized_inp1: as
            :func:`fused_rms_fp8_group_quant`.
        inp1_scale: [1] fp32; codes are ``y * (1 / scale)``, rounded to nearest even and saturated; NaN has the lowest code.
        rmsnorm_convert_to_inp1_type: ``y`` is rounded to the type of inp1 before.

    Returns:
        codes [tokens, n], the norm of inp1 where it is wanted, the norm of inp2, and the sum with res1; None for what is not.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_rms_fp8_per_tensor_static_quant``.
    """
    try:
        codes = inp1.new_empty(inp1.shape, dtype=fp8_of(inp1) if dtype_quant is None else dtype_quant)
        normed = like(inp1) if output_unquantized_inp1 else None
        second = None if inp2 is None else like(inp2)
        total = None if res1 is None else like(inp1)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_rms_fp8_per_tensor_static_quant", error) from error
    _fused_rms_fp8_per_tensor_static_quant(
        codes, normed, second, total, inp1, inp1_weight, inp1_scale, inp2, inp2_weight, res1,
        inp1_epsilon, 0.0 if inp2_epsilon is None else inp2_epsilon, rmsnorm_convert_to_inp1_type,
    )  # fmt: skip
    return codes, normed, second, total


@traced
def fused_add_rmsnorm_pad(
    x: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    res: torch.Tensor | None = None,
    x_pad_to_multiple: int = 0,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The RMS norm of ``x + res``, with zeros behind each row.

    Args:
        x: [tokens, n] bf16 or fp16, rows may be strided; up to 8192 columns, multiples of 16, at aligned addresses are the fast
            ones. weight: [n] of the same type. epsilon: added to the mean square.
        res: [tokens, n], rows may be strided, added before the norm, which reads the sum before it is rounded.
        x_pad_to_multiple: rows of the result have a multiple of so many columns; n where it is 0 or less.

    Returns:
        The norm, [tokens, n or more]; with res also the sum, [tokens, n].

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_add_rmsnorm_pad``.
    """
    out, total = _padded(x, weight, res, epsilon, x_pad_to_multiple, res is not None, _fused_add_rmsnorm_pad)
    return out if total is None else (out, total)
