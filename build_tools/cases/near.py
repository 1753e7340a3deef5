"""Exact results of references, with their error bounds.

A bound is the largest error that a kernel's arithmetic may have before it rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """``values`` in float64 (or integers), each within ``error``; ``kept`` marks elements that must stay as they were."""

    values: Values
    error: Values
    kept: npt.NDArray[np.bool_] | None


def near(values: Values, *, relative: Values | float = 0.0, absolute: Values | float = 0.0) -> Near:
    """Attach an error bound to exact values.

    A kernel may miss ``relative * |values| + absolute`` before its last rounding.

    ``values`` may be a masked array: the call must leave its masked elements as they were. NaN and infinities have no error.
    """
    kept = None
    if isinstance(values, np.ma.MaskedArray):
        kept = np.array(np.ma.getmaskarray(values))
        values = np.array(values.filled(0))
    exact = np.asarray(values)
    if exact.dtype.kind not in "fiub":
        raise TypeError(f"a result is an array of numbers, not of {exact.dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.asarray(relative) * np.abs(exact) + np.asarray(absolute)
        error = np.where(np.isfinite(exact), error, 0.0)
    error = np.broadcast_to(error, exact.shape)
    if np.isnan(error).any() or (error < 0).any():
        raise ValueError("an error of a finite result is NaN or negative")
    return Near(exact, error, kept)


def as_near(result: Values | Near) -> Near:
    """Treat a result without an error as exact."""
    return result if isinstance(result, Near) else near(result)
