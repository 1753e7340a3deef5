"""Computed float arguments: their meaning against Python's own numbers, and their refusals."""

from __future__ import annotations

import math

import pytest

from aiter_prebuilt.contract.expression import ExpressionError
from aiter_prebuilt.contract.real import check, compile_real, evaluate

SLOTS = {"M": 0, "d": 1}
FLOATS = ("scale", "cap")


def value(
    text: str, slots: tuple[int, ...] = (0, 0), floats: tuple[float, ...] = (0.0, 0.0), **constants: int
) -> float:
    return evaluate(compile_real(text, SLOTS, FLOATS, constants), slots, floats)


def test_what_attention_kernels_ask_for() -> None:
    assert value("1 / sqrt(d) * log2(e)", (0, 128)) == 1.0 / math.sqrt(128) * math.log2(math.e)
    assert value("scale * log2(e)", floats=(0.1, 0.0)) == 0.1 * math.log2(math.e)
    assert (value("1.0"), value("-0.5"), value("BM / 4", BM=6)) == (1.0, -0.5, 1.5)


def test_what_is_constant_is_one_number() -> None:
    assert len(compile_real("1 / sqrt(BM) * log2(e)", SLOTS, FLOATS, {"BM": 64})) == 9


def test_a_dim_hides_a_number_of_mathematics() -> None:
    assert evaluate(compile_real("e", {"e": 0}, (), {}), (7,), ()) == 7.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 //", "not an expression"),
        ("M // 2", "FloorDiv is not part of the language of real numbers"),
        ("M if d else 2", "IfExp is not part"),
        ("'x'", "'x' is not a number"),
        ("True", "True is not a number"),
        ("skale", r"unknown name 'skale' \(known: M, cap, d, scale\)"),
        ("log2(d)", r"log2\(\) is for constants only"),
        ("log2(-1)", r"log2\(\): "),
        ("exp2(5000)", r"exp2\(\): "),
        ("sqrt(1, 2)", r"sqrt\(\) with 2 arguments"),
        ("floor(1)", r"floor\(\) with 1 arguments"),
        (f"1{'0' * 400}", "is no double"),
    ],
)
def test_what_is_no_real(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        compile_real(text, SLOTS, FLOATS, {})


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "exactly one value"),
        ("50", "unknown operation 0x50 at byte 0"),
        ("43", "unknown operation 0x43 at byte 0"),
        ("4000", "operation 0x40 at byte 0 is cut off"),
        ("410200", "slot 2 at byte 0, but there are 2"),
        ("420200", "float slot 2 at byte 0, which no attribute has"),
        ("48", "stack underflow at byte 0"),
        ("4f", "stack underflow at byte 0"),
        ("410000410000", "exactly one value"),
        ("410000" * 33 + "48" * 32, "stack deeper than 32 at byte 96"),
        ("410000" * 1366, "4098 bytes of bytecode, at most 4096"),
    ],
)
def test_a_malformed_program_is_refused(code: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        check(bytes.fromhex(code), 2, {0, 1})
