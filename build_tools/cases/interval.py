"""An exact result and its error -> the interval of stored values that a kernel may give: each end is rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aiter_prebuilt.contract.calls import Want
from build_tools.cases import numbers
from build_tools.cases.near import Near

Values: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """The codes of both ends of every element, and what must stay as it was."""

    dtype: str
    low: Values
    high: Values
    kept: npt.NDArray[np.bool_] | None

    def misses(self, found: Values) -> npt.NDArray[np.bool_]:
        """Mark decoded values of a result that are outside.

        Elements that must stay are never marked.
        """
        low, high = numbers.decode(self.low, self.dtype), numbers.decode(self.high, self.dtype)
        right = ((low <= found) & (found <= high)) | (np.isnan(low) & np.isnan(found))
        return ~right if self.kept is None else ~right & ~self.kept


def interval(result: Near, kind: str) -> Interval:
    """Build the smallest interval that holds every right result.

    ``kind``: the stored type. Integer and fp8 results are cut at their largest number.

    Raises:
        ValueError: an exact integer does not fit its type.
    """
    cut = kind in numbers.SATURATING
    exact = result.values
    if numbers.is_integer(kind) and exact.dtype.kind in "iub":
        if result.error.any():
            exact = exact.astype(np.float64)
        else:
            codes = numbers.encode(exact, kind)
            return Interval(kind, codes, codes, result.kept)
    low = numbers.encode(exact - result.error, kind, saturate=cut)
    high = numbers.encode(exact + result.error, kind, saturate=cut)
    return Interval(kind, low, high, result.kept)


def want(name: str, result: Near, kind: str, *, returned: bool) -> Want:
    """Build a call record's entry of one result."""
    found = interval(result, kind)
    kept = None if found.kept is None else np.ascontiguousarray(found.kept).astype(np.uint8).tobytes()
    ends = [np.ascontiguousarray(end).tobytes() for end in (found.low, found.high)]
    return Want(name, kind, result.values.shape, ends[0], ends[1], kept, returned)
