"""Gradients of rotary embeddings, in new tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops.generated.rope import (
    rope_2c_bwd_impl,
    rope_2d_bwd_impl,
    rope_bwd_impl,
    rope_cached_2c_bwd_impl,
    rope_cached_bwd_impl,
    rope_thd_bwd_impl,
)
from aiter_prebuilt.ops.rope_out import made

if TYPE_CHECKING:
    import torch


def rope_bwd(
    output_grads: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """The gradient of what was turned: ``rope_bwd_impl`` on what it makes.

    Args:
        output_grads: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_bwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_bwd_impl``.

    Source: AITER ``rope_bwd``.
    """
    input_grads = made(output_grads, transpose_output)
    rope_bwd_impl(input_grads, output_grads, freqs, rotate_style, reuse_freqs_front_part, nope_first)
    return input_grads


def rope_2c_bwd(
    output_grads_x: torch.Tensor,
    output_grads_y: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of what was turned: ``rope_2c_bwd_impl`` on what it makes.

    Args:
        output_grads_x, output_grads_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_2c_bwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        Two tensors of those shapes and types, with their strides where they are dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2c_bwd_impl``.

    Source: AITER ``rope_2c_bwd``.
    """
    input_grads_x, input_grads_y = (
        made(output_grads_x, transpose_output),
        made(output_grads_y, transpose_output),
    )
    rope_2c_bwd_impl(
        input_grads_x,
        input_grads_y,
        output_grads_x,
        output_grads_y,
        freqs,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return input_grads_x, input_grads_y


def rope_cached_bwd(
    output_grads: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """The gradient of what was turned: ``rope_cached_bwd_impl`` on what it makes.

    Args:
        output_grads: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_bwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_bwd_impl``.

    Source: AITER ``rope_cached_bwd``.
    """
    input_grads = made(output_grads, transpose_output)
    rope_cached_bwd_impl(
        input_grads, output_grads, cos, sin, rotate_style, reuse_freqs_front_part, nope_first
    )
    return input_grads


def rope_cached_2c_bwd(
    output_grads_x: torch.Tensor,
    output_grads_y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of what was turned: ``rope_cached_2c_bwd_impl`` on what it makes.

    Args:
        output_grads_x, output_grads_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos, sin, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_cached_2c_bwd_impl``.
        transpose_output: what is returned lies in memory as [B, S, H, D].

    Returns:
        Two tensors of those shapes and types, with their strides where they are dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_cached_2c_bwd_impl``.

    Source: AITER ``rope_cached_2c_bwd``.
    """
    input_grads_x, input_grads_y = (
        made(output_grads_x, transpose_output),
        made(output_grads_y, transpose_output),
    )
    rope_cached_2c_bwd_impl(
        input_grads_x,
        input_grads_y,
        output_grads_x,
        output_grads_y,
        cos,
        sin,
        rotate_style,
        reuse_freqs_front_part,
        nope_first,
    )
    return input_grads_x, input_grads_y


def rope_thd_bwd(
    output_grads: torch.Tensor,
    cu_seqlens: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> torch.Tensor:
    """The gradient of what was turned: ``rope_thd_bwd_impl`` on what it makes.

    Args:
        output_grads: [T, H, D]; bf16, fp16 or fp32, may be strided.
        cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first: as of ``rope_thd_bwd_impl``.

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_thd_bwd_impl``.

    Source: AITER ``rope_thd_bwd``.
    """
    input_grads = made(output_grads)
    rope_thd_bwd_impl(
        input_grads, output_grads, cu_seqlens, freqs, rotate_style, reuse_freqs_front_part, nope_first
    )
    return input_grads


def rope_2d_bwd(
    output_grads: torch.Tensor,
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
    """The gradient of what was turned: ``rope_2d_bwd_impl`` on what it makes.

    Args:
        output_grads: [B, H * W, heads, D]; bf16, fp16 or fp32, may be strided.
        cos_h, sin_h, cos_w, sin_w, img_height, img_width, rotate_style, reuse_freqs_front_part, nope_first: as of
            ``rope_2d_bwd_impl``.

    Returns:
        A tensor of that shape and type, with its strides where it is dense.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``rope_2d_bwd_impl``.

    Source: AITER ``rope_2d_bwd``.
    """
    input_grads = made(output_grads)
    rope_2d_bwd_impl(
        input_grads,
        output_grads,
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
    return input_grads
