"""Computed float arguments: their meaning against Python's own numbers, and their refusals."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest

from aiter_prebuilt.contract.bytecode import ExpressionError
from aiter_prebuilt.contract.real import check, compile_real, evaluate, uses_call

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


NAN = math.nan


def bits(number: float) -> bytes:
    """So that zeros of two signs differ, and NaN is NaN."""
    return b"nan" if math.isnan(number) else struct.pack("<d", number)


def tree(depth: int) -> Any:
    kind = random.choice(["+", "-", "*", "/", "min", "max", "neg", "sqrt"]) if depth else ""
    if not kind:
        return random.choice(["M", "d", "scale", "cap", "BM", random.uniform(-9, 9), random.randint(0, 9)])
    return (kind, *(tree(depth - 1) for _ in range(1 if kind in ("neg", "sqrt") else 2)))


def text(node: Any) -> str:
    if not isinstance(node, tuple):
        return f"({node!r})" if isinstance(node, float) else str(node)
    parts = [text(part) for part in node[1:]]
    if node[0] in ("min", "max", "sqrt"):
        return f"{node[0]}({', '.join(parts)})"
    return f"(-{parts[0]})" if node[0] == "neg" else f"({parts[0]} {node[0]} {parts[1]})"


def meant(node: Any, names: dict[str, float]) -> float:
    """The meaning by walking the tree."""
    if not isinstance(node, tuple):
        return names[node] if isinstance(node, str) else float(node)
    kind, *parts = node[0], *(meant(part, names) for part in node[1:])
    if kind == "neg":
        return -parts[0]
    if kind == "sqrt":
        return NAN if parts[0] < 0 else math.sqrt(parts[0])
    a, b = parts
    if kind in ("min", "max"):
        return b if (b < a if kind == "min" else b > a) else a
    if kind == "/" and b == 0:
        sign = math.copysign(1, a) * math.copysign(1, b)
        return NAN if a == 0 or math.isnan(a) else sign * math.inf
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / (b or 1)}[kind]


def test_agrees_with_a_walk_of_the_tree() -> None:
    for _ in range(300):
        made = tree(random.randint(0, 4))
        slots = (random.choice([0, 1, -3, 2**53 + 1, 77]), random.choice([0, 128, -1]))
        floats = (random.choice([0.0, -0.0, 1.5, math.inf, NAN]), random.uniform(-1, 1))
        names = {"M": float(slots[0]), "d": float(slots[1]), "scale": floats[0], "cap": floats[1], "BM": 6.0}
        assert bits(value(text(made), slots, floats, BM=6)) == bits(meant(made, names)), (
            text(made),
            slots,
            floats,
        )


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (1.0, 0.0, math.inf), (-1.0, 0.0, -math.inf), (1.0, -0.0, -math.inf), (-1.0, -0.0, math.inf), (0.0, 0.0, NAN),
        (-0.0, 0.0, NAN), (NAN, 0.0, NAN), (math.inf, 0.0, math.inf), (math.inf, -0.0, -math.inf), (0.0, 2.0, 0.0),
        (0.0, -2.0, -0.0), (3.0, 2.0, 1.5),
    ],
)  # fmt: skip
def test_divisions(left: float, right: float, wanted: float) -> None:
    assert bits(value("scale / cap", floats=(left, right))) == bits(wanted)


@pytest.mark.parametrize(
    ("asked", "scale", "cap", "wanted"),
    [
        ("min(scale, cap)", 0.0, -0.0, 0.0), ("min(scale, cap)", -0.0, 0.0, -0.0), ("max(scale, cap)", 0.0, -0.0, 0.0),
        ("max(scale, cap)", -0.0, 0.0, -0.0), ("min(scale, cap)", NAN, 1.0, NAN), ("min(scale, cap)", 1.0, NAN, 1.0),
        ("max(scale, cap)", NAN, 1.0, NAN), ("max(scale, cap)", 1.0, NAN, 1.0), ("min(scale, cap)", 2.0, 1.0, 1.0),
        ("max(scale, cap)", 1.0, 2.0, 2.0), ("sqrt(scale)", -0.0, 0.0, -0.0), ("sqrt(scale)", 0.0, 0.0, 0.0),
        ("sqrt(scale)", -5e-324, 0.0, NAN), ("sqrt(scale)", 9.0, 0.0, 3.0), ("scale - cap", 1.0, 3.0, -2.0),
        ("-scale", 0.0, 0.0, -0.0),
    ],
)  # fmt: skip
def test_zeros_and_nan(asked: str, scale: float, cap: float, wanted: float) -> None:
    assert bits(value(asked, floats=(scale, cap))) == bits(wanted)


def test_what_a_name_means() -> None:
    """A constant, else a float attribute, else a dim, else a number of mathematics."""
    slots = {"scale": 0, "e": 1, "pi": 2, "d": 3}
    for constants, floats, wanted in (({"e": 5}, ["e"], 5.0), ({}, ["scale", "e"], 2.5), ({}, [], 7.0)):
        code = compile_real("e", slots, floats, constants)
        assert evaluate(code, (0, 7, 0, 0), (1.5, 2.5)[: len(floats)]) == wanted
    assert value("e") == math.e and value("pi / 2") == math.pi / 2
    assert value("log2(8) + exp2(3) * exp2(-1)") == 3.0 + 8.0 * 0.5
    assert value("2") == 2.0 and value(" 3 ") == 3.0 and value("1e300 * 1e300") == math.inf


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("M", "410000"),
        ("d", "410100"),
        ("scale", "420000"),
        ("cap", "420100"),
        ("M + d", "41000041010048"),
        ("M - d", "41000041010049"),
        ("M * d", "4100004101004a"),
        ("M / d", "4100004101004b"),
        ("min(M, d)", "4100004101004c"),
        ("max(M, d)", "4100004101004d"),
        ("-M", "4100004e"),
        ("sqrt(M)", "4100004f"),
        ("1.5", "40000000000000f83f"),
    ],
)
def test_programs(asked: str, code: str) -> None:
    made = compile_real(asked, SLOTS, FLOATS, {})
    assert made.hex() == code and uses_call(made) == (asked != "1.5")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("sqrt(1, key=2)", "Call is not part of the language of real numbers in 'sqrt(1, key=2)'"),
        ("M.sqrt(1)", "Call is not part of"), ("+M", "UAdd is not part of"), ("not M", "Not is not part of"),
        ("M ** 2", "Pow is not part of"), ("1j", "1j is not a number in '1j'"), ("min(1)", "min() with 1 arguments"),
        ("max(1, 2, 3)", "max() with 3 arguments"), ("sqrt()", "sqrt() with 0 arguments"),
        ("log2(1, 2)", "log2() with 2 arguments"),
        ("log2(0)", "log2(): "), ("exp2(scale)", "exp2() is for constants only in 'exp2(scale)'"),
        ("", "'' is not an expression: "),
    ],
)  # fmt: skip
def test_texts_outside_the_language(asked: str, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        compile_real(asked, SLOTS, FLOATS, {})
    assert words in str(refused.value)


def test_what_is_known_are_names_that_people_write() -> None:
    slots = {"M": 0, "?": 1, "&ab": 2, "?ab": 3, "a&": 4}
    with pytest.raises(ExpressionError, match=r"^unknown name 'zz' \(known: B, M, a&, cap\) in 'zz'$"):
        compile_real("zz", slots, ["cap"], {"B": 1})


def test_programs_at_their_bounds() -> None:
    check(bytes.fromhex("410000" * 32 + "48" * 31), 1, ())
    whole = "410000" + "41000048" * 1023
    check(bytes.fromhex(whole + "4e"), 1, ())
    with pytest.raises(ExpressionError, match=r"^4097 bytes of bytecode, at most 4096 are allowed$"):
        check(bytes.fromhex(whole + "4e4e"), 1, ())
    check(bytes.fromhex("410100"), 2, ())
    check(bytes.fromhex("420300"), 0, {3})
    for code, words in (
        ("410000" + "47", "unknown operation 0x47 at byte 3"), ("4100", "operation 0x41 at byte 0 is cut off"),
        ("41000048", "stack underflow at byte 3"), ("410000" * 2 + "4e", "a program must end with exactly one value"),
        ("4e", "stack underflow at byte 0"), ("420300", "float slot 3 at byte 0, which no attribute has"),
    ):  # fmt: skip
        with pytest.raises(ExpressionError) as refused:
            check(bytes.fromhex(code), 1, {2, 4})
        assert str(refused.value) == words
