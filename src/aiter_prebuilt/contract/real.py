"""The real numbers of kernel arguments: ``f32 1 / sqrt(d) * log2(e)``.

    real := numbers, dims and integer attributes, float attributes, constants, e, pi, + - * /, sqrt(x), min(a, b), max(a, b),
            log2(c) and exp2(c) of what is constant

Everything is a double; each operation rounds once, to nearest, and so gives the same bits on every processor (which is why
log2 and exp2 are for constants: those are computed when a bundle is built). The result is rounded once more to the argument's
size. Division by zero gives an infinity or NaN, as on a device. Compiled once to the bytecode below (stack machine, little
endian, no jumps); the native runtime has the second evaluator, and ``tests/data/reals.json`` the vectors that both must pass.

    0x40 REAL f64    0x41 SLOT u16 (an integer slot)    0x42 FLOAT u16 (a float slot)
    0x48 ADD  0x49 SUB  0x4a MUL  0x4b DIV  0x4c MIN  0x4d MAX  0x4e NEG  0x4f SQRT

``min`` and ``max`` give the first of two when neither is less (NaN among them).
"""

from __future__ import annotations

import ast
import math
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from aiter_prebuilt.contract.bytecode import MAX_CODE, MAX_STACK, ExpressionError

REAL, SLOT, FLOAT = 0x40, 0x41, 0x42
ADD, SUB, MUL, DIV, MIN, MAX, NEG, SQRT = range(0x48, 0x50)

_FORMS: Final = {REAL: "<d", SLOT: "<H", FLOAT: "<H"}
_BINARY: Final[dict[type[ast.operator], int]] = {ast.Add: ADD, ast.Sub: SUB, ast.Mult: MUL, ast.Div: DIV}
_NAMED: Final = {"e": math.e, "pi": math.pi}
_OF_CONSTANTS: Final[dict[str, Callable[[float], float]]] = {
    "log2": math.log2,
    "exp2": lambda x: math.pow(2.0, x),
}


