"""The rows and the clock of ``gpu_bench.py``.

Each time is the median of repeated calls between CUDA events, the L2 cache overwritten before each, in turns with what it is
compared with. Each result is compared with torch's first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import torch

from aiter_prebuilt import errors

#: The least ratio of each group.
BARS: Final = {
    "forward": 0.75, "backward": 0.7, "decode": 0.85, "few": 1.0, "products": 0.92, "fp8": 0.85, "experts": 0.8, "rows": 0.9,
    "caches": 0.9,
}  # fmt: skip
#: What two kernels that round probabilities once may differ by, as a share of the result's norm.
NEAR: Final = 0.02
#: Bytes that no cache of a device here holds; writing them takes longer than queueing a call does.
FLUSH: Final = 512 << 20
WARM: Final = 3
REPEATS: Final = 11
#: Bytes of the copy whose bandwidth decoding is compared with.
COPIED: Final = 4 << 30


@dataclass(frozen=True)
class TimedRow:
    """One shape: microseconds of ours and of what it is compared with; a ratio of 1 is as fast."""

    group: str
    what: str
    ours: float | None
    other: float
    than: str
    ratio: float | None
    note: str = ""

    @property
    def met(self) -> bool:
        """Is the group's bar met? A call that no kernel here takes has none to meet."""
        return self.ratio is None or self.ratio >= BARS[self.group]


class Clock:
    """Times calls on the device."""

    def __init__(self) -> None:
        self.cold = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")

    def __call__(self, *calls: Callable[[], object]) -> list[float]:
        """Microseconds of each, taken in turns, so that all meet the clocks of a card that grows warm."""
        spans: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in calls]
        for turn in range(WARM + REPEATS):
            for call, mine in zip(calls, spans, strict=True):
                self.cold.zero_()
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                call()
                last.record()
                if turn >= WARM:
                    mine.append((first, last))
        torch.cuda.synchronize()
        return [1e3 * float(median(first.elapsed_time(last) for first, last in mine)) for mine in spans]

    def copy(self, moved: int) -> float:
        """Microseconds of a copy that reads and writes so many bytes together."""
        source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        return self(lambda: target.copy_(source))[0]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def off(found: torch.Tensor, right: torch.Tensor) -> float:
    return float((found.float() - right.float()).norm() / right.float().norm())


def row(group: str, what: str, clock: Clock, ours: Any, others: dict[str, Any], right: Any) -> TimedRow:
    """Measure one shape.

    ``others`` gives the call of each backend, ``right`` the results that ours must have.
    """
    worst, calls = 0.0, dict(others)
    unserved = ""
    try:
        worst = max(off(mine, its) for mine, its in zip(ours(), right, strict=True))
        calls["ours"] = ours
    except errors.AiterPrebuiltError as error:
        unserved = f"not served here: {type(error).__name__}"
    times = dict(zip(calls, clock(*calls.values()), strict=True))
    spent = times.pop("ours", None)
    than = min(times, key=lambda name: times[name])
    if spent is None:
        return TimedRow(group, what, None, times[than], than, None, unserved)
    if not worst < NEAR:
        return TimedRow(group, what, spent, times[than], than, 0.0, f"WRONG by {worst:.3g}")
    listed = ", ".join(f"{name} {other:.0f}" for name, other in times.items())
    return TimedRow(group, what, spent, times[than], than, times[than] / spent, listed)
