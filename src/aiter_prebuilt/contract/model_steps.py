"""Count the calls of models' steps. ``aiter-prebuilt coverage``, ``report shapes`` and the status page count by this file alone.

A call is one function with one set of sizes. It is served when a kernel takes it, when the function launches nothing, or when
the function only calls others and one of those is served at the same place of the same step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: Tokens in a step of each kind that ``coverage`` asks about; the manifests list more.
STEPS: Final[Mapping[str, Sequence[int]]] = {"decode": (1, 64), "prefill": (4096,)}
#: GPUs that share the model in those steps.
RANKS: Final = 1
#: Other numbers of ranks, whose calls can be tuned.
SHARED: Final = (2, 4, 8)
#: Word of the command line -> text that names the engine in a call's client.
ENGINES: Final = {"vllm": "vLLM", "sglang": "SGLang"}


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a call in a model's steps. A function and its callees share it."""

    target: str
    ranks: int
    layer: str
    step: str
    tokens: int


@dataclass(frozen=True, slots=True)
class StepCall:
    """One call. ``within``: the functions that it calls, which are calls of their own; ``served``: known for others only."""

    function: str
    client: str
    place: Place
    within: tuple[str, ...] = ()
    served: bool = False


@dataclass(frozen=True, slots=True)
class Sum:
    """The number of calls, and of served ones among them."""

    served: int
    calls: int


def counted(place: Place) -> bool:
    """Is a call at this place one that ``coverage`` asks about?"""
    return place.ranks == RANKS and place.tokens in STEPS.get(place.step, ())


def callees(calls: Iterable[StepCall]) -> dict[tuple[str, Place], bool]:
    """Return the places at which a function with no callees of its own is called: True where it is served."""
    found: dict[tuple[str, Place], bool] = {}
    for call in calls:
        if not call.within:
            key = (call.function, call.place)
            found[key] = found.get(key, False) or call.served
    return found


def serving(call: StepCall, known: Mapping[tuple[str, Place], bool]) -> tuple[str, ...]:
    """Return the callees that serve a call; ``known``: what :func:`callees` returned."""
    return tuple(name for name in call.within if known.get((name, call.place)))


def of_engine(calls: Iterable[StepCall], engine: str) -> list[StepCall]:
    """Select the calls of an engine, and those of the functions that its functions call, on whatever target they do."""
    every = list(calls)
    own = [ENGINES[engine] in call.client for call in every]
    within = {name for mine, call in zip(own, every, strict=True) if mine for name in call.within}
    return [call for mine, call in zip(own, every, strict=True) if mine or call.function in within]


def total(calls: Iterable[StepCall]) -> Sum:
    """Count the calls and those that are served."""
    every = list(calls)
    known = callees(every)
    served = sum(bool(serving(call, known)) if call.within else call.served for call in every)
    return Sum(served, len(every))
