"""Rotary embeddings into new tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.rope import (
    rope_2d_fwd_impl,
    rope_cached_fwd_impl,
    rope_cached_positions_fwd_impl,
    rope_cached_positions_offsets_fwd_impl,
    rope_fwd_impl,
    rope_thd_fwd_impl,
)

if TYPE_CHECKING:
    import torch


@traced
def rope_fwd(
    input: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """Rotate ``input`` by each position's angles.

    ``rope_fwd_impl`` with a new tensor for the result.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each s.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_fwd_impl``.

    Source: AITER ``rope_fwd``.
    """
    output = made(input, transpose_output)
    rope_fwd_impl(output, input, freqs, rotate_style, reuse_freqs_front_part, nope_first)
    return output


@traced
def rope_cached_fwd(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """Rotate ``input`` by cached cosines and sines.

    ``rope_cached_fwd_impl`` with a new tensor for the result.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, one row for each s.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_fwd_impl``.

    Source: AITER ``rope_cached_fwd``.
    """
    output = made(input, transpose_output)
    rope_cached_fwd_impl(output, input, cos, sin, rotate_style, reuse_freqs_front_part, nope_first)
    return output


@traced
def rope_cached_positions_fwd(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """Rotate ``input`` by cached values at given positions.

    ``rope_cached_positions_fwd_impl`` with a new tensor for the result.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_fwd_impl``.

    Source: AITER ``rope_cached_positions_fwd``.
    """
    output = made(input, transpose_output)
    rope_cached_positions_fwd_impl(
        output, input, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first
    )
    return output


@traced
def rope_cached_positions_offsets_fwd(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    offsets: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """Rotate ``input`` by cached values at offset positions.

    ``rope_cached_positions_offsets_fwd_impl`` with a new tensor for the result.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        offsets: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_offsets_fwd_impl``.

    Source: AITER ``rope_cached_positions_offsets_fwd``.
    """
    output = made(input, transpose_output)
    rope_cached_positions_offsets_fwd_impl(
        output, input, cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first
    )
    return output


@traced
def rope_thd_fwd(
    input: torch.Tensor,
    cu_seqlens: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> torch.Tensor:
    """Rotate packed sequences by each position's angles.

    ``rope_thd_fwd_impl`` with a new tensor for the result.

    Args:
        input: [T, H, D]; bf16, fp16 or fp32, may be strided.
        cu_seqlens: [C] int32, where each sequence begins, and the last one ends; from 0, never falling.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each place in a sequence.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_thd_fwd_impl``.

    Source: AITER ``rope_thd_fwd``.
    """
    output = made(input)
    rope_thd_fwd_impl(output, input, cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first)
    return output


@traced
def rope_2d_fwd(
    input: torch.Tensor,
    cos_h: torch.Tensor,
    sin_h: torch.Tensor,
    cos_w: torch.Tensor,
    sin_w: torch.Tensor,
    img_height: int,
    img_width: int,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> torch.Tensor:
    """Rotate image tokens by their row and column.

    ``rope_2d_fwd_impl`` with a new tensor for the result.

    Args:
        input: [B, H * W, heads, D]; bf16, fp16 or fp32, may be strided.
        cos_h: [..., f] bf16 or fp16 or fp32, [1, rows, 1, d / 2], with reuse_freqs_front_part d / 4.
        sin_h: [..., f] bf16 or fp16 or fp32.
        cos_w: [..., f] bf16 or fp16 or fp32, [1, columns, 1, d / 2], with reuse_freqs_front_part d / 4.
        sin_w: [..., f] bf16 or fp16 or fp32.
        img_height: rows of an image.
        img_width: columns of an image.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of a table has a quarter of a head, one for each pair.
        nope_first: nothing here: each half is turned whole.

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2d_fwd_impl``.

    Source: AITER ``rope_2d_fwd``.
    """
    output = made(input)
    rope_2d_fwd_impl(
        output,
        input,
        cos_h,
        sin_h,
        cos_w,
        sin_w,
        img_height,
        img_width,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return output


def made(tensor: torch.Tensor, transposed: bool = False) -> torch.Tensor:
    """Allocate a tensor of the same shape.

    ``transposed``: one whose first two dims lie in the other order.
    """
    import torch

    if not transposed:
        return torch.empty_like(tensor, requires_grad=False)
    tokens, batch, *head = tensor.shape
    return torch.empty((batch, tokens, *head), dtype=tensor.dtype, device=tensor.device).transpose(0, 1)
