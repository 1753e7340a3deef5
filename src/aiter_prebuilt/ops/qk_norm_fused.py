"""AITER's names for norms of queries and keys that are no operators of ours: functions around those in ``qk_norm``."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.ops._common import number, refuse
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.qk_norm import (
    fused_qk_rmsnorm_group_quant,
    fused_qk_rmsnorm_per_token_quant,
    fused_qk_rmsnorm_plain,
)

if TYPE_CHECKING:
    import torch

#: Of AITER's ``QuantType`` by its number: the columns that share a scale.
_GROUPS: Final = {3: 32, 4: 128, 5: 128, 6: 128, 7: 128}
_NO, _PER_TOKEN = 0, 2
_SERVED: Final = (
    "0 (QuantType.No), 2 (per_Token), 3 (per_1x32), 4 to 7 (groups of 128 columns), or None with a group_size"
)
_ALONE: Final = "None or False with QuantType.No, as AITER leaves it out"


@traced
def _fused_qk_rmsnorm(
    q_out: torch.Tensor | None,
    q: torch.Tensor,
    q_weight: torch.Tensor,
    q_eps: float,
    k_out: torch.Tensor | None,
    k: torch.Tensor,
    k_weight: torch.Tensor,
    k_eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise queries and keys in one launch, under AITER's private name of August 2026.

    Args:
        q_out: result of q, as for :func:`fused_qk_rmsnorm_plain`, like all arguments here.
        q: rows to normalise.
        q_weight: weight of q.
        q_eps: epsilon of q.
        k_out: result of k.
        k: rows to normalise.
        k_weight: weight of k.
        k_eps: epsilon of k.

    Returns:
        The two results.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as :func:`fused_qk_rmsnorm_plain`.

    Source: AITER ``_fused_qk_rmsnorm``.
    """
    return fused_qk_rmsnorm_plain(q_out, q, q_weight, q_eps, k_out, k, k_weight, k_eps)


@traced
def fused_qk_rmsnorm(
    q_out_quantized: torch.Tensor | None = None,
    q_out_scale: torch.Tensor | None = None,
    q: torch.Tensor | None = None,
    q_weight: torch.Tensor | None = None,
    q_epsilon: float = 1e-6,
    q_out_unquantized: torch.Tensor | None = None,
    k_out: torch.Tensor | None = None,
    q_res_out: torch.Tensor | None = None,
    k: torch.Tensor | None = None,
    k_weight: torch.Tensor | None = None,
    k_epsilon: float | None = None,
    q_residual: torch.Tensor | None = None,
    gemma_norm: bool = False,
    quant_type: int | None = _NO,
    group_size: int | None = None,
    transpose_scale: bool = False,
    *,
    q_out: torch.Tensor | None = None,
    q_eps: float | None = None,
    k_eps: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Normalise queries and keys, quantising as ``quant_type`` says.

    One launch; queries as they are or as codes.

    Older trees have the same name for what is :func:`fused_qk_rmsnorm_plain` here: its calls are taken, too, by name (q_out,
    q_eps and k_eps for q_out_quantized, q_epsilon and k_epsilon) or with its eight arguments by position.

    Args:
        q_out_quantized: [M, N] the codes of the queries, written; without codes their norm, made when None.
        q_out_scale: the scales of the codes, written; not read without codes.
        q: [M, N] bf16 or fp16, the queries; rows may be strided.
        q_weight: [N], of the type of q.
        q_epsilon: added to the mean squares of queries.
        q_out_unquantized: [M, N] of the type of q, written: the norm of the queries itself, beside the codes; refused without
            codes.
        k_out: [M, KN] of the type of k, written: the norm of the keys; without codes made when None.
        q_res_out: [M, N] of the type of q, written: the sum with the residual; refused without codes.
        k: [M, KN] of the type of q, the keys; rows may be strided.
        k_weight: [KN], of the type of k.
        k_epsilon: added to the mean squares of keys; ``q_epsilon`` when None.
        q_residual: [M, N] of the type of q, added to it first; refused without codes.
        gemma_norm: multiply by the weight + 1; refused without codes.
        quant_type: a ``QuantType`` of ours or of AITER, or its number. No: norms alone, q_out_quantized has that of the queries
            (made when None, as k_out); q_out_unquantized, q_res_out, q_residual and gemma_norm are refused, q_out_scale,
            group_size and transpose_scale are not read. per_Token: as :func:`fused_qk_rmsnorm_per_token_quant`. Others but
            per_Tensor: as :func:`fused_qk_rmsnorm_group_quant`, with group_size, or 32 (per_1x32) or 128 columns when None.
        group_size: columns that share a scale; None: 32 with per_1x32, else 128. Not read without codes.
        transpose_scale: the scales' memory has groups before rows; not read without codes.
        q_out: the older trees' name of q_out_quantized.
        q_eps: the older trees' name of q_epsilon.
        k_eps: the older trees' name of k_epsilon.

    Returns:
        The norms of queries and of keys, without codes; else None.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_rmsnorm`` of August 2026 and before.
    """
    fourth: Any = q_weight
    if isinstance(fourth, Real):  # eight by position, of older trees
        older: Any = (
            q_out_quantized,
            q_out_scale,
            q,
            q_weight,
            q_epsilon,
            q_out_unquantized,
            k_out,
            q_res_out,
        )
        return fused_qk_rmsnorm_plain(*older)
    q_out_quantized = q_out if q_out_quantized is None else q_out_quantized
    q_epsilon = q_epsilon if q_eps is None else q_eps
    k_epsilon = k_epsilon if k_eps is None else k_eps
    kind: Any = None if quant_type is None else number(quant_type)
    if kind == _NO:
        given = {"q_out_unquantized": q_out_unquantized, "q_res_out": q_res_out, "q_residual": q_residual}
        for option, value in given.items():
            if value is not None:
                raise refuse("fused_qk_rmsnorm", option, "a tensor", _ALONE)
        if gemma_norm:
            raise refuse("fused_qk_rmsnorm", "gemma_norm", gemma_norm, _ALONE)
        of_keys = q_epsilon if k_epsilon is None else k_epsilon
        plain: Any = (q_out_quantized, q, q_weight, q_epsilon, k_out, k, k_weight, of_keys)
        return fused_qk_rmsnorm_plain(*plain)
    rows = (q_out_quantized, q_out_scale, q, q_weight, q_epsilon, q_out_unquantized, k_out, q_res_out, k)
    behind = (k_weight, k_epsilon, q_residual)
    if kind == _PER_TOKEN:
        tokens: Any = (*rows, *behind, gemma_norm)
        fused_qk_rmsnorm_per_token_quant(*tokens)
        return None
    size = _GROUPS.get(kind) if group_size is None else group_size
    if size is None or (kind is not None and kind not in _GROUPS):
        raise refuse("fused_qk_rmsnorm", "quant_type", quant_type, _SERVED)
    fused_qk_rmsnorm_group_quant(*rows, *behind, size, transpose_scale, gemma_norm)
    return None
