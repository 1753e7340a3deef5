"""Trees to closures. A closure takes the frame of one evaluation (one lane, or one scalar instruction) and gives a value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from emulator.pcode import formats, operators, tree
from emulator.pcode.frame import Frame
from emulator.pcode.lexer import PcodeError
from emulator.pcode.values import FLOATS, VIEW, Value, bit, cast, exact, integer, part, truth, unsigned, view

Evaluator: TypeAlias = Callable[[Frame], Value]


def literal(node: tree.Literal) -> Value:
    if node.letter == "F" or "." in node.text:
        kind = f"f{node.width or 64}"
        bits = formats.encode(FLOATS[kind], formats.finite(Fraction(node.text)))
        return Value(kind, node.width or 64, bits)
    number = int(node.text, 0)
    if node.letter == "U":
        return unsigned(number, node.width or 32)
    return integer(number, node.width or 32)


def expression(node: tree.Expression) -> Evaluator:
    """The closure of an expression.

    Raises:
        PcodeError: a construct without meaning here.
    """
    if isinstance(node, tree.Literal):
        value = literal(node)
        return lambda frame: value
    if isinstance(node, tree.Name):
        name = node.name
        return lambda frame: frame.read(name)
    if isinstance(node, tree.Member):
        return _member(node)
    if isinstance(node, tree.Index):
        return _index(node)
    if isinstance(node, tree.Slice):
        return _slice(node)
    if isinstance(node, tree.Call):
        return _call(node)
    if isinstance(node, tree.Cast):
        return _cast(node)
    if isinstance(node, tree.Unary):
        return _unary(node)
    if isinstance(node, tree.Binary):
        return _binary(node)
    if isinstance(node, tree.Choice):
        condition, yes, no = expression(node.condition), expression(node.yes), expression(node.no)
        return lambda frame: yes(frame) if truth(condition(frame)) else no(frame)
    parts = [expression(one) for one in node.parts]
    return lambda frame: operators.concatenate([one(frame) for one in parts])


def _member(node: tree.Member) -> Evaluator:
    if isinstance(node.base, tree.Name) and not VIEW.match(node.name):
        name = f"{node.base.name}.{node.name}"
        return lambda frame: frame.read(name)
    if isinstance(node.base, tree.Name) and node.base.name == "DENORM":
        return lambda frame: Value("denorm", 0, 0)
    base, name = expression(node.base), node.name
    return lambda frame: view(base(frame), name, frame.mode)


def _index(node: tree.Index) -> Evaluator:
    index = expression(node.index)
    if isinstance(node.base, tree.Name):
        name = node.base.name
        return lambda frame: frame.element(name, index(frame).signed)
    if (
        isinstance(node.base, tree.Index)
        and isinstance(node.base.base, tree.Name)
        and node.base.base.name == "VGPR"
    ):
        lane = expression(node.base.index)
        return lambda frame: frame.register(lane(frame).signed, index(frame).signed)
    base = expression(node.base)
    return lambda frame: part(base(frame), index(frame).signed, 1)


def bounds(node: tree.Slice) -> Callable[[Frame], tuple[int, int, bool]]:
    """(low, width, reversed) of a slice."""
    first, second = expression(node.high), expression(node.low)
    if node.counted:
        return lambda frame: (first(frame).signed, second(frame).signed, False)

    def found(frame: Frame) -> tuple[int, int, bool]:
        high, low = first(frame).signed, second(frame).signed
        return min(high, low), abs(high - low) + 1, high < low

    return found


def _slice(node: tree.Slice) -> Evaluator:
    base, where = expression(node.base), bounds(node)

    def run(frame: Frame) -> Value:
        low, width, backwards = where(frame)
        value = part(base(frame), low, width)
        if backwards:
            value.bits = int(f"{value.bits:0{width}b}"[::-1], 2)
        return value

    return run


def _call(node: tree.Call) -> Evaluator:
    arguments = [expression(one) for one in node.arguments]
    name = node.function
    return lambda frame: frame.call(name, [one(frame) for one in arguments])


def _cast(node: tree.Cast) -> Evaluator:
    value, width, letter = expression(node.value), node.width, node.letter
    bits = isinstance(node.value, tree.Concatenation) or (
        isinstance(node.value, tree.Literal) and node.value.hexadecimal
    )
    return lambda frame: cast(value(frame), width, letter, bits, frame.mode)


def _unary(node: tree.Unary) -> Evaluator:
    value, operator = expression(node.value), node.operator
    if operator == "!":
        return lambda frame: bit(not truth(value(frame)))
    if operator == "+":
        return value
    function = operators.negate if operator == "-" else operators.complement
    return lambda frame: function(value(frame))


def _binary(node: tree.Binary) -> Evaluator:
    left, right, operator = expression(node.left), expression(node.right), node.operator
    if operator == "&&":
        return lambda frame: bit(truth(left(frame)) and truth(right(frame)))
    if operator == "||":
        return lambda frame: bit(truth(left(frame)) or truth(right(frame)))
    if operator == "==" and _signed_zero(node.right) is not None:
        negative = _signed_zero(node.right)
        return lambda frame: bit(operators.is_zero(left(frame), bool(negative)))
    if operator in operators.COMPARISONS:
        compare = operators.COMPARISONS[operator]
        return lambda frame: bit(compare(left(frame), right(frame), frame.mode))
    if operator == "**":
        return lambda frame: exact(operators.power(left(frame), right(frame)))
    try:
        function = operators.ARITHMETIC[operator]
    except KeyError:
        raise PcodeError(f"operator {operator!r}") from None
    return lambda frame: function(left(frame), right(frame), frame.mode)


def _signed_zero(node: tree.Expression) -> bool | None:
    """Of ``+0.0`` and ``-0.0``: whether negative. AMD writes the sign only where the comparison means that one zero."""
    if isinstance(node, tree.Unary) and isinstance(node.value, tree.Literal) and node.value.text == "0.0":
        return node.operator == "-"
    return None
