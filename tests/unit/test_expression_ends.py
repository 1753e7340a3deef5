"""Bytecode at its ends: exact programs, exact refusals, the last that holds and the first that does not."""

from __future__ import annotations

import random
import struct

import pytest

from aiter_prebuilt.contract import bytecode
from aiter_prebuilt.contract.bytecode import ExpressionError, check, constant_value, evaluate, slots_of
from aiter_prebuilt.contract.expression import Scope, compile_expression

SCOPE = Scope({"M": 0, "N": 300, "&x": 2, "?x": 3}, {"C": 7}, {"mode": ["a", "b"]}, {"T": "bf16"})
M, N, ADDRESS, GIVEN = b"\x03\x00\x00", b"\x03\x2c\x01", b"\x03\x02\x00", b"\x03\x03\x00"


def push(value: int) -> bytes:
    return b"\x01" + struct.pack("<b", value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("-128", push(-128)), ("127", push(127)), ("128", b"\x02\x80" + bytes(7)), ("-129", b"\x02\x7f" + b"\xff" * 7),
        ("9223372036854775807", b"\x02" + b"\xff" * 7 + b"\x7f"), ("True", push(1)), ("C", push(7)), (5, push(5)),
        ("M", M), ("N", N), ("M + C", M + push(7) + b"\x10"), ("M - 1", M + push(1) + b"\x11"), ("M * 1", M + push(1) + b"\x12"),
        ("M // 1", M + push(1) + b"\x13"), ("M % 1", M + push(1) + b"\x14"), ("cdiv(M, 1)", M + push(1) + b"\x15"),
        ("min(M, 1)", M + push(1) + b"\x16"), ("max(M, 1, 2)", M + push(1) + b"\x17" + push(2) + b"\x17"),
        ("-M", M + b"\x18"), ("not M", M + b"\x19"), ("M == 1", M + push(1) + b"\x20"), ("M != 1", M + push(1) + b"\x21"),
        ("M < 1", M + push(1) + b"\x22"), ("M <= 1", M + push(1) + b"\x23"), ("M > 1", M + push(1) + b"\x24"),
        ("M >= 1", M + push(1) + b"\x25"), ("M and N", M + b"\x32\x03\x00" + N + b"\x1a"),
        ("M or N", M + b"\x33\x03\x00" + N + b"\x1a"),
        ("M if N else 2", N + b"\x31\x06\x00" + M + b"\x30\x02\x00" + push(2)),
        ("1 < M < 2", push(1) + M + b"\x22" + b"\x32\x06\x00" + M + push(2) + b"\x22"),
        ("given(x)", GIVEN), ("aligned(x, 16)", ADDRESS + push(16) + b"\x14" + push(0) + b"\x20"),
        ("T == 'bf16'", push(1)), ("T != 'bf16'", push(0)), ("T == 'f16'", push(0)), ("T != 'f16'", push(1)),
        ("2 + 3 * 4", push(14)), ("1 // 0", push(1) + push(0) + b"\x13"),
    ],
)  # fmt: skip
def test_programs(text: str, code: bytes) -> None:
    names = {"M": 0, **{f"s{at}": at for at in range(1, 300)}, "N": 300, "&x": 2, "?x": 3}
    assert compile_expression(text, Scope(names, SCOPE.constants, SCOPE.enums, SCOPE.strings)) == code


