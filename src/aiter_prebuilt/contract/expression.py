"""The integer language of manifests: predicates, grids, sizes, costs and kernel arguments.

    expression  := integers, names, + - * // % << >>, comparisons (chained too), and / or / not,
                   A if C else B, cdiv(a, b), min(a, b, ...), max(a, b, ...), log2(a),
                   aligned(tensor, bytes), given(tensor), enum_attribute == 'name',
                   text_attribute == 'text', text_attribute == string_constant, string_constant == 'text'

A text attribute is compared by :func:`text_number`.

Everything is a 64-bit signed integer; true is 1 and false is 0; ``//`` and ``%`` round towards
minus infinity as in Python; ``cdiv`` rounds towards plus infinity. ``a << b`` is a times 2 to the b,
``a >> b`` a divided by it, rounded towards minus infinity (b from 0 to 63); ``log2(a)`` is the largest b
with 1 << b <= a. Overflow, division by zero and the log2 of what is not positive are errors, never a
wrapped number. ``and``, ``or`` and ``if`` evaluate only what they need, so
``N and M % N == 0`` is safe.

Text is parsed once, when a bundle is built, and compiled to the bytecode of ``bytecode.py``.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

from aiter_prebuilt.contract.bytecode import (
    ADD,
    BOOL,
    CDIV,
    EQ,
    FLOORDIV,
    GE,
    GT,
    INT64_MAX,
    INT64_MIN,
    JUMP,
    JUMP_IF_FALSE,
    JUMP_IF_FALSE_KEEP,
    JUMP_IF_TRUE_KEEP,
    LE,
    LOAD,
    LOG2,
    LT,
    MAX,
    MAX_CODE,
    MIN,
    MOD,
    MUL,
    NE,
    NEG,
    NOT,
    PUSH8,
    PUSH64,
    SHL,
    SHR,
    SUB,
    ExpressionError,
    check,
    run,
    text_number,
)

_BINARY: Final[dict[type[ast.operator], int]] = {
    ast.Add: ADD,
    ast.Sub: SUB,
    ast.Mult: MUL,
    ast.FloorDiv: FLOORDIV,
    ast.Mod: MOD,
    ast.LShift: SHL,
    ast.RShift: SHR,
}
_COMPARE: Final[dict[type[ast.cmpop], int]] = {
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
}
_FOLD: Final[dict[str, int]] = {"cdiv": CDIV, "min": MIN, "max": MAX}


class Scope:
    """The names an expression may use.

    ``constants`` are folded into the bytecode; ``slots`` are looked up when it runs. A tensor ``x`` has the slots ``&x`` (its
    address) and ``?x`` (1 when it was given). ``enums`` maps an attribute to its value names in order; ``texts`` are attributes
    that are any text; ``strings`` are constants that can only be compared with a quoted string (``T == 'bf16'``) or a text.
    ``words`` are both. ``key`` stands for slots, enums and texts.
    """

    def __init__(
        self,
        slots: Mapping[str, int],
        constants: Mapping[str, int] | None = None,
        enums: Mapping[str, Sequence[str]] | None = None,
        strings: Mapping[str, str] | None = None,
        key: object = None,
        texts: Collection[str] = (),
    ) -> None:
        self.key = key
        self.texts = frozenset(texts)
        self.slots = dict(slots)
        self.constants: Mapping[str, int] = dict(constants or {})
        self.enums = {name: tuple(values) for name, values in (enums or {}).items()}
        self.strings: Mapping[str, str] = dict(strings or {})
        self.words: dict[str, int | str] = {**self.strings, **self.constants}

    def known(
        self,
        constants: Mapping[str, int],
        strings: Mapping[str, str],
        words: dict[str, int | str] | None = None,
    ) -> Scope:
        """Return the scope with other constants and strings.

        The slots, enums and texts stay (``words``: both): a kernel has hundreds of variants.
        """
        other = object.__new__(Scope)
        other.__dict__ |= self.__dict__
        other.constants, other.strings = constants, strings
        other.words = {**strings, **constants} if words is None else words
        return other

    def names(self) -> list[str]:
        """All plain names, for suggestions in error texts."""
        return sorted({name for name in self.slots if name[0] not in "&?"} | set(self.constants))


def compile_expression(text: str | int, scope: Scope) -> bytes:
    """Bytecode of ``text`` in ``scope``; constant subexpressions are folded.

    Raises:
        ExpressionError: syntax outside the language, an unknown name, a value beyond 64 bits.
    """
    if isinstance(text, int):
        return _push(int(text))
    try:
        code = _Compiler(text, scope).emit(_parsed(text))
    except RecursionError:
        raise ExpressionError(f"{text[:60]!r}... nests too deep") from None
    check(code, len(scope.slots))
    return code


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    """Return the syntax tree.

    One text is compiled for many variants of a kernel, so it is kept.
    """
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is not an expression: {error}") from None


class _Compiler:
    def __init__(self, text: str, scope: Scope) -> None:
        self._text = text
        self._scope = scope
        #: Slots loaded so far: what loads one is no constant, and is not tried as one.
        self._loads = 0

    def fail(self, problem: str) -> ExpressionError:
        return ExpressionError(f"{problem} in {self._text!r}")

    def emit(self, node: ast.expr) -> bytes:
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Constant):
            return self._constant(node)
        before = self._loads
        code = self._emit(node)
        if len(code) > MAX_CODE:
            raise self.fail(f"more than {MAX_CODE} bytes of bytecode")
        folded = _try_fold(code) if self._loads == before else None
        return code if folded is None else _push(folded)

    def _emit(self, node: ast.expr) -> bytes:
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self.emit(node.left) + self.emit(node.right) + bytes([_BINARY[type(node.op)]])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            return self.emit(node.operand) + bytes([NEG if isinstance(node.op, ast.USub) else NOT])
        if isinstance(node, ast.BoolOp):
            return self._bool(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self._conditional(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args)
        raise self.fail(f"{type(getattr(node, 'op', node)).__name__} is not part of the expression language")

    def _constant(self, node: ast.Constant) -> bytes:
        if not isinstance(node.value, int):
            raise self.fail(f"{node.value!r} is not an integer")
        if not INT64_MIN <= int(node.value) <= INT64_MAX:
            raise self.fail(f"{node.value} does not fit 64 bits")
        return _push(int(node.value))

    def _name(self, name: str) -> bytes:
        if name in self._scope.constants:
            return _push(int(self._scope.constants[name]))
        if name in self._scope.slots:
            return self._load(name)
        known = ", ".join(self._scope.names())
        raise self.fail(f"unknown name {name!r} (known: {known})")

    def _bool(self, node: ast.BoolOp) -> bytes:
        keep = JUMP_IF_FALSE_KEEP if isinstance(node.op, ast.And) else JUMP_IF_TRUE_KEEP
        code = self.emit(node.values[-1])
        for value in reversed(node.values[:-1]):
            code = self.emit(value) + struct.pack("<BH", keep, len(code)) + code
        return code + bytes([BOOL])

    def _compare(self, node: ast.Compare) -> bytes:
        links: list[bytes] = []
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if type(operator) not in _COMPARE:
                raise self.fail(f"{type(operator).__name__} is not part of the expression language")
            links.append(self._link(left, right, _COMPARE[type(operator)]))
            left = right
        code = links[-1]
        for link in reversed(links[:-1]):
            code = link + struct.pack("<BH", JUMP_IF_FALSE_KEEP, len(code)) + code
        return code

    def _link(self, left: ast.expr, right: ast.expr, operation: int) -> bytes:
        if isinstance(left, ast.Name) and left.id in self._scope.texts:
            return self.emit(left) + _push(text_number(self._text_of(right, operation))) + bytes([operation])
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            if isinstance(left, ast.Name) and left.id in self._scope.strings and operation in (EQ, NE):
                return _push(int(self._scope.strings[left.id] == right.value)) + _push(1) + bytes([operation])
            return self.emit(left) + self._enumerator(left, right.value) + bytes([operation])
        return self.emit(left) + self.emit(right) + bytes([operation])

    def _text_of(self, right: ast.expr, operation: int) -> str:
        known = self._scope.strings.get(right.id) if isinstance(right, ast.Name) else None
        text = right.value if isinstance(right, ast.Constant) else known
        if not isinstance(text, str) or operation not in (EQ, NE):
            raise self.fail(
                "a text attribute is only compared (== or !=) with a quoted string or a string constant"
            )
        return text

    def _enumerator(self, attribute: ast.expr, value: str) -> bytes:
        values = self._scope.enums.get(attribute.id) if isinstance(attribute, ast.Name) else None
        if values is None:
            raise self.fail(
                f"{value!r} can only be compared (== or !=) with an enum attribute or a string constant"
            )
        if value not in values:
            raise self.fail(f"{value!r} is not one of {', '.join(values)}")
        return _push(values.index(value))

    def _conditional(self, node: ast.IfExp) -> bytes:
        test, body, other = self.emit(node.test), self.emit(node.body), self.emit(node.orelse)
        skip = struct.pack("<BH", JUMP, len(other))
        return test + struct.pack("<BH", JUMP_IF_FALSE, len(body) + len(skip)) + body + skip + other

    def _call(self, name: str, arguments: list[ast.expr]) -> bytes:
        if name in _FOLD and (len(arguments) == 2 or (name != "cdiv" and len(arguments) > 2)):
            code = self.emit(arguments[0])
            for argument in arguments[1:]:
                code += self.emit(argument) + bytes([_FOLD[name]])
            return code
        if name == "log2" and len(arguments) == 1:
            return self.emit(arguments[0]) + bytes([LOG2])
        if name == "aligned" and len(arguments) == 2:
            address = self._tensor_slot("&", arguments[0])
            return address + self.emit(arguments[1]) + bytes([MOD]) + _push(0) + bytes([EQ])
        if name == "given" and len(arguments) == 1:
            return self._tensor_slot("?", arguments[0])
        raise self.fail(f"{name}() with {len(arguments)} arguments is not part of the expression language")

    def _tensor_slot(self, prefix: str, argument: ast.expr) -> bytes:
        name = argument.id if isinstance(argument, ast.Name) else None
        if name is None or prefix + name not in self._scope.slots:
            raise self.fail("aligned() and given() take the name of a tensor argument")
        return self._load(prefix + name)

    def _load(self, slot: str) -> bytes:
        self._loads += 1
        return struct.pack("<BH", LOAD, self._scope.slots[slot])


@lru_cache(maxsize=4096)
def _push(value: int) -> bytes:
    if -128 <= value <= 127:
        return struct.pack("<Bb", PUSH8, value)
    return struct.pack("<Bq", PUSH64, value)


def _try_fold(code: bytes) -> int | None:
    try:
        return run(code, ())
    except ExpressionError:
        return None  # left as it is: 1 // 0 behind a false condition is legal and never runs
