"""Rotary embeddings of two tensors into new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.rope import (
    rope_2c_fwd_impl,
    rope_cached_2c_fwd_impl,
    rope_cached_positions_2c_fwd_impl,
    rope_cached_positions_offsets_2c_fwd_impl,
)
from aiter_prebuilt.ops.rope_out import made

if TYPE_CHECKING:
    import torch


@traced
def rope_2c_fwd(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate two inputs by each position's angles.

    ``rope_2c_fwd_impl`` with new tensors for the results.

    Args:
        input_x: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each s.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
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
    """Rotate two inputs by cached cosines and sines.

    ``rope_cached_2c_fwd_impl`` with new tensors for the results.

    Args:
        input_x: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, one row for each s.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
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
    """Rotate two inputs by cached values at given positions.

    ``rope_cached_positions_2c_fwd_impl`` with new tensors for the results.

    Args:
        input_x: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
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
    """Rotate two inputs by cached values at offset positions.

    ``rope_cached_positions_offsets_2c_fwd_impl`` with new tensors for the results.

    Args:
        input_x: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        offsets: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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
