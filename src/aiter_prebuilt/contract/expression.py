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

Text is parsed once, when a bundle is built, and compiled to the bytecode below (stack machine,
little endian, forward jumps only, so that every program ends). The native runtime has the second
evaluator; ``tests/data/expressions.json`` holds the vectors that both must pass. There is no
``eval`` on either side.

    0x01 PUSH8 i8        0x02 PUSH64 i64      0x03 LOAD u16 slot
    0x10 ADD  0x11 SUB  0x12 MUL  0x13 FLOORDIV  0x14 MOD  0x15 CDIV  0x16 MIN  0x17 MAX
    0x18 NEG  0x19 NOT  0x1a BOOL  0x1b SHL  0x1c SHR  0x1d LOG2
    0x20 EQ   0x21 NE   0x22 LT   0x23 LE   0x24 GT   0x25 GE
    0x30 JUMP u16        0x31 JUMP_IF_FALSE u16 (pops)
    0x32 JUMP_IF_FALSE_KEEP u16     0x33 JUMP_IF_TRUE_KEEP u16 (pop only when they do not jump)

A jump distance counts from the byte after the operand. A program ends at its last byte with
exactly one value on the stack. An empty program means "absent": each user states its default.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MAX_STACK: Final = 32
MAX_CODE: Final = 4096

PUSH8, PUSH64, LOAD = 0x01, 0x02, 0x03
ADD, SUB, MUL, FLOORDIV, MOD, CDIV, MIN, MAX, NEG, NOT, BOOL, SHL, SHR, LOG2 = range(0x10, 0x1E)
EQ, NE, LT, LE, GT, GE = range(0x20, 0x26)
JUMP, JUMP_IF_FALSE, JUMP_IF_FALSE_KEEP, JUMP_IF_TRUE_KEEP = range(0x30, 0x34)

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


class ExpressionError(ValueError):
    """An expression that cannot be parsed, compiled or evaluated; the text says which part and why."""


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
        self.constants = dict(constants or {})
        self.enums = {name: tuple(values) for name, values in (enums or {}).items()}
        self.strings = dict(strings or {})
        self.words: dict[str, int | str] = {**self.strings, **self.constants}

    def known(self, constants: Mapping[str, int], strings: Mapping[str, str]) -> Scope:
        """The same slots, enums and texts, with other constants and strings: a kernel has hundreds of variants."""
        other = object.__new__(Scope)
        other.__dict__ |= self.__dict__
        other.constants, other.strings = dict(constants), dict(strings)
        other.words = {**strings, **constants}
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


def text_number(text: str) -> int:
    """What a text attribute is in its slot: FNV-1a of its UTF-8 bytes, 64 bits, signed; 0 when there is none. The native
    runtime computes the same; names of kernels are compared so, for a slot holds a number and two names never differ by chance.
    """
    if not text:
        return 0
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value - 2**64 if value >= 2**63 else value


