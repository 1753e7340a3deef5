"""AITER's quantisations that allocate codes and scales. A call imports torch, an import of this module does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.ops._common import element_type, number, outputs, refuse
from aiter_prebuilt.ops._group_codes import _IN_GROUPS, quantise_groups
from aiter_prebuilt.ops._plans import Plan, plan_of, remembered
from aiter_prebuilt.ops._quant_shapes import rows_of, whole_groups
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.enumerations import QuantType
from aiter_prebuilt.ops.generated.quant import (
    dynamic_per_tensor_quant,
    dynamic_per_token_scaled_quant,
    static_per_tensor_quant,
)
from aiter_prebuilt.ops.mxfp_quant import dynamic_per_group_scaled_quant, quant_mxfp4
from aiter_prebuilt.ops.quant import dynamic_per_group_scaled_quant_fp4

if TYPE_CHECKING:
    import torch

#: Elements of a row that share a scale in the MX formats.
_MX: Final = 32
#: Rows and columns of a block of shuffled scales: the layout is padded to whole ones.
_ROWS: Final = 256
_COLUMNS: Final = 8
#: The way of quant_mxfp4 that AITER's Triton kernels go.
_AS_TRITON: Final = 4
#: Ways to a scale of MXFP4: the smallest power of which the largest size is at most 6, as AITER's own of August 2026; from 1.5 of
#: a power on the next, as those of November 2025.
UP: Final = 1
OLDER: Final = 5


@traced
def per_tensor_quant_hip(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with one scale: ``scale``, or ``amax(|x|) / qmax``.

    Args:
        x: [..., N] bf16 or fp16.
        scale: one fp32 value, or None.
        quant_dtype: the target's own e4m3, or int8 (None; not with a given scale).
        num_rows: None only, as in AITER.
        num_rows_factor: means nothing here.

    Returns:
        codes [..., N], and the scale, [1] fp32.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``dynamic_per_tensor_quant`` and ``static_per_tensor_quant``.

    Source: AITER ``per_tensor_quant_hip``.
    """
    import torch

    del num_rows_factor
    if num_rows is not None:
        raise refuse("per_tensor_quant_hip", "num_rows", num_rows, "None")
    codes = torch.empty(x.shape, dtype=quant_dtype or torch.int8, device=x.device)
    if scale is None:
        scale = torch.empty(1, dtype=torch.float32, device=x.device)
        dynamic_per_tensor_quant(codes, x, scale)
    else:
        static_per_tensor_quant(codes, x, scale)
    return codes, scale.view(1)


def _new_rows(x: torch.Tensor, kind: torch.dtype | None) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    codes = torch.empty(x.shape, dtype=kind or torch.int8, device=x.device)
    return codes, torch.empty((*x.shape[:-1], 1), dtype=torch.float32, device=x.device)


_made_rows = outputs(_new_rows)


