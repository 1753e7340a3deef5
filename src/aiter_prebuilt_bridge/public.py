"""Public names of AITER's modules: those that ours can stand for become ours as soon as their module was executed, before others
copy them (``from .ops.x import *``).
"""

from __future__ import annotations

import inspect
import os
import sys
from types import ModuleType
from typing import Any

from aiter_prebuilt_bridge import lookup_log, serving
from aiter_prebuilt_bridge.signature_check import compare
from aiter_prebuilt_bridge_hook import VARIABLE


def replace(module: ModuleType) -> None:
    """After ``module`` was executed: the functions that it defines under names of ours."""
    names = vars(module)
    for name, value in [*names.items()]:
        if not _is_own(module, value) or not any(
            serving.ours(way.ours or name)[0] for way in serving.ways_of(module.__name__, name)[0]
        ):
            continue
        mine, cover = serving.decide(module.__name__, (name,), serving.signature_of(value))
        own = mine.__name__ if mine else ""
        lookup_log.keep(
            lookup_log.Name(module.__name__, name, "public", cover.why, ours=own, words=cover.words)
        )
        if mine is not None:
            names[name] = serving.through(mine, value, module.__name__, cover.omitted, cover.words)
    _together(names)
    if module.__name__ == "aiter.tuned_gemm":
        _replace_method(names.get("tgemm"))


def _together(names: dict[str, Any]) -> None:
    """Functions that share a state are AITER's again where one of them is."""
    there = [name for name in names if name in serving.TOGETHER]
    stays = [name for name in there if not serving.is_replacement(names[name])]
    for name in there:
        if stays and name not in stays:
            names[name] = getattr(names[name], serving.MARK)
            lookup_log.withdraw(
                names[name].__module__, name, f"{stays[0]} stays AITER's, and they share a state"
            )


def _is_own(module: ModuleType, value: object) -> bool:
    return (
        inspect.isroutine(value)
        and getattr(value, "__module__", None) == module.__name__
        and not serving.is_replacement(value)
    )


def _replace_method(tgemm: Any) -> None:
    """``tgemm.mm``: the object stays AITER's, clients ask it for more than the product."""
    if tgemm is None:
        return
    from aiter_prebuilt import tgemm as mine

    cover = compare(inspect.signature(tgemm.mm), inspect.signature(mine.mm))
    lookup_log.keep(
        lookup_log.Name(
            "aiter.tuned_gemm", "tgemm.mm", "public", cover.why, ours="" if cover.why else "tgemm.mm"
        )
    )
    if not cover.why:
        tgemm.mm = serving.through(_function(mine.mm), tgemm.mm, "aiter.tuned_gemm", cover.omitted)


def _function(method: Any) -> Any:
    """Wrap a method as a function of its caller's arguments."""

    def mm(*args: Any, **keywords: Any) -> Any:
        return method(*args, **keywords)

    given: Any = mm
    given.__doc__, given.__signature__ = method.__doc__, inspect.signature(method)
    return mm


def finish(package: ModuleType) -> None:
    """After ``aiter`` was executed: names that a circle of imports copied before they were replaced."""
    made = {
        id(getattr(value, serving.MARK)): value
        for name, module in [*sys.modules.items()]
        if name.startswith("aiter.") and module is not None
        for value in [*vars(module).values()]
        if serving.is_replacement(value)
    }
    for name, module in [*sys.modules.items()]:
        if name == "aiter" or name.startswith("aiter."):
            for key, value in [*vars(module).items()]:
                if id(value) in made:
                    vars(module)[key] = made[id(value)]
    said = os.environ.get(VARIABLE, "")
    if said not in ("", "1", "strict"):
        lookup_log.LOGGER.warning(
            "Invalid value %s=%s: use 0 or strict. The bridge stays enabled.", VARIABLE, said
        )
    replaced = sum(row.replaced for row in lookup_log.NAMES.values())
    lookup_log.LOGGER.info(
        "%s: %d names are ours, %d stay AITER's", package.__name__, replaced, len(lookup_log.NAMES) - replaced
    )
