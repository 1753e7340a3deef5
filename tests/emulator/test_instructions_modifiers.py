"""Modifiers: abs, neg, op_sel, clamp and omod of VOP3, op_sel, op_sel_hi and neg of VOP3P, SDWA, DPP,
rounding and denormal modes.

The semantics are those of ``pcode.modifiers``; the instruction itself is the pseudocode's. Each test goes
through all forms of an encoding with one random choice of modifiers each; the assembler says which forms
take them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from emulator.pcode import modifiers, vector_cases
from emulator.pcode.entries import text_of
from emulator.pcode.evaluate import Outcome
from emulator.pcode.forms import Form, vector_forms
from emulator.pcode.modifiers import Dpp, Modifiers, Packed, Sdwa, element
from emulator.pcode.plans import Planned, batch_of, is_float, planned
from emulator.pcode.session import FRESH, TARGETS, report
from emulator.pcode.values import FLOATS
from emulator.pcode.vector_cases import Change
from support.instructions import LANES


@pytest.mark.parametrize("target", TARGETS)
def test_abs_and_neg(target: str) -> None:
    choice = random.Random(FRESH)
    plans: list[Planned[Modifiers]] = []
    for form in vector_forms():
        if (
            form.encoding not in ("VOP3", "VOP3SD")
            or form.mnemonic.startswith("V_DIV_SCALE")
            or not is_float(form)
        ):
            continue
        if any(modifiers.is_packed(one) for one in form.sources) or any(
            one.dwords > 2 for one in form.sources
        ):
            continue
        signed = [i for i, one in enumerate(form.sources) if element(one.format) in FLOATS]
        for _ in range(2):
            absolute, negative = (sum(choice.getrandbits(1) << i for i in signed) for _ in range(2))
            change = Modifiers(absolute, negative)
            plans.append((form, modifiers.decorated(form, change), change))
    found, tested = [], 0
    for form, shown, change, words in planned(target, plans):
        batch = batch_of(form)
        found += vector_cases.check(
            target, shown, words, batch, 1, Change(modifiers.changed(form, batch, change))
        )
        tested += 1
    assert tested > 150
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_op_sel_of_16_bit_operands(target: str) -> None:
    """Bits of the sources and of the destination; with bit 3 the lower half of the destination stays."""
    choice = random.Random(FRESH)
    plans: list[Planned[Modifiers]] = []
    for form in vector_forms():
        if (
            form.encoding != "VOP3"
            or form.destination is None
            or not any(one.bits == 16 for one in form.sources)
        ):
            continue
        if form.mnemonic.startswith(("V_CVT_SCALEF32", "V_CVT_SR")):
            continue
        for _ in range(3):
            halves = sum(choice.getrandbits(1) << i for i, one in enumerate(form.sources) if one.bits == 16)
            change = Modifiers(
                opsel=halves | (choice.getrandbits(1) << 3 if form.destination.bits == 16 else 0)
            )
            shown = modifiers.decorated(form, change)
            if change.opsel & 8:
                shown = replace(shown, extra=(*form.extra, ("HIGH", 1)))
            plans.append((form, shown, change))
    found, tested = [], set()
    for form, shown, change, words in planned(target, plans):
        batch = batch_of(form)
        found += vector_cases.check(
            target, shown, words, batch, 2, Change(modifiers.changed(form, batch, change))
        )
        tested.add(form.mnemonic)
    assert len(tested) >= 20
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_selection_by_the_entries_themselves(target: str) -> None:
    """Entries that read OPSEL: bytes and words of packed small formats, v_fma_mix, v_pk_mov. OPSEL is taken from the encoding."""
    plans: list[Planned[None]] = []
    for form in vector_forms():
        text = text_of(form.encoding, form.mnemonic) or ""
        if "OPSEL" not in text or form.encoding not in ("VOP3", "VOP3P"):
            continue
        reads = {
            int(n) for low in re.findall(r"OPSEL(?:\.u\d)?\[([\d :]+)\]", text) for n in low.split(" : ")
        }
        for bits in range(16):
            if "OPSEL_HI" not in text and bits & ~sum(1 << n for n in reads):
                continue  # bits that the text gives no meaning
            for count in (2, 3, 4):
                lists = f" op_sel:[{','.join(str(bits >> i & 1) for i in range(count))}]"
                if "OPSEL_HI" in text:
                    lists += f" op_sel_hi:[{','.join(str((bits * 5 + 3) >> i & 1) for i in range(count))}]"
                plans.append((form, replace(form, line=form.line + lists), None))
    found, tested = [], set()
    for form, shown, _, words in planned(target, plans):
        if (form.mnemonic, words) in tested:
            continue
        tested.add((form.mnemonic, words))
        low = words[0] >> 11 & (7 if form.encoding == "VOP3P" else 15)
        selected = replace(
            shown, extra=(("OPSEL", low), ("OPSEL_HI", words[1] >> 27 & 3 | words[0] >> 12 & 4))
        )
        found += vector_cases.check(target, selected, words, batch_of(form), 3)
    assert len(tested) >= {"gfx942": 25, "gfx950": 130}[target]
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_packed_halves_and_signs(target: str) -> None:
    choice = random.Random(FRESH)
    plans: list[Planned[Packed]] = []
    for form in vector_forms():
        text = text_of(form.encoding, form.mnemonic) or ""
        if (
            form.encoding != "VOP3P"
            or "OPSEL" in text
            or not all(element(o.format) in modifiers.PACKED_HALF for o in form.sources[:2])
        ):
            continue
        count = len(form.sources)
        paired = [i for i, one in enumerate(form.sources) if modifiers.is_packed(one)]
        # The assembler takes signs on integers too; they mean nothing there.
        for signs in (False, True) if element(form.sources[0].format) in FLOATS else (False,):
            mask = sum(1 << i for i in paired)
            pick = [choice.getrandbits(3) & mask for _ in range(4)]
            change = Packed(pick[0], pick[1] | (7 & ~mask), pick[2] if signs else 0, pick[3] if signs else 0)
            plans.append((form, replace(form, line=form.line + change.text(count)), change))
    found, tested = [], set()
    for form, shown, change, words in planned(target, plans):
        batch = batch_of(form)
        sources = tuple(
            tuple(
                modifiers.packed_source(one, bits, i, change) if modifiers.is_packed(one) else bits
                for bits in values
            )
            for i, (one, values) in enumerate(zip(form.sources, batch.sources, strict=True))
        )
        found += vector_cases.check(target, shown, words, batch, 1, Change(replace(batch, sources=sources)))
        tested.add(form.mnemonic)
    assert len(tested) >= 22
    assert not found, report(found)


def _clamp_width(form: Form) -> int:
    return 32 if form.destination and element(form.destination.format) == "f32" else 16


@pytest.mark.parametrize("target", TARGETS)
def test_clamp_of_floats(target: str) -> None:
    plans: list[Planned[None]] = []
    for form in vector_forms():
        if form.destination is None or form.encoding not in ("VOP3", "VOP3P"):
            continue
        left_out = form.mnemonic.startswith(("V_CVT_SCALEF32", "V_CVT_SR", "V_DIV_SCALE", "V_CVT_PK_BF16"))
        if element(form.destination.format) in FLOATS and not left_out:
            plans.append((form, replace(form, line=f"{form.line} clamp"), None))
    found, tested = [], 0
    for form, shown, _, words in planned(target, plans):
        batch = batch_of(form)

        def finish(outcome: Outcome, form: Form = form) -> Outcome:
            return modifiers.clamped(outcome, _clamp_width(form))

        found += vector_cases.check(target, shown, words, batch, 2, Change(batch, finish))
        tested += 1
    assert tested > 100
    assert not found, report(found)


SATURATING = {
    "V_ADD_U32": lambda a, b, c: a + b, "V_SUB_U32": lambda a, b, c: a - b, "V_SUBREV_U32": lambda a, b, c: b - a,
    "V_ADD_I32": lambda a, b, c: a + b, "V_SUB_I32": lambda a, b, c: a - b, "V_ADD_U16": lambda a, b, c: a + b,
    "V_SUB_U16": lambda a, b, c: a - b, "V_SUBREV_U16": lambda a, b, c: b - a, "V_ADD_I16": lambda a, b, c: a + b,
    "V_SUB_I16": lambda a, b, c: a - b, "V_MAD_U32_U24": lambda a, b, c: a * b + c, "V_MAD_I32_I24": lambda a, b, c: a * b + c,
    "V_MAD_U16": lambda a, b, c: a * b + c, "V_MAD_I16": lambda a, b, c: a * b + c,
    "V_MAD_U32_U16": lambda a, b, c: a * b + c, "V_MAD_I32_I16": lambda a, b, c: a * b + c,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_clamp_of_integers(target: str) -> None:
    """The exact result, held within the range of the destination's format."""
    forms = [form for form in vector_forms() if form.encoding == "VOP3" and form.mnemonic in SATURATING]
    found, tested = [], 0
    for form, shown, _, words in planned(
        target, [(f, replace(f, line=f"{f.line} clamp"), None) for f in forms]
    ):
        batch = batch_of(form)
        assert form.destination is not None
        width, signed = form.destination.bits, element(form.destination.format)[0] == "i"

        def integer(bits: int, format_name: str) -> int:
            kind = element(format_name)
            size = int(kind[1:])
            bits &= (1 << size) - 1
            return bits - (1 << size) if kind[0] == "i" and bits >> (size - 1) else bits

        results = []
        for lane in range(LANES):
            values = [
                integer(v[lane], one.format) for v, one in zip(batch.sources, form.sources, strict=True)
            ]
            exact = SATURATING[form.mnemonic](*[*values, 0, 0][:3])
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
            results.append(max(low, min(high, exact)) & ((1 << width) - 1))
        order = iter([r for lane, r in enumerate(results) if batch.exec >> lane & 1])

        def finish(outcome: Outcome, order: Iterator[int] = order) -> Outcome:
            return replace(outcome, bits=next(order))

        found += vector_cases.check(target, shown, words, batch, 3, Change(batch, finish))
        tested += 1
    assert tested == len(SATURATING)
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_sdwa(target: str) -> None:
    choice = random.Random(FRESH)
    plans: list[Planned[Sdwa]] = []
    for form in vector_forms():
        if form.encoding not in ("VOP1", "VOP2", "VOPC") or form.literal:
            continue
        operands = [*form.sources, *([form.destination] if form.destination else [])]
        if all(one.bits <= 32 for one in operands):
            for _ in range(4):
                change = Sdwa.some(choice)
                if (
                    "fp8" not in form.line
                    and "bf8" not in form.line
                    and form.mnemonic not in vector_cases.ULPS
                ):
                    plans.append((form, replace(form, line=change.line(form)), change))
    found, tested = [], set()
    for form, shown, change, words in planned(target, plans):
        batch = batch_of(form)
        sources = tuple(
            tuple(change.take(bits, i) for bits in values) for i, values in enumerate(batch.sources)
        )
        merge = change.put if change.destination != 6 else None
        # The payload of an open NaN would be cut by the selection: lanes with one are left out.
        seen = Change(replace(batch, sources=sources), merge=merge, skips=lambda outcome: bool(outcome.nans))
        found += vector_cases.check(target, shown, words, batch, 1, seen)
        tested.add(form.mnemonic)
    assert len(tested) >= 120
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_dpp(target: str) -> None:
    choice = random.Random(FRESH)
    controls = modifiers.controls()
    plans: list[Planned[Dpp]] = []
    for form in vector_forms():
        if (
            form.encoding not in ("VOP1", "VOP2")
            or form.literal
            or any(one.bits > 32 for one in form.sources)
        ):
            continue
        for control in (
            controls
            if form.mnemonic in ("V_MOV_B32", "V_ADD_F32", "V_ADD_CO_U32")
            else choice.sample(sorted(controls), 2)
        ):
            change = Dpp(
                control,
                choice.choice((15, 15, choice.randrange(16))),
                choice.choice((15, 15, choice.randrange(16))),
                bool(choice.getrandbits(1)),
            )
            plans.append((form, replace(form, line=change.line(form)), change))
    found, tested, seen_controls = [], set(), set()
    for form, shown, change, words in planned(target, plans):
        for number in (0, 1):
            batch = batch_of(form, number)
            found += vector_cases.check(
                target, shown, words, batch, number, Change(change.apply(batch, controls[change.control]))
            )
        tested.add(form.mnemonic)
        seen_controls.add(change.control)
    assert len(tested) >= 100
    assert seen_controls == set(controls)
    assert not found, report(found)
