"""Vector instructions whose first source is a scalar register, an inline constant or a literal instead of a
vector register.

Inline integers are -16 .. 64, sign-extended; inline floats have the operand's format, or f32's bits where
the operand is an integer of 32 bits; a literal is 32 bits, of which a 16-bit operand takes the lower half
and an f64 the upper dword.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from emulator.pcode import formats, modifiers, vector_cases
from emulator.pcode.entries import text_of
from emulator.pcode.forms import Form, Operand, register, vector_forms
from emulator.pcode.modifiers import element
from emulator.pcode.session import FRESH, TARGETS, report, untested
from emulator.pcode.values import FLOATS
from emulator.pcode.vector_cases import Change
from support.instructions import LANES, assemble

SCALAR = 84
INVERSE_TWO_PI = {"f16": 0x3118, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}
"""The one inline constant that is not exact."""


def constants(one: Operand, choice: random.Random) -> dict[str, int]:
    """Assembly and bits of some constants of an operand."""
    kind = element(one.format)
    mask = (1 << 32 * one.dwords) - 1
    found = {str(n): n & mask for n in (0, 64, -16, choice.randint(-16, 64), choice.randint(1, 64))}
    floats = (
        kind if kind in INVERSE_TWO_PI else "f32" if one.bits == 32 and kind in ("i32", "u32", "b32") else ""
    )
    if floats:
        value = choice.choice(("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"))
        found[value] = formats.encode(FLOATS[floats], formats.finite(Fraction(value)))
        found["0.15915494309189532"] = INVERSE_TWO_PI[floats]
    bits = choice.getrandbits(32) | 0x1001_0000
    if kind in ("f32", "i32", "u32", "b32"):
        found[f"{bits:#x}"] = bits
    elif kind == "f64":
        found[f"{bits:#x}"] = bits << 32
    return found


def plans() -> list[tuple[Form, Form, int]]:
    """(form, form with its first source replaced, bits of that source): two of each form, the same for both targets."""
    choice = random.Random(FRESH)
    found = []
    for form in vector_forms():
        if (
            form.encoding == "VOP3P"
            or untested(form)
            or not form.sources
            or "SRC0" in (text_of(form.encoding, form.mnemonic) or "")
        ):
            continue
        one = form.sources[0]
        if one.dwords > 2 or form.mnemonic.startswith("V_DIV_SCALE") or modifiers.is_packed(one):
            continue
        name = modifiers.names(form)[0]
        values = constants(one, choice)
        values[register("s", SCALAR, one.dwords)] = choice.getrandbits(32 * one.dwords)
        for text in choice.sample(sorted(values), 2):
            bits = values[text]
            line = re.sub(rf"(?<=, ){re.escape(name)}(?=,|$| )", text, form.line, count=1)
            found.append((form, replace(form, line=line), bits))
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_first_source(target: str) -> None:
    wanted = plans()
    found, tested = [], 0
    for (form, shown, bits), one in zip(
        wanted, assemble(target, [plan[1].line for plan in wanted]), strict=True
    ):
        if not one.words:
            continue
        batch = next(iter(vector_cases.batches(form, f"{FRESH}:sources", 1)))
        seen = replace(batch, sources=((bits,) * LANES, *batch.sources[1:]))
        scalars = {SCALAR + d: bits >> 32 * d & 0xFFFFFFFF for d in range(form.sources[0].dwords)}
        found += vector_cases.check(target, shown, one.words, batch, 1, Change(seen, scalars=scalars))
        tested += 1
    assert tested > 900
    assert not found, report(found)
