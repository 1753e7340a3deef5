"""Modifiers of vector instructions, written from AMD's CDNA3 ISA document: what they do to sources before
the pseudocode and to its result after it.

- op_sel of VOP3: bit i takes the upper half of 16-bit source i; bit 3 writes the upper half of the
  destination.
- abs, then neg: the sign bit of the operand's format.
- VOP3P: op_sel chooses the half of each source for the lower result, op_sel_hi for the upper one; neg_lo
  and neg_hi likewise.
- clamp of float results: to 0 .. 1, NaN to 0 while MODE.DX10_CLAMP is set, -0 to +0.
- SDWA: a byte or word of each source, zero- or sign-extended; the result into a byte or word, the rest
  zero, sign or kept.
- DPP: source 0 from another lane; a lane without a source (outside, or not in EXEC) reads 0 with bound_ctrl
  and else is not written; row_mask and bank_mask leave lanes out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from emulator.pcode import formats
from emulator.pcode.evaluate import Outcome
from emulator.pcode.forms import SOURCES, Form, Operand, register
from emulator.pcode.values import FLOATS
from emulator.pcode.vector_cases import Batch
from support.instructions import LANES


@dataclass(frozen=True, slots=True)
class Modifiers:
    """``abs`` and ``neg``: bit per source. ``opsel``: bits 0..2 sources, 3 destination."""

    abs: int = 0
    neg: int = 0
    opsel: int = 0
    clamp: bool = False


def element(format_name: str) -> str:
    """ "f16" of FMT_NUM_F16 and FMT_NUM_PK2_F16."""
    return re.sub(r"FMT_NUM_(PK\d*_)?", "", format_name).lower()


def is_packed(one: Operand) -> bool:
    return "_PK" in one.format


def names(form: Form) -> list[str]:
    return [register("v", SOURCES[i], one.dwords) for i, one in enumerate(form.sources)]


def decorated(form: Form, change: Modifiers) -> Form:
    """The form with its line decorated; the assembler decides whether it exists."""
    line = form.line
    for i, name in enumerate(names(form)):
        text = f"|{name}|" if change.abs >> i & 1 else name
        text = f"-{text}" if change.neg >> i & 1 else text
        line = re.sub(rf"(?<=, ){re.escape(name)}(?=,|$| )", text, line)
    if change.opsel:
        used = len(form.sources)
        line += (
            f" op_sel:[{','.join(str(change.opsel >> (3 if i == used else i) & 1) for i in range(used + 1))}]"
        )
    if change.clamp:
        line += " clamp"
    return replace(form, line=line)


def source(one: Operand, bits: int, i: int, change: Modifiers) -> int:
    kind = element(one.format)
    if change.opsel >> i & 1 and one.bits == 16:
        bits >>= 16
    sign = 1 << (FLOATS[kind].bits - 1 if kind in FLOATS else 31)
    if change.abs >> i & 1:
        bits &= ~sign
    return bits ^ sign if change.neg >> i & 1 else bits


def changed(form: Form, batch: Batch, change: Modifiers) -> Batch:
    """The batch as the pseudocode must see it."""
    sources = tuple(
        tuple(source(form.sources[i], bits, i, change) for bits in values)
        for i, values in enumerate(batch.sources)
    )
    return replace(batch, sources=sources)


def clamped(outcome: Outcome, width: int) -> Outcome:
    """A float result between 0 and 1; element by element when ``view`` is not the whole."""
    form = FLOATS[outcome.view] if outcome.view in FLOATS else FLOATS[f"f{width}"]
    total, bits = outcome.written.bit_length(), 0
    for at in range(0, total, form.bits):
        value = outcome.bits >> at & ((1 << form.bits) - 1)
        number = formats.decode(form, value)
        one = formats.encode(form, formats.finite(1))
        if number.kind == "nan" or number.negative or number.zero:
            value = 0
        elif not number.finite or number.value > 1:
            value = one
        bits |= value << at
    return replace(outcome, bits=bits, nans=())


PACKED_HALF: Final = {"f16": 16, "bf16": 16, "i16": 16, "u16": 16, "b16": 16, "f32": 32}


@dataclass(frozen=True, slots=True)
class Packed:
    """Bit i of each belongs to source i."""

    opsel: int
    opsel_hi: int
    neg_lo: int = 0
    neg_hi: int = 0

    def text(self, count: int) -> str:
        def bits(name: str, value: int) -> str:
            return f" {name}:[{','.join(str(value >> i & 1) for i in range(count))}]"

        line = bits("op_sel", self.opsel) + bits("op_sel_hi", self.opsel_hi)
        return line + (
            bits("neg_lo", self.neg_lo) + bits("neg_hi", self.neg_hi) if self.neg_lo or self.neg_hi else ""
        )


def packed_source(one: Operand, bits: int, i: int, change: Packed) -> int:
    half = PACKED_HALF[element(one.format)]
    mask, sign = (1 << half) - 1, 1 << (half - 1)
    low = bits >> (half if change.opsel >> i & 1 else 0) & mask
    high = bits >> (half if change.opsel_hi >> i & 1 else 0) & mask
    return (low ^ (sign if change.neg_lo >> i & 1 else 0)) | (
        high ^ (sign if change.neg_hi >> i & 1 else 0)
    ) << half


# --- SDWA ---

SELECTS: Final = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED: Final = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


@dataclass(frozen=True, slots=True)
class Sdwa:
    destination: int
    unused: int
    source: tuple[int, int]
    extend: tuple[bool, bool]

    @staticmethod
    def some(choice: random.Random) -> Sdwa:
        pick = choice.randrange
        return Sdwa(pick(7), pick(3), (pick(7), pick(7)), (pick(3) == 0, pick(3) == 0))

    def line(self, form: Form) -> str:
        line = re.sub(r"_e32\b", "_sdwa", form.line)
        for i, name in enumerate(names(form)):
            if self.extend[i]:
                line = re.sub(rf"(?<=, ){re.escape(name)}(?=,|$)", f"sext({name})", line)
        if form.destination:
            line += f" dst_sel:{SELECTS[self.destination]} dst_unused:{UNUSED[self.unused]}"
        return line + "".join(f" src{i}_sel:{SELECTS[self.source[i]]}" for i in range(len(form.sources)))

    def take(self, bits: int, i: int) -> int:
        shift, width = _field(self.source[i])
        part = bits >> shift & ((1 << width) - 1)
        if self.extend[i] and part >> (width - 1):
            part |= 0xFFFFFFFF & ~((1 << width) - 1)
        return part

    def put(self, result: int, old: int) -> int:
        """``result``: 32 bits. The register afterwards."""
        shift, width = _field(self.destination)
        field = ((1 << width) - 1) << shift
        value = result << shift & field
        if self.unused == 2:
            return value | old & ~field
        negative = self.unused == 1 and bool(value >> (shift + width - 1) & 1)
        return value | (0xFFFFFFFF & ~((1 << (shift + width)) - 1) if negative else 0)


def _field(select: int) -> tuple[int, int]:
    """(shift, width)."""
    if select < 4:
        return 8 * select, 8
    return (16 * (select - 4), 16) if select < 6 else (0, 32)


# --- DPP ---


def _rotation(amount: int) -> Callable[[int], int | None]:
    return _row(lambda place: (place - amount) % 16)


def _broadcast(lane: int) -> Callable[[int], int | None]:
    return _row(lambda place: lane)


def _row(function: Callable[[int], int]) -> Callable[[int], int | None]:
    """Of the lane's number within its row of 16; None when the result leaves the row."""

    def lane(number: int) -> int | None:
        place = function(number % 16)
        return number - number % 16 + place if 0 <= place < 16 else None

    return lane