SMALL = Scope({"M": 0, "mode": 1, "&x": 2, "?x": 3}, {"C": 7}, {"mode": ["a", "b"]}, {"T": "bf16"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("M & 1", "BitAnd is not part of the expression language in 'M & 1'"),
        ("+M", "UAdd is not part of"), ("M is 1", "Is is not part of"), ("M[0]", "Subscript is not part of"),
        ("min(M)", "min() with 1 arguments is not part of"), ("cdiv(1, 2, 3)", "cdiv() with 3 arguments is not part of"),
        ("cdiv(1)", "cdiv() with 1 arguments"), ("aligned(x)", "aligned() with 1 arguments"),
        ("given(x, x)", "given() with 2 arguments"),
        ("given(M)", "aligned() and given() take the name of a tensor argument in 'given(M)'"),
        ("given(1)", "aligned() and given() take the name"), ("min(M, 1, key=2)", "Call is not part of"),
        ("M.min(1, 2)", "Call is not part of"), ("Q", "unknown name 'Q' (known: C, M, mode) in 'Q'"),
        ("mode == 'c'", "'c' is not one of a, b in"), ("T < 'bf16'", "unknown name 'T'"),
        ("M == 'a'", "'a' can only be compared (== or !=) with an enum attribute or a string constant"),
        ("9223372036854775808", "9223372036854775808 does not fit 64 bits"), ("'a'", "'a' is not an integer"),
        ("1 +", "'1 +' is not an expression: "),
    ],
)  # fmt: skip
def test_texts_outside_the_language(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        compile_expression(text, SMALL)
    assert words in str(refused.value)


def test_an_enum_is_its_place() -> None:
    assert compile_expression("mode == 'b'", SMALL) == b"\x03\x01\x00" + push(1) + b"\x20"
    assert compile_expression("mode != 'a'", SMALL) == b"\x03\x01\x00" + push(0) + b"\x21"


def test_how_long_a_program_may_be() -> None:
    longest = ", ".join(["M"] * 1024)  # 1024 loads of 3 bytes, 1023 operations
    assert len(compile_expression(f"max({longest})", SMALL)) == 4095
    assert len(compile_expression(f"not max({longest})", SMALL)) == 4096
    with pytest.raises(ExpressionError, match=r"^more than 4096 bytes of bytecode in "):
        compile_expression(f"not not max({longest})", SMALL)
    with pytest.raises(ExpressionError, match=r"^more than 4096 bytes of bytecode in "):
        compile_expression(f"max({longest}, M)", SMALL)
    for count in (2000, 5000):  # which part of Python gives up first, if any does, is its own affair
        with pytest.raises(
            ExpressionError, match=r"nests too deep$|recursion depth|nested|more than 4096 bytes"
        ):
            compile_expression("+".join(["M"] * count), SMALL)
    nops = b"\x1a" * 4094
    check(push(1) + nops, 0)
    with pytest.raises(ExpressionError, match=r"^4097 bytes of bytecode, at most 4096 are allowed$"):
        check(push(1) + nops + b"\x1a", 0)


def test_how_deep_a_stack_may_be() -> None:
    check(push(1) * 32 + b"\x10" * 31, 0)
    with pytest.raises(ExpressionError, match=r"^stack deeper than 32 at byte 64$"):
        check(push(1) * 33 + b"\x10" * 32, 0)


ONE = push(1)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (b"\x00", "unknown operation 0x00 at byte 0"), (ONE + b"\x1e", "unknown operation 0x1e at byte 2"),
        (ONE + b"\x3f", "unknown operation 0x3f at byte 2"),
        (ONE + ONE + b"\x26", "unknown operation 0x26 at byte 4"), (ONE + b"\x34\x00\x00", "unknown operation 0x34 at byte 2"),
        (b"\x04", "unknown operation 0x04 at byte 0"), (b"\x01", "operation 0x01 at byte 0 is cut off"),
        (b"\x02" + bytes(7), "operation 0x02 at byte 0 is cut off"), (b"\x03\x00", "operation 0x03 at byte 0 is cut off"),
        (ONE + b"\x30\x00", "operation 0x30 at byte 2 is cut off"), (b"\x03\x01\x00", "slot 1 at byte 0, but there are 1"),
        (ONE + b"\x10", "stack underflow at byte 2"), (b"\x18", "stack underflow at byte 0"),
        (b"\x31\x00\x00", "stack underflow at byte 0"),
        (b"\x32\x00\x00", "stack underflow at byte 0"), (ONE + ONE, "a program must end with exactly one value"),
        (ONE + b"\x30\x01\x00", "jump at byte 2 leaves the program"), (ONE + b"\x30\x02\x00" + ONE, "no path leads to byte 5"),
        (ONE + b"\x33\x01\x00" + ONE, "jump into the middle of an instruction at byte 6"),
        ((ONE + b"\x33\x01\x00") * 2 + ONE, "jump into the middle of an instruction at byte 6"),
        (ONE + b"\x31\x02\x00" + ONE, "a program must end with exactly one value"),
        (ONE + ONE + b"\x31\x02\x00" + ONE + b"\x18", "stack depth differs between the paths that meet at byte 9"),
        (ONE + b"\x31\x03\x00" + b"\x30\x00\x00", "a program must end with exactly one value"),
        (ONE + ONE + b"\x32\x04\x00" + b"\x31\x00\x00" + ONE, "jump into the middle of an instruction at byte 11"),
    ],
)  # fmt: skip
def test_programs_that_are_none(code: bytes, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        check(code, 1)
    assert str(refused.value) == words


def test_a_jump_needs_nothing() -> None:
    code = b"\x30\x00\x00" + ONE
    check(code, 0)
    assert evaluate(code, ()) == 1


def test_an_absent_program() -> None:
    check(b"", 0)
    assert (
        constant_value(b"") is None and constant_value(b"\x03\x00\x00") is None and constant_value(ONE) == 1
    )
    assert slots_of(M + N + b"\x10") == {0, 300} and slots_of(push(3)) == frozenset()


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("M + 1", 2**63 - 2, 2**63 - 1), ("M - 1", -(2**63) + 1, -(2**63)), ("-M", 2**63 - 1, -(2**63) + 1),
        ("M + 1", 2**63 - 1, None), ("M - 1", -(2**63), None), ("-M", -(2**63), None), ("M * 2", 2**62, None),
        ("1 // M", 0, None), ("1 % M", 0, None), ("cdiv(1, M)", 0, None), ("cdiv(M, 4)", 9, 3), ("cdiv(M, 4)", 8, 2),
        ("cdiv(M, 4)", -9, -2), ("M // 4", -9, -3), ("M % 4", -9, 3), ("not M", 0, 1), ("not M", 5, 0), ("M and 5", 3, 1),
        ("M or 0", 3, 1), ("M or 0", 0, 0), ("M or 1 // 0", 1, 1), ("M and 1 // 0", 0, 0), ("1 // M if M else 9", 0, 9),
        ("2 < M < 4", 3, 1), ("2 < M < 4", 4, 0), ("2 < M < 4", 2, 0), ("2 <= M <= 4", 2, 1), ("2 <= M <= 4", 4, 1),
        ("4 >= M > 2", 2, 0), ("M != 3", 3, 0), ("M == 3", 3, 1),
        ("M and 1 and 0", 3, 0), ("M and 0 and 1", 3, 0), ("not M or 5 or 0", 3, 1),
        ("not M or 0 or M", 3, 1), ("1 < M < 9 < 4", 3, 0),
    ],
)  # fmt: skip
def test_values(text: str, value: int, wanted: int | None) -> None:
    code = compile_expression(text, SMALL)
    if wanted is None:
        with pytest.raises(ExpressionError, match=r"^(a value does not fit 64 bits|division by zero)$"):
            evaluate(code, (value, 0, 0, 0))
    else:
        assert evaluate(code, (value, 0, 0, 0)) == wanted


