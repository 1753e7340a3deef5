"""Texts of a manifest to bytecode: integer expressions and computed floats, each compiled once for all variants in which it means
the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from aiter_prebuilt.contract.bytecode import ExpressionError, constant_value
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.real import compile_real
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan.slots import Slots

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def code_of(text: str | int | None, scope: Scope, problems: Problems, *path: str | int) -> bytes:
    """Bytecode of an integer expression, empty for none; what is wrong goes to ``problems``."""
    if text is None:
        return b""
    try:
        return _compiled(text, names_of(text), scope)
    except ExpressionError as error:
        problems.add(str(error), *path)
        return b""


@lru_cache(maxsize=8192)
def names_of(text: str | int) -> tuple[str, ...]:
    """Whatever in ``text`` could be a name."""
    return tuple(_NAME.findall(text)) if isinstance(text, str) else ()


#: Bytecode by text, the slots that it may use and what its names mean: most of the texts of a kernel mean the same in all of its
#: variants, and there may be hundreds.
_COMPILED: Final[dict[tuple[object, ...], bytes]] = {}


def _compiled(text: str | int, names: tuple[str, ...], scope: Scope) -> bytes:
    if scope.key is None:
        return compile_expression(text, scope)
    key = (text, scope.key, *map(scope.words.get, names))
    if key not in _COMPILED:
        _COMPILED[key] = compile_expression(text, scope)
    return _COMPILED[key]


def constant_of(text: str | int, code: bytes, problems: Problems, *path: str | int) -> int | None:
    """Return the value of a program that needs no call.

    None when it does.
    """
    try:
        return _value(code)
    except ExpressionError as error:
        problems.add(f"{text!r} cannot be computed: {error}", *path)
        return None


#: Programs of conditions, most of which are those of the variants before.
_value: Final = lru_cache(maxsize=8192)(constant_value)


def meaning(text: str, scope: Scope) -> tuple[object, ...]:
    """Return the meaning of a text in ``scope``, slots included."""
    return (scope.key, *map(scope.words.get, names_of(text)))


def meanings(texts: Iterable[str], scope: Scope) -> tuple[object, ...]:
    """Return the meaning of these texts' names in ``scope``, without slots.

    It is equal for two variants in which the texts mean the same.
    """
    return _meanings(_all_names(tuple(texts)), scope)


@lru_cache(maxsize=2048)
def _all_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in names_of(text)))


def _meanings(names: Iterable[str], scope: Scope) -> tuple[object, ...]:
    return tuple(map(scope.words.get, names))


def real_of(text: str, slots: Slots, scope: Scope, problems: Problems) -> bytes:
    """Bytecode of a computed float; what is wrong goes to ``problems``."""
    key = ("f32", text, scope.key, _meanings(names_of(text), scope))
    try:
        if key not in _COMPILED:
            _COMPILED[key] = compile_real(text, scope.slots, slots.floats, scope.constants)
        return _COMPILED[key]
    except ExpressionError as error:
        if text.isidentifier():
            problems.add(f"{text!r} is not a float attribute{suggestion(text, slots.floats)}")
        else:
            problems.add(str(error))
        return b""
