"""Which of our functions stands in the place of one of AITER's, and the function that does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import aiter_prebuilt
from aiter_prebuilt.errors import (
    AiterPrebuiltError,
    ArgumentError,
    NoBundleError,
    NoKernelError,
    NoOperatorError,
    UnsupportedError,
)
from aiter_prebuilt.signatures import load
from aiter_prebuilt_bridge import machine, readings, record, wording
from aiter_prebuilt_bridge.covers import Cover, Omitted, Words, compare

#: Raised before anything is launched: the call can still go to AITER's own function.
REFUSALS: Final = (UnsupportedError, NoKernelError, NoOperatorError, NoBundleError, ArgumentError)
#: Names that mean something else there than here: module (and all below it) and name -> what.
OTHERS: Final[Mapping[tuple[str, str], str]] = {}
MARK: Final = "_aiter_prebuilt_bridge"
#: How Dynamo knows what to trace in the place of a function.
_TRACED: Final = "_torchdynamo_inline"


def is_replacement(value: object) -> bool:
    """Was ``value`` made here?"""
    return hasattr(value, MARK)


@cache
def ours(name: str) -> tuple[Any, str]:
    """Our function ``name``, or why there is none."""
    if name not in aiter_prebuilt.__all__:
        return None, "there is no function of ours with this name"
    try:
        found = getattr(aiter_prebuilt, name)
    except AiterPrebuiltError as error:
        return None, str(error)
    if not inspect.isfunction(found):
        return None, f"ours is no function but a {type(found).__name__}"
    return found, _elsewhere(name)


def _elsewhere(name: str) -> str:
    """Why the GPUs of this machine have no kernel of it, or ""."""
    signature = load().get(name)
    targets = {gpu.target for gpu in machine.gpus()}
    if signature is None or not targets or targets & signature.targets.keys():
        return ""
    return f"it has kernels for {' and '.join(signature.targets)} only"


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """What ``function`` takes, as it was written; None when nobody says."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def decide(module: str, names: tuple[str, ...], signature: inspect.Signature | None) -> tuple[Any, Cover]:
    """Our function for one of AITER's in ``module``, and how it covers that; None with the reason why that stays. ``names``: its
    own, then that of the native function which a stub stands for.
    """
    covers = [_decided(module, name, signature) for name in dict.fromkeys(names)]
    return next((each for each in covers if each[0] is not None), covers[0])


def _decided(module: str, name: str, signature: inspect.Signature | None) -> tuple[Any, Cover]:
    reading = readings.of(module, name)
    function, why = ours(reading.ours or name)
    if why:
        return None, Cover(why)
    for (place, other), meaning in OTHERS.items():
        if name == other and (module == place or module.startswith(f"{place}.")):
            return None, Cover(meaning)
    if signature is None:
        return None, Cover("nothing says which parameters it has")
    cover = compare(signature, inspect.signature(function), reading)
    return (None if cover.why else function), cover


def through(
    function: Any,
    theirs: Callable[..., Any],
    module: str,
    omitted: tuple[Omitted, ...] = (),
    words: Words | None = None,
) -> Callable[..., Any]:
    """``function``, which is ours; a call that it refuses goes to ``theirs``, and is logged once, unless the bridge is strict."""
    name = function.__name__
    called = _put(function, omitted, words, None)

    def replacement(*args: Any, **keywords: Any) -> Any:
        try:
            return called(*args, **keywords)
        except REFUSALS as error:
            if record.strict():
                raise
            record.once(name, f"a call goes to AITER's own function: {error.asked}: {error.found}")
            with record.asking(name):
                return theirs(*args, **keywords)

    replacement.__name__ = replacement.__qualname__ = name
    replacement.__doc__, replacement.__module__ = function.__doc__, module
    given: Any = replacement
    given.__signature__ = inspect.signature(function) if words is None else words.theirs
    setattr(given, MARK, theirs)
    traced = getattr(function, _TRACED, None)
    if traced is not None:
        setattr(given, _TRACED, _put(traced, omitted, words, theirs))
    return replacement


def _put(
    function: Any, omitted: tuple[Omitted, ...], words: Words | None, theirs: Callable[..., Any] | None
) -> Callable[..., Any]:
    """``function`` as AITER's is called. ``theirs``: what takes a call that ours cannot; None: that is a refusal."""
    if words is not None:
        return wording.put(function, omitted, words, theirs)
    return _filled(function, omitted) if omitted else function


def _filled(function: Any, omitted: tuple[Omitted, ...]) -> Callable[..., Any]:
    """``function`` with what AITER's means by arguments that a call leaves out."""
    rows = [(each.place, each.name, each.value) for each in omitted]

    def filled(*args: Any, **keywords: Any) -> Any:
        given = len(args)
        for place, name, value in rows:
            if given <= place and name not in keywords:
                keywords[name] = value
        return function(*args, **keywords)

    return filled
