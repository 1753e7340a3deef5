"""Runs VALU forms on 64 lanes and compares the whole wave with the pseudocode."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
from emulator.pcode import compare, samples
from emulator.pcode.entries import text_of
from emulator.pcode.evaluate import USUAL, Lane, Outcome, evaluate
from emulator.pcode.forms import DESTINATION, SOURCES, Form
from support.instructions import DEFAULT_MODE, EXEC, LANES, Wave, WaveFaultError, run

#: Largest distance, in representable values, from the exact result rounded once. What is not here is compared bit for bit.
ULPS: Final = {
    f"V_{name}_{kind}": 1
    for name in ("EXP", "LOG", "RCP", "RSQ", "SQRT", "SIN", "COS", "RCP_IFLAG")
    for kind in ("F16", "F32", "F64")
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Operand bits by source and lane, the old destination, VCC or the mask that is read, and EXEC."""

    sources: tuple[tuple[int, ...], ...]
    old: tuple[int, ...]
    mask: int
    exec: int


@cache
def noise(number: int) -> Wave:
    """A wave full of random bits: what no instruction names must keep them."""
    bits = np.random.default_rng(number)
    wave = Wave(
        bits.integers(0, 1 << 32, (512, LANES), np.uint32, endpoint=False),
        bits.integers(0, 1 << 32, 128, np.uint32),
        number & 1,
    )
    wave.mode = DEFAULT_MODE
    return wave


def batches(form: Form, seed: str, count: int) -> Iterator[Batch]:
    """The same for both encodings and both targets: the evaluation is done once. EXEC: all, about half, and
    in one of them none.
    """
    for i in range(count):
        source = random.Random(f"{seed}:{form.mnemonic}:{i}")
        lanes: list[list[int]] = []
        for _ in range(LANES):
            values = [samples.sample(one.format, one.bits, source) for one in form.sources]
            samples.related(values, [one.bits for one in form.sources], source)
            if form.mnemonic.startswith("V_DIV_SCALE"):
                values[0] = values[source.choice((1, 2))]
            elif form.mnemonic == "V_PERM_B32":
                values[2] = sum(source.randrange(16) << 8 * k for k in range(4))
            # Bits above a narrow operand are somebody else's.
            lanes.append(
                [
                    v | source.getrandbits(32) >> one.bits << one.bits if one.bits < 32 else v
                    for v, one in zip(values, form.sources, strict=True)
                ]
            )
        old = tuple(
            samples.sample(form.destination.format, form.destination.bits, source)
            | (source.getrandbits(32) >> form.destination.bits << form.destination.bits)
            if form.destination and form.destination.bits < 32
            else samples.sample(form.destination.format, form.destination.bits, source)
            if form.destination
            else 0
            for _ in range(LANES)
        )
        executed = (1 << LANES) - 1 if i % 2 == 0 else source.getrandbits(LANES)
        yield Batch(tuple(zip(*lanes, strict=True)), old, source.getrandbits(LANES), executed)
    source = random.Random(f"{seed}:{form.mnemonic}:off")
    none = tuple(tuple(source.getrandbits(one.bits) for _ in range(LANES)) for one in form.sources)
    yield Batch(none, tuple(source.getrandbits(32) for _ in range(LANES)), source.getrandbits(64), 0)


def put(wave: Wave, first: int, dwords: int, values: tuple[int, ...]) -> None:
    """Row ``first`` + d gets dword d of every lane's value."""
    for d in range(dwords):
        wave.vector[first + d] = [value >> 32 * d & 0xFFFFFFFF for value in values]


def get(wave: Wave, first: int, dwords: int, lane: int) -> int:
    return sum(int(wave.vector[first + d, lane]) << 32 * d for d in range(dwords))


def prepare(form: Form, batch: Batch, number: int) -> Wave:
    wave = noise(number).copy()
    for i, values in enumerate(batch.sources):
        put(wave, SOURCES[i], form.sources[i].dwords, values)
    if form.destination:
        put(wave, DESTINATION, form.destination.dwords, batch.old)
    if form.mask_in >= 0:
        wave.set_pair(form.mask_in, batch.mask)
    wave.set_pair(EXEC, batch.exec)
    return wave


def outcome_of(
    form: Form, batch: Batch, lane: int, fnuz: bool, mode: tuple[int, int, int, int, bool, int] = USUAL
) -> Outcome:
    """The pseudocode's result for one lane."""
    text = text_of(form.encoding, form.mnemonic)
    assert text is not None
    sources = tuple(
        (values[lane], one.dwords * 32) for values, one in zip(batch.sources, form.sources, strict=True)
    )
    extra = tuple((name, bits, 64 if name == "TRUTH_TABLE" else 4) for name, bits in form.extra)
    if form.literal:
        extra += (("SIMM32", form.literal, 32), ("SIMM16", form.literal & 0xFFFF, 16))
    small = fnuz and any(word in text for word in ("fp8", "bf8"))
    width = 32 * form.destination.dwords if form.destination else 64
    old = batch.old[lane] if "D0" in text or "VDST" in text else 0
    return evaluate(text, Lane(sources, old, width, batch.mask >> lane & 1, lane, small, extra, mode))


