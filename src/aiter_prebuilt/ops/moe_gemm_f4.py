"""AITER's products of rows with the MXFP4 matrices of their experts, over what ``routing`` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, element_type, no_output, refuse
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.moe_routing import (
    moe_gemm_gathered,
    moe_gemm_gathered_fp4,
    moe_gemm_gathered_fp8,
)

if TYPE_CHECKING:
    import torch

#: How scales may lie: as they are, or as ``e8m0_shuffle`` has each expert's.
_LAYOUTS: Final = {None: False, "CDNA4_SCALE": True}


@traced
def moe_gemm_a16w4(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scales: torch.Tensor | None,
    w_scales: torch.Tensor,
    x_static_scale: torch.Tensor | None = None,
    quant_static_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    routing_data: Any = None,
    gather_indx: torch.Tensor | None = None,
    scatter_indx: torch.Tensor | None = None,
    gammas: torch.Tensor | None = None,
    swizzle_mx_scale: str | None = None,
    out_dtype: torch.dtype | None = None,
    apply_swiglu: bool = False,
    alpha: float = 1.0,
    limit: float | None = 1.0,
    swiglu_add_residual: bool = True,
    unpadded_N: int | None = None,
    unpadded_K: int | None = None,
    backend: str | None = None,
    *,
    gate_valid: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply routed 16-bit rows by MXFP4 expert weights.

    ``act(x @ w[expert] + bias) * gamma`` of each place that ``routing`` gave, or the sum of a token's places.

    Accumulated in fp32, each place's result is rounded to the type of x.

    Args:
        x: [M, K] bf16 or fp16, rows at multiples of 16 bytes: of tokens with gather_indx, else of places.
        w: [E, K / 2, N] pairs of fp4 (torch's, or bytes: the lower half is the first), ``w.stride(1)`` 1, K a multiple of 32;
            columns at multiples of 16 bytes.
        x_scales: only None is supported.
        w_scales: [E, K / 32, N] e8m0 (torch's, or bytes) with any strides; with swizzle_mx_scale "CDNA4_SCALE" [E, K, N / 32],
            ``w_scales.stride(1)`` 1: blocks of 32 columns of w and 8 scales, as ``e8m0_shuffle`` has them; K is a multiple of 256
            then.
        x_static_scale: only None is supported.
        quant_static_scale: only None is supported.
        bias: [E, N] fp32.
        routing_data: the first result of ``routing``.
        gather_indx: the second result of ``routing``: the choice of each place; None: ``x`` has a row for each place.
        scatter_indx: the third result of ``routing``: the place of each choice. The places of a token are summed in fp32; not
            with apply_swiglu. None: no sum.
        gammas: the factor of each place, of the type of x; None: 1.
        swizzle_mx_scale: the layout of w_scales: None or "CDNA4_SCALE".
        out_dtype: that of x; None is bf16.
        apply_swiglu: of each two columns a, b ``a * sigmoid(alpha * a) * (b + 1)``; without swiglu_add_residual ``* b``.
        alpha: the factor in the sigmoid of apply_swiglu.
        limit: with apply_swiglu, a is cut at it, b at it and its negative; None or 0: no limit.
        swiglu_add_residual: with apply_swiglu, multiply by ``b + 1``, else by ``b``.
        unpadded_N: as AITER has it, columns that are computed where blocks have 16 places.
        unpadded_K: any; weights behind it are zero, and all is read.
        backend: accepted and ignored.
        gate_valid: of each choice whether its place is here, int32 or bool, as scatter_indx has them; 0: nothing is added for it,
            and what scatter_indx says of it is not read. None: all are; without scatter_indx nothing is added up, and it means
            nothing.
        expert_map: only None is supported.

    Returns:
        [places, N], with apply_swiglu N / 2; with scatter_indx a row for each token.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``moe_gemm_a16w4`` of August 2026.
    """
    del unpadded_K, backend
    name = "moe_gemm_a16w4"
    for option, given in (
        ("x_scales", x_scales), ("x_static_scale", x_static_scale), ("quant_static_scale", quant_static_scale),
        ("expert_map", expert_map),
    ):  # fmt: skip
        if given is not None:
            raise refuse(name, option, given, "None")
    lists, swizzled = _options(name, swizzle_mx_scale, apply_swiglu, scatter_indx, routing_data)
    topk = routing_data.n_expts_act
    try:
        alike = (element_type(x, "bf16") if out_dtype is None else out_dtype) == x.dtype
        weight, scales = codes(w, "fp4x2").transpose(1, 2), codes(w_scales, "e8m0").transpose(1, 2)
        if unpadded_N and routing_data.block_m == 16:
            weight, scales = weight[:, :unpadded_N], scales[:, : unpadded_N // 32 if swizzled else unpadded_N]
            bias = None if bias is None else bias[:, :unpadded_N]
        places = x.shape[0] if gather_indx is None else gather_indx.shape[0]
        rows = places if scatter_indx is None else scatter_indx.shape[0] // topk
        out = x.new_empty((rows, weight.shape[1] // (2 if apply_swiglu else 1)))
        live = _live(x, gate_valid, scatter_indx)
    except NOT_A_TENSOR as error:
        raise no_output(name, error) from error
    if not alike:
        raise refuse(name, "out_dtype", out_dtype, "x.dtype (None is bf16)")
    moe_gemm_gathered(
        out, x, weight, scales, lists.hist, lists.token_offs_raw, lists.block_pid_map, topk, routing_data.block_m, bias,
        gather_indx, scatter_indx, gammas, swizzled, bool(apply_swiglu), alpha, limit or 0.0, float(bool(swiglu_add_residual)),
        live,
    )  # fmt: skip
    return out


@traced
def moe_gemm_a8w4(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scales: torch.Tensor | None,
    w_scales: torch.Tensor,
    x_static_scale: torch.Tensor | None = None,
    quant_static_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    routing_data: Any = None,
    gather_indx: torch.Tensor | None = None,
    scatter_indx: torch.Tensor | None = None,
    gammas: torch.Tensor | None = None,
    swizzle_mx_scale: str | None = None,
    out_dtype: torch.dtype | None = None,
    apply_swiglu: bool = False,
    alpha: float = 1.0,
    limit: float | None = 1.0,
    swiglu_add_residual: bool = True,
    preshuffled: bool = False,
    unpadded_N: int | None = None,
    unpadded_K: int | None = None,
    out_mx_quant: bool = False,
    residual: torch.Tensor | None = None,
    backend: str | None = None,
    *,
    gate_valid: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply routed fp8 rows by MXFP4 expert weights.

    As :func:`moe_gemm_a16w4`, with scales of x and of the result; gfx950 alone.

    Args:
        x: [M, K] fp8 (e4m3fn), rows at multiples of 16 bytes.
        w: [E, K / 2, N] pairs of fp4 (torch's, or bytes: the lower half is the first), ``w.stride(1)`` 1, K a multiple of 32;
            columns at multiples of 16 bytes.
        x_scales: [M, K / 32] e8m0 (torch's, or bytes), or None.
        w_scales: [E, K / 32, N] e8m0 (torch's, or bytes) with any strides; with swizzle_mx_scale "CDNA4_SCALE" [E, K, N / 32],
            ``w_scales.stride(1)`` 1: blocks of 32 columns of w and 8 scales, as ``e8m0_shuffle`` has them; K is a multiple of 256
            then.
        x_static_scale: one number, fp32, or None.
        quant_static_scale: one number, fp32, with out_dtype e4m3fn, and only then: results are divided by it, and cut at 448.
        bias: [E, N] fp32.
        routing_data: the first result of ``routing``.
        gather_indx: the second result of ``routing``: the choice of each place; None: ``x`` has a row for each place.
        scatter_indx: the third result of ``routing``: the place of each choice. The places of a token are summed in fp32; not
            with apply_swiglu. None: no sum.
        gammas: the factor of each place, bf16; None: 1.
        swizzle_mx_scale: the layout of w_scales: None or "CDNA4_SCALE".
        out_dtype: bf16 (None, too) or e4m3fn; not with scatter_indx.
        apply_swiglu: of each two columns a, b ``a * sigmoid(alpha * a) * (b + 1)``; without swiglu_add_residual ``* b``.
        alpha: the factor in the sigmoid of apply_swiglu.
        limit: with apply_swiglu, a is cut at it, b at it and its negative; None or 0: no limit.
        swiglu_add_residual: with apply_swiglu, multiply by ``b + 1``, else by ``b``.
        preshuffled: only False is supported.
        unpadded_N: accepted and ignored; all columns are computed.
        unpadded_K: accepted and ignored; all columns are computed.
        out_mx_quant: only False is supported.
        residual: only None is supported.
        backend: accepted and ignored.
        gate_valid: of each choice whether its place is here, int32 or bool, as scatter_indx has them; 0: nothing is added for it,
            and what scatter_indx says of it is not read. None: all are; without scatter_indx nothing is added up, and it means
            nothing.
        expert_map: only None is supported.

    Returns:
        [places, N], with apply_swiglu N / 2; with scatter_indx a row for each token.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``moe_gemm_a8w4`` of August 2026.
    """
    del unpadded_N, unpadded_K, backend
    name = "moe_gemm_a8w4"
    for option, given in (("preshuffled", preshuffled), ("out_mx_quant", out_mx_quant)):
        if given:
            raise refuse(name, option, given, "False")
    for option, tensor in (("residual", residual), ("expert_map", expert_map)):
        if tensor is not None:
            raise refuse(name, option, tensor, "None")
    lists, swizzled = _options(name, swizzle_mx_scale, apply_swiglu, scatter_indx, routing_data)
    topk = routing_data.n_expts_act
    try:
        half, fp8 = element_type(x, "bf16"), element_type(x, "e4m3fn")
        stored = half if out_dtype is None else out_dtype
        allowed = (half,) if quant_static_scale is None else (fp8,)
        weight, scales = codes(w, "fp4x2").transpose(1, 2), codes(w_scales, "e8m0").transpose(1, 2)
        own = None if x_scales is None else codes(x_scales, "e8m0")
        static, result = (
            None if scale is None else scale.reshape(1) for scale in (x_static_scale, quant_static_scale)
        )
        places = x.shape[0] if gather_indx is None else gather_indx.shape[0]
        rows = places if scatter_indx is None else scatter_indx.shape[0] // topk
        width = weight.shape[1] // (2 if apply_swiglu else 1)
        out = x.new_empty((rows, width), dtype=stored)
        live = _live(x, gate_valid, scatter_indx)
    except NOT_A_TENSOR as error:
        raise no_output(name, error) from error
    if stored not in allowed:
        raise refuse(name, "out_dtype", out_dtype, "bf16 (or None), with quant_static_scale e4m3fn")
    if stored == fp8 and scatter_indx is not None:
        raise refuse(name, "out_dtype", out_dtype, "bf16 where scatter_indx is given")
    moe_gemm_gathered_fp8(
        out, x, weight, scales, lists.hist, lists.token_offs_raw, lists.block_pid_map, topk, routing_data.block_m, own,
        static, result, bias, gather_indx, scatter_indx, gammas, swizzled, bool(apply_swiglu), alpha, limit or 0.0,
        float(bool(swiglu_add_residual)), live,
    )  # fmt: skip
    return out


@traced
def moe_gemm_a4w4(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scales: torch.Tensor,
    w_scales: torch.Tensor,
    bias: torch.Tensor | None = None,
    routing_data: Any = None,
    gather_indx: torch.Tensor | None = None,
    scatter_indx: torch.Tensor | None = None,
    gammas: torch.Tensor | None = None,
    swizzle_mx_scale: str | None = None,
    preshuffle_weights: bool = False,
    out_dtype: torch.dtype | None = None,
    apply_swiglu: bool = False,
    alpha: float = 1.0,
    limit: float | None = 1.0,
    swiglu_add_residual: bool = True,
    unpadded_N: int | None = None,
    unpadded_K: int | None = None,
    backend: str | None = None,
    *,
    gate_valid: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply routed MXFP4 rows by MXFP4 expert weights.

    As :func:`moe_gemm_a16w4`; gfx942 makes bf16 of rows and weights.

    Args:
        x: [M, K / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), rows at multiples of 16 bytes.
        w: [E, K / 2, N] pairs of fp4 (torch's, or bytes: the lower half is the first), ``w.stride(1)`` 1, K a multiple of 32;
            columns at multiples of 16 bytes.
        x_scales: [M, K / 32] e8m0 (torch's, or bytes) with any strides.
        w_scales: [E, K / 32, N] e8m0 (torch's, or bytes) with any strides; with swizzle_mx_scale "CDNA4_SCALE" [E, K, N / 32],
            ``w_scales.stride(1)`` 1: blocks of 32 columns of w and 8 scales, as ``e8m0_shuffle`` has them; K is a multiple of 256
            then.
        bias: [E, N] fp32.
        routing_data: the first result of ``routing``.
        gather_indx: the second result of ``routing``: the choice of each place; None: ``x`` has a row for each place.
        scatter_indx: the third result of ``routing``: the place of each choice. The places of a token are summed in fp32; not
            with apply_swiglu. None: no sum.
        gammas: the factor of each place, bf16; None: 1.
        swizzle_mx_scale: the layout of w_scales: None or "CDNA4_SCALE".
        preshuffle_weights: only False is supported.
        out_dtype: bf16 (None, too).
        apply_swiglu: of each two columns a, b ``a * sigmoid(alpha * a) * (b + 1)``; without swiglu_add_residual ``* b``.
        alpha: the factor in the sigmoid of apply_swiglu.
        limit: with apply_swiglu, a is cut at it, b at it and its negative; None or 0: no limit.
        swiglu_add_residual: with apply_swiglu, multiply by ``b + 1``, else by ``b``.
        unpadded_N: accepted and ignored; all columns are computed.
        unpadded_K: accepted and ignored; all columns are computed.
        backend: accepted and ignored.
        gate_valid: of each choice whether its place is here, int32 or bool, as scatter_indx has them; 0: nothing is added for it,
            and what scatter_indx says of it is not read. None: all are; without scatter_indx nothing is added up, and it means
            nothing.

    Returns:
        [places, N] bf16, with apply_swiglu N / 2; with scatter_indx a row for each token.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``moe_gemm_a4w4`` of August 2026.
    """
    del unpadded_N, unpadded_K, backend
    name = "moe_gemm_a4w4"
    if preshuffle_weights:
        raise refuse(name, "preshuffle_weights", preshuffle_weights, "False")
    lists, swizzled = _options(name, swizzle_mx_scale, apply_swiglu, scatter_indx, routing_data)
    topk = routing_data.n_expts_act
    try:
        half = element_type(x, "bf16")
        rows, own = codes(x, "fp4x2"), codes(x_scales, "e8m0")
        weight, scales = codes(w, "fp4x2").transpose(1, 2), codes(w_scales, "e8m0").transpose(1, 2)
        places = x.shape[0] if gather_indx is None else gather_indx.shape[0]
        count = places if scatter_indx is None else scatter_indx.shape[0] // topk
        out = x.new_empty((count, weight.shape[1] // (2 if apply_swiglu else 1)), dtype=half)
        live = _live(x, gate_valid, scatter_indx)
    except NOT_A_TENSOR as error:
        raise no_output(name, error) from error
    if out_dtype is not None and out_dtype != half:
        raise refuse(name, "out_dtype", out_dtype, "bf16 (or None)")
    moe_gemm_gathered_fp4(
        out, rows, weight, own, scales, lists.hist, lists.token_offs_raw, lists.block_pid_map, topk, routing_data.block_m,
        bias, gather_indx, scatter_indx, gammas, swizzled, bool(apply_swiglu), alpha, limit or 0.0,
        float(bool(swiglu_add_residual)), live,
    )  # fmt: skip
    return out


def _live(
    x: torch.Tensor, gate_valid: torch.Tensor | None, scatter: torch.Tensor | None
) -> torch.Tensor | None:
    """Convert ``gate_valid`` to int32.

    None where all choices are added, or nothing is added up.
    """
    if gate_valid is None or scatter is None:
        return None
    return gate_valid.reshape(-1).to(element_type(x, "i32"))


def _options(
    name: str, layout: str | None, apply_swiglu: bool, scatter_indx: torch.Tensor | None, routing_data: Any
) -> tuple[Any, bool]:
    """(:class:`ExptData`, whether scales are swizzled), or a refusal of what neither product covers."""
    if layout not in _LAYOUTS:
        raise refuse(name, "swizzle_mx_scale", layout, "None or 'CDNA4_SCALE'")
    if apply_swiglu and scatter_indx is not None:
        raise refuse(name, "apply_swiglu", apply_swiglu, "False where scatter_indx is given")
    lists = getattr(routing_data, "expt_data", None)
    if lists is None:
        raise refuse(name, "routing_data", routing_data, "what routing gives")
    return lists, _LAYOUTS[layout]
