"""Values of the pseudocode: bits with a width and a way to read them, or an exact number not rounded to any format yet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from emulator.pcode import formats
from emulator.pcode.formats import Format, Number
from emulator.pcode.lexer import PcodeError

VIEW: Final = re.compile(r"(u|i|f|b|bf|fp)(\d+)\Z")
FLOATS: Final = {"f16": formats.F16, "f32": formats.F32, "f64": formats.F64, "bf16": formats.BF16}
SMALL: Final = frozenset(("fp8", "bf8", "fp6", "bf6", "fp4"))

Nans = tuple[tuple[int, int, str], ...]


@dataclass(slots=True)
class Value:
    """``kind``: u, i, b (bits), a float's name, a small float's name, or exact (then ``number`` holds it).

    ``nans``: (offset, width, format) of fields that are a NaN made by arithmetic: the ISA leaves its
    payload open.
    """

    kind: str
    width: int
    bits: int
    number: Number = formats.NAN
    nans: Nans = ()

    @property
    def signed(self) -> int:
        """The integer; two's complement when the kind is signed."""
        if self.kind == "i" and self.bits >> (self.width - 1) & 1:
            return self.bits - (1 << self.width)
        return self.bits

    @property
    def is_float(self) -> bool:
        return self.kind in FLOATS

    @property
    def format(self) -> Format:
        return FLOATS[self.kind]

    def as_number(self) -> Number:
        if self.kind == "exact":
            return self.number
        if self.kind in FLOATS:
            return formats.decode(FLOATS[self.kind], self.bits)
        return formats.finite(self.signed)


@dataclass(slots=True)
class Arithmetic:
    """Rounding and denormals, as MODE has them. ``saturate16``: FP16_OVFL."""

    round_f32: int = formats.EVEN
    round_f64: int = formats.EVEN
    denormals_f32: int = 3
    denormals_f64: int = 3
    saturate16: bool = False

    def direction(self, kind: str) -> int:
        return self.round_f32 if kind in ("f32", "bf16") else self.round_f64

    def denormals(self, kind: str) -> int:
        return self.denormals_f32 if kind in ("f32", "bf16") else self.denormals_f64


def unsigned(bits: int, width: int = 32) -> Value:
    return Value("u", width, bits & ((1 << width) - 1))


def integer(number: int, width: int = 32) -> Value:
    return Value("i", width, number & ((1 << width) - 1))


def bit(condition: bool) -> Value:
    return Value("u", 1, int(condition))


def exact(number: Number) -> Value:
    return Value("exact", 0, 0, number)


def rounded(number: Number, kind: str, mode: Arithmetic) -> Value:
    """``number`` rounded once into float ``kind``; denormal results become zero where MODE flushes them."""
    form = FLOATS[kind]
    bits = formats.encode(
        form, number, mode.direction(kind), mode.saturate16 and kind == "f16" and number.finite
    )
    if not mode.denormals(kind) & 2 and formats.is_denormal(form, bits):
        bits &= form.sign_bit
    return Value(kind, form.bits, bits, nans=((0, form.bits, kind),) if number.kind == "nan" else ())


def operand_number(value: Value, mode: Arithmetic) -> Number:
    """What arithmetic sees of ``value``: denormals are zero where MODE flushes those that come in."""
    if (
        value.kind in FLOATS
        and not mode.denormals(value.kind) & 1
        and formats.is_denormal(value.format, value.bits)
    ):
        return formats.finite(0, bool(value.bits & value.format.sign_bit))
    return value.as_number()


def part(value: Value, low: int, width: int) -> Value:
    """Bits low .. low + width - 1 of ``value``; they keep its signedness only as bits."""
    if value.kind == "exact":
        raise PcodeError("bits of a number that has no format")
    kind = "i" if value.kind == "i" else "u"
    nans = tuple(
        (at - low, size, name) for at, size, name in value.nans if at >= low and at + size <= low + width
    )
    return Value(kind, width, value.bits >> low & ((1 << width) - 1), nans=nans)


def view(value: Value, name: str, mode: Arithmetic) -> Value:
    """``value.name``. A float seen as another float is converted; everything else is read as bits.

    Raises:
        PcodeError: ``name`` is no view.
    """
    match = VIEW.match(name)
    if match is None:
        raise PcodeError(f"no view {name!r}")
    letter, width = match[1], int(match[2])
    if name in FLOATS:
        if value.kind == name:
            return value
        if value.kind == "exact" or value.is_float:
            return rounded(operand_number(value, mode), name, mode)
    elif value.kind == "exact":
        raise PcodeError(f"{name} of a number that has no format")
    kind = name if name in FLOATS or name in SMALL else ("b" if letter in ("b", "bf", "fp") else letter)
    bits = value.bits
    if width > value.width and value.kind == "i":
        bits = value.signed
    nans = tuple(one for one in value.nans if one[0] + one[1] <= width)
    return Value(kind, width, bits & ((1 << width) - 1), nans=nans)


def cast(value: Value, width: int, letter: str, reinterpret: bool, mode: Arithmetic) -> Value:
    """``width'letter(value)``: a conversion of numbers, or of bits when ``reinterpret``."""
    if letter in ("F", "BF"):
        kind = "bf16" if letter == "BF" else f"f{width}"
        if kind not in FLOATS:
            raise PcodeError(f"no float of {width} bits")
        if reinterpret or value.kind == "b":
            return Value(kind, width, value.bits & ((1 << width) - 1), nans=value.nans)
        if value.kind == kind:
            return value
        result = rounded(operand_number(value, mode), kind, mode)
        return _keep_payload(value, result)
    if value.kind == "exact" or (value.is_float and letter != "B"):
        raise PcodeError("a float cast to an integer without a conversion")
    kind = {"U": "u", "I": "i", "B": "b"}[letter]
    bits = value.signed if value.kind == "i" else value.bits
    return Value(kind, width, bits & ((1 << width) - 1), nans=value.nans if width >= value.width else ())


def _keep_payload(value: Value, result: Value) -> Value:
    """A NaN that only changes its width keeps sign and upper payload, and stays signalling: 64'F(...) in
    conditions must see it.
    """
    if not value.is_float or value.nans or not formats.is_nan(value.format, value.bits):
        return result
    source, target = value.format, result.format
    payload = value.bits & ((1 << source.fraction) - 1)
    shift = target.fraction - source.fraction
    payload = payload << shift if shift >= 0 else payload >> -shift
    sign = target.sign_bit if value.bits & source.sign_bit else 0
    return Value(result.kind, result.width, sign | target.top | (payload or target.quiet))


def insert(old: Value, offset: int, width: int, new: Value) -> Value:
    """``old`` with ``width`` bits at ``offset`` replaced; grows when it must."""
    mask = ((1 << width) - 1) << offset
    nans = tuple(one for one in old.nans if one[0] + one[1] <= offset or one[0] >= offset + width)
    nans += tuple((at + offset, size, name) for at, size, name in new.nans if at + size <= width)
    return Value(
        old.kind, max(old.width, offset + width), (old.bits & ~mask) | (new.bits << offset & mask), nans=nans
    )


def truth(value: Value) -> bool:
    return value.bits != 0
