"""Functions that the pseudocode calls and does not define. Names are AMD's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

from emulator.pcode import arithmetic, formats, scaled
from emulator.pcode.frame import Frame
from emulator.pcode.lexer import PcodeError
from emulator.pcode.values import FLOATS, Value, bit, exact, integer, operand_number, rounded, unsigned

Function = Callable[[Frame, list[Value]], Value]
_CONVERSION: Final = re.compile(r"(u|i|f|bf|fp)(\d+)_to_(u|i|f|bf|fp|snorm|unorm)(\d*)\Z")


def _rounded_like(operation: Callable[[formats.Number], formats.Number]) -> Function:
    def run(frame: Frame, arguments: list[Value]) -> Value:
        value = arguments[0]
        return rounded(operation(operand_number(value, frame.mode)), value.kind, frame.mode)

    return run


def _exact_like(operation: Callable[[formats.Number], formats.Number]) -> Function:
    return lambda frame, arguments: exact(operation(operand_number(arguments[0], frame.mode)))


def _fma(frame: Frame, arguments: list[Value]) -> Value:
    a, b, c = (operand_number(one, frame.mode) for one in arguments)
    kind = arguments[0].kind
    return rounded(arithmetic.add(arithmetic.multiply(a, b), c, frame.mode.direction(kind)), kind, frame.mode)


def _fma_exactly(frame: Frame, arguments: list[Value]) -> Value:
    a, b, c = (operand_number(one, frame.mode) for one in arguments)
    return exact(arithmetic.add(arithmetic.multiply(a, b), c, frame.mode.round_f64))


def _scale(frame: Frame, arguments: list[Value]) -> Value:
    value, exponent = arguments
    power = formats.finite(formats.power_of_two(max(-(1 << 14), min(1 << 14, exponent.signed))))
    return rounded(arithmetic.multiply(operand_number(value, frame.mode), power), value.kind, frame.mode)


def _quiet(frame: Frame, arguments: list[Value]) -> Value:
    value = arguments[0]
    return Value(value.kind, value.width, value.bits | value.format.quiet)


def _fraction(frame: Frame, arguments: list[Value]) -> Value:
    """x - floor(x), held below 1 (see the corrections)."""
    value = arguments[0]
    number = operand_number(value, frame.mode)
    result = rounded(
        arithmetic.add(number, arithmetic.negate(arithmetic.floor(number))), value.kind, frame.mode
    )
    one = formats.encode(value.format, formats.finite(1))
    return Value(value.kind, value.width, one - 1) if result.bits == one else result


def _flushed(frame: Frame, arguments: list[Value]) -> Value:
    """An f32, rounded if it is not one yet, with denormals made zero."""
    value = (
        arguments[0] if arguments[0].kind == "f32" else rounded(arguments[0].as_number(), "f32", frame.mode)
    )
    if formats.is_denormal(formats.F32, value.bits):
        return Value("f32", 32, value.bits & formats.F32.sign_bit)
    return value


def _tiny(form: formats.Format) -> Function:
    """Whether an exact number lies between zero and the smallest normal number."""
    smallest = formats.power_of_two(1 - form.bias)
    return lambda frame, arguments: bit(
        arguments[0].as_number().finite and 0 < abs(arguments[0].as_number().value) < smallest
    )


def _fields(value: Value) -> tuple[int, int, int]:
    """Sign, biased exponent, fraction."""
    form = value.format
    magnitude = value.bits & form.magnitude
    return value.bits // form.sign_bit, magnitude >> form.fraction, magnitude & ((1 << form.fraction) - 1)


def _mantissa(frame: Frame, arguments: list[Value]) -> Value:
    """frexp's: of magnitude 1/2 .. 1 with the sign of its argument, and 0 of 0."""
    value = arguments[0]
    number = operand_number(value, frame.mode)
    if not number.finite or number.zero:
        return value
    scale = formats.power_of_two(-formats.exponent_of(number.value) - 1)
    return rounded(formats.finite(number.value * scale), value.kind, frame.mode)


def _frexp_exponent(frame: Frame, arguments: list[Value]) -> Value:
    number = operand_number(arguments[0], frame.mode)
    return integer(0 if not number.finite or number.zero else formats.exponent_of(number.value) + 1)


def _sign_extend(frame: Frame, arguments: list[Value]) -> Value:
    value = arguments[0]
    return integer(Value("i", value.width, value.bits).signed, 64)


def _sign_extend_from(frame: Frame, arguments: list[Value]) -> Value:
    """Bits below ``size`` with bit size - 1 as the sign; 0 of size 0, everything of a size beyond the width."""
    value, size = arguments[0], arguments[1].bits
    if size == 0:
        return Value("i", value.width, 0)
    if size >= value.width:
        return Value("i", value.width, value.bits)
    return integer(Value("i", size, value.bits & ((1 << size) - 1)).signed, value.width)


def _first_one(frame: Frame, arguments: list[Value]) -> Value:
    bits = arguments[0].bits
    return integer((bits & -bits).bit_length() - 1)


def _extremum(smallest: bool) -> Function:
    """IEEE 754-2019 minimum or maximum: NaN wins, and -0 is less than +0."""

    def run(frame: Frame, arguments: list[Value]) -> Value:
        result = arguments[0]
        for other in arguments[1:]:
            if result.as_number().kind == "nan" or other.as_number().kind == "nan":
                return rounded(formats.NAN, result.kind, frame.mode)
            a, b = result.as_number(), other.as_number()
            less = arithmetic.less(b, a) or (a.zero and b.zero and b.negative and not a.negative)
            greater = arithmetic.less(a, b) or (a.zero and b.zero and a.negative and not b.negative)
            result = other if (less if smallest else greater) else result
        return result

    return run


