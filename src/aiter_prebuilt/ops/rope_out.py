"""Rotary embeddings into new tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def rope_fwd(
    input: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """A new tensor of ``input``, turned: ``rope_fwd_impl`` on what it makes.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_fwd_impl``.
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


def rope_cached_fwd(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """A new tensor of ``input``, turned: ``rope_cached_fwd_impl`` on what it makes.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_fwd_impl``.
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
    """A new tensor of ``input``, turned: ``rope_cached_positions_fwd_impl`` on what it makes.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_positions_fwd_impl``.
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
    """A new tensor of ``input``, turned: ``rope_cached_positions_offsets_fwd_impl`` on what it makes.

    Args:
        input: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_cached_positions_offsets_fwd_impl``.
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


def rope_thd_fwd(
    input: torch.Tensor,
    cu_seqlens: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> torch.Tensor:
    """A new tensor of ``input``, turned: ``rope_thd_fwd_impl`` on what it makes.

    Args:
        input: [T, H, D]; bf16, fp16 or fp32, may be strided.
        cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_thd_fwd_impl``.

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_thd_fwd_impl``.

    Source: AITER ``rope_thd_fwd``.
    """
    output = made(input)
    rope_thd_fwd_impl(output, input, cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first)
    return output


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
    """A new tensor of ``input``, turned: ``rope_2d_fwd_impl`` on what it makes.

    Args:
        input: [B, H * W, heads, D]; bf16, fp16 or fp32, may be strided.
        cos_h, sin_h, cos_w, sin_w, img_height, img_width, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_2d_fwd_impl``.

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
    """A new tensor of the same shape; ``transposed``: one whose first two dims lie in the other order."""
    import torch

    if not transposed:
        return torch.empty_like(tensor, requires_grad=False)
    tokens, batch, *head = tensor.shape
    return torch.empty((batch, tokens, *head), dtype=tensor.dtype, device=tensor.device).transpose(0, 1)
