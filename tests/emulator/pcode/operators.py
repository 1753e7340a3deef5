"""Operators on values. Integers narrower than 32 bits are widened first, as in C; floats are computed
exactly and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from emulator.pcode import arithmetic, formats
from emulator.pcode.formats import Number
from emulator.pcode.lexer import PcodeError
from emulator.pcode.values import FLOATS, Arithmetic, Value, operand_number, rounded

Operation = Callable[[Value, Value, Arithmetic], Value]


def concatenate(parts: Sequence[Value]) -> Value:
    """First part highest."""
    width = bits = 0
    nans: tuple[tuple[int, int, str], ...] = ()
    for value in reversed(parts):
        nans += tuple((at + width, size, name) for at, size, name in value.nans)
        bits |= value.bits << width
        width += value.width
    return Value("b", width, bits, nans=nans)


def negate(value: Value) -> Value:
    if value.kind == "exact":
        return Value("exact", 0, 0, arithmetic.negate(value.number))
    if value.is_float:  # of a NaN too: only the sign bit changes
        return Value(value.kind, value.width, value.bits ^ value.format.sign_bit, nans=value.nans)
    width = max(value.width, 32)
    return Value("i" if value.kind == "i" else "u", width, -value.signed & ((1 << width) - 1))


def complement(value: Value) -> Value:
    width = max(value.width, 32)
    return Value("i" if value.kind == "i" else "u", width, ~value.signed & ((1 << width) - 1))


def _floating(left: Value, right: Value) -> str:
    """Kind of the result of float arithmetic on both: the wider, or exact; "" when neither is a float."""
    if "exact" in (left.kind, right.kind):
        # An exact operand leaves the rounding to the other's format; two exact ones stay exact.
        kinds = [one.kind for one in (left, right) if one.kind in FLOATS]
        return kinds[0] if kinds else "exact"
    if not left.is_float and not right.is_float:
        return ""
    if not (left.is_float and right.is_float):
        raise PcodeError(f"arithmetic on {left.kind} and {right.kind}")
    return left.kind if left.width >= right.width else right.kind


def _numeric(
    float_operation: Callable[[Number, Number, int], Number], integer_operation: Callable[[int, int], int]
) -> Operation:
    def run(left: Value, right: Value, mode: Arithmetic) -> Value:
        kind = _floating(left, right)
        if kind:
            direction = mode.direction(kind) if kind in FLOATS else formats.EVEN
            number = float_operation(operand_number(left, mode), operand_number(right, mode), direction)
            return Value("exact", 0, 0, number) if kind == "exact" else rounded(number, kind, mode)
        return _integer(integer_operation(left.signed, right.signed), left, right)

    return run


def _integer(number: int, left: Value, right: Value) -> Value:
    width = max(left.width, right.width, 32)
    # A narrow unsigned operand becomes a signed one, as in C; a wide one makes the result unsigned.
    wide = any(one.kind != "i" and one.width >= 32 for one in (left, right))
    signed = not wide and "i" in (left.kind, right.kind)
    return Value("i" if signed else "u", width, number & ((1 << width) - 1))


def _no_division(left: int, right: int) -> int:
    return left // right


def _shift(right: bool) -> Operation:
    def run(left: Value, amount: Value, mode: Arithmetic) -> Value:
        del mode
        width = max(left.width, 32)
        places = min(amount.bits, width)
        number = left.signed >> places if right else left.signed << places
        return Value("i" if left.kind == "i" else "u", width, number & ((1 << width) - 1))

    return run


def _bitwise(operation: Callable[[int, int], int]) -> Operation:
    return lambda left, right, mode: _integer(operation(left.signed, right.signed), left, right)


ARITHMETIC: Final[dict[str, Operation]] = {
    "+": _numeric(arithmetic.add, lambda a, b: a + b),
    "-": _numeric(lambda a, b, d: arithmetic.add(a, arithmetic.negate(b), d), lambda a, b: a - b),
    "*": _numeric(lambda a, b, _: arithmetic.multiply(a, b), lambda a, b: a * b),
    "/": _numeric(lambda a, b, _: arithmetic.divide(a, b), _no_division),
    "%": _bitwise(lambda a, b: a % b),
    "&": _bitwise(lambda a, b: a & b),
    "|": _bitwise(lambda a, b: a | b),
    "^": _bitwise(lambda a, b: a ^ b),
    "<<": _shift(False),
    ">>": _shift(True),
}


def power(base: Value, exponent: Value) -> Number:
    """2.0 ** n, exactly: what it scales is rounded once."""
    number = base.as_number()
    if number.value != 2:
        raise PcodeError("a power of another base than 2")
    shift = exponent.signed
    # Beyond this no format's result depends on the exact power any more.
    return formats.finite(formats.power_of_two(max(-(1 << 14), min(1 << 14, shift))))


def _compared(
    with_numbers: Callable[[Number, Number], bool], with_integers: Callable[[int, int], bool]
) -> Callable[[Value, Value, Arithmetic], bool]:
    def run(left: Value, right: Value, mode: Arithmetic) -> bool:
        if right.kind == "denorm":
            return is_denormal(left)
        if left.is_float or right.is_float or "exact" in (left.kind, right.kind):
            return with_numbers(operand_number(left, mode), operand_number(right, mode))
        return with_integers(left.signed, right.signed)

    return run


def is_denormal(value: Value) -> bool:
    """``x == DENORM``: the comparison that AMD means is membership."""
    return value.is_float and formats.is_denormal(value.format, value.bits)


def is_zero(value: Value, negative: bool) -> bool:
    number = value.as_number()
    return number.zero and number.negative == negative


COMPARISONS: Final = {
    "==": _compared(arithmetic.equal, lambda a, b: a == b),
    "!=": _compared(lambda a, b: not arithmetic.equal(a, b), lambda a, b: a != b),
    # Less or greater: false for NaN, unlike !=.
    "<>": _compared(lambda a, b: arithmetic.less(a, b) or arithmetic.less(b, a), lambda a, b: a != b),
    "<": _compared(arithmetic.less, lambda a, b: a < b),
    "<=": _compared(lambda a, b: arithmetic.less(a, b) or arithmetic.equal(a, b), lambda a, b: a <= b),
    ">": _compared(lambda a, b: arithmetic.less(b, a), lambda a, b: a > b),
    ">=": _compared(lambda a, b: arithmetic.less(b, a) or arithmetic.equal(a, b), lambda a, b: a >= b),
}
