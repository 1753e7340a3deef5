"""Shapes that functions of quantisation take: rows, and whole groups of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.errors import ArgumentShapeError

if TYPE_CHECKING:
    import torch


def rows_of(function: str, x: torch.Tensor) -> tuple[int, int]:
    """Return the sizes of a matrix.

    Raises:
        ArgumentShapeError: it has more or fewer dims.
    """
    if len(x.shape) != 2:
        raise ArgumentShapeError(
            function, f"x must have 2 dims, got {list(x.shape)}", "Reshape it: x.reshape(-1, x.shape[-1])"
        )
    rows, columns = x.shape
    return rows, columns


def whole_groups(function: str, columns: int, size: int) -> int:
    """Count the groups of a row.

    Raises:
        ArgumentShapeError: the last group would not be whole.
    """
    if columns % size:
        raise ArgumentShapeError(
            function, f"the columns of x must be a multiple of {size}, got {columns}", "Pad its rows"
        )
    return columns // size
