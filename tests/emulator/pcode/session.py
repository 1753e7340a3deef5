"""Seeds, and forms assembled once per target and test session."""

from __future__ import annotations

import os
import random
from functools import cache
from typing import Final

from emulator.pcode.entries import reason_not_evaluated, text_of
from emulator.pcode.forms import Form
from support.instructions import assemble

TARGETS: Final = ("gfx942", "gfx950")
FRESH: Final = os.environ.get("AITER_PREBUILT_TEST_SEED") or str(random.randrange(1 << 31))
"""A seed of this run; a failure names it, and the variable repeats it."""
SEEDS: Final = ("fixed", FRESH)

#: Opcodes of AMD's data without pseudocode in the package.
WITHOUT_TEXT: Final = {
    "V_SCREEN_PARTITION_4SE_B32": "a graphics instruction; no text",
    "V_ACCVGPR_MOV_B32": "no text; accumulation registers only",
    "V_EXP_LEGACY_F32": "no text; the same function as V_EXP_F32: test_legacy_forms",
    "V_LOG_LEGACY_F32": "no text; the same function as V_LOG_F32: test_legacy_forms",
    "S_RFE_RESTORE_B64": "no text; returns from a trap handler",
}


@cache
def assembled(target: str, forms: tuple[Form, ...]) -> tuple[tuple[Form, tuple[int, ...]], ...]:
    """The forms that the target has and the evaluator takes, with their words."""
    wanted = [one for one in forms if not untested(one)]
    words = assemble(target, [one.line for one in wanted])
    return tuple((form, one.words) for form, one in zip(wanted, words, strict=True) if one.words)


def untested(form: Form) -> str | None:
    """Why a form is not compared with its text; None when it is."""
    if text_of(form.encoding, form.mnemonic) is None:
        return WITHOUT_TEXT.get(form.mnemonic, "no text")
    return reason_not_evaluated(form.mnemonic)


def report(differences: list[str]) -> str:
    shown = differences[:20]
    if len(differences) > 20:
        shown.append(f"... {len(differences) - 20} more")
    return "\n".join([f"fresh seed {FRESH} (AITER_PREBUILT_TEST_SEED)", *shown])