SHIFTED = r"^(a value does not fit 64 bits|a shift by less than 0 or more than 63)$"


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("1 << M", 0, 1), ("1 << M", 62, 2**62), ("1 << M", 63, None), ("-1 << M", 63, -(2**63)), ("0 << M", 63, 0),
        ("0 << M", 64, None), ("0 << M", -1, None), ("0 >> M", 64, None),
        ("0 >> M", -1, None), ("5 >> M", 0, 5), ("5 >> M", 1, 2), ("-5 >> M", 1, -3),
        ("-1 >> M", 63, -1), ("M >> 63", -(2**63), -1), ("M >> 62", 2**63 - 1, 1), ("M << 1", 2**62, None),
        ("M << 1", -(2**62), -(2**63)),
    ],
)  # fmt: skip
def test_shifts(text: str, value: int, wanted: int | None) -> None:
    code = compile_expression(text, SMALL)
    if wanted is None:
        with pytest.raises(ExpressionError, match=SHIFTED):
            evaluate(code, (value, 0, 0, 0))
    else:
        assert evaluate(code, (value, 0, 0, 0)) == wanted


def test_logarithms() -> None:
    code = compile_expression("log2(M)", SMALL)
    assert code == M + b"\x1d" and compile_expression("M << 1", SMALL) == M + push(1) + b"\x1b"
    assert compile_expression("M >> 1", SMALL) == M + push(1) + b"\x1c"
    for power in range(63):
        near = random.randrange(2**power, 2 ** (power + 1))
        for number in (2**power, near, 2 ** (power + 1) - 1):
            assert evaluate(code, (number, 0, 0, 0)) == power, number
    for number in (0, -1, -(2**63)):
        with pytest.raises(ExpressionError, match=r"^the log2 of a number that is not positive$"):
            evaluate(code, (number, 0, 0, 0))
    check(push(1) + b"\x1d", 0)
    with pytest.raises(ExpressionError, match=r"^stack underflow at byte 0$"):
        check(b"\x1d", 0)
    with pytest.raises(ExpressionError, match=r"^log2\(\) with 2 arguments is not part of"):
        compile_expression("log2(M, 2)", SMALL)


def test_what_is_known() -> None:
    assert Scope({"b": 0, "&x": 1, "?x": 2}, {"a": 1}).names() == ["a", "b"]
    assert (bytecode.INT64_MIN, bytecode.INT64_MAX) == (-(2**63), 2**63 - 1)
