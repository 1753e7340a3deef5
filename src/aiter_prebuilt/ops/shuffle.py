"""Weight layouts that kernels read without LDS: ``shuffle_weight``, under AITER's name.

It runs once, when a model is loaded, on whatever device the tensor is, with torch's own kernels: no bundle is
needed. torch is imported when the function is called, never with the package.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

WAVE = 64


@traced
def shuffle_weight(
    x: torch.Tensor,
    layout: tuple[int, int] = (16, 16),
    use_int4: bool = False,
    is_guinterleave: bool = False,
    gate_up: bool = False,
    pad_k_to: int | None = 0,
) -> torch.Tensor:
    """Reorder a weight as a wave reads it.

    The shape and dtype stay.

    With ``(IN, IK) = layout``, ``BK = 2 * IK`` and KP elements in 16 bytes (32 with ``use_int4``: two values
    make one byte later), every block of IN rows and BK columns is stored as ``[BK / KP][IN][KP]``, the blocks
    along K inside those along N. For fp8 and (16, 16), element (n, k) of a matrix of K columns goes to place
    ``((((n // 16) * (K // 32) + k // 32) * 2 + k % 32 // 16) * 16 + n % 16) * 16 + k % 16``.

    Args:
        x: ``[..., N, K]``, any type of 1, 2 or 4 bytes; torch's pairs of 4-bit floats count as bytes. It need not be contiguous
            and is never changed or shared.
        layout: ``(IN, IK)``; with ``is_guinterleave`` ``(NLANE, KPACK)``.
        use_int4: elements are 4-bit values, one per byte until they are packed.
        is_guinterleave: the layout of fused MoE weights ``[E, N, K]``: 64 / NLANE lanes along K, blocks of NLANE rows and ``64 /
            NLANE * KPACK`` columns stored as ``[64 / NLANE][NLANE][KPACK]``.
        gate_up: with ``is_guinterleave``, the two halves of N take turns, one block of rows of each. Without it, it changes
            nothing, as in AITER.
        pad_k_to: append zeros to K up to its next multiple; 0 or None: none.

    Returns:
        A contiguous copy with ``is_shuffled = True`` (a Python attribute: clone, slicing and ``state_dict``
        lose it), and with ``pad_k_to`` also ``aiter_original_k`` and ``aiter_padded_k``.

    Raises:
        ValueError: a size is not a multiple of its block.
        UnsupportedError: ``pad_k_to`` with ``use_int4`` or ``is_guinterleave``, which AITER refuses too.

    Source: AITER ``shuffle_weight``, whose layouts its GEMM kernels read.
    """
    import torch

    dtype = x.dtype
    if dtype is getattr(torch, "float4_e2m1fn_x2", None):
        x = x.view(torch.uint8)
    if x.dim() < 2:
        raise ValueError(f"shuffle_weight: x must have at least 2 dimensions [..., N, K], got {x.dim()}")
    original_k = x.shape[-1]
    if pad_k_to:
        x = _pad_columns(x, pad_k_to, use_int4=use_int4, is_guinterleave=is_guinterleave)
    if is_guinterleave:
        shuffled = _interleaved(x, layout, gate_up=gate_up)
    else:
        shuffled = _blocked(x, layout, 32 if use_int4 else 16 // x.element_size())
    result = shuffled.view(dtype)
    result.is_shuffled = True
    if pad_k_to:
        result.aiter_original_k = original_k
        result.aiter_padded_k = x.shape[-1]
    return result


def _pad_columns(x: torch.Tensor, multiple: int, *, use_int4: bool, is_guinterleave: bool) -> torch.Tensor:
    """Append zero columns up to the next multiple; zero is all bits clear in every type there is here."""
    if multiple < 0:
        raise ValueError(f"shuffle_weight: pad_k_to must not be negative, got {multiple}")
    if use_int4 or is_guinterleave:
        option = "use_int4" if use_int4 else "is_guinterleave"
        raise UnsupportedError(
            asked=f"shuffle_weight(pad_k_to={multiple}, {option}=True)",
            found="no kernel reads such a layout with padded columns",
            fix="Pad the weight before it is packed, and call shuffle_weight without pad_k_to.",
        )
    missing = -x.shape[-1] % multiple
    if not missing:
        return x
    padded = x.new_empty((*x.shape[:-1], x.shape[-1] + missing))
    padded[..., : x.shape[-1]] = x
    padded[..., x.shape[-1] :].zero_()
    return padded


def _divide(what: str, size: int, block: int) -> int:
    if block <= 0 or size % block:
        raise ValueError(f"shuffle_weight: {what} is {size}, which is not a multiple of {block}")
    return size // block


def _blocked(x: torch.Tensor, layout: tuple[int, int], pack: int) -> torch.Tensor:
    """Blocks ``[N / IN][K / BK][BK / pack][IN][pack]`` of each matrix of ``x[..., N, K]``."""
    rows, columns = layout[0], 2 * layout[1]
    n_blocks = _divide("N", x.shape[-2], rows)
    k_blocks = _divide("K", x.shape[-1], columns)
    packs = _divide(f"2 * layout[1] (elements per access: {pack})", columns, pack)
    blocks = x.reshape(math.prod(x.shape[:-2]), n_blocks, rows, k_blocks, packs, pack)
    return _copy(blocks.permute(0, 1, 3, 4, 2, 5), x.shape)


def _interleaved(x: torch.Tensor, layout: tuple[int, int], *, gate_up: bool) -> torch.Tensor:
    """Blocks ``[N / NLANE][half][K / (KLANE * KPACK)][KLANE][NLANE][KPACK]`` of each expert.

    Without ``gate_up`` there is one half: all of N.
    """
    if x.dim() != 3:
        raise ValueError(f"shuffle_weight: is_guinterleave needs x[E, N, K], got {x.dim()} dimensions")
    lanes_n, pack = layout
    lanes_k = _divide("the wave size", WAVE, lanes_n)
    halves = 2 if gate_up else 1
    n_blocks = _divide("N" if halves == 1 else "N / 2", _divide("N", x.shape[1], halves), lanes_n)
    k_blocks = _divide("K", x.shape[2], lanes_k * pack)
    blocks = x.reshape(x.shape[0], halves, n_blocks, lanes_n, k_blocks, lanes_k, pack)
    return _copy(blocks.permute(0, 2, 1, 4, 5, 3, 6), x.shape)


def _copy(blocks: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Store ``blocks`` in its own order under ``shape``: a copy even where the order is the old one."""
    return blocks.new_empty(blocks.shape).copy_(blocks).view(shape)
