"""The outcome of one call: its candidates with their times, and the winner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: A faster candidate must win by this share to take the place of the default: wins of less did not hold in a program on an H200.
MARGIN: Final = 0.05
#: A timing that spreads too much is discarded and repeated so often.
TRIES: Final = 5


@dataclass(slots=True)
class Timing:
    """One candidate. Times in microseconds; ``spread``: the middle half of the cold times over their median; ``problem``: why it
    was thrown out.
    """

    kernel: str
    variant: str
    backend: str
    types: str
    default: bool = False
    cold_us: float | None = None
    warm_us: float | None = None
    spread: float | None = None
    problem: str = ""


@dataclass(slots=True)
class Measured:
    """One call. ``best``: place of the winner among ``candidates``, None where the row cannot be finished (``problem``)."""

    words: str
    operator: str
    symbols: dict[str, int]
    types: str = ""
    candidates: list[Timing] = field(default_factory=list)
    best: int | None = None
    problem: str = ""

    @property
    def default(self) -> Timing | None:
        """The candidate that runs without the table."""
        return next((each for each in self.candidates if each.default), None)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run stops. ``spread``: the largest that a timing may have; ``deadline``: of ``time.monotonic``, or None; ``cold``:
    rank by cold times.
    """

    spread: float
    deadline: float | None
    cold: bool = True


def decide(found: Measured, limits: Limits) -> None:
    """Choose the winner, or say why the row cannot be finished."""
    timed = [
        (place, each)
        for place, each in enumerate(found.candidates)
        if each.spread is not None and not each.problem
    ]
    if not timed:
        found.problem = "no candidate is right"
        return
    place, best = min(timed, key=lambda pair: _rank(pair[1], limits))
    default = found.default
    steady = default is not None and not default.problem and default.spread is not None
    if default is not None and steady and _rank(best, limits) > (1 - MARGIN) * _rank(default, limits):
        place, best = found.candidates.index(default), default
    if (best.spread or 0.0) > limits.spread:
        found.problem = (
            f"the times of {best.kernel}[{best.variant}] spread by {best.spread:.0%} after {TRIES} tries"
        )
        return
    found.best = place


def _rank(timing: Timing, limits: Limits) -> float:
    return (timing.cold_us if limits.cold else timing.warm_us) or 0.0
