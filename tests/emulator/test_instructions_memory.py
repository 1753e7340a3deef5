"""DS, GLOBAL, FLAT and MUBUF loads, stores and atomics against AMD's pseudocode, one address per lane, EXEC
full or partly off.

Sums that are NaN may have any payload. Minimum and maximum of floats follow the text: the memory's value
stays unless the comparison of the data with it is true.
"""

from __future__ import annotations

import pytest
from emulator.pcode import memory_cases
from emulator.pcode.session import SEEDS, TARGETS, report
from support.instructions import assemble

AT_LEAST = {"ds": 110, "global": 75, "flat": 75, "mubuf": 70}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("encoding", AT_LEAST)
def test_every_access_does_what_the_pseudocode_says(target: str, encoding: str) -> None:
    accesses = memory_cases.accesses(encoding)
    found, tested = [], 0
    for access, one in zip(
        accesses, assemble(target, [access.form.line for access in accesses]), strict=True
    ):
        if one.words:
            tested += 1
            for seed in SEEDS:
                found += memory_cases.check(target, access, one.words, seed)
    assert tested >= AT_LEAST[encoding]
    assert not found, report(found)