def _atomic(smallest: bool) -> Function:
    """Of memory and data, as memory atomics choose: a signalling NaN wins and becomes quiet, a quiet one loses, -0 < +0."""

    def run(frame: Frame, arguments: list[Value]) -> Value:
        for one in arguments:
            if formats.is_signalling(one.format, one.bits):
                return Value(one.kind, one.width, one.bits | one.format.quiet)
        memory, data = arguments
        if "nan" in (memory.as_number().kind, data.as_number().kind):
            return memory if data.as_number().kind == "nan" else data
        return _extremum(smallest)(frame, arguments)

    return run


def _to_integer(number: formats.Number, letter: str, width: int, direction: int = formats.ZERO) -> Value:
    """Truncated and saturated; NaN gives 0."""
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if letter == "i" else (0, (1 << width) - 1)
    if number.kind == "nan":
        return Value(letter, width, 0)
    if not number.finite:
        return Value(letter, width, (low if number.negative else high) & ((1 << width) - 1))
    whole = formats.round_integer(abs(number.value), direction, number.negative)
    whole = max(low, min(high, -whole if number.negative else whole))
    return Value(letter, width, whole & ((1 << width) - 1))


def _normalised(number: formats.Number, signed: bool) -> Value:
    """-1 .. 1 (0 .. 1) to the whole range of a 16-bit integer, to the nearest; NaN gives 0."""
    if number.kind == "nan":
        return unsigned(0, 16)
    largest = 32767 if signed else 65535
    value = number.value if number.finite else (-1 if number.negative else 1)
    value = max(-1 if signed else 0, min(1, value)) * largest
    negative = value < 0
    whole = formats.round_integer(abs(Fraction(value)), formats.EVEN, negative)
    return unsigned(-whole if negative else whole, 16)


def _converted(target: str, width: int, frame: Frame, value: Value) -> Value:
    if target in ("snorm", "unorm"):
        return _normalised(operand_number(value, frame.mode), target == "snorm")
    if target in ("f", "bf"):
        kind = f"{target}{width}"
        if kind in FLOATS:
            return rounded(operand_number(scaled.widened(value, frame.fnuz), frame.mode), kind, frame.mode)
    if target in ("bf", "fp"):
        number = operand_number(value, frame.mode)
        return scaled.narrowed(number, f"{target}{width}", frame.fnuz, frame.mode.saturate16)
    if value.is_float:
        return _to_integer(operand_number(value, frame.mode), target, width)
    return _to_integer(formats.finite(value.signed), target, width)


def conversion(name: str) -> Function | None:
    """``f32_to_i32`` and its like."""
    match = _CONVERSION.match(name)
    if match is None:
        return None
    target, width = match[3], int(match[4] or 0)
    return lambda frame, arguments: _converted(target, width, frame, arguments[0])


NAMED: Final[Mapping[str, Function]] = {
    "fma": _fma,
    "fma_exactly": _fma_exactly,
    "flushed": _flushed,
    "tiny_f32": _tiny(formats.F32),
    "tiny_f64": _tiny(formats.F64),
    "floor": _rounded_like(arithmetic.floor),
    "trunc": _rounded_like(arithmetic.truncate),
    "round_even": _rounded_like(arithmetic.round_even),
    "fraction_below_one": _fraction,
    "sqrt": _exact_like(arithmetic.square_root),
    "log2": _exact_like(arithmetic.logarithm2),
    "pow": lambda frame, arguments: exact(arithmetic.exponential2(operand_number(arguments[1], frame.mode))),
    "sine_of_turns": _exact_like(arithmetic.sine_of_turns),
    "cosine_of_turns": _exact_like(lambda number: arithmetic.sine_of_turns(number, 1)),
    "exact": lambda frame, arguments: exact(operand_number(arguments[0], frame.mode)),
    "ldexp": _scale,
    "isNAN": lambda frame, arguments: bit(arguments[0].as_number().kind == "nan"),
    "isSignalNAN": lambda frame, arguments: bit(
        formats.is_signalling(arguments[0].format, arguments[0].bits)
    ),
    "isQuietNAN": lambda frame, arguments: bit(
        formats.is_nan(arguments[0].format, arguments[0].bits)
        and not formats.is_signalling(arguments[0].format, arguments[0].bits)
    ),
    "cvtToQuietNAN": _quiet,
    "abs": lambda frame, arguments: Value(
        arguments[0].kind,
        arguments[0].width,
        arguments[0].bits & arguments[0].format.magnitude,
        nans=arguments[0].nans,
    ),
    "sign": lambda frame, arguments: bit(bool(_fields(arguments[0])[0])),
    "exponent": lambda frame, arguments: integer(_fields(arguments[0])[1]),
    "mantissa": _mantissa,
    "frexp_exponent": _frexp_exponent,
    "signext": _sign_extend,
    "signext_from_bit": _sign_extend_from,
    "bitCount": lambda frame, arguments: integer(arguments[0].bits.bit_count()),
    "s_ff1_i32_b64": _first_one,
    "atomic_min": _atomic(True),
    "atomic_max": _atomic(False),
    "v_minimum_f32": _extremum(True),
    "v_maximum_f32": _extremum(False),
    "v_minimum3_f16": _extremum(True),
    "v_maximum3_f16": _extremum(False),
    **scaled.FUNCTIONS,
}


def find(name: str) -> Function:
    """A function by AMD's name, but for v_* that are instructions themselves.

    Raises:
        PcodeError: unknown.
    """
    function = NAMED.get(name) or conversion(name) or scaled.conversion(name)
    if function is None:
        raise PcodeError(f"no function {name}")
    return function
