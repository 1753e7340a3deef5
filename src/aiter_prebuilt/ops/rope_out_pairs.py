"""Rotary embeddings of two tensors into new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops.generated.rope import (
    rope_2c_fwd_impl,
    rope_cached_2c_fwd_impl,
    rope_cached_positions_2c_fwd_impl,
    rope_cached_positions_offsets_2c_fwd_impl,
)
from aiter_prebuilt.ops.rope_out import made

if TYPE_CHECKING:
    import torch


def rope_2c_fwd(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """New tensors of ``input_x`` and ``input_y``, turned: ``rope_2c_fwd_impl`` on what it makes.

    Args:
        input_x, input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_2c_fwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        Two tensors of those shapes and types, with their strides where they are dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2c_fwd_impl``.

    Source: AITER ``rope_2c_fwd``.
    """
    output_x, output_y = made(input_x, transpose_output), made(input_y, transpose_output)
    rope_2c_fwd_impl(
        output_x,
        output_y,
        input_x,
        input_y,
        freqs,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return output_x, output_y


def rope_cached_2c_fwd(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """New tensors of ``input_x`` and ``input_y``, turned: ``rope_cached_2c_fwd_impl`` on what it makes.

    Args:
        input_x, input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_2c_fwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        Two tensors of those shapes and types, with their strides where they are dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_2c_fwd_impl``.

    Source: AITER ``rope_cached_2c_fwd``.
    """
    output_x, output_y = made(input_x, transpose_output), made(input_y, transpose_output)
    rope_cached_2c_fwd_impl(
        output_x,
        output_y,
        input_x,
        input_y,
        cos,
        sin,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return output_x, output_y


def rope_cached_positions_2c_fwd(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """New tensors of ``input_x`` and ``input_y``, turned: ``rope_cached_positions_2c_fwd_impl`` on what it makes.

    Args:
        input_x, input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_cached_positions_2c_fwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        Two tensors of those shapes and types, with their strides where they are dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_2c_fwd_impl``.

    Source: AITER ``rope_cached_positions_2c_fwd``.
    """
    output_x, output_y = made(input_x, transpose_output), made(input_y, transpose_output)
    rope_cached_positions_2c_fwd_impl(
        output_x,
        output_y,
        input_x,
        input_y,
        cos,
        sin,
        positions,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return output_x, output_y


def rope_cached_positions_offsets_2c_fwd(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    offsets: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """New tensors of ``input_x`` and ``input_y``, turned: ``rope_cached_positions_offsets_2c_fwd_impl`` on what it makes.

    Args:
        input_x, input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_cached_positions_offsets_2c_fwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        Two tensors of those shapes and types, with their strides where they are dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_offsets_2c_fwd_impl``.

    Source: AITER ``rope_cached_positions_offsets_2c_fwd``.
    """
    output_x, output_y = made(input_x, transpose_output), made(input_y, transpose_output)
    rope_cached_positions_offsets_2c_fwd_impl(
        output_x,
        output_y,
        input_x,
        input_y,
        cos,
        sin,
        positions,
        offsets,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return output_x, output_y
