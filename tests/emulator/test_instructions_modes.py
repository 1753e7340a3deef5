"""MODE: rounding, denormals, IEEE, FP16_OVFL; and the output scale, which depends on it. Against AMD's pseudocode."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from emulator.pcode import formats, vector_cases
from emulator.pcode.evaluate import USUAL, Outcome
from emulator.pcode.forms import vector_forms
from emulator.pcode.modifiers import element
from emulator.pcode.plans import Planned, batch_of, planned
from emulator.pcode.session import FRESH, TARGETS, report
from emulator.pcode.values import FLOATS
from emulator.pcode.vector_cases import Change
from support.instructions import DEFAULT_MODE


def _scaled(outcome: Outcome, factor: int, kind: str) -> Outcome:
    """Result times 2 ** ``factor``, rounded again; -0 becomes +0."""
    form = FLOATS[kind]
    number = formats.decode(form, outcome.bits & ((1 << form.bits) - 1))
    if number.finite:
        number = formats.finite(number.value * formats.power_of_two(factor))
    nans = ((0, form.bits, kind),) if number.kind == "nan" else ()
    return replace(outcome, bits=formats.encode(form, number), nans=nans)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("enabled", [True, False])
def test_output_scale(target: str, enabled: bool) -> None:
    """Applies only while denormal results are flushed and IEEE mode is off; otherwise nothing happens.
    Results near the denormals are left out: in which order the hardware flushes and scales is not said.
    """
    plans: list[Planned[int]] = []
    for form in vector_forms():
        kind = element(form.destination.format) if form.destination else ""
        if (
            form.encoding == "VOP3"
            and kind in ("f16", "f32", "f64")
            and form.mnemonic.startswith(
                ("V_ADD", "V_MUL_F", "V_FMA_F", "V_SUB", "V_MAX_F", "V_RNDNE", "V_FMAC")
            )
        ):
            for text, factor in (("mul:2", 1), ("mul:4", 2), ("div:2", -1)):
                plans.append((form, replace(form, line=f"{form.line} {text}"), factor))
    found, tested = [], 0
    mode = 0x100 if enabled else DEFAULT_MODE
    for form, shown, factor, words in planned(target, plans):
        assert form.destination is not None
        kind, batch = element(form.destination.format), batch_of(form)
        tiny = formats.power_of_two(4 - FLOATS[kind].bias)

        def skips(outcome: Outcome, kind: str = kind, tiny: Fraction = tiny) -> bool:
            number = formats.decode(FLOATS[kind], outcome.bits & ((1 << FLOATS[kind].bits) - 1))
            return number.finite and abs(number.value) < tiny

        def finish(
            outcome: Outcome, kind: str = kind, factor: int = factor, skips: Callable[[Outcome], bool] = skips
        ) -> Outcome:
            return outcome if not enabled or skips(outcome) else _scaled(outcome, factor, kind)

        arithmetic = (0, 0, 0, 0, False, 0) if enabled else USUAL
        found += vector_cases.check(
            target, shown, words, batch, 0, Change(batch, finish, None, mode, arithmetic, skips)
        )
        tested += 1
    assert tested >= 30
    assert not found, report(found)


MODE_SENSITIVE = (
    "V_ADD_F32", "V_SUB_F32", "V_MUL_F32", "V_FMA_F32", "V_FMAC_F32", "V_ADD_F16", "V_SUB_F16", "V_MUL_F16",
    "V_FMA_F16", "V_MAD_F16",
    "V_ADD_F64", "V_MUL_F64", "V_FMA_F64", "V_FMAC_F64", "V_CVT_F16_F32", "V_CVT_F32_F64", "V_CVT_F32_I32", "V_CVT_F32_U32",
    "V_CVT_F16_U16", "V_CVT_F16_I16", "V_CVT_F64_F32", "V_PK_ADD_F16", "V_PK_MUL_F16", "V_PK_FMA_F16",
    "V_PK_ADD_F32", "V_PK_MUL_F32",
    "V_PK_FMA_F32", "V_LDEXP_F32", "V_LDEXP_F64", "V_LDEXP_F16",
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_rounding_modes(target: str) -> None:
    """MODE[1:0] rounds f32 results, MODE[3:2] those of f64 and f16."""
    choice = random.Random(FRESH)
    found = []
    forms = [form for form in vector_forms() if form.mnemonic in MODE_SENSITIVE]
    for form, shown, _, words in planned(target, [(form, form, None) for form in forms]):
        for single in range(4):
            double = choice.randrange(4)
            batch = batch_of(form)
            mode = DEFAULT_MODE | single | double << 2
            found += vector_cases.check(
                target,
                shown,
                words,
                batch,
                1,
                Change(batch, mode=mode, arithmetic=(single, double, 3, 3, False, 1)),
            )
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_without_ieee_mode(target: str) -> None:
    """Minimum, maximum and median treat signalling NaNs as quiet ones when MODE.IEEE is off."""
    found, tested = [], 0
    forms = [form for form in vector_forms() if re.match(r"V_(PK_)?(MIN|MAX|MED)\d?_(NUM_)?F", form.mnemonic)]
    for form, shown, _, words in planned(target, [(form, form, None) for form in forms]):
        for number in (0, 1):
            batch = batch_of(form, number)
            found += vector_cases.check(
                target,
                shown,
                words,
                batch,
                1,
                Change(batch, mode=DEFAULT_MODE & ~0x200, arithmetic=(*USUAL[:5], 0)),
            )
            tested += 1
    assert tested >= 30
    assert not found, report(found)


@pytest.mark.parametrize("target", TARGETS)
def test_denormal_modes(target: str) -> None:
    """MODE[5:4] and [7:6]: bit 0 keeps denormal operands, bit 1 denormal results, of f32 and of f64 and
    f16.

    Not v_mad_f16: whether its product is flushed before the addition is not said.
    """
    choice = random.Random(FRESH)
    found = []
    forms = [
        form for form in vector_forms() if form.mnemonic in MODE_SENSITIVE and form.mnemonic != "V_MAD_F16"
    ]
    for form, shown, _, words in planned(target, [(form, form, None) for form in forms]):
        for single in range(4):
            double = choice.randrange(4)
            batch = batch_of(form)
            mode = DEFAULT_MODE & ~0xF0 | single << 4 | double << 6
            found += vector_cases.check(
                target,
                shown,
                words,
                batch,
                1,
                Change(batch, mode=mode, arithmetic=(0, 0, single, double, False, 1)),
            )
    assert not found, report(found)


OVERFLOWING = re.compile(
    r"V_(ADD|SUB|SUBREV|MUL|FMA|LDEXP|PK_ADD|PK_MUL|PK_FMA)_F16|V_CVT_(PK_|SR_)?(FP8|BF8|F16)_F32|V_CVT_SCALEF32_.*(FP8|BF8)_(F32|F16|BF16)"
)


@pytest.mark.parametrize("target", TARGETS)
def test_overflow_mode(target: str) -> None:
    """MODE.FP16_OVFL: f16 and 8-bit results of finite operands that are too large become the largest finite number."""
    found, tested = [], 0
    forms = [form for form in vector_forms() if OVERFLOWING.fullmatch(form.mnemonic)]
    for form, shown, _, words in planned(target, [(form, form, None) for form in forms]):
        batch = batch_of(form)
        change = Change(batch, mode=DEFAULT_MODE | 1 << 23, arithmetic=(0, 0, 3, 3, True, 1))
        found += vector_cases.check(target, shown, words, batch, 1, change)
        tested += 1
    assert tested >= {"gfx942": 18, "gfx950": 30}[target]
    assert not found, report(found)
