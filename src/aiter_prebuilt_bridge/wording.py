"""A call of AITER's put to ours in other words: by name, without the options that ours lack."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt_bridge.covers import Omitted, Words, among


def put(
    function: Any, omitted: tuple[Omitted, ...], words: Words, theirs: Callable[..., Any] | None
) -> Callable[..., Any]:
    """``function``, which is ours, with AITER's parameters. ``theirs``: what takes a call that ours cannot; None: that is a
    refusal, an UnsupportedError.
    """
    order, renamed, places = words.order, dict(words.names), len(words.order)
    limits = [(each.name, each.default, each.values) for each in words.limits]
    defaults = [(each.name, each.value) for each in omitted]

    def worded(*args: Any, **keywords: Any) -> Any:
        if len(args) > places:
            raise TypeError(
                f"{function.__name__}() takes {places} positional arguments, {len(args)} were given"
            )
        given = dict(zip(order, args, strict=False))
        twice = given.keys() & keywords.keys()
        if twice:
            raise TypeError(f"{function.__name__}() got two values of {', '.join(sorted(twice))}")
        given.update(keywords)
        for name, default, values in limits:
            value = given.pop(name, default)
            if value is Parameter.empty:
                raise TypeError(f"{function.__name__}() needs {name}")
            if not among(value, values):
                return _beyond(name, value, values, args, keywords)
        for name, value in defaults:
            given.setdefault(name, value)
        for name, values in words.differs:
            if among(given.get(name), values):
                return _beyond(name, given.get(name), (), args, keywords)
        return function(**{renamed.get(name, name): value for name, value in given.items()})

    def _beyond(name: str, value: Any, values: tuple[Any, ...], args: Any, keywords: Any) -> Any:
        if theirs is not None:
            return theirs(*args, **keywords)
        shown = (
            repr(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
        )
        served = f"; with {', '.join(map(repr, values))} ours does" if values else ""
        raise UnsupportedError(
            f"{function.__name__}({name}={shown})",
            f"ours does not do what AITER's does with it{served}",
            f"Leave {name} to AITER's own function",
        )

    return worded
