"""Every SALU instruction that changes registers alone (SOP1, SOP2, SOPC, SOPK) against AMD's pseudocode, on
both targets.

All of the wave's state is compared: SCC, EXEC, VCC and every register that the text does not assign must be
as they were.
"""

from __future__ import annotations

import pytest
from emulator.pcode import scalar_cases
from emulator.pcode.session import SEEDS, TARGETS, assembled, report


@pytest.mark.parametrize("target", TARGETS)
def test_every_form_gives_what_the_pseudocode_says(target: str) -> None:
    found: list[str] = []
    forms = assembled(target, scalar_cases.scalar_forms())
    assert len(forms) >= 229
    for form, words in forms:
        for seed, count in zip(SEEDS, (32, 12), strict=True):
            found += scalar_cases.check_form(target, form, words, seed, count)
    assert not found, report(found)
