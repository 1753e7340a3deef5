"""Rotary embeddings in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def rope_fwd_inplace(
    input: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Turn ``input`` in place: ``rope_fwd_impl`` on one tensor that is both.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_fwd_impl``.

    Source: AITER ``rope_fwd_inplace``.
    """
    rope_fwd_impl(input, input, freqs, rotate_style, reuse_freqs_front_part, nope_first)


def rope_2c_fwd_inplace(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Turn ``input_x`` and ``input_y`` in place: ``rope_2c_fwd_impl`` on tensors that are both.

    Args:
        input_x, input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_2c_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2c_fwd_impl``.

    Source: AITER ``rope_2c_fwd_inplace``.
    """
    rope_2c_fwd_impl(
        input_x, input_y, input_x, input_y, freqs, rotate_style, reuse_freqs_front_part, nope_first
    )


def rope_cached_fwd_inplace(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Turn ``input`` in place: ``rope_cached_fwd_impl`` on one tensor that is both.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos, sin, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_fwd_impl``.

    Source: AITER ``rope_cached_fwd_inplace``.
    """
    rope_cached_fwd_impl(input, input, cos, sin, rotate_style, reuse_freqs_front_part, nope_first)


def rope_cached_2c_fwd_inplace(
    input_x: torch.Tensor,
    input_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Turn ``input_x`` and ``input_y`` in place: ``rope_cached_2c_fwd_impl`` on tensors that are both.

    Args:
        input_x, input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos, sin, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_2c_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_2c_fwd_impl``.

    Source: AITER ``rope_cached_2c_fwd_inplace``.
    """
    rope_cached_2c_fwd_impl(
        input_x, input_y, input_x, input_y, cos, sin, rotate_style, reuse_freqs_front_part, nope_first
    )


def rope_cached_positions_fwd_inplace(
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Turn ``input`` in place: ``rope_cached_positions_fwd_impl`` on one tensor that is both.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_positions_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_fwd_impl``.

    Source: AITER ``rope_cached_positions_fwd_inplace``.
    """
    rope_cached_positions_fwd_impl(
        input, input, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first
    )


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
    """Turn ``input_x`` and ``input_y`` in place: ``rope_cached_positions_2c_fwd_impl`` on tensors that are both.

    Args:
        input_x, input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_cached_positions_2c_fwd_impl``.

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
    """Turn ``input`` in place: ``rope_cached_positions_offsets_fwd_impl`` on one tensor that is both.

    Args:
        input: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_cached_positions_offsets_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_positions_offsets_fwd_impl``.

    Source: AITER ``rope_cached_positions_offsets_fwd_inplace``.
    """
    rope_cached_positions_offsets_fwd_impl(
        input, input, cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first
    )


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
    """Turn ``input_x`` and ``input_y`` in place: ``rope_cached_positions_offsets_2c_fwd_impl`` on tensors that are both.

    Args:
        input_x, input_y: [S, B, H, D], written; bf16, fp16 or fp32, may be strided.
        cos, sin, positions, offsets, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_cached_positions_offsets_2c_fwd_impl``.

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


def rope_thd_fwd_inplace(
    input: torch.Tensor,
    cu_seqlens: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> None:
    """Turn ``input`` in place: ``rope_thd_fwd_impl`` on one tensor that is both.

    Args:
        input: [T, H, D], written; bf16, fp16 or fp32, may be strided.
        cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_thd_fwd_impl``.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_thd_fwd_impl``.

    Source: AITER ``rope_thd_fwd_inplace``.
    """
    rope_thd_fwd_impl(input, input, cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first)


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
    """Turn ``input`` in place: ``rope_2d_fwd_impl`` on one tensor that is both.

    Args:
        input: [B, H * W, heads, D], written; bf16, fp16 or fp32, may be strided.
        cos_h, sin_h, cos_w, sin_w, img_height, img_width, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_2d_fwd_impl``.

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
