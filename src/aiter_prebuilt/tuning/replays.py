"""One candidate's launches as graphs that are replayed: with inputs in no cache, and in the cache."""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator
    from aiter_prebuilt.tuning.card import Card, Graph
    from aiter_prebuilt.tuning.inputs import Inputs

#: Microseconds that a graph lasts about, so that the events around it weigh little, and its launches at most.
_GRAPH_US: Final = 400.0
_MOST_LAUNCHES: Final = 16
#: Replays of a full timing.
_FULL: Final = 11
#: Of a call that takes longer than so many microseconds, a full timing is shorter.
_LONG_US: Final = 5000.0
_FULL_LONG: Final = 5


class Run:
    """One candidate with its graphs."""

    def __init__(self, card: Card, operator: Operator, inputs: Inputs, attributes: list[Any]) -> None:
        self._card, self._operator, self._inputs, self._attributes = card, operator, inputs, attributes
        self._single, self._cold_launches, self._warm_launches = 0.0, 1, 1
        self._graphs: list[Graph] = []

    def prepare(self) -> None:
        """Load the kernels and record the graphs."""
        self._call(0)
        self._card.wait()
        self._single = self._card.span(lambda: self._call(0))
        launches = min(_MOST_LAUNCHES, max(1, round(_GRAPH_US / max(self._single, 1.0))))
        sets = len(self._inputs.sets)
        if self._inputs.rotates:
            self._cold_launches = sets * -(-launches // sets)
        rotated = self._card.graph(lambda: self._calls(self._cold_launches, sets))
        self._warm_launches = launches
        same = self._card.graph(lambda: self._calls(launches, 1))
        self._graphs = [rotated, same]
        self.cold()  # the first replay uploads the graph
        self.warm()

    @property
    def samples(self) -> int:
        """Replays of a full timing."""
        return _FULL if self._single < _LONG_US else _FULL_LONG

    def _calls(self, count: int, sets: int) -> None:
        """Launch ``count`` times; so many copies of the inputs take turns."""
        for place in range(count):
            self._call(place % sets)

    def _call(self, place: int) -> None:
        stream = self._card.stream.value
        self._operator(*self._inputs.sets[place], *self._attributes, stream=stream)

    def cold(self) -> float:
        """Microseconds of a launch whose inputs are in no cache: copies take turns, or the cache is overwritten before."""
        self._inputs.flush()
        return self._card.span(self._graphs[0].launch) / self._cold_launches

    def warm(self) -> float:
        """Microseconds of a launch whose inputs the launch before has just used."""
        return self._card.span(self._graphs[1].launch) / self._warm_launches

    def drop(self) -> None:
        """Free the graphs."""
        for graph in self._graphs:
            graph.drop()
        self._graphs = []


def spread_of(spans: list[float]) -> float:
    """Return the middle half of some times over their median."""
    first, middle, last = quantiles(spans, n=4)
    return (last - first) / middle if middle else 0.0