@dataclass(frozen=True, slots=True)
class Change:
    """What modifiers do. ``seen``: the batch as the pseudocode sees it. ``finish``: its outcome to the
    final one. ``merge``: (bits that the register would get, old) to what it gets. ``mode``: MODE, and
    the same for the evaluator. ``skips``: lanes whose result is left alone, given the outcome.
    ``scalars``: registers that a scalar source reads.
    """

    seen: Batch
    finish: Callable[[Outcome], Outcome] = lambda outcome: outcome
    merge: Callable[[int, int], int] | None = None
    mode: int = DEFAULT_MODE
    arithmetic: tuple[int, int, int, int, bool, int] = USUAL
    skips: Callable[[Outcome], bool] = lambda outcome: False
    scalars: Mapping[int, int] = field(default_factory=dict)


def check(
    target: str, form: Form, words: tuple[int, ...], batch: Batch, number: int, change: Change | None = None
) -> list[str]:
    """Differences between the wave after the instruction and what the pseudocode says, as text."""
    before = prepare(form, batch, number)
    change = change or Change(batch)
    before.mode, seen = change.mode, change.seen
    for index, value in change.scalars.items():
        before.scalar[index] = value
    try:
        after = run(target, words, before)
    except WaveFaultError as error:
        return [f"{form.line}: {error}"]
    want = before.copy()
    found: list[str] = []
    mask = 0
    for lane in range(LANES):
        if not seen.exec >> lane & 1:
            continue
        outcome = change.finish(outcome_of(form, seen, lane, target == "gfx942", change.arithmetic))
        if change.skips(outcome) and form.destination is not None:
            put_lane(
                want,
                DESTINATION,
                form.destination.dwords,
                lane,
                get(after, DESTINATION, form.destination.dwords, lane),
            )
            continue
        mask |= mask_bit(form, outcome) << lane
        if form.destination is not None:
            found += _check_lane(form, batch, lane, outcome, want, after, change.merge)
    if form.mask >= 0:
        want.set_pair(form.mask, mask)
        if "_CMPX_" in form.mnemonic:
            want.set_pair(EXEC, mask)
    if not found:
        found += others(form, want, after)
    return found


def mask_bit(form: Form, outcome: Outcome) -> int:
    """The bit that the lane gives to a lane mask: of a comparison D0's, of a carry VCC's, of v_mad_u64_u32 D1's."""
    if form.mask < 0:
        return 0
    if "_CMP" in form.mnemonic:
        return int(outcome.values["D0"] != 0)
    return int(outcome.values["D1" if form.mnemonic.startswith("V_MAD_") else "VCC"] != 0)


def _check_lane(
    form: Form,
    batch: Batch,
    lane: int,
    outcome: Outcome,
    want: Wave,
    after: Wave,
    merge: Callable[[int, int], int] | None,
) -> list[str]:
    """Compares the destination and, where it is right, takes what is there over into ``want``."""
    assert form.destination is not None
    dwords = form.destination.dwords
    high = bool(dict(form.extra).get("HIGH"))
    bits, nans = compare.expected(form.mnemonic, outcome, batch.old[lane], high)
    if merge is not None:
        bits, nans = merge(bits, batch.old[lane]), ()
    got = get(after, DESTINATION, dwords, lane)
    good = compare.matches(got, bits, nans)
    if not good and form.mnemonic in ULPS:
        kind, width = f"f{form.mnemonic[-2:]}", int(form.mnemonic[-2:])
        low = (1 << width) - 1
        near = compare.steps_apart(kind, got & low, bits & low) <= ULPS[form.mnemonic]
        good = near and got >> width == bits >> width
    if good:
        put_lane(want, DESTINATION, dwords, lane, got)
        return []
    operands = " ".join(f"S{i}={values[lane]:#x}" for i, values in enumerate(batch.sources))
    given = f"{operands} D0={batch.old[lane]:#x} mask={batch.mask >> lane & 1}"
    wanted = f"{bits:#x}{' (NaN)' if nans else ''}"
    return [f"{form.line} lane {lane}: {given}: expected {wanted}, got {got:#x}"]


def put_lane(wave: Wave, first: int, dwords: int, lane: int, value: int) -> None:
    for d in range(dwords):
        wave.vector[first + d, lane] = value >> 32 * d & 0xFFFFFFFF


def others(form: Form, want: Wave, after: Wave) -> list[str]:
    """Everything that must be as ``want`` has it: registers, scalars, SCC, MODE."""
    found = [f"{form.line}: {text}" for text in differences(want, after)]
    if (want.scc, want.mode) != (after.scc, after.mode):
        wanted = f"expected {want.scc}, {want.mode:#x}"
        found.append(f"{form.line}: SCC {after.scc}, MODE {after.mode:#x}; {wanted}")
    return found


def differences(want: Wave, after: Wave) -> list[str]:
    """Registers that differ."""
    rows = zip(*np.nonzero(want.vector != after.vector), strict=True)
    found = [f"v{r} of lane {n} is {after.vector[r, n]:#x} and not {want.vector[r, n]:#x}" for r, n in rows]
    scalars = np.nonzero(want.scalar != after.scalar)[0]
    return found + [f"s{i} is {after.scalar[i]:#x} and not {want.scalar[i]:#x}" for i in scalars]


def check_form(target: str, form: Form, words: tuple[int, ...], seed: str, count: int) -> list[str]:
    """All batches of a form; at most three differences."""
    found: list[str] = []
    for number, batch in enumerate(batches(form, seed, count)):
        found += check(target, form, words, batch, number)
    return found[:3] if len(found) < 4 else [*found[:3], f"{form.line}: {len(found) - 3} more"]
