"""Rotary embeddings in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.rope import (
    rope_2c_fwd_impl,
    rope_2d_fwd_impl,
    rope_cached_2c_fwd_impl,
    rope_cached_fwd_impl,
    rope_cached_positions_2c_fwd_impl,
    rope_cached_positions_fwd_impl,
    rope_cached_positions_offsets_2c_fwd_impl,
    rope_cached_positions_offsets_fwd_impl,
    rope_fwd_impl,
    rope_thd_fwd_impl,
)

if TYPE_CHECKING:
    import torch


@traced
def rope_fwd_inplace(
    input: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate ``input`` in place by each position's angles.

    ``rope_fwd_impl`` with one tensor for input and result.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each s.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_fwd_impl``.

    Source: AITER ``rope_fwd_inplace``.
    """
    rope_fwd_impl(input, input, freqs, rotate_style, reuse_freqs_front_part, nope_first)


@traced
def rope_2c_fwd_inplace(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate two inputs in place by each position's angles.

    ``rope_2c_fwd_impl`` with the inputs as results.

    Args:
        input_x: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each s.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2c_fwd_impl``.

    Source: AITER ``rope_2c_fwd_inplace``.
    """
    rope_2c_fwd_impl(
        input_x, input_y, input_x, input_y, freqs, rotate_style, reuse_freqs_front_part, nope_first
    )


@traced
def rope_cached_fwd_inplace(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate ``input`` in place by cached cosines and sines.

    ``rope_cached_fwd_impl`` with one tensor for input and result.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, one row for each s.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_fwd_impl``.

    Source: AITER ``rope_cached_fwd_inplace``.
    """
    rope_cached_fwd_impl(input, input, cos, sin, rotate_style, reuse_freqs_front_part, nope_first)


@traced
def rope_cached_2c_fwd_inplace(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate two inputs in place by cached cosines and sines.

    ``rope_cached_2c_fwd_impl`` with the inputs as results.

    Args:
        input_x: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, one row for each s.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_2c_fwd_impl``.

    Source: AITER ``rope_cached_2c_fwd_inplace``.
    """
    rope_cached_2c_fwd_impl(
        input_x, input_y, input_x, input_y, cos, sin, rotate_style, reuse_freqs_front_part, nope_first
    )


@traced
def rope_cached_positions_fwd_inplace(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate in place by cached values at given positions.

    ``rope_cached_positions_fwd_impl`` with one tensor for input and result.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_fwd_impl``.

    Source: AITER ``rope_cached_positions_fwd_inplace``.
    """
    rope_cached_positions_fwd_impl(
        input, input, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first
    )


@traced
def rope_cached_positions_2c_fwd_inplace(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate two inputs in place by cached values at positions.

    ``rope_cached_positions_2c_fwd_impl`` with the inputs as results.

    Args:
        input_x: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_2c_fwd_impl``.

    Source: AITER ``rope_cached_positions_2c_fwd_inplace``.
    """
    rope_cached_positions_2c_fwd_impl(
        input_x,
        input_y,
        input_x,
        input_y,
        cos,
        sin,
        positions,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )


@traced
def rope_cached_positions_offsets_fwd_inplace(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    offsets: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate in place by cached values at offset positions.

    ``rope_cached_positions_offsets_fwd_impl`` with one tensor for input and result.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        offsets: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_offsets_fwd_impl``.

    Source: AITER ``rope_cached_positions_offsets_fwd_inplace``.
    """
    rope_cached_positions_offsets_fwd_impl(
        input, input, cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first
    )


@traced
def rope_cached_positions_offsets_2c_fwd_inplace(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    offsets: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate two inputs in place by values at offset positions.

    ``rope_cached_positions_offsets_2c_fwd_impl`` with the inputs as results.

    Args:
        input_x: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32, the first dim may be strided, the others are dense.
        positions: [S, B] int64.
        offsets: [S, B] int64.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_offsets_2c_fwd_impl``.

    Source: AITER ``rope_cached_positions_offsets_2c_fwd_inplace``.
    """
    rope_cached_positions_offsets_2c_fwd_impl(
        input_x,
        input_y,
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


@traced
def rope_thd_fwd_inplace(
    input: torch.Tensor,
    cu_seqlens: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Rotate packed sequences in place by each position's angles.

    ``rope_thd_fwd_impl`` with one tensor for input and result.

    Args:
        input: [T, H, D], written; bf16, fp16 or fp32, may be strided.
        cu_seqlens: [C] int32, where each sequence begins, and the last one ends; from 0, never falling.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each place in a sequence.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_thd_fwd_impl``.

    Source: AITER ``rope_thd_fwd_inplace``.
    """
    rope_thd_fwd_impl(input, input, cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first)


@traced
def rope_2d_fwd_inplace(
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
) -> None:
    """Rotate image tokens in place by their row and column.

    ``rope_2d_fwd_impl`` with one tensor for input and result.

    Args:
        input: [B, H * W, heads, D], written; bf16, fp16 or fp32, may be strided.
        cos_h: [..., f] bf16 or fp16 or fp32, [1, rows, 1, d / 2], with reuse_freqs_front_part d / 4.
        sin_h: [..., f] bf16 or fp16 or fp32.
        cos_w: [..., f] bf16 or fp16 or fp32, [1, columns, 1, d / 2], with reuse_freqs_front_part d / 4.
        sin_w: [..., f] bf16 or fp16 or fp32.
        img_height: rows of an image.
        img_width: columns of an image.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of a table has a quarter of a head, one for each pair.
        nope_first: nothing here: each half is turned whole.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2d_fwd_impl``.

    Source: AITER ``rope_2d_fwd_inplace``.
    """
    rope_2d_fwd_impl(
        input,
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
