"""Windows of attention as callers say them, for references."""

from __future__ import annotations


def seen(window_size: tuple[int, ...], queries: int, keys: int, causal: bool) -> tuple[int, int, int]:
    """(left, right, first) of :class:`~build_tools.cases.attention.Scores`: of a window (left, right) or (left, right, first). A
    left side of all keys is no bound, nor is a right one where no query is further from the last; causal takes the right one's
    place.
    """
    left, right = window_size[:2]
    everything = right >= max(keys, queries - 1)
    first = max(window_size[2], 0) if len(window_size) == 3 else 0
    return -1 if left >= keys else left, 0 if causal else -1 if everything else right, first
