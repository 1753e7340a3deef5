"""Choose the function of ours that replaces one of AITER's."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import aiter_prebuilt
from aiter_prebuilt.errors import (
    AiterPrebuiltError,
    ArgumentAlignmentError,
    ArgumentDTypeError,
    ArgumentError,
    ArgumentShapeError,
    ArgumentStrideError,
    NoBundleError,
    NoKernelError,
    NoOperatorError,
    UnsupportedError,
)
from aiter_prebuilt.tracing.signatures import load
from aiter_prebuilt_bridge import (
    adapted,
    argument_mapping,
    lookup_log,
    machine,
    semantic_changes,
    signature_map,
)
from aiter_prebuilt_bridge.signature_check import Cover, Omitted, Words, compare

#: Raised before anything is launched, of calls that ours do not serve and AITER's may: they go to AITER's own function.
FORMS: Final = (
    UnsupportedError, NoKernelError, NoOperatorError, NoBundleError, ArgumentDTypeError, ArgumentStrideError,
    ArgumentAlignmentError,
)  # fmt: skip
#: These, and calls that are wrong by all that ours know (sizes that contradict each other, no tensor, memory of the host):
#: AITER's own function is asked as far as it is compiled.
REFUSALS: Final = (*FORMS, ArgumentError)
#: What the native call says of a tensor whose shape is none of ours by itself: its rank, and a dim that the signature has as a
#: number.
_RANK: Final = re.compile(r" must be \[.*\], got \[.*\] \(-?\d+ dims\)")
_NUMBER: Final = re.compile(r" must be \[(.*?)\], got \[.*\]: dim (\d+) must be ")
#: AITER's take a weight of more columns than the rows have.
_UNEQUAL: Final = frozenset({"gemm_a8w8_bpreshuffle"})
#: What these hand each other is a number of ours: none of them can be AITER's where one is ours.
TOGETHER: Final = frozenset(
    name for name, home in aiter_prebuilt.ops.COMPOSED.items() if home == "quick_all_reduce"
)
MARK: Final = "_aiter_prebuilt_bridge"
#: How Dynamo knows what to trace in the place of a function.
_TRACED: Final = "_torchdynamo_inline"


def is_replacement(value: object) -> bool:
    """Was ``value`` made here?"""
    return hasattr(value, MARK)


@cache
def ours(name: str) -> tuple[Any, str]:
    """Our function ``name``, or why there is none."""
    if name.startswith(adapted.PREFIX):
        return getattr(adapted, name.removeprefix(adapted.PREFIX)), _elsewhere(
            name.removeprefix(adapted.PREFIX)
        )
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
    """Return a function's signature; None when it has none."""
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


def ways_of(module: str, name: str) -> tuple[tuple[signature_map.Reading, ...], str]:
    """List the ways in which ours may read a call.

    The text says why the installed AITER's meaning is unknown, or "".
    """
    found = semantic_changes.of(module, name)
    return (signature_map.of(module, name), "") if found is None else ((found[0],), found[1])


def _decided(module: str, name: str, signature: inspect.Signature | None) -> tuple[Any, Cover]:
    ways, why = ways_of(module, name)
    if why:
        return None, Cover(why)
    decided = [_read(name, signature, reading) for reading in ways]
    return next((each for each in decided if each[0] is not None), decided[0])


def _read(
    name: str, signature: inspect.Signature | None, reading: signature_map.Reading
) -> tuple[Any, Cover]:
    function, why = ours(reading.ours or name)
    if why:
        return None, Cover(why)
    if signature is None:
        return None, Cover("nothing says which parameters it has")
    cover = compare(signature, inspect.signature(function), reading)
    return (None if cover.why else function), cover


def is_form(error: AiterPrebuiltError, name: str = "") -> bool:
    """Is it a call of ``name`` that ours do not serve and AITER's may, or is the call wrong?"""
    if not isinstance(error, ArgumentShapeError) or name in _UNEQUAL:
        return isinstance(error, (*FORMS, ArgumentShapeError))
    told = _NUMBER.search(error.found)
    number = told is not None and told[1].split(", ")[int(told[2])].isdigit()
    return number or _RANK.search(error.found) is not None


def through(
    function: Any,
    theirs: Callable[..., Any],
    module: str,
    omitted: tuple[Omitted, ...] = (),
    words: Words | None = None,
) -> Callable[..., Any]:
    """Call our ``function``, or ``theirs`` if ours refuses.

    A refusal is logged once. Our error stands where ``theirs`` would have to be compiled for the call, of a wrong call, and of
    each when the bridge is strict.
    """
    name = function.__name__
    called = _put(function, omitted, words, None)
    refusals = () if name in TOGETHER else REFUSALS

    def replacement(*args: Any, **keywords: Any) -> Any:
        try:
            return called(*args, **keywords)
        except refusals as error:
            lookup_log.once(name, f"a call goes to AITER's own function: {error.asked}: {error.found}")
            # Strict is about compiles: AITER's may have this kernel ready, from a data wheel.
            wrong = error if lookup_log.strict() or not is_form(error, name) else None
            with lookup_log.asking(name, wrong):
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
    """Give our ``function`` AITER's call.

    ``theirs`` takes calls that ours cannot; None: they are refused.
    """
    if words is not None:
        return argument_mapping.put(function, omitted, words, theirs)
    return _filled(function, omitted) if omitted else function


def _filled(function: Any, omitted: tuple[Omitted, ...]) -> Callable[..., Any]:
    """Fill left-out arguments with AITER's meaning."""
    rows = [(each.place, each.name, each.value) for each in omitted]

    def filled(*args: Any, **keywords: Any) -> Any:
        given = len(args)
        for place, name, value in rows:
            if given <= place and name not in keywords:
                keywords[name] = value
        return function(*args, **keywords)

    return filled
