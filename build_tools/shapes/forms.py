"""The grammar of a client's call: ``"rms_norm(bf16[M, H], bf16[H], eps)"`` -> :class:`Form`.

bf16[M, H]              a tensor: its type (``fp8``: the target's own e4m3) and its dims, expressions of the model's sizes
f32[()]                 a tensor without dims: one number
strided(bf16[M, H], row, 1)     one whose elements lie so far apart
bf16                    an argument that is an element type
eps, (-1, 0), "auto", 0.5, None, True       a real of the model, or a value as Python writes it
S * cdiv(C, 16)         an integer, computed from the model's sizes
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aiter_prebuilt.contract.dtype import BY_NAME, TARGET_FP8
from build_tools.manifest.python import Parameter

_STRIDED: Final = "strided"
#: Functions of the integer language: no sizes.
_FUNCTIONS: Final = frozenset(("cdiv", "min", "max", "log2"))
TYPES: Final = frozenset((*BY_NAME, TARGET_FP8))


class FormError(ValueError):
    """A call that is not of this grammar, or that does not fit a function's parameters."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in words. ``strides``: dense when None."""

    dtype: str
    dims: tuple[str, ...]
    strides: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Type:
    """An argument that is an element type."""

    name: str


@dataclass(frozen=True, slots=True)
class Size:
    """An integer that the model's sizes give, or a real of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it is."""

    value: Any


Value: TypeAlias = "Tensor | Type | Size | Literal"


@dataclass(frozen=True, slots=True)
class Form:
    """One call: what it calls, what by position, what by name."""

    function: str
    positional: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]

    def values(self) -> tuple[Value, ...]:
        """All arguments."""
        return (*self.positional, *(value for _, value in self.keywords))

    def texts(self) -> Iterator[str]:
        """Every expression of sizes in it."""
        for value in self.values():
            if isinstance(value, Tensor):
                yield from (*value.dims, *(value.strides or ()))
            elif isinstance(value, Size):
                yield value.text


def parse(text: str) -> Form:
    """Return the call that ``text`` writes.

    Raises:
        FormError: it is none.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise FormError(f"{text!r} is no call: {error}") from None
    if not isinstance(node, ast.Call):
        raise FormError(f"{text!r} is no call")
    keywords = []
    for keyword in node.keywords:
        if keyword.arg is None:
            raise FormError(f"{text!r}: a call names its arguments one by one")
        keywords.append((keyword.arg, _value(keyword.value)))
    return Form(ast.unparse(node.func), tuple(_value(each) for each in node.args), tuple(keywords))


def _value(node: ast.expr) -> Value:
    if isinstance(node, ast.Subscript):
        return _tensor(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _STRIDED:
        if not node.args or not isinstance(node.args[0], ast.Subscript):
            raise FormError(f"{ast.unparse(node)!r}: the first is a tensor, the others are its strides")
        tensor = _tensor(node.args[0])
        strides = tuple(map(ast.unparse, node.args[1:]))
        if len(strides) != len(tensor.dims):
            raise FormError(f"{ast.unparse(node)!r}: {len(tensor.dims)} dims and {len(strides)} strides")
        return Tensor(tensor.dtype, tensor.dims, strides)
    if isinstance(node, ast.Name) and node.id in TYPES:
        return Type(node.id)
    try:
        return Literal(ast.literal_eval(node))
    except ValueError:
        return Size(ast.unparse(node))


def _tensor(node: ast.Subscript) -> Tensor:
    if not isinstance(node.value, ast.Name) or node.value.id not in TYPES:
        raise FormError(f"{ast.unparse(node.value)!r} is no element type: one of {', '.join(sorted(TYPES))}")
    inner = node.slice
    dims = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    return Tensor(node.value.id, tuple(map(ast.unparse, dims)))


def names(text: str) -> frozenset[str]:
    """List the names in an expression.

    Raises:
        FormError: it is no expression.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise FormError(f"{text!r} is no expression") from None
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)) - _FUNCTIONS


def bind(form: Form, parameters: Sequence[Parameter]) -> dict[str, Value]:
    """Parameter -> argument, as Python binds them.

    Raises:
        FormError: a parameter too few, an argument too many, a tensor where there is none.
    """
    if len(form.positional) > len(parameters):
        raise FormError(f"{len(form.positional)} by position, and it has {len(parameters)} parameters")
    found = {parameter.name: value for parameter, value in zip(parameters, form.positional, strict=False)}
    known = {parameter.name: parameter for parameter in parameters}
    for name, value in form.keywords:
        if name not in known:
            raise FormError(f"it has no parameter {name!r}")
        if name in found:
            raise FormError(f"{name!r} is given by position, too")
        found[name] = value
    for name, parameter in known.items():
        if name not in found:
            if parameter.required:
                raise FormError(f"{name!r} is missing")
        elif is_tensor(found[name]) is False and parameter.kind == "Tensor":
            raise FormError(f"{name!r} is a tensor")
        elif is_tensor(found[name]) and parameter.kind != "Tensor":
            raise FormError(f"{name!r} is no tensor")
    return found


def is_tensor(value: Value) -> bool | None:
    """Is it one? None: it is None, which may stand for one."""
    if isinstance(value, Literal) and value.value is None:
        return None
    return isinstance(value, Tensor)
