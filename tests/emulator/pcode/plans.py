"""Forms with modifiers: assembled together, those that the assembler refuses left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from emulator.pcode import vector_cases
from emulator.pcode.forms import Form
from emulator.pcode.modifiers import element
from emulator.pcode.session import FRESH, untested
from emulator.pcode.values import FLOATS
from emulator.pcode.vector_cases import Batch
from support.instructions import assemble

Change = TypeVar("Change")
Planned: TypeAlias = tuple[Form, Form, Change]
"""The plain form, the form that is assembled, and its modifiers."""


def planned(
    target: str, plans: Iterable[Planned[Change]]
) -> list[tuple[Form, Form, Change, tuple[int, ...]]]:
    """Those that the assembler takes."""
    wanted = [plan for plan in plans if not untested(plan[0])]
    words = assemble(target, [plan[1].line for plan in wanted])
    return [(*plan, one.words) for plan, one in zip(wanted, words, strict=True) if one.words]


def batch_of(form: Form, number: int = 0) -> Batch:
    return list(vector_cases.batches(form, f"{FRESH}:modifiers", number + 1))[number]


def is_float(form: Form) -> bool:
    return any(element(one.format) in FLOATS for one in form.sources)
