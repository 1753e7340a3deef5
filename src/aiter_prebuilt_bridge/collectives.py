"""``CustomAllreduce``, the class that servers make one of for each group of GPUs: ours, where it takes the calls of AITER's.

A method that ours lacks, or that takes other parameters, is AITER's own: of a communicator that is made, in all ranks, when such
a method is first called, since all ranks make the same calls in the same order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any, Final

from aiter_prebuilt_bridge import lookup_log, serving
from aiter_prebuilt_bridge.signature_check import compare

MODULE: Final = "aiter.dist.device_communicators.custom_all_reduce"
NAME: Final = "CustomAllreduce"
#: Without these ours is of no use to whoever makes one.
_ESSENTIAL: Final = ("__init__", "capture", "should_custom_ar", "all_reduce", "custom_all_reduce", "close")
_OWN: Final = "_aiters"


def replace(module: ModuleType) -> None:
    """After the module was executed, before anybody took the class from it."""
    theirs = vars(module).get(NAME)
    if not inspect.isclass(theirs) or serving.is_replacement(theirs):
        return
    from aiter_prebuilt import CustomAllreduce

    whys = dict(_compared(theirs, CustomAllreduce))
    asked = ((name, whys.get(name, "AITER's has none")) for name in _ESSENTIAL)
    first = next((f"{name}: {why}" for name, why in asked if why), "")
    lookup_log.keep(lookup_log.Name(module.__name__, NAME, "public", first, ours="" if first else NAME))
    for name, why in whys.items():
        ours = "" if first or why else f"{NAME}.{name}"
        lookup_log.keep(lookup_log.Name(module.__name__, f"{NAME}.{name}", "public", first or why, ours=ours))
    if not first:
        setattr(module, NAME, _made(CustomAllreduce, theirs, [name for name, why in whys.items() if why]))


def _compared(theirs: type, mine: type) -> Iterator[tuple[str, str]]:
    """Each public method of AITER's, and why ours does not take its calls, or ""."""
    for name, method in vars(theirs).items():
        if not inspect.isfunction(inspect.unwrap(method)) or (name.startswith("_") and name != "__init__"):
            continue
        own = getattr(mine, name, None)
        if own is None:
            yield name, "ours has no such method"
            continue
        cover = compare(inspect.signature(method), inspect.signature(own))
        moved = next((f"{each.name} means {each.value!r} when it is left out" for each in cover.omitted), "")
        yield name, cover.why or moved


def _made(mine: type[Any], theirs: type[Any], lacking: list[str]) -> type[Any]:
    """Ours under AITER's name, with AITER's own methods where ours lacks them."""

    def init(self: Any, *args: Any, **keywords: Any) -> None:
        self.__dict__[_OWN] = lambda: theirs(*args, **keywords)
        mine.__init__(self, *args, **keywords)
        if self._pool is not None:
            self._pool.__class__ = _pool_of(type(self._pool))

    def close(self: Any) -> None:
        own = self.__dict__.get(_OWN)
        if isinstance(own, theirs):
            own.close()
        mine.close(self)

    # AITER's own methods find constants and helpers of their class by its name, which is ours now.
    body: dict[str, Any] = {
        name: value
        for name, value in vars(theirs).items()
        if not inspect.isfunction(inspect.unwrap(value)) and not hasattr(mine, name)
    }
    body |= {"__init__": wraps(mine.__init__)(init), "close": wraps(mine.close)(close)}
    body |= {name: _own(name, getattr(theirs, name), theirs) for name in lacking}
    made = type(NAME, (mine,), {"__module__": theirs.__module__, "__doc__": mine.__doc__, **body})
    setattr(made, serving.MARK, theirs)
    return made


class _Buffer:
    """Memory of AITER's communicator that others keep and nobody reads."""

    tensor, data_ptr, max_size = None, 0, 0


def _pool_of(blocks: type[Any]) -> type[Any]:
    """Our memory, which AITER's ``init_dist_env`` also asks for a buffer by its name, as it does its own."""
    return type(blocks.__name__, (blocks,), {"__getitem__": lambda _self, _name: _Buffer()})


def _own(name: str, method: Callable[..., Any], theirs: type[Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: Any, *args: Any, **keywords: Any) -> Any:
        whole = f"{NAME}.{name}"
        with lookup_log.asking(whole):
            if not isinstance(self.__dict__[_OWN], theirs):
                lookup_log.once(whole, "a call goes to a communicator of AITER's own, which is made now")
                self.__dict__[_OWN] = self.__dict__[_OWN]()
            return getattr(self.__dict__[_OWN], name)(*args, **keywords)

    return called
