"""Runs SALU forms and compares the whole wave with the pseudocode. One value at a time: there is one scalar file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from emulator.pcode import samples
from emulator.pcode.entries import text_of
from emulator.pcode.evaluate import Lane, Outcome, evaluate
from emulator.pcode.forms import SCALAR_DESTINATION, SCALARS, Form, Operand, register
from emulator.pcode.vector_cases import noise, others
from support.instructions import EXEC, M0, VCC, Wave, WaveFaultError, run

from csrc.emulator.generate.isa_tables import OperandRow, rows

#: What changes the program counter or how later instructions are read; test_control runs small programs of them.
CONTROL: Final = (
    "S_SETPC_B64", "S_SWAPPC_B64", "S_RFE_B64", "S_CBRANCH_JOIN", "S_CBRANCH_G_FORK", "S_CBRANCH_I_FORK",
    "S_CALL_B64", "S_GETPC_B64",
    "S_SETVSKIP", "S_SET_GPR_IDX_ON", "S_SET_GPR_IDX_IDX", "S_GETREG_B32", "S_SETREG_B32", "S_SETREG_IMM32_B32",
)  # fmt: skip
IMMEDIATES: Final = (0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x1234, 0xFEDC)


@cache
def scalar_forms() -> tuple[Form, ...]:
    """Every SALU form but those of control; SOPK with several immediates."""
    found: list[Form] = []
    for row in rows():
        if row.encoding in ("sop1", "sop2", "sopc", "sopk") and row.opcode not in CONTROL:
            found += _forms(row.opcode, row.encoding, row.operands)
    return tuple(found)


def _forms(opcode: str, encoding: str, operands: tuple[OperandRow, ...]) -> Iterator[Form]:
    slots = {row.slot: Operand(row.format, row.bits) for row in operands}
    sources = tuple(slots[s] for s in ("s0", "s1") if s in slots)
    destination = slots.get("d0")
    names = [register("s", SCALARS[i], one.dwords) for i, one in enumerate(sources)]
    if destination:
        names.insert(0, register("s", SCALAR_DESTINATION, destination.dwords))
    line = f"{opcode.lower()} {', '.join(names)}"
    if encoding != "sopk":
        yield Form(opcode, encoding.upper(), line, sources, destination)
        return
    for value in IMMEDIATES:
        yield Form(opcode, "SOPK", f"{line}, {value:#x}", sources, destination, literal=value)


@dataclass(frozen=True, slots=True)
class Case:
    sources: tuple[int, ...]
    old: int
    scc: int
    exec: int
    m0: int


def cases(form: Form, seed: str, count: int) -> Iterator[Case]:
    source = random.Random(f"{seed}:{form.mnemonic}:{form.literal}")
    for _ in range(count):
        values = [samples.sample(one.format, one.bits, source) for one in form.sources]
        samples.related(values, [one.bits for one in form.sources], source)
        exec_mask = source.choice((0, (1 << 64) - 1, source.getrandbits(64), values[0] if values else 0))
        if (
            "BFE" in form.mnemonic and source.random() < 0.7
        ):  # offset [5:0] and width [22:16] of most values would be out of range
            values[1] = source.randrange(64) | source.randrange(66) << 16
        old = source.getrandbits(64)
        yield Case(tuple(values), old, source.getrandbits(1), exec_mask & (1 << 64) - 1, source.randrange(20))


def outcome_of(form: Form, case: Case, wave: Wave) -> Outcome:
    text = text_of(form.encoding, form.mnemonic)
    assert text is not None
    values = list(zip(case.sources, (32 * one.dwords for one in form.sources), strict=True))
    if form.encoding == "SOPK":
        values.append((form.literal, 16))
    width = 32 * form.destination.dwords if form.destination else 32
    extra = [
        ("SCC", case.scc, 1),
        ("EXEC", case.exec, 64),
        ("M0", case.m0, 32),
        ("SRC0", SCALARS[0], 32),
        ("DST", SCALAR_DESTINATION, 32),
    ]
    if "SGPR" in text:
        extra += [(f"SGPR{i}", wave.pair(i), 64) for i in range(100)]
    return evaluate(text, Lane(tuple(values), case.old & ((1 << width) - 1), width, extra=tuple(extra)))


def check(target: str, form: Form, words: tuple[int, ...], case: Case, number: int) -> list[str]:
    """Differences between the wave after the instruction and what the pseudocode says."""
    before = noise(number).copy()
    for i, value in enumerate(case.sources):
        for d in range(form.sources[i].dwords):
            before.scalar[SCALARS[i] + d] = value >> 32 * d & 0xFFFFFFFF
    before.set_pair(SCALAR_DESTINATION, case.old)
    before.set_pair(EXEC, case.exec)
    before.scalar[M0], before.scc = case.m0, case.scc
    try:
        after = run(target, words, before)
    except WaveFaultError as error:
        return [f"{form.line}: {error}"]
    outcome, want = outcome_of(form, case, before), before.copy()
    _apply(outcome, want, case.old)
    if (
        np.array_equal(want.vector, after.vector)
        and np.array_equal(want.scalar, after.scalar)
        and want.scc == after.scc
    ):
        return []
    given = " ".join(f"S{i}={value:#x}" for i, value in enumerate(case.sources))
    return [
        f"{text} [{given} D0={case.old:#x} SCC={case.scc} EXEC={case.exec:#x} M0={case.m0}]"
        for text in others(form, want, after)
    ]


def _apply(outcome: Outcome, wave: Wave, old: int) -> None:
    if outcome.written:
        wave.set_pair(SCALAR_DESTINATION, (old & ~outcome.written) | (outcome.bits & outcome.written))
    for name, index in (("EXEC", EXEC), ("VCC", VCC)):
        if outcome.written_names[name]:
            wave.set_pair(index, outcome.values[name])
    if outcome.written_names["SCC"]:
        wave.scc = outcome.values["SCC"]
    for index, bits, width in outcome.scalars:
        wave.scalar[index] = bits & 0xFFFFFFFF
        if width == 64:
            wave.scalar[index + 1] = bits >> 32


def check_form(target: str, form: Form, words: tuple[int, ...], seed: str, count: int) -> list[str]:
    found: list[str] = []
    for number, case in enumerate(
        cases(form, seed, count if form.sources else max(2, count // len(IMMEDIATES)))
    ):
        found += check(target, form, words, case, number % 4)
    return found[:3]
