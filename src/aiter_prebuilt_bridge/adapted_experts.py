"""AITER's functions of mixtures of experts that return what ours writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiter_prebuilt.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

#: MXFP4: columns of a scale, and rows and columns that sorted scales are padded to a multiple of.
_GROUP, _ROWS, _COLUMNS = 32, 32, 8
#: ``round_mode`` of ``quant_mxfp4`` that AITER's Triton kernels have.
_AS_TRITON: Final = 4


def moe_mxfp4_sort(
    blockscale_e8m0: torch.Tensor,
    sorted_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    token_num: int,
    block_size: int = 32,
) -> torch.Tensor:
    """Sort scales of MXFP4 for a mixture of experts.

    Args:
        blockscale_e8m0: [tokens, N] or [tokens, choices, N] e8m0, or bytes.
        sorted_ids: [P] int32, as ``moe_sorting`` makes them.
        num_valid_ids: int32; the first number says how many ids count.
        token_num: tokens.
        block_size: means nothing here.

    Returns:
        e8m0, [P up to a multiple of 32, N up to a multiple of 8], in the layout of ``e8m0_shuffle``.
    """
    import torch

    from aiter_prebuilt import mxfp4_moe_sort_hip

    del block_size
    groups = blockscale_e8m0.shape[-1]
    rows, columns = -(-sorted_ids.shape[0] // _ROWS) * _ROWS, -(-groups // _COLUMNS) * _COLUMNS
    made = torch.empty((rows, columns), dtype=torch.uint8, device=blockscale_e8m0.device)
    given = blockscale_e8m0.contiguous()
    mxfp4_moe_sort_hip(made, given, sorted_ids, num_valid_ids, token_num, groups * _GROUP)
    return made.view(torch.float8_e8m0fnu)


def fused_dynamic_mxfp4_quant_moe_sort(
    x: torch.Tensor,
    sorted_ids: torch.Tensor,
    num_valid_ids: torch.Tensor,
    token_num: int,
    topk: int,
    block_size: int = 32,
    scaling_mode: str = "even",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise rows as AITER's Triton kernels do, and sort the scales.

    Args:
        x: [tokens, N] or [tokens * choices, N] bf16 or fp16, N a multiple of 32.
        sorted_ids: [P] int32, as ``moe_sorting`` makes them.
        num_valid_ids: int32; the first number says how many ids count.
        token_num: tokens.
        topk: choices of which ``x`` has a row each; the shapes say it.
        block_size: means nothing here.
        scaling_mode: "even" only.

    Returns:
        pairs of fp4 [rows, N / 2], and the scales as :func:`moe_mxfp4_sort` gives them.

    Raises:
        UnsupportedError: another scaling mode, or N is no multiple of 32.
    """
    import torch

    from aiter_prebuilt import quant_mxfp4

    del topk
    rows, columns = x.shape
    if scaling_mode != "even" or columns % _GROUP:
        raise UnsupportedError(
            f"fused_dynamic_mxfp4_quant_moe_sort(x of {columns} columns, scaling_mode={scaling_mode!r})",
            'ours takes a multiple of 32 columns, and "even"',
            "Leave it to AITER's own function",
        )
    codes = torch.empty((rows, columns // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty((rows, columns // _GROUP), dtype=torch.uint8, device=x.device)
    quant_mxfp4(x.contiguous(), codes, scales, _GROUP, _AS_TRITON)
    sorted_scales = moe_mxfp4_sort(scales, sorted_ids, num_valid_ids, token_num, block_size)
    return codes.view(torch.float4_e2m1fn_x2), sorted_scales
