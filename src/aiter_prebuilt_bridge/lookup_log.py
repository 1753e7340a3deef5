"""Record each AITER name that the bridge looked at, and its fate.

The record is of this process.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import Final

from aiter_prebuilt_bridge.errors import CompileRefusedError
from aiter_prebuilt_bridge.signature_check import Words
from aiter_prebuilt_bridge_hook import VARIABLE

LOGGER: Final = logging.getLogger("aiter_prebuilt_bridge")


@dataclass(frozen=True, slots=True)
class Name:
    """One function of AITER's. ``way``: how AITER reaches it (``pybind``, ``develop``, ``ctypes``: a stub of its JIT; ``torch``:
    it is registered with torch; ``public``: a plain function). ``why``: why it stays AITER's, "" when ours stands in its place.
    ``compiles``: the JIT's module that a call of AITER's would need. ``ours``: the function that stands in its place; ``words``:
    how a call is put to it, where that is not word by word.
    """

    module: str
    name: str
    way: str
    why: str
    compiles: str = ""
    ours: str = ""
    words: Words | None = None

    @property
    def replaced(self) -> bool:
        """Does ours stand in its place?"""
        return not self.why


#: By module and name. A stub that becomes a public name stands here once.
NAMES: Final[dict[tuple[str, str], Name]] = {}
#: Functions of AITER that ask the machine and were answered.
ANSWERED: Final[set[str]] = set()
_LOGGED: Final[set[tuple[str, str]]] = set()
_ASKED: Final = threading.local()


def strict() -> bool:
    """Must no compiler start?"""
    return os.environ.get(VARIABLE) == "strict"


def keep(name: Name) -> None:
    """Remember what became of a name; the first word counts."""
    NAMES.setdefault((name.module, name.name), name)


def withdraw(module: str, name: str, why: str) -> None:
    """Give a name back to AITER."""
    before = NAMES[module, name]
    NAMES[module, name] = replace(before, why=why, ours="", words=None)


def answered(function: str) -> None:
    """Remember that ``function`` is answered."""
    ANSWERED.add(function)


def once(name: str, text: str) -> None:
    """Log ``text`` about ``name``, once."""
    if (name, text) not in _LOGGED:
        _LOGGED.add((name, text))
        LOGGER.warning("%s: %s", name, text)


class asking:  # noqa: N801  # used as a statement
    """``with asking(name):`` around a call of AITER's own ``name``: what is compiled meanwhile is compiled for it. ``wrong``: the
    error that is raised in place of a compile, since the call is one.
    """

    def __init__(self, name: str, wrong: Exception | None = None) -> None:
        self._name, self._wrong = name, wrong

    def __enter__(self) -> None:
        self._before = getattr(_ASKED, "name", ""), getattr(_ASKED, "wrong", None)
        _ASKED.name, _ASKED.wrong = self._name, self._before[1] or self._wrong

    def __exit__(self, *_: object) -> None:
        _ASKED.name, _ASKED.wrong = self._before


def running_function() -> str:
    """Name the AITER function that is running, if one is."""
    return getattr(_ASKED, "name", "")


def compiling(module: str) -> None:
    """AITER's JIT is about to compile ``module``.

    Raises:
        CompileRefusedError: the bridge is strict. The error of ours that says what is wrong with the call which asks for it.
    """
    wrong: Exception | None = getattr(_ASKED, "wrong", None)
    if wrong is not None:
        once(
            module,
            f"AITER does not compile it for a call that is wrong; {VARIABLE}=0 leaves the call to AITER",
        )
        raise wrong
    name = running_function() or "a function of AITER"
    whys = [row.why for row in NAMES.values() if row.name == name and row.why]
    why = whys[0] if whys else "it is not served from prebuilt kernels"
    if strict():
        raise CompileRefusedError(
            f"call {name}",
            f"AITER would compile {module} now, because {why}",
            f"Unset {VARIABLE} to let it; aiter-prebuilt bridge status says what is served",
        )
    once(name, f"AITER compiles {module}, because {why}")
