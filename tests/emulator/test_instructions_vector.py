"""Every VALU instruction (VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P without matrix) of both targets against
AMD's pseudocode.

64 lanes of edge values and random ones per wave; EXEC full, about half and off; the whole register file,
VCC, SCC, MODE and every other scalar register compared afterwards, so that inactive lanes and registers
that are not named must be as they were.

NaN: where the pseudocode moves or defines bits (moves, min, max, med, div_fixup, frexp, cvtToQuietNAN,
class) they are compared bit for bit. Where a NaN comes out of arithmetic or a conversion, any quiet NaN of
the format will do: the ISA leaves its payload open. Transcendental results may be one representable value
away from the exact one rounded once (``vector_cases.ULPS``).
"""

from __future__ import annotations

import pytest
from emulator.pcode import vector_cases
from emulator.pcode.entries import NOT_EVALUATED, texts
from emulator.pcode.forms import WAVE_LEVEL, vector_forms
from emulator.pcode.session import SEEDS, TARGETS, WITHOUT_TEXT, assembled, report, untested
from support.instructions import assemble


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_form_gives_what_the_pseudocode_says(target: str) -> None:
    found: list[str] = []
    for form, words in assembled(target, vector_forms()):
        for seed, count in zip(SEEDS, (2, 1), strict=True):
            found += vector_cases.check_form(target, form, words, seed, count)
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_nearly_all_forms_are_compared(target: str) -> None:
    """Guards the guard: a change that makes forms disappear from the comparison must be seen."""
    assert len(assembled(target, vector_forms())) >= {"gfx942": 800, "gfx950": 870}[target]


def test_what_is_not_compared_is_listed() -> None:
    left = {form.mnemonic for form in vector_forms() if untested(form)}
    listed = {*WITHOUT_TEXT, *(name for name in left if name.startswith(tuple(NOT_EVALUATED)))}
    assert left <= listed
    assert len(left) <= 5


@pytest.mark.parametrize("target", TARGETS)
def test_forms_that_the_assembler_refuses_belong_to_the_other_target(target: str) -> None:
    forms = vector_forms()
    both = [assemble(name, [form.line for form in forms]) for name in TARGETS]
    mine = both[TARGETS.index(target)]
    refused = [form.mnemonic for form, one in zip(forms, mine, strict=True) if not one.words]
    nowhere = [f.mnemonic for f, a, b in zip(forms, *both, strict=True) if not a.words and not b.words]
    assert set(nowhere) <= {"V_ACCVGPR_MOV_B32"}  # takes accumulation registers only
    assert len(refused) <= {"gfx942": 75, "gfx950": 2}[target]


def test_wave_level_instructions_have_a_test_of_their_own() -> None:
    from emulator import test_instructions_lanes

    covered = test_instructions_lanes.COVERED
    named = {name for _, name in texts()}
    assert set(WAVE_LEVEL) & named - {"V_NOP", "V_CLREXCP"} <= covered
