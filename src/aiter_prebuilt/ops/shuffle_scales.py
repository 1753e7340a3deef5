"""Layouts of the scales of 4-bit weights: ``shuffle_scale`` and its relatives, under AITER's names.

They run once, when a model is loaded, on whatever device the tensor is, with torch's own kernels; and the names that AITER has
for layouts of ``shuffle_weight``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.shuffle import shuffle_weight

if TYPE_CHECKING:
    import torch

#: e8m0's code of 1.
_ONE = 0x7F


@traced
def e8m0_shuffle(scale: torch.Tensor | None) -> torch.Tensor | None:
    """Reorder scales of MXFP4 as a wave reads them.

    Blocks have 32 rows and 8 columns, (r, c) of a block at place ``((c % 4 * 16 + r % 16) * 2 + c // 4) * 2 + r // 16``.

    Args:
        scale: [M, N], any type of one byte; fp32 and None are given back as they are.

    Returns:
        M up to a multiple of 256 and N up to a multiple of 8; what lies behind holds e8m0's 1 (AITER leaves it as it finds it).

    Raises:
        ValueError: not two dims.

    Source: AITER ``e8m0_shuffle``.
    """
    return shuffle_scale(scale)


@traced
def shuffle_scale(
    src: torch.Tensor | None,
    experts_cnt: int | None = None,
    is_guinterleave: bool = False,
    gate_up: bool = False,
) -> torch.Tensor | None:
    """Reorder scales of MXFP4 for the kernels.

    As :func:`e8m0_shuffle` does, or as ck_tile's mixtures of experts read them.

    Args:
        src: [M, N], any type of one byte; fp32 and None are given back as they are.
        experts_cnt: with ``is_guinterleave``, how many experts' rows lie one after the other.
        is_guinterleave: element (n, k) of an expert's rows, ``n = (n1 * 2 + np) * 16 + nl`` and ``k = (k1 * 2 + kp) * 4 + kl``,
            goes to place ``((((n1 * K1 + k1) * 4 + kl) * 16 + nl) * 2 + kp) * 2 + np``, for K1 groups of 8 columns; an expert has
            a multiple of 32 rows.
        gate_up: with ``is_guinterleave``, np says gate or up: ``n = (np * N1 + n1) * 16 + nl``.

    Returns:
        the same elements; rows up to a multiple of 256 without ``is_guinterleave``, columns up to a multiple of 8, with e8m0's 1
        in what lies behind.

    Raises:
        ValueError: not two dims, no number of experts, or rows that are no such multiple.

    Source: AITER ``shuffle_scale``.
    """
    import torch

    if src is None or src.dtype == torch.float32:
        return src
    if src.dim() != 2:
        raise ValueError(f"shuffle_scale: src must have 2 dimensions, got {src.dim()}")
    if not is_guinterleave:
        padded = _padded(src, 256)
        rows, columns = padded.shape
        blocks = padded.view(torch.uint8).view(rows // 32, 2, 16, columns // 8, 2, 4)
        return blocks.permute(0, 3, 5, 2, 4, 1).reshape(rows, columns).view(src.dtype)
    if experts_cnt is None:
        raise ValueError("shuffle_scale: is_guinterleave needs experts_cnt")
    padded = _padded(src, 1)
    rows, columns = padded.shape
    if experts_cnt < 1 or rows % (experts_cnt * 32):
        raise ValueError(
            f"shuffle_scale: {rows} rows are not a multiple of 32 for each of {experts_cnt} experts"
        )
    each = rows // experts_cnt // 32
    raw = padded.view(torch.uint8)
    if gate_up:
        blocks = raw.view(experts_cnt, 2, each, 16, columns // 8, 2, 4).permute(0, 2, 4, 6, 3, 5, 1)
    else:
        blocks = raw.view(experts_cnt, each, 2, 16, columns // 8, 2, 4).permute(0, 1, 4, 6, 3, 5, 2)
    return blocks.reshape(rows, columns).view(src.dtype)


def _padded(src: torch.Tensor, rows: int) -> torch.Tensor:
    """Rows up to a multiple of ``rows`` and columns of 8."""
    import torch

    shape = -(-src.shape[0] // rows) * rows, -(-src.shape[1] // 8) * 8
    raw = torch.full(shape, _ONE, dtype=torch.uint8, device=src.device)
    raw[: src.shape[0], : src.shape[1]] = src.view(torch.uint8)
    return raw.view(src.dtype)


@traced
def shuffle_scale_a16w4(src: torch.Tensor | None, experts_cnt: int, gate_up: bool) -> torch.Tensor | None:
    """Call :func:`shuffle_scale` with ``is_guinterleave``.

    Args:
        src: [M, N], any type of one byte; fp32 and None are returned as they are.
        experts_cnt: the number of experts, whose rows lie one after the other.
        gate_up: rows of gate come before rows of up, as of :func:`shuffle_scale`.

    Returns:
        as of :func:`shuffle_scale`.

    Raises:
        ValueError: as :func:`shuffle_scale`.

    Source: AITER ``shuffle_scale_a16w4``.
    """
    return shuffle_scale(src, experts_cnt, True, gate_up)


@traced
def moe_shuffle_scale(
    src: torch.Tensor | None,
    experts_cnt: int | None = None,
    is_guinterleave: bool = False,
    gate_up: bool = False,
) -> torch.Tensor | None:
    """Call :func:`shuffle_scale`, as AITER does on these targets.

    Args:
        src: [M, N], any type of one byte; fp32 and None are returned as they are.
        experts_cnt: with ``is_guinterleave``, the number of experts, whose rows lie one after the other.
        is_guinterleave: use the layout of ck_tile's mixtures of experts, as of :func:`shuffle_scale`.
        gate_up: with ``is_guinterleave``, rows of gate come before rows of up.

    Returns:
        as of :func:`shuffle_scale`.

    Raises:
        ValueError: as :func:`shuffle_scale`.

    Source: AITER ``moe_shuffle_scale``.
    """
    return shuffle_scale(src, experts_cnt, is_guinterleave, gate_up)


@traced
def shuffle_weight_a16w4(src: torch.Tensor, NLane: int, gate_up: bool) -> torch.Tensor:
    """Call ``shuffle_weight`` of ``(NLane, 16)`` with ``is_guinterleave``.

    Args:
        src: [E, N, K] of one byte: experts' rows of gate, then of up.
        NLane: rows of a block.
        gate_up: they take turns.

    Returns:
        a copy with ``is_shuffled = True``.

    Raises:
        ValueError: a size is not a multiple of its block.

    Source: AITER ``shuffle_weight_a16w4``.
    """
    return shuffle_weight(src, (NLane, 16), is_guinterleave=True, gate_up=gate_up)


@traced
def moe_shuffle_weight(
    src: torch.Tensor,
    experts_cnt: int | None = None,
    is_guinterleave: bool = False,
    gate_up: bool = False,
    layout: tuple[int, int] = (16, 16),
) -> torch.Tensor:
    """Call ``shuffle_weight``, as AITER does on these targets.

    Args:
        src: [E, N, K].
        experts_cnt: accepted and ignored.
        is_guinterleave: as of :func:`shuffle_weight`.
        gate_up: as of :func:`shuffle_weight`.
        layout: as of :func:`shuffle_weight`.

    Returns:
        a copy with ``is_shuffled = True``.

    Raises:
        ValueError: a size is not a multiple of its block.

    Source: AITER ``moe_shuffle_weight``.
    """
    del experts_cnt
    return shuffle_weight(src, layout, is_guinterleave=is_guinterleave, gate_up=gate_up)