def _shift(amount: int) -> Callable[[int], int | None]:
    return _row(lambda place: place + amount)


def _within(number: int) -> int | None:
    return number if 0 <= number < LANES else None


def controls() -> dict[str, Callable[[int], int | None]]:
    """DPP controls of gfx9 by their assembly, each the map from a lane to the lane that it reads."""
    found: dict[str, Callable[[int], int | None]] = {
        "quad_perm:[3,1,0,2]": lambda n: n - n % 4 + (3, 1, 0, 2)[n % 4],
        "quad_perm:[0,0,2,2]": lambda n: n - n % 4 + (0, 0, 2, 2)[n % 4],
        "row_mirror": _row(lambda place: 15 - place),
        "row_half_mirror": _row(lambda place: place ^ 7),
        "wave_shl:1": lambda n: _within(n + 1),
        "wave_shr:1": lambda n: _within(n - 1),
        "wave_rol:1": lambda n: (n + 1) % LANES,
        "wave_ror:1": lambda n: (n - 1) % LANES,
        "row_bcast:15": lambda n: n - n % 16 - 1 if n >= 16 else None,
        "row_bcast:31": lambda n: 31 if n >= 32 else None,
    }
    for amount in (1, 4, 15):
        found[f"row_shl:{amount}"] = _shift(amount)
        found[f"row_shr:{amount}"] = _shift(-amount)
        found[f"row_ror:{amount}"] = _rotation(amount)
    for lane in (0, 7, 15):
        found[f"row_newbcast:{lane}"] = _broadcast(lane)
    return found


@dataclass(frozen=True, slots=True)
class Dpp:
    control: str
    row_mask: int
    bank_mask: int
    bound: bool

    def line(self, form: Form) -> str:
        line = re.sub(r"_e32\b", "_dpp", form.line)
        line += f" {self.control} row_mask:{self.row_mask:#x} bank_mask:{self.bank_mask:#x}"
        return line + (" bound_ctrl:0" if self.bound else "")

    def apply(self, batch: Batch, read: Callable[[int], int | None]) -> Batch:
        """Source 0 moved, and EXEC without the lanes that are not written."""
        values, active = [], 0
        for lane in range(LANES):
            place = read(lane)
            good = place is not None and bool(batch.exec >> place & 1)
            values.append(batch.sources[0][place] if good and place is not None else 0)
            taken = self.row_mask >> (lane // 16) & 1 and self.bank_mask >> (lane // 4 % 4) & 1
            active |= int(bool(taken) and (good or self.bound)) << lane
        return replace(batch, sources=(tuple(values), *batch.sources[1:]), exec=batch.exec & active)