def compile_real(
    text: str, slots: Mapping[str, int], floats: Sequence[str], constants: Mapping[str, int]
) -> bytes:
    """Bytecode of ``text``; what is constant is folded. A dim hides a constant of mathematics (``e``).

    Raises:
        ExpressionError: syntax outside the language, an unknown name, or a function of what is not constant.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is not an expression: {error}") from None
    code = _Compiler(text, slots, floats, constants).emit(tree)
    check(code, len(slots), range(len(floats)))
    return code


class _Compiler:
    def __init__(
        self, text: str, slots: Mapping[str, int], floats: Sequence[str], constants: Mapping[str, int]
    ) -> None:
        self._text, self._slots, self._floats, self._constants = text, slots, floats, constants

    def fail(self, problem: str) -> ExpressionError:
        return ExpressionError(f"{problem} in {self._text!r}")

    def emit(self, node: ast.expr) -> bytes:
        code = self._emit(node)
        return code if uses_call(code) else _real(evaluate(code, (), ()))

    def _emit(self, node: ast.expr) -> bytes:
        if isinstance(node, ast.Constant):
            if type(node.value) not in (int, float):
                raise self.fail(f"{node.value!r} is not a number")
            return self._number(node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self.emit(node.left) + self.emit(node.right) + bytes([_BINARY[type(node.op)]])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.emit(node.operand) + bytes([NEG])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args)
        raise self.fail(
            f"{type(getattr(node, 'op', node)).__name__} is not part of the language of real numbers"
        )

    def _number(self, value: object) -> bytes:
        try:
            return _real(float(value))  # type: ignore[arg-type]
        except OverflowError:
            raise self.fail(f"{value} is no double") from None

    def _name(self, name: str) -> bytes:
        if name in self._constants:
            return _real(float(self._constants[name]))
        if name in self._floats:
            return struct.pack("<BH", FLOAT, list(self._floats).index(name))
        if name in self._slots:
            return struct.pack("<BH", SLOT, self._slots[name])
        if name in _NAMED:
            return _real(_NAMED[name])
        plain = sorted(
            {each for each in self._slots if each[0] not in "&?"} | set(self._floats) | set(self._constants)
        )
        raise self.fail(f"unknown name {name!r} (known: {', '.join(plain)})")

    def _call(self, name: str, arguments: list[ast.expr]) -> bytes:
        if name == "sqrt" and len(arguments) == 1:
            return self.emit(arguments[0]) + bytes([SQRT])
        if name in ("min", "max") and len(arguments) == 2:
            return self.emit(arguments[0]) + self.emit(arguments[1]) + bytes([MIN if name == "min" else MAX])
        if name in _OF_CONSTANTS and len(arguments) == 1:
            code = self.emit(arguments[0])
            if uses_call(code):
                raise self.fail(f"{name}() is for constants only")
            try:
                return _real(_OF_CONSTANTS[name](evaluate(code, (), ())))
            except (ValueError, OverflowError) as error:
                raise self.fail(f"{name}(): {error}") from None
        raise self.fail(
            f"{name}() with {len(arguments)} arguments is not part of the language of real numbers"
        )


def _real(value: float) -> bytes:
    return struct.pack("<Bd", REAL, value)


def _walk(code: bytes) -> Iterator[tuple[int, float, int]]:
    """(operation, operand, its first byte) of each instruction."""
    at = 0
    while at < len(code):
        operation, start = code[at], at
        form = _FORMS.get(operation, "")
        if not form and not ADD <= operation <= SQRT:
            raise ExpressionError(f"unknown operation 0x{operation:02x} at byte {at}")
        size = struct.calcsize(form) if form else 0
        if at + 1 + size > len(code):
            raise ExpressionError(f"operation 0x{operation:02x} at byte {at} is cut off")
        operand = struct.unpack_from(form, code, at + 1)[0] if form else 0
        at += 1 + size
        yield operation, operand, start


def uses_call(code: bytes) -> bool:
    """Tell whether the value depends on the call."""
    return any(operation in (SLOT, FLOAT) for operation, _, _ in _walk(code))


def slots_of(code: bytes) -> frozenset[int]:
    """Return the integer slots that a program reads."""
    return frozenset(int(operand) for operation, operand, _ in _walk(code) if operation == SLOT)


def check(code: bytes, slot_count: int, floats: Collection[int]) -> None:
    """Prove that ``code`` is well formed over these slots: known operations, one value at the end.

    Raises:
        ExpressionError: with the byte where the proof fails.
    """
    if len(code) > MAX_CODE:
        raise ExpressionError(f"{len(code)} bytes of bytecode, at most {MAX_CODE} are allowed")
    depth = 0
    for operation, operand, start in _walk(code):
        if operation == SLOT and operand >= slot_count:
            raise ExpressionError(f"slot {operand:.0f} at byte {start}, but there are {slot_count}")
        if operation == FLOAT and operand not in floats:
            raise ExpressionError(f"float slot {operand:.0f} at byte {start}, which no attribute has")
        need = 0 if operation in _FORMS else 1 if operation >= NEG else 2
        if depth < need:
            raise ExpressionError(f"stack underflow at byte {start}")
        depth += 1 - need
        if depth > MAX_STACK:
            raise ExpressionError(f"stack deeper than {MAX_STACK} at byte {start}")
    if depth != 1:
        raise ExpressionError("a program must end with exactly one value")


def _divided(left: float, right: float) -> float:
    if right == 0.0:
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


OPERATIONS: Final[dict[int, Callable[[float, float], float]]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    MUL: lambda a, b: a * b,
    DIV: _divided,
    MIN: min,
    MAX: max,
}


def evaluate(code: bytes, slots: Sequence[int], floats: Sequence[float]) -> float:
    """Run a program over integer ``slots`` and ``floats``.

    Raises:
        ExpressionError: a malformed program.
    """
    check(code, len(slots), range(len(floats)))
    stack: list[float] = []
    for operation, operand, _ in _walk(code):
        if operation == REAL:
            stack.append(operand)
        elif operation == SLOT:
            stack.append(float(slots[int(operand)]))
        elif operation == FLOAT:
            stack.append(floats[int(operand)])
        elif operation == NEG:
            stack.append(-stack.pop())
        elif operation == SQRT:
            value = stack.pop()
            stack.append(math.nan if value < 0 else math.sqrt(value))
        else:
            right = stack.pop()
            stack.append(OPERATIONS[operation](stack.pop(), right))
    return stack[-1]
