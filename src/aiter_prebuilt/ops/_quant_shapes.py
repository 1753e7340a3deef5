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
            function, f"x has {len(x.shape)} dims, {list(x.shape)}", "Pass rows: x.reshape(-1, x.shape[-1])"
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
            function, f"x has {columns} columns, which is not a multiple of {size}", "Pad its rows"
        )
    return columns // size
