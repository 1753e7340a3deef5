"""AITER's ``routing``, and its product over what that gives: functions around operators of this family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, element_type, no_output, refuse
from aiter_prebuilt.ops.generated.moe_routing import (
    moe_gemm_gathered,
    moe_gemm_gathered_fp8,
    moe_routing_lists,
)

if TYPE_CHECKING:
    import torch

#: How scales may lie: as they are, or as ``e8m0_shuffle`` has each expert's.
_LAYOUTS: Final = {None: False, "CDNA4_SCALE": True}


@dataclass
class ExptData:
    """Where each expert's places are: int32 on the device.

    ``hist``: how many; ``token_offs_raw``: the first; ``token_offs_pad``: the number of its first block; ``block_pid_map``: of
    each block its number among its expert's << 16 | the expert, -1 behind the last.
    """

    hist: torch.Tensor
    token_offs_raw: torch.Tensor
    token_offs_pad: torch.Tensor
    block_pid_map: torch.Tensor


@dataclass
class RoutingData:
    """What products by experts read: ``gate_scal`` is the score of each place, ``block_m`` the places of a block."""

    block_m: int
    gate_scal: torch.Tensor
    expt_hist: torch.Tensor
    n_expts_tot: int
    n_expts_act: int
    expt_data: ExptData | None = None

    def n_blocks(self, n_rows: int, block_m: int) -> int:
        """The most blocks that so many places can have."""
        if n_rows <= self.n_expts_tot:
            return n_rows
        return -(-(n_rows - self.n_expts_tot + 1) // block_m) + self.n_expts_tot - 1


def routing(
    logits: torch.Tensor,
    n_expts_act: int,
    sm_first: bool = False,
    *,
    score_mode: str | None = None,
    bias: torch.Tensor | None = None,
    renorm: bool = True,
    routed_scaling_factor: float = 1.0,
    use_grouped_topk: bool = False,
    num_expert_group: int | None = None,
    topk_group: int | None = None,
    expert_group: torch.Tensor | None = None,
) -> tuple[RoutingData, torch.Tensor, torch.Tensor]:
    """The experts with the largest logits of each token, and their places in the order of experts.

    Args:
        logits: [M, E] bf16, fp16 or fp32, up to 512 experts; rows may be apart. Of equal ones the expert of the higher number is
            chosen.
        n_expts_act: experts of a token. sm_first: they are chosen by the softmax of all logits, and scores are what it is; else
            scores are the softmax of the chosen logits.
        score_mode: None. bias, renorm, routed_scaling_factor, use_grouped_topk, num_expert_group, topk_group, expert_group: any;
            without score_mode AITER reads none of them, either.

    Returns:
        (:class:`RoutingData`, of each place its choice, of each choice its place), both int32, where AITER has 16 bits for fewer
        than 65536 places. A choice is token * n_expts_act + its number among the token's, which are in the order of experts.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``routing``.
    """
    del bias, renorm, routed_scaling_factor, use_grouped_topk, num_expert_group, topk_group, expert_group
    if score_mode is not None:
        raise refuse("routing", "score_mode", score_mode, "None")
    try:
        tokens, experts = logits.shape
        places = tokens * n_expts_act
        average = max(1, places // max(1, experts))
        block_m = max(16, min(1 << (average - 1).bit_length(), 128))
        whole = element_type(logits, "i32")
        gates = logits.new_empty((places,))
        data = RoutingData(block_m, gates, logits.new_empty((experts,), dtype=whole), experts, n_expts_act)
        sizes = (places, places, experts + 1, experts + 1, data.n_blocks(places, block_m))
        gather, scatter, starts, tiles, blocks = (logits.new_empty((size,), dtype=whole) for size in sizes)
    except NOT_A_TENSOR as error:
        raise no_output("routing", error) from error
    moe_routing_lists(
        logits,
        n_expts_act,
        block_m,
        gather,
        scatter,
        gates,
        data.expt_hist,
        starts,
        tiles,
        blocks,
        bool(sm_first),
    )
    data.expt_data = ExptData(data.expt_hist, starts, tiles, blocks)
    return data, gather, scatter


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
) -> torch.Tensor:
    """``act(x @ w[expert] + bias) * gamma`` of each place that :func:`routing` gave, weights in MXFP4; or the sum of a token's.

    Accumulated in fp32, each place's result is rounded to the type of x.

    Args:
        x: [M, K] bf16 or fp16, rows at multiples of 16 bytes: of tokens with gather_indx, else of places.
        w: [E, K / 2, N] pairs of fp4 (torch's, or bytes: the lower half is the first), ``w.stride(1)`` 1, K a multiple of 32;
            columns at multiples of 16 bytes. w_scales: [E, K / 32, N] e8m0 (torch's, or bytes) with any strides; with
            swizzle_mx_scale "CDNA4_SCALE" [E, K, N / 32], ``w_scales.stride(1)`` 1: blocks of 32 columns of w and 8 scales, as
            ``e8m0_shuffle`` has them; K is a multiple of 256 then.
        bias: [E, N] fp32. routing_data, gather_indx, scatter_indx: what :func:`routing` gave. With scatter_indx the places of a
            token are added up in fp32; not with apply_swiglu.
        gammas: of each place what it is multiplied with, of the type of x.
        apply_swiglu: of each two columns a, b ``a * sigmoid(alpha * a) * (b + 1)``; without swiglu_add_residual ``* b``. limit:
            before that a is at most that, b that or its negative; None, 0: as they are.
        unpadded_N: as AITER has it, columns that are computed where blocks have 16 places. unpadded_K: any; weights behind it
            are zero, and all is read.
        out_dtype: that of x; None is bf16. x_scales, x_static_scale, quant_static_scale: None. backend: any; it changes nothing.

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
    except NOT_A_TENSOR as error:
        raise no_output(name, error) from error
    if not alike:
        raise refuse(name, "out_dtype", out_dtype, "x.dtype (None is bf16)")
    moe_gemm_gathered(
        out, x, weight, scales, lists.hist, lists.token_offs_raw, lists.block_pid_map, topk, routing_data.block_m, bias,
        gather_indx, scatter_indx, gammas, swizzled, bool(apply_swiglu), alpha, limit or 0.0, float(bool(swiglu_add_residual)),
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
) -> torch.Tensor:
    """:func:`moe_gemm_a16w4` of rows in fp8, with scales of x and of the result; gfx950 alone.

    Args:
        x: [M, K] fp8 (e4m3fn), rows at multiples of 16 bytes. w, w_scales, bias, routing_data, gather_indx, scatter_indx,
            swizzle_mx_scale, apply_swiglu, alpha, limit, swiglu_add_residual: as there.
        x_scales: [M, K / 32] e8m0 (torch's, or bytes), or None. x_static_scale: one number, fp32, or None.
        quant_static_scale: one number, fp32, with out_dtype e4m3fn, and only then: results are divided by it, and cut at 448.
        gammas: of each place what it is multiplied with, bf16.
        out_dtype: bf16 (None, too) or e4m3fn; not with scatter_indx.
        unpadded_N, unpadded_K, backend: any; all columns are computed.
        preshuffled, out_mx_quant: False. residual: None.

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
    if residual is not None:
        raise refuse(name, "residual", residual, "None")
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
    except NOT_A_TENSOR as error:
        raise no_output(name, error) from error
    if stored not in allowed:
        raise refuse(name, "out_dtype", out_dtype, "bf16 (or None), with quant_static_scale e4m3fn")
    if stored == fp8 and scatter_indx is not None:
        raise refuse(name, "out_dtype", out_dtype, "bf16 where scatter_indx is given")
    moe_gemm_gathered_fp8(
        out, x, weight, scales, lists.hist, lists.token_offs_raw, lists.block_pid_map, topk, routing_data.block_m, own,
        static, result, bias, gather_indx, scatter_indx, gammas, swizzled, bool(apply_swiglu), alpha, limit or 0.0,
        float(bool(swiglu_add_residual)),
    )  # fmt: skip
    return out


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