@traced
def per_token_quant_hip(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise each row with the scale ``amax(|row|) / qmax``.

    Args:
        x: [..., N] bf16 or fp16.
        scale: None only, as in AITER.
        quant_dtype: the target's own e4m3, or int8 (None).
        num_rows: one int32 on the device; only ``num_rows * num_rows_factor`` rows are written.
        num_rows_factor: rows that each of ``num_rows`` stands for.

    Returns:
        codes [..., N], and scales [..., 1] fp32.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``dynamic_per_token_scaled_quant``.

    Source: AITER ``per_token_quant_hip``.
    """
    _own("per_token_quant_hip", scale)
    codes, made = _made_rows(x, quant_dtype)
    dynamic_per_token_scaled_quant(codes, x, made, None, False, num_rows, num_rows_factor)
    return codes, made


@traced
def per_group_quant_hip(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    group_size: int = 128,
    transpose_scale: bool = False,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
    scale_type: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise each group of a row with ``amax(|group|) / qmax``.

    Args:
        x: [..., N] bf16 or fp16, N a multiple of ``group_size``.
        scale: None only, as in AITER.
        quant_dtype: the target's own e4m3, or int8 (None).
        group_size: 32, 64 or 128.
        transpose_scale: the scales' memory has groups before rows; the shape that is returned does not say it, as in AITER. Of
            int8 it means nothing, as there.
        num_rows: one int32 on the device; only ``num_rows * num_rows_factor`` rows are written.
        num_rows_factor: rows that each of ``num_rows`` stands for.
        scale_type: float32 (None).

    Returns:
        codes [..., N], and scales [..., N / group_size] fp32.

    Raises:
        ArgumentShapeError: N is no multiple.
        UnsupportedError, ArgumentError, NoKernelError: as ``dynamic_per_token_scaled_quant``.

    Source: AITER ``per_group_quant_hip``.
    """
    if scale is None and scale_type is None and group_size in (32, 64, 128):
        found: tuple[torch.Tensor, torch.Tensor] = _planned_groups(
            x, num_rows, quant_dtype, group_size, transpose_scale, num_rows_factor, _IN_GROUPS[group_size]
        )
        return found
    return _in_groups(
        x, scale, quant_dtype, group_size, transpose_scale, num_rows, num_rows_factor, scale_type
    )


def _in_groups(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    group_size: int = 128,
    transpose_scale: bool = False,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
    scale_type: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise groups with every option."""
    if scale is not None:
        _own("per_group_quant_hip", scale)
    if scale_type is not None and scale_type != element_type(x, "f32"):
        raise refuse("per_group_quant_hip", "scale_type", scale_type, "torch.float32")
    if group_size not in (32, 64, 128):
        raise refuse("per_group_quant_hip", "group_size", group_size, "32, 64 or 128")
    codes, made = _new_groups(x, group_size, quant_dtype)
    quantise_groups(codes, x, made, group_size, transpose_scale, num_rows, num_rows_factor)
    return codes, made


def _run_groups(x: Any, num_rows: Any, kind: Any, size: int, transposed: Any, factor: Any, _: Any) -> Any:
    return _in_groups(x, None, kind, size, transposed, num_rows, factor)


def _plan_groups(
    x: Any, _num_rows: Any, kind: Any, size: int, transposed: Any, factor: Any, called: Any
) -> Plan | None:
    if not x.is_contiguous():
        return None
    given = ((-1,), (0,), (-2,), None, (1,), transposed, factor)
    return plan_of(_new_groups(x, size, kind), ((called, given),), ((-1,), (-2,)))


_planned_groups = remembered(_run_groups, _plan_groups, "tp" + "v" * 5)


@traced
def per_1x32_mx_quant_hip(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    shuffle: bool = False,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
    scale_type: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise 32 elements at a time to MXFP4 or fp8.

    Scales of MXFP4 and MXFP8 are the smallest power of two of which the largest size is at most the largest code.

    Args:
        x: [M, N] bf16 or fp16, N a multiple of 32.
        scale: None only, as in AITER.
        quant_dtype: torch.float4_e2m1fn_x2 (None), or the target's own e4m3.
        shuffle: e8m0 scales in the layout of :func:`e8m0_shuffle`.
        num_rows: one int32 on the device; only ``num_rows * num_rows_factor`` rows are written.
        num_rows_factor: rows that each of ``num_rows`` stands for.
        scale_type: e8m0 for MXFP4, float32 (None) or e8m0 for fp8.

    Returns:
        codes [M, N / 2] pairs of fp4 or [M, N] fp8, and scales [M, N / 32]; shuffled: M up to a multiple of 256 and N / 32 of 8,
        with values of no meaning behind them.

    Raises:
        UnsupportedError: fp32 scales shuffled.
        ArgumentError, NoKernelError: as ``dynamic_per_group_scaled_quant`` and ``dynamic_per_token_scaled_quant``.

    Source: AITER ``per_1x32_mx_quant_hip``.
    """
    import torch

    function = "per_1x32_mx_quant_hip"
    _own(function, scale)
    if quant_dtype in (torch.float8_e4m3fn, torch.float8_e4m3fnuz):
        if scale_type == torch.float8_e8m0fnu:
            return _with_powers(function, x, quant_dtype, shuffle, num_rows, num_rows_factor, UP)
        if shuffle:
            raise refuse(function, "shuffle", shuffle, "False for fp8 with fp32 scales")
        if scale_type not in (None, torch.float32):
            raise refuse(function, "scale_type", scale_type, "torch.float32 or torch.float8_e8m0fnu for fp8")
        codes, made = _made_groups(x, _MX, quant_dtype)
        quantise_groups(codes, x, made, _MX, False, num_rows, num_rows_factor)
        return codes, made
    if quant_dtype not in (None, torch.float4_e2m1fn_x2):
        raise refuse(function, "quant_dtype", quant_dtype, "torch.float4_e2m1fn_x2 or the target's own e4m3")
    if scale_type not in (None, torch.float8_e8m0fnu):
        raise refuse(function, "scale_type", scale_type, "torch.float8_e8m0fnu for fp4")
    return _with_powers(function, x, None, shuffle, num_rows, num_rows_factor, UP)


def _with_powers(
    function: str,
    x: torch.Tensor,
    kind: torch.dtype | None,
    shuffle: bool,
    num_rows: Any,
    factor: int,
    mode: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """MXFP4 (``kind`` None) or MXFP8."""
    import torch

    rows, columns = rows_of(function, x)
    groups = whole_groups(function, columns, _MX)
    codes = torch.empty(
        (rows, columns // 2 if kind is None else columns), dtype=kind or torch.uint8, device=x.device
    )
    shape = (-(-rows // _ROWS) * _ROWS, -(-groups // _COLUMNS) * _COLUMNS) if shuffle else (rows, groups)
    made = torch.empty(shape, dtype=torch.uint8, device=x.device)
    fill = dynamic_per_group_scaled_quant_fp4 if mode == OLDER else dynamic_per_group_scaled_quant
    fill(codes, x, made, _MX, shuffle, num_rows, factor)
    return codes if kind else codes.view(torch.float4_e2m1fn_x2), made.view(torch.float8_e8m0fnu)


@traced
def per_1x32_f4_quant_hip(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    shuffle: bool = False,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
    *,
    round_mode: int = UP,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise to MXFP4; :func:`per_1x32_mx_quant_hip` also has fp8.

    Args:
        x: [M, N] bf16 or fp16.
        scale: only None is supported, as in AITER.
        quant_dtype: torch.float4_e2m1fn_x2 (None).
        shuffle: write e8m0 scales in the layout of :func:`e8m0_shuffle`.
        num_rows: one int32 on the device; only ``num_rows * num_rows_factor`` rows are written.
        num_rows_factor: rows that each of ``num_rows`` stands for.
        round_mode: ours. 1: scales as of :func:`per_1x32_mx_quant_hip`; 5: as of ``dynamic_per_group_scaled_quant_fp4``, AITER's
            way in November 2025 (N a multiple of 256 with ``shuffle``).

    Returns:
        codes [M, N / 2] pairs of fp4, and e8m0 scales, as of :func:`per_1x32_mx_quant_hip`.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as :func:`per_1x32_mx_quant_hip`.

    Source: AITER ``per_1x32_f4_quant_hip``.
    """
    import torch

    if quant_dtype not in (None, torch.float4_e2m1fn_x2):
        raise refuse("per_1x32_f4_quant_hip", "quant_dtype", quant_dtype, "torch.float4_e2m1fn_x2")
    if round_mode not in (UP, OLDER):
        raise refuse("per_1x32_f4_quant_hip", "round_mode", round_mode, "1 or 5")
    _own("per_1x32_f4_quant_hip", scale)
    return _with_powers("per_1x32_f4_quant_hip", x, None, shuffle, num_rows, num_rows_factor, round_mode)


@traced
def dynamic_mxfp4_quant(
    x: torch.Tensor, scaling_mode: str = "even", shuffle: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise to MXFP4, as AITER's two functions of this name.

    Scales and codes are those of its Triton kernels (``round_mode`` 4 of :func:`quant_mxfp4`), which
    :func:`per_1x32_f4_quant_hip` is not: there a scale goes up above 1.5 of a power, and codes halfway to even.

    Args:
        x: [M, N] bf16 or fp16, N a multiple of 32.
        scaling_mode: only "even" is supported.
        shuffle: the scales in the layout of :func:`e8m0_shuffle`, rows up to a multiple of 256 and columns of 8, with values of
            no meaning behind M and N / 32.

    Returns:
        codes [M, N / 2], and e8m0 scales [M, N / 32]: bytes, or torch's types with ``shuffle``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``quant_mxfp4``.

    Source: AITER ``dynamic_mxfp4_quant`` of ``ops/triton/quant`` and of ``utility/fp4_utils``.
    """
    import torch

    function = "dynamic_mxfp4_quant"
    if scaling_mode != "even":
        raise refuse(function, "scaling_mode", scaling_mode, '"even"')
    rows, columns = rows_of(function, x)
    groups = whole_groups(function, columns, _MX)
    codes = torch.empty((rows, columns // 2), dtype=torch.uint8, device=x.device)
    shape = (-(-rows // _ROWS) * _ROWS, -(-groups // _COLUMNS) * _COLUMNS) if shuffle else (rows, groups)
    made = torch.empty(shape, dtype=torch.uint8, device=x.device)
    quant_mxfp4(x.contiguous(), codes, made, _MX, _AS_TRITON, shuffle)
    if not shuffle:
        return codes, made
    return codes.view(torch.float4_e2m1fn_x2), made.view(torch.float8_e8m0fnu)


def _new_groups(x: torch.Tensor, size: int, kind: torch.dtype | None) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    groups = whole_groups("per_group_quant_hip", x.shape[-1], size)
    codes = torch.empty(x.shape, dtype=kind or torch.int8, device=x.device)
    return codes, torch.empty((*x.shape[:-1], groups), dtype=torch.float32, device=x.device)


_made_groups = outputs(_new_groups)


def _own(function: str, scale: object) -> None:
    if scale is not None:
        raise refuse(function, "scale", scale, "None")


def _as_it_is(x: torch.Tensor, *_others: Any, **_options: Any) -> tuple[torch.Tensor, None]:
    return x, None


def _per_1x32_triton(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    quant_dtype: torch.dtype | None = None,
    shuffle: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    _own("get_triton_quant", scale)
    if quant_dtype not in (None, torch.float4_e2m1fn_x2):
        raise refuse("get_triton_quant", "quant_dtype", quant_dtype, "torch.float4_e2m1fn_x2")
    codes, made = dynamic_mxfp4_quant(x, shuffle=shuffle)
    return codes.view(torch.float4_e2m1fn_x2), made.view(torch.float8_e8m0fnu)


_KINDS: Final[dict[int, Callable[..., Any]]] = {
    QuantType.No: _as_it_is,
    QuantType.per_Tensor: per_tensor_quant_hip,
    QuantType.per_Token: per_token_quant_hip,
    QuantType.per_1x32: per_1x32_mx_quant_hip,
    QuantType.per_1x128: partial(per_group_quant_hip, group_size=128),
}
_OLDER_KINDS: Final = _KINDS | {QuantType.per_1x32: partial(per_1x32_f4_quant_hip, round_mode=OLDER)}
_TRITON_KINDS: Final = _KINDS | {QuantType.per_1x32: _per_1x32_triton}


def _function_of(asked: str, kind: Any, kinds: dict[int, Callable[..., Any]]) -> Callable[..., Any]:
    found = number(kind)
    if isinstance(found, int) and found in kinds:
        return kinds[found]
    covered = ", ".join(f"QuantType.{QuantType(each).name}" for each in kinds)
    refusal = refuse(asked, "qType", kind, f"one of {covered}")
    if not isinstance(found, int) or found not in frozenset(QuantType):
        raise refusal
    return partial(_none_covers, refusal)


def _none_covers(refusal: Exception, *_arguments: Any, **_options: Any) -> Any:
    """In the place of a function that AITER has not either: programs ask for it and never call it."""
    raise refusal


@traced
def get_hip_quant(qType: Any, *, round_mode: int = UP) -> Callable[..., Any]:
    """Return the function that quantises by a ``QuantType``.

    ``get_hip_quant(QuantType.per_1x128)(x, quant_dtype=..., transpose_scale=...)``.

    Args:
        qType: a ``QuantType`` of ours or of AITER, or its number: No, per_Tensor, per_Token, per_1x32 or per_1x128.
        round_mode: ours, of per_1x32: 1, or 5 for :func:`per_1x32_f4_quant_hip` with it.

    Returns:
        one of ``per_tensor_quant_hip``, ``per_token_quant_hip``, ``per_1x32_mx_quant_hip``, ``per_group_quant_hip``; for No what
        gives back its first argument, and None; for another ``QuantType`` what raises UnsupportedError when it is called.

    Raises:
        UnsupportedError: no ``QuantType``, or another round_mode.

    Source: AITER ``get_hip_quant``.
    """
    if round_mode not in (UP, OLDER):
        raise refuse("get_hip_quant", "round_mode", round_mode, "1 or 5")
    return _function_of("get_hip_quant", qType, _OLDER_KINDS if round_mode == OLDER else _KINDS)


@traced
def get_triton_quant(qType: Any) -> Callable[..., Any]:
    """Return the function that quantises like AITER's Triton kernels.

    Args:
        qType: as of :func:`get_hip_quant`.

    Returns:
        as of :func:`get_hip_quant`; for per_1x32 it gives :func:`dynamic_mxfp4_quant`'s scales and codes, of torch's types.

    Raises:
        UnsupportedError: no ``QuantType``.

    Source: AITER ``get_triton_quant``.
    """
    return _function_of("get_triton_quant", qType, _TRITON_KINDS)
