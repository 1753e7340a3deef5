"""What a destination register must hold, and whether it does: bit for bit but for NaNs that arithmetic made."""

from __future__ import annotations

from typing import Final

from emulator.pcode import formats
from emulator.pcode.evaluate import Outcome
from emulator.pcode.scaled import is_open_nan
from emulator.pcode.values import FLOATS, Nans

#: Results of 16 bits that leave the upper half as it was. All others zero it. From LLVM's GCNSubtarget::zeroesHigh16BitsOfDest
#: (found by experiment, it says): gfx9 kept the zeroing of gfx8's opcodes, and the opcodes that gfx9 added keep the other half.
KEEPS_HIGH: Final = frozenset((
    "V_MAD_F16", "V_MAD_U16", "V_MAD_I16", "V_FMA_F16", "V_DIV_FIXUP_F16", "V_ADD_I16", "V_SUB_I16", "V_BITOP3_B16",
    *(f"V_{name}_{kind}16" for name in ("MIN3", "MAX3", "MED3") for kind in "FIU"),
))  # fmt: skip


def expected(mnemonic: str, outcome: Outcome, old: int, high: bool = False) -> tuple[int, Nans]:
    """(bits, open NaNs) of the destination register.

    ``high``: op_sel's bit for the destination is set: a 16-bit result goes to the upper half and the lower
    stays.
    """
    shift = 16 if high else 0
    written, bits = outcome.written << shift, outcome.bits << shift
    nans = tuple((at + shift, size, name) for at, size, name in outcome.nans)
    if not high and outcome.view[-2:] == "16" and outcome.written == 0xFFFF and mnemonic not in KEEPS_HIGH:
        return bits & 0xFFFF, nans
    return (old & ~written) | (bits & written), nans


def matches(got: int, want: int, nans: Nans) -> bool:
    """``got`` equals ``want`` but for fields where any quiet NaN will do."""
    for at, size, name in nans:
        mask = (1 << size) - 1
        if not is_open_nan(name, got >> at & mask):
            return False
        got &= ~(mask << at)
        want &= ~(mask << at)
    return got == want


def steps_apart(kind: str, a: int, b: int) -> int:
    """How many representable values lie between two results of float ``kind``; NaN against a number counts as many."""
    form = FLOATS[kind]
    if formats.is_nan(form, a) or formats.is_nan(form, b):
        return 0 if formats.is_nan(form, a) and formats.is_nan(form, b) else 1 << 30

    def place(bits: int) -> int:
        return -(bits & form.magnitude) if bits & form.sign_bit else bits

    return abs(place(a) - place(b))