def constant_value(code: bytes) -> int | None:
    """The value of a program that loads no slot, or None when it depends on the call."""
    if not code:
        return None
    if slots_of(code):
        return None
    return evaluate(code, ())


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    """The syntax tree. One text is compiled for many variants of a kernel, so it is kept."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is not an expression: {error}") from None


@lru_cache(maxsize=8192)
def slots_of(code: bytes) -> frozenset[int]:
    """The slots that a program loads."""
    return frozenset(operand for operation, operand, _ in _walk(code) if operation == LOAD)


class _Compiler:
    def __init__(self, text: str, scope: Scope) -> None:
        self._text = text
        self._scope = scope

    def fail(self, problem: str) -> ExpressionError:
        return ExpressionError(f"{problem} in {self._text!r}")

    def emit(self, node: ast.expr) -> bytes:
        code = self._emit(node)
        if len(code) > MAX_CODE:
            raise self.fail(f"more than {MAX_CODE} bytes of bytecode")
        leaf = isinstance(node, (ast.Constant, ast.Name))  # as it is
        folded = None if leaf else _try_fold(code)
        return code if folded is None else _push(folded)

    def _emit(self, node: ast.expr) -> bytes:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
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
            return struct.pack("<BH", LOAD, self._scope.slots[name])
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
        return struct.pack("<BH", LOAD, self._scope.slots[prefix + name])


def _push(value: int) -> bytes:
    if -128 <= value <= 127:
        return struct.pack("<Bb", PUSH8, value)
    return struct.pack("<Bq", PUSH64, value)


def _try_fold(code: bytes) -> int | None:
    try:
        return constant_value(code)
    except ExpressionError:
        return None  # left as it is: 1 // 0 behind a false condition is legal and never runs


@lru_cache(maxsize=8192)
def _walk(code: bytes) -> tuple[tuple[int, int, int], ...]:
    """(operation, operand, offset of the next operation) of each instruction, in order."""
    result: list[tuple[int, int, int]] = []
    at = 0
    while at < len(code):
        operation = code[at]
        form = {PUSH8: "<b", PUSH64: "<q", LOAD: "<H"}.get(operation, "<H" if operation >= JUMP else "")
        if operation not in _KNOWN:
            raise ExpressionError(f"unknown operation 0x{operation:02x} at byte {at}")
        size = struct.calcsize(form) if form else 0
        if at + 1 + size > len(code):
            raise ExpressionError(f"operation 0x{operation:02x} at byte {at} is cut off")
        operand = struct.unpack_from(form, code, at + 1)[0] if form else 0
        at += 1 + size
        result.append((operation, int(operand), at))
    return tuple(result)


_KNOWN: Final = frozenset(
    {PUSH8, PUSH64, LOAD, *range(ADD, LOG2 + 1), *range(EQ, GE + 1), *range(JUMP, 0x34)}
)


@lru_cache(maxsize=8192)
def check(code: bytes, slot_count: int) -> None:
    """Prove that ``code`` is well formed: known operations, slots in range, jumps to instruction
    starts and forward, the same stack depth on every path, one value at the end.

    Raises:
        ExpressionError: with the byte where the proof fails.
    """
    if len(code) > MAX_CODE:
        raise ExpressionError(f"{len(code)} bytes of bytecode, at most {MAX_CODE} are allowed")
    depth_at: dict[int, int] = {0: 0}
    depth = 0
    reachable = True
    start = 0
    for operation, operand, following in _walk(code):
        if start in depth_at:
            if reachable and depth_at[start] != depth:
                raise ExpressionError(f"stack depth differs between the paths that meet at byte {start}")
            depth, reachable = depth_at[start], True
        if not reachable:
            raise ExpressionError(f"no path leads to byte {start}")
        if operation == LOAD and operand >= slot_count:
            raise ExpressionError(f"slot {operand} at byte {start}, but there are {slot_count}")
        need, delta = _effect(operation)
        if depth < need:
            raise ExpressionError(f"stack underflow at byte {start}")
        if operation >= JUMP:
            _note_jump(depth_at, following + operand, depth - (operation == JUMP_IF_FALSE), len(code), start)
        depth += delta
        if depth > MAX_STACK:
            raise ExpressionError(f"stack deeper than {MAX_STACK} at byte {start}")
        reachable = operation != JUMP
        start = following
    _check_end(depth_at, depth, reachable, len(code), {0, *(after for _, _, after in _walk(code))})


def _note_jump(depth_at: dict[int, int], landing: int, depth: int, size: int, start: int) -> None:
    if landing > size:
        raise ExpressionError(f"jump at byte {start} leaves the program")
    if depth_at.setdefault(landing, depth) != depth:
        raise ExpressionError(f"stack depth differs between the paths that meet at byte {landing}")


def _check_end(depth_at: dict[int, int], depth: int, reachable: bool, size: int, starts: set[int]) -> None:
    stray = sorted(set(depth_at) - starts)
    if stray:
        raise ExpressionError(f"jump into the middle of an instruction at byte {stray[0]}")
    final = {depth} if reachable else set()
    if size in depth_at and size:
        final.add(depth_at[size])
    if size and final != {1}:
        raise ExpressionError("a program must end with exactly one value")


def _effect(operation: int) -> tuple[int, int]:
    """(values needed, change of depth on the fall-through path)."""
    if operation in (PUSH8, PUSH64, LOAD):
        return 0, 1
    if operation in (NEG, NOT, BOOL, LOG2):
        return 1, 0
    if operation == JUMP:
        return 0, 0
    if operation >= JUMP_IF_FALSE:
        return 1, -1
    return 2, -1


def _floor_div(left: int, right: int) -> int:
    if right == 0:
        raise ExpressionError("division by zero")
    return left // right


def _mod(left: int, right: int) -> int:
    if right == 0:
        raise ExpressionError("division by zero")
    return left % right


def _power(right: int) -> int:
    if not 0 <= right <= 63:
        raise ExpressionError("a shift by less than 0 or more than 63")
    return 1 << int(right)


def _log2(value: int) -> int:
    if value <= 0:
        raise ExpressionError("the log2 of a number that is not positive")
    return int(value).bit_length() - 1


#: What each operation of two values gives.
OPERATIONS: Final[dict[int, Callable[[int, int], int]]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    MUL: lambda a, b: a * b,
    FLOORDIV: _floor_div,
    MOD: _mod,
    CDIV: lambda a, b: -_floor_div(-a, b),
    MIN: min,
    MAX: max,
    SHL: lambda a, b: a * _power(b),
    SHR: lambda a, b: a // _power(b),
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
}


def evaluate(
    code: bytes, slots: Sequence[int], operations: Mapping[int, Callable[[int, int], int]] = OPERATIONS
) -> int:
    """Run a program over ``slots``, with ``operations`` for what takes two values.

    Symbolic integers (torch's, which are no ``int``) go through as they are; only a plain number's range can be checked.

    Raises:
        ExpressionError: division by zero, a result beyond 64 bits, or a malformed program.
    """
    check(code, len(slots))
    stack: list[int] = []
    at = 0
    for operation, operand, following in _walk(code):
        if following <= at:  # jumped over
            continue
        at = following
        if operation in (PUSH8, PUSH64):
            stack.append(operand)
        elif operation == LOAD:
            stack.append(slots[operand])
        elif operation == NEG:
            stack.append(_in_range(-stack.pop()))
        elif operation == LOG2:
            stack.append(_log2(stack.pop()))
        elif operation in (NOT, BOOL):
            stack.append(int((stack.pop() != 0) == (operation == BOOL)))
        elif operation == JUMP:
            at += operand
        elif operation >= JUMP_IF_FALSE:
            wanted = operation == JUMP_IF_TRUE_KEEP
            taken = (stack[-1] != 0) == wanted
            if operation == JUMP_IF_FALSE or not taken:
                stack.pop()
            at += operand if taken else 0
        else:
            right = stack.pop()
            stack.append(_in_range(operations[operation](stack.pop(), right)))
    return stack[-1]


def _in_range(value: int) -> int:
    if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
        raise ExpressionError("a value does not fit 64 bits")
    return value
