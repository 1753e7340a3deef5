"""The largest or smallest numbers of rows, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.topk_rows import refuse_topk_plain

if TYPE_CHECKING:
    import torch

_topk_plain = operator("topk_plain")


@traced
def topk_plain(
    x: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_out: torch.Tensor,
    topk: int,
    largest: bool = True,
    rowStarts: torch.Tensor | None = None,
    rowEnds: torch.Tensor | None = None,
    stride0: int = -1,
    stride1: int = 1,
) -> None:
    """Find each row's k largest or smallest numbers.

    Their values and columns, best first; of equal ones the first.

    Args:
        x: [M, N] fp32, bf16 or fp16, rows may be strided. NaN counts above infinity, -0 is 0.
        topk_ids: [M, k] int32, written.
        topk_out: [M, k] of the type of ``x``, written. Both contiguous.
        topk: k, 1 to 2048, N at most.
        largest: False: the smallest.
        rowStarts: None, or of no element: AITER counts columns from a range's begin in one of its ways, from the row's in
            another; ``top_k_per_row_prefill`` takes ranges; only None is supported.
        rowEnds: as ``rowStarts``; only None is supported.
        stride0: of ``x``; below 0 it is what ``x`` says.
        stride1: 1.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``topk_plain``.
    """
    refuse_topk_plain(unless_empty(rowStarts), unless_empty(rowEnds))
    _topk_plain(x, topk_ids, topk_out, topk, largest, stride0, stride1)


@traced
def topk(
    x: torch.Tensor,
    k: int,
    *,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    tiny_row_thresh: int = 1024,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the k largest numbers of each row.

    Gives them and their columns, best first; of equal ones the first.

    Args:
        x: [M, N] fp32, bf16 or fp16, rows may be strided. NaN counts above infinity, -0 is 0.
        k: 1 to 2048, N at most.
        dim: only the last dim is supported, as in AITER.
        largest: only True is supported, as in AITER.
        sorted: only True is supported, as in AITER.
        tiny_row_thresh: accepted and ignored; AITER chooses between its kernels by it.

    Returns:
        New: the numbers, [M, k] of the type of ``x``, and their columns, [M, k] int64.

    Raises:
        ValueError: as of AITER's, an option that it does not serve, or no two dims.
        UnsupportedError, ArgumentError, NoKernelError: as ``topk_plain``.

    Source: AITER's Triton ``topk``.
    """
    del tiny_row_thresh
    import torch

    if x.ndim != 2 or dim not in (-1, 1):
        raise ValueError(f"topk: dim {dim} of {x.ndim}: pass two dims, and the last for dim")
    if not largest or not sorted:
        raise ValueError(
            f"topk: largest={largest}, sorted={sorted}: pass True for both; topk_plain has the smallest"
        )
    shape = (x.shape[0], k)
    ids = torch.empty(shape, dtype=torch.int32, device=x.device)
    values = torch.empty(shape, dtype=x.dtype, device=x.device)
    topk_plain(x, ids, values, k)
    return values, ids.long()


def unless_empty(tensor: Any) -> Any:
    """None for a tensor of no element."""
    return None if getattr(tensor, "shape", None) is not None and 0 in tensor.shape else tensor
