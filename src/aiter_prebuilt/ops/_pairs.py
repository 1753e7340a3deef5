"""Pairs of fp4 and the sizes of their scales, for a call and for what traces it."""

from __future__ import annotations

import sys
from typing import Any

from aiter_prebuilt.contract.dtype import BY_NAME

#: Columns that share a scale; rows and columns of a block of scales, to whole ones of which they are padded.
_GROUP, _ROWS, _COLUMNS = 32, 256, 8


def of_pairs(out: Any) -> bool:
    """Are these pairs of fp4, as torch has them or as bytes?"""
    found, torch = getattr(out, "dtype", None), sys.modules.get("torch")
    if found is None or isinstance(found, str):
        return found in ("fp4x2", "u8")
    return any(found is getattr(torch, BY_NAME[kind].torch, None) for kind in ("fp4x2", "u8"))


def scale_sizes(rows: int, width: int, padded: bool) -> tuple[int, int]:
    """Return the rows and columns of the scales of a matrix."""
    columns = -(-width // _GROUP)
    return (-(-rows // _ROWS) * _ROWS, -(-columns // _COLUMNS) * _COLUMNS) if padded else (rows, columns)
