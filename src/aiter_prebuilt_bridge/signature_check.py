"""Can our function take every call that AITER's takes? From two signatures; nothing is called."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Final

from aiter_prebuilt_bridge.signature_map import ANY, PLAIN, Reading

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
class Limit:
    """An option of AITER's with which ours takes a call only if it is one of ``values``; ``default``: what it is when
    it is left out.
    """

    name: str
    default: Any
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """How a call of AITER's is put to ours, by name: ``order``: what its places are; ``names``: AITER's parameter -> ours, where
    that differs; ``limits``: options that ours lack; ``differs``: of both, the values that AITER's reads otherwise; ``fixed``:
    what ours is told and AITER's need not be; ``returns``: those of ours that the call gives back, where ours gives nothing;
    ``into``: a tensor that takes the result, and ours has no such parameter.
    """

    theirs: Signature
    order: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    limits: tuple[Limit, ...]
    differs: tuple[tuple[str, tuple[Any, ...]], ...]
    fixed: tuple[tuple[str, Any], ...] = ()
    returns: tuple[str, ...] = ()
    into: str = ""


@dataclass(frozen=True, slots=True)
class Cover:
    """``why``: why ours cannot stand in the place of AITER's, or ""; ``omitted``: what a call that leaves it out gives ours;
    ``words``: set if a call has to be put to ours in other words.
    """

    why: str
    omitted: tuple[Omitted, ...] = ()
    words: Words | None = None


def compare(theirs: Signature, ours: Signature, reading: Reading = PLAIN) -> Cover:
    """Does ours cover theirs?

    Each parameter of theirs must be one of ours under its name, those that may be given by position in the same places; what ours
    has beyond that must have a default. One that may be left out of theirs and means something else in ours is handed to it.
    ``reading`` explains other names, places, and options that ours lack; where it does, ours is called by name.
    """
    mine = ours.parameters
    omitted: list[Omitted] = []
    limits: list[Limit] = []
    renamed = bool(reading.names.keys() & theirs.parameters.keys())
    fixed = {name: value for name, value in reading.fixed.items() if name not in theirs.parameters}
    explained = bool(reading.ours or reading.differs or reading.places or fixed or renamed)
    moved, absent = False, 0
    for place, (name, each) in enumerate(theirs.parameters.items()):
        called = reading.names.get(name, name)
        if each.kind in _REST:
            return Cover(f"it takes *{name}, which says nothing of its parameters")
        if called not in mine:
            absent += 1
            if name == reading.into:
                continue
            if not reading.nothing.get(name):
                return Cover(_lacks(place, name, ours, reading))
            limits.append(Limit(name, each.default, reading.nothing[name]))
            continue
        if each.kind in _POSITIONAL and _moved(place - absent, mine[called], ours):
            if not explained:
                return Cover(f"{name} is parameter {place + 1} of AITER's, and not of ours")
            moved = True
        if each.default is not Parameter.empty and not same(each.default, mine[called].default):
            omitted.append(Omitted(place, name, each.default))
    taken = {reading.names.get(name, name) for name in theirs.parameters} | fixed.keys()
    for name, each in mine.items():
        if name not in taken and each.default is Parameter.empty and each.kind not in _REST:
            return Cover(f"ours needs {name}, which AITER's has not")
    by_name = limits or moved or renamed or reading.differs or fixed or reading.returns or reading.into
    words = _words(theirs, reading, tuple(limits), tuple(fixed.items())) if by_name else None
    return Cover("", tuple(omitted), words)


def _words(
    theirs: Signature, reading: Reading, limits: tuple[Limit, ...], fixed: tuple[tuple[str, Any], ...]
) -> Words:
    there = theirs.parameters
    return Words(
        theirs,
        tuple(name for name, each in there.items() if each.kind in _POSITIONAL),
        tuple((name, ours) for name, ours in reading.names.items() if name in there),
        limits,
        tuple((name, values) for name, values in reading.differs.items() if name in there),
        fixed,
        reading.returns,
        reading.into,
    )


def among(value: Any, values: tuple[Any, ...]) -> bool:
    """Is ``value``, which may be a tensor, one of ``values``?"""
    for each in values:
        if each is ANY or value is each:
            return True
    # None is no other value, which is what most calls ask here.
    return value is not None and any(each is not None and same(value, each) for each in values)


def _lacks(place: int, name: str, ours: Signature, reading: Reading) -> str:
    if name in reading.nothing:
        return f"ours has no parameter {name}, and no value of it makes AITER's do what ours does"
    there = [*ours.parameters]
    instead = f", which has {there[place]} in that place" if place < len(there) else ""
    return f"ours has no parameter {name}{instead}"


def _moved(place: int, mine: Parameter, ours: Signature) -> bool:
    return mine.kind not in _POSITIONAL or [*ours.parameters].index(mine.name) != place


def same(one: Any, other: Any) -> bool:
    """Members of enumerations are their numbers."""
    one, other = (getattr(each, "value", each) for each in (one, other))
    if type(one) is not type(other) and not {type(one), type(other)} <= {int, float}:
        return False
    return bool(one == other)
