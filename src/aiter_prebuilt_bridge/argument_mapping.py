"""Call ours with AITER's arguments: by name, without the options that ours lack."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt_bridge.signature_check import Omitted, Words, among


def put(
    function: Any, omitted: tuple[Omitted, ...], words: Words, theirs: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Give our ``function`` AITER's parameters.

    ``theirs`` takes calls that ours cannot; None: that is a refusal, an UnsupportedError.
    """
    order, renamed, differs, fixed = words.order, words.names, words.differs, dict(words.fixed)
    limits = [(each.name, each.default, each.values) for each in words.limits]
    defaults = [(each.name, each.value) for each in omitted]

    def worded(*args: Any, **keywords: Any) -> Any:
        given = dict(zip(order, args, strict=False))
        if keywords or len(args) > len(order):
            _check(function.__name__, order, args, keywords)
            given.update(keywords)
        for name, default, values in limits:
            value = given.pop(name, default)
            if value is Parameter.empty:
                raise TypeError(f"{function.__name__}() needs {name}")
            if not among(value, values):
                return _beyond(name, value, values, args, keywords)
        for name, value in defaults:
            given.setdefault(name, value)
        for name, values in differs:
            if among(given.get(name), values):
                return _beyond(name, given.get(name), (), args, keywords)
        into = given.pop(words.into, None) if words.into else None
        _rename(given, renamed)
        given.update(fixed)
        result = function(**given)
        if into is not None:
            return _written(function.__name__, words.into, into, result)
        return result if not words.returns else _returned(given, words.returns)

    def _beyond(name: str, value: Any, values: tuple[Any, ...], args: Any, keywords: Any) -> Any:
        if theirs is not None:
            return theirs(*args, **keywords)
        raise _refusal(function.__name__, name, value, values)

    return worded


def _check(name: str, order: tuple[str, ...], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Check a call's arguments as Python does."""
    if len(args) > len(order):
        raise TypeError(f"{name}() takes {len(order)} positional arguments, {len(args)} were given")
    twice = [each for each in order[: len(args)] if each in keywords]
    if twice:
        raise TypeError(f"{name}() got two values of {', '.join(twice)}")


def _refusal(function: str, name: str, value: Any, values: tuple[Any, ...]) -> UnsupportedError:
    shown = repr(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
    served = f"; with {', '.join(map(repr, values))} ours does" if values else ""
    return UnsupportedError(
        f"{function}({name}={shown})",
        f"ours does not do what AITER's does with it{served}",
        f"Leave {name} to AITER's own function",
    )


def _written(function: str, name: str, into: Any, result: Any) -> Any:
    """``into``, with the result in it. It may have other strides, and neither another shape nor another type."""
    if into.shape != result.shape or into.dtype != result.dtype:
        raise UnsupportedError(
            f"{function}({name} of {tuple(into.shape)} {into.dtype})",
            f"the result is of {tuple(result.shape)} {result.dtype}",
            f"Leave {name} to AITER's own function, or leave it out",
        )
    into.copy_(result)
    return into


def _returned(given: dict[str, Any], names: tuple[str, ...]) -> Any:
    return given[names[0]] if len(names) == 1 else tuple(given[name] for name in names)


def _rename(given: dict[str, Any], names: tuple[tuple[str, str], ...]) -> None:
    for name, ours in names:
        if name in given:
            given[ours] = given.pop(name)
