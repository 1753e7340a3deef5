"""Can our function take every call that AITER's takes? From two signatures; nothing is called."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Final

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_REST: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Omitted:
    """An argument that AITER's function takes by ``place`` or ``name``, and what it means there when it is left out: ours would
    mean something else, or asks for it.
    """

    place: int
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Cover:
    """``why``: why ours cannot stand in the place of AITER's, or ""; ``omitted``: what a call that leaves it out gives ours."""

    why: str
    omitted: tuple[Omitted, ...] = ()


def compare(theirs: Signature, ours: Signature) -> Cover:
    """Does ours cover theirs?

    Each parameter of theirs must be one of ours under its name, those that may be given by position in the same places; what ours
    has beyond that must have a default. One that may be left out of theirs and means something else in ours is handed to it.
    """
    mine = ours.parameters
    omitted = []
    for place, (name, each) in enumerate(theirs.parameters.items()):
        if each.kind in _REST:
            return Cover(f"it takes *{name}, which says nothing of its parameters")
        if name not in mine:
            return Cover(_lacks(place, name, ours))
        if each.kind in _POSITIONAL and _moved(place, mine[name], ours):
            return Cover(f"{name} is parameter {place + 1} of AITER's, and not of ours")
        if each.default is not Parameter.empty and not _same(each.default, mine[name].default):
            omitted.append(Omitted(place, name, each.default))
    for name, each in mine.items():
        if name not in theirs.parameters and each.default is Parameter.empty and each.kind not in _REST:
            return Cover(f"ours needs {name}, which AITER's has not")
    return Cover("", tuple(omitted))


def _lacks(place: int, name: str, ours: Signature) -> str:
    there = [*ours.parameters]
    instead = f", which has {there[place]} in that place" if place < len(there) else ""
    return f"ours has no parameter {name}{instead}"


def _moved(place: int, mine: Parameter, ours: Signature) -> bool:
    return mine.kind not in _POSITIONAL or [*ours.parameters].index(mine.name) != place


def _same(one: Any, other: Any) -> bool:
    """Members of enumerations are their numbers."""
    one, other = (getattr(each, "value", each) for each in (one, other))
    if type(one) is not type(other) and not {type(one), type(other)} <= {int, float}:
        return False
    return bool(one == other)
