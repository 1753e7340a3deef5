"""Operand values by data format: the edges of each format, values of middling size, and random bits."""

from __future__ import annotations

import random
import re
from typing import Final

from emulator.pcode import formats
from emulator.pcode.formats import Format

_FLOATS: Final[dict[str, Format]] = {
    "F16": formats.F16, "BF16": formats.BF16, "F32": formats.F32, "F64": formats.F64,
}  # fmt: skip
_NAME: Final = re.compile(r"FMT_NUM_(?:PK(\d+)_)?(BF|FP|[A-Z])(\d+)\Z")


def float_edges(form: Format) -> list[int]:
    """Zeros, denormals, the limits, one and its neighbours, halves, infinities, quiet and signalling NaNs with payloads."""
    one = formats.encode(form, formats.finite(1))
    step = 1 << form.fraction
    some = [
        0,
        1,
        2,
        step - 1,
        step // 2 + 1,
        step,
        step + 1,
        one - 1,
        one,
        one + 1,
        one + step,
        one - step,
        one + step // 2,
    ]
    some += [
        form.top - 1,
        form.top - step,
        form.top,
        form.top | 1,
        form.top | form.quiet,
        form.top | form.quiet | 5,
    ]
    some += [formats.encode(form, formats.finite(v)) for v in (3, 127, 128, 255, 256, 32767, 65504)]
    some += [
        one + step * (min(form.fraction, 40) + d)
        for d in (-1, 0, 1)
        if one + step * (form.fraction + 2) < form.top
    ]
    return some + [bits | form.sign_bit for bits in some]


def integer_edges(width: int) -> list[int]:
    mask = (1 << width) - 1
    some = {0, 1, 2, 3, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) - 1, mask // 3, mask // 3 * 2}
    some |= {
        n & mask
        for n in (
            5,
            7,
            8,
            15,
            16,
            17,
            24,
            31,
            32,
            33,
            63,
            64,
            65,
            127,
            128,
            255,
            256,
            0xFFFF,
            0x10000,
            0x7FFFFF,
            0xFFFFFF,
        )
    }
    return sorted(some)


def _middling(form: Format, source: random.Random) -> int:
    """Within a factor of 2**12 of one, any fraction: where sums cancel and products round."""
    reach = min(12, form.bias - 2)
    exponent = form.bias + source.randint(-reach, reach)
    return (
        source.getrandbits(1) << (form.bits - 1)
        | exponent << form.fraction
        | source.getrandbits(form.fraction)
    )


def _one(letter: str, width: int, source: random.Random) -> int:
    form = _FLOATS.get(f"{letter}{width}")
    kind = source.random()
    if form is not None:
        if kind < 0.5:
            return source.choice(_EDGES[form.name])
        return _middling(form, source) if kind < 0.8 else source.getrandbits(width)
    if width < 16:
        return source.getrandbits(width)
    if letter == "B" and width == 32 and kind < 0.3:
        return source.choice(_EDGES["f32"])
    if kind < 0.5:
        return source.choice(_INTEGER_EDGES[width])
    return source.randrange(70) if kind < 0.6 else source.getrandbits(width)


_EDGES: Final = {form.name: float_edges(form) for form in _FLOATS.values()}
_INTEGER_EDGES: Final = {width: integer_edges(width) for width in (16, 24, 32, 64, 96, 128)}


def sample(format_name: str, bits: int, source: random.Random) -> int:
    """One operand of ``bits`` bits of the package's format, element by element where it is packed."""
    match = _NAME.match(format_name)
    if match is None:
        return _one("B", bits, source)
    count, letter, width = int(match[1] or 1), match[2], int(match[3])
    if count * width > bits:
        width = bits // count
    if count == 1:
        return _one(letter, min(width, bits), source) | (
            source.getrandbits(bits) >> width << width if bits > width else 0
        )
    value = 0
    for i in range(count):
        value |= _one(letter, width, source) << (i * width)
    return value


def related(values: list[int], widths: list[int], source: random.Random) -> None:
    """Makes some operands equal, or equal but for the top bit: comparisons, cancellation, equal magnitudes."""
    if len(values) > 1 and widths[0] == widths[1] and source.random() < 0.15:
        values[1] = values[0] ^ (1 << (widths[0] - 1) if source.random() < 0.4 else 0)
