"""Gradients of rotary embeddings, in new tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._traced import traced
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


@traced
def rope_bwd(
    output_grads: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """Compute the gradient of :func:`rope_fwd`.

    ``rope_bwd_impl`` with a new tensor for the result.

    Args:
        output_grads: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each s.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
def rope_2c_bwd(
    output_grads_x: torch.Tensor,
    output_grads_y: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the gradients of :func:`rope_2c_fwd`.

    ``rope_2c_bwd_impl`` with new tensors for the results.

    Args:
        output_grads_x: [S, B, H, D]; bf16, fp16 or fp32, may be strided: the gradient of the first result.
        output_grads_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided: the gradient of the second result.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each s.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
def rope_cached_bwd(
    output_grads: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    transpose_output: bool = False,
) -> torch.Tensor:
    """Compute the gradient of :func:`rope_cached_fwd`.

    ``rope_cached_bwd_impl`` with a new tensor for the result.

    Args:
        output_grads: [S, B, H, D]; bf16, fp16 or fp32, may be strided.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, one row for each s.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
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
    """Compute the gradients of :func:`rope_cached_2c_fwd`.

    ``rope_cached_2c_bwd_impl`` with new tensors for the results.

    Args:
        output_grads_x: [S, B, H, D]; bf16, fp16 or fp32, may be strided: the gradient of the first result.
        output_grads_y: [S, B, H, D]; bf16, fp16 or fp32, may be strided: the gradient of the second result.
        cos: [P, 1, 1, f] bf16 or fp16 or fp32, one row for each s.
        sin: [P, 1, 1, f] bf16 or fp16 or fp32.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.
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


@traced
def rope_thd_bwd(
    output_grads: torch.Tensor,
    cu_seqlens: torch.Tensor,
    freqs: torch.Tensor,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> torch.Tensor:
    """Compute the gradient of :func:`rope_thd_fwd`.

    ``rope_thd_bwd_impl`` with a new tensor for the result.

    Args:
        output_grads: [T, H, D]; bf16, fp16 or fp32, may be strided.
        cu_seqlens: [C] int32, where each sequence begins, and the last one ends; from 0, never falling.
        freqs: [P, 1, 1, f] bf16 or fp16 or fp32, angles, one row for each place in a sequence.
        rotate_style: 0: pairs are element i and i + half; 1: neighbours; only 0 and 1 is supported.
        reuse_freqs_front_part: a row of the table has half of what is turned, one for each pair.
        nope_first: the end of a head is turned, else its start; the rest is copied.

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


@traced
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
    """Compute the gradient of :func:`rope_2d_fwd`.

    ``rope_2d_bwd_impl`` with a new tensor for the result.

    Args:
        output_grads: [B, H * W, heads, D]; bf16, fp16 or fp32, may be strided.
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
