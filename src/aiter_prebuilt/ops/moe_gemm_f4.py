"""AITER's products of rows with the MXFP4 matrices of their experts, over what ``routing`` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, element_type, no_output, refuse
from aiter_prebuilt.ops.generated.moe_routing import (
    moe_gemm_gathered,
    moe_gemm_gathered_fp4,
    moe_gemm_gathered_fp8,
)

if TYPE_CHECKING:
    import torch

#: How scales may lie: as they are, or as ``e8m0_shuffle`` has each expert's.
_LAYOUTS: Final = {None: False, "CDNA4_SCALE": True}


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
    """``act(x @ w[expert] + bias) * gamma`` of each place that ``routing`` gave, weights in MXFP4; or the sum of a token's.

    Accumulated in fp32, each place's result is rounded to the type of x.

    Args:
        x: [M, K] bf16 or fp16, rows at multiples of 16 bytes: of tokens with gather_indx, else of places.
        w: [E, K / 2, N] pairs of fp4 (torch's, or bytes: the lower half is the first), ``w.stride(1)`` 1, K a multiple of 32;
            columns at multiples of 16 bytes. w_scales: [E, K / 32, N] e8m0 (torch's, or bytes) with any strides; with
            swizzle_mx_scale "CDNA4_SCALE" [E, K, N / 32], ``w_scales.stride(1)`` 1: blocks of 32 columns of w and 8 scales, as
            ``e8m0_shuffle`` has them; K is a multiple of 256 then.
        bias: [E, N] fp32. routing_data, gather_indx, scatter_indx: what ``routing`` gave. With scatter_indx the places of a
            token are added up in fp32; not with apply_swiglu.
        gammas: of each place what it is multiplied with, of the type of x.
        apply_swiglu: of each two columns a, b ``a * sigmoid(alpha * a) * (b + 1)``; without swiglu_add_residual ``* b``. limit:
            before that a is at most that, b that or its negative; None, 0: as they are.
        unpadded_N: as AITER has it, columns that are computed where blocks have 16 places. unpadded_K: any; weights behind it
            are zero, and all is read.
        out_dtype: that of x; None is bf16. x_scales, x_static_scale, quant_static_scale, expert_map: None. backend: any; it
            changes nothing.
        gate_valid: of each choice whether its place is here, int32 or bool, as scatter_indx has them; 0: nothing is added for it,
            and what scatter_indx says of it is not read. None: all are; without scatter_indx nothing is added up, and it means
            nothing.

    Returns:
        [places, N], with apply_swiglu N / 2; with scatter_indx a row for each token.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

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
    lists, swizzled = _asked(name, swizzle_mx_scale, apply_swiglu, scatter_indx, routing_data)
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
    """:func:`moe_gemm_a16w4` of rows in fp8, with scales of x and of the result; gfx950 alone.

    Args:
        x: [M, K] fp8 (e4m3fn), rows at multiples of 16 bytes. w, w_scales, bias, routing_data, gather_indx, scatter_indx,
            swizzle_mx_scale, apply_swiglu, alpha, limit, swiglu_add_residual, gate_valid: as there.
        x_scales: [M, K / 32] e8m0 (torch's, or bytes), or None. x_static_scale: one number, fp32, or None.
        quant_static_scale: one number, fp32, with out_dtype e4m3fn, and only then: results are divided by it, and cut at 448.
        gammas: of each place what it is multiplied with, bf16.
        out_dtype: bf16 (None, too) or e4m3fn; not with scatter_indx.
        unpadded_N, unpadded_K, backend: any; all columns are computed.
        preshuffled, out_mx_quant: False. residual, expert_map: None.

    Returns:
        [places, N], with apply_swiglu N / 2; with scatter_indx a row for each token.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

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
    lists, swizzled = _asked(name, swizzle_mx_scale, apply_swiglu, scatter_indx, routing_data)
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
    """:func:`moe_gemm_a16w4` of rows in MXFP4; gfx942 makes bf16 of them and of the weights.

    Args:
        x: [M, K / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), rows at multiples of 16 bytes. w, w_scales,
            bias, routing_data, gather_indx, scatter_indx, swizzle_mx_scale, apply_swiglu, alpha, limit, swiglu_add_residual,
            gate_valid: as there.
        x_scales: [M, K / 32] e8m0 (torch's, or bytes) with any strides.
        gammas: of each place what it is multiplied with, bf16.
        out_dtype: bf16 (None, too).
        unpadded_N, unpadded_K, backend: any; all columns are computed.
        preshuffle_weights: False.

    Returns:
        [places, N] bf16, with apply_swiglu N / 2; with scatter_indx a row for each token.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``moe_gemm_a4w4`` of August 2026.
    """
    del unpadded_N, unpadded_K, backend
    name = "moe_gemm_a4w4"
    if preshuffle_weights:
        raise refuse(name, "preshuffle_weights", preshuffle_weights, "False")
    lists, swizzled = _asked(name, swizzle_mx_scale, apply_swiglu, scatter_indx, routing_data)
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
    """Of each choice whether it is added, int32; None where all are, or nothing is added up."""
    if gate_valid is None or scatter is None:
        return None
    return gate_valid.reshape(-1).to(element_type(x, "i32"))


def _asked(
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
