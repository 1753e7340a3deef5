"""The expression language: its meaning against an independent evaluator, and its refusals."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiter_prebuilt.contract.bytecode import (
    INT64_MAX,
    INT64_MIN,
    ExpressionError,
    check,
    constant_value,
    evaluate,
    text_number,
)
from aiter_prebuilt.contract.expression import Scope, compile_expression

SLOTS = {"M": 0, "N": 1, "kv": 2, "&x": 3, "?x": 4, "name": 5}
SCOPE = Scope(
    SLOTS, {"BM": 128, "EVEN": 1}, {"kv": ("auto", "fp8")}, {"T": "bf16", "SYMBOL": "_ZN1aE"}, None, ["name"]
)


class _UndefinedError(Exception):
    """The tree divides by zero or leaves 64 bits."""


def _shift(by: int) -> int:
    if not 0 <= by <= 63:
        raise _UndefinedError
    return by


_OPS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "<<": lambda a, b: a * 2 ** _shift(b), ">>": lambda a, b: a // 2 ** _shift(b),
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max, "cdiv": lambda a, b: -((-a) // b)}


def _tree(depth: int) -> st.SearchStrategy[Any]:
    leaf = st.one_of(
        st.sampled_from(["M", "N"]), st.integers(-200, 200), st.integers(INT64_MIN + 1, INT64_MAX)
    )
    if depth == 0:
        return leaf
    sub = _tree(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(st.sampled_from(sorted(_OPS)), sub, sub),
        st.tuples(st.sampled_from(["and", "or", "min", "max", "cdiv"]), sub, sub),
        st.tuples(st.just("not"), sub),
        st.tuples(st.just("if"), sub, sub, sub),
    )


def _text(tree: Any) -> str:
    if not isinstance(tree, tuple):
        return f"({tree})"
    if tree[0] == "not":
        return f"(not {_text(tree[1])})"
    if tree[0] == "if":
        return f"({_text(tree[2])} if {_text(tree[1])} else {_text(tree[3])})"
    if tree[0] in ("min", "max", "cdiv"):
        return f"{tree[0]}({_text(tree[1])}, {_text(tree[2])})"
    return f"({_text(tree[1])} {tree[0]} {_text(tree[2])})"


def _value(tree: Any, names: dict[str, int]) -> int:
    """The meaning of a tree, by walking it: nothing is shared with the compiler or the stack machine."""
    if not isinstance(tree, tuple):
        return names[tree] if isinstance(tree, str) else tree
    kind = tree[0]
    if kind == "not":
        return int(_value(tree[1], names) == 0)
    if kind == "if":
        return _value(tree[2] if _value(tree[1], names) else tree[3], names)
    left = _value(tree[1], names)
    if kind == "and" and left == 0:
        return 0
    if kind == "or" and left != 0:
        return 1
    right = _value(tree[2], names)
    if kind in ("and", "or"):
        return int(right != 0)
    if kind in ("//", "%", "cdiv") and right == 0:
        raise _UndefinedError
    result = {**_OPS, **_FUNCTIONS}[kind](left, right)
    if not INT64_MIN <= result <= INT64_MAX:
        raise _UndefinedError
    return int(result)


@settings(max_examples=400, deadline=None)
@given(_tree(4), st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40))
def test_agrees_with_a_tree_walk(tree: Any, m: int, n: int) -> None:
    code = compile_expression(_text(tree), SCOPE)
    slots = (m, n, 0, 0, 0)
    try:
        wanted = _value(tree, {"M": m, "N": n})
    except _UndefinedError:
        with pytest.raises(ExpressionError):
            evaluate(code, slots)
    else:
        assert evaluate(code, slots) == wanted


@pytest.mark.parametrize(
    ("text", "slots", "wanted"),
    [
        ("N and M % N == 0", (8, 0, 0, 0, 0), 0),
        ("0 < M <= 8 < N", (8, 9, 0, 0, 0), 1),
        ("0 < M <= 8 < N", (9, 9, 0, 0, 0), 0),
        ("aligned(x, 16)", (0, 0, 0, 4096 + 8, 1), 0),
        ("aligned(x, 16)", (0, 0, 0, 4096 + 16, 1), 1),
        ("given(x)", (0, 0, 0, 0, 1), 1),
        ("kv == 'fp8'", (0, 0, 1, 0, 0), 1),
        ("kv != 'fp8'", (0, 0, 1, 0, 0), 0),
        ("T == 'bf16' and T != 'f16'", (0, 0, 0, 0, 0), 1),
        ("cdiv(M, BM)", (129, 0, 0, 0, 0), 2),
        ("-7 // 2", (), -4),
        ("-7 % 3", (), 2),
        ("min(M, N, 3)", (7, 9, 0, 0, 0), 3),
        ("1 << log2(M)", (13, 0, 0, 0, 0), 8),
        ("M >> 1 << 1", (-3, 0, 0, 0, 0), -4),
    ],
)
def test_meaning(text: str, slots: tuple[int, ...], wanted: int) -> None:
    assert evaluate(compile_expression(text, SCOPE), slots or (0,) * 5) == wanted


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("M / N", "Div"),
        ("M ** 2", "Pow"),
        ("__import__('os')", "1 arguments"),
        ("M.real", "Attribute"),
        ("[1, 2]", "List"),
        ("lambda: 1", "Lambda"),
        ("1.5", "not an integer"),
        ("Q + 1", "unknown name 'Q'"),
        ("kv == 'fp4'", "not one of auto, fp8"),
        ("M == 'fp8'", "enum"),
        ("name < 'a'", "only compared"),
        ("name == 3", "only compared"),
        ("name == M", "only compared"),
        ("aligned(M, 16)", "tensor"),
        ("M +", "not an expression"),
        ("9223372036854775808", "64 bits"),
        ("M in N", "In"),
        ("", "not an expression"),
    ],
)
def test_refuses(text: str, part: str) -> None:
    with pytest.raises(ExpressionError, match=part.replace("(", r"\(")):
        compile_expression(text, SCOPE)


def test_texts_are_compared_by_number() -> None:
    """FNV-1a of 64 bits, whose published values these are, signed; nothing is 0."""
    assert [text_number(text) for text in ("", "a", "foobar")] == [
        0,
        0xAF63DC4C8601EC8C - 2**64,
        0x85944171F73967E8 - 2**64,
    ]
    for text, value, expected in [
        ("name == ''", "", 1),
        ("name == ''", "a", 0),
        ("name == SYMBOL", "_ZN1aE", 1),
        ("name != SYMBOL", "_ZN1aF", 1),
        ("name == '' or name == 'b'", "b", 1),
    ]:
        slots = (0, 0, 0, 0, 0, text_number(value))
        assert evaluate(compile_expression(text, SCOPE), slots) == expected


def test_constants_are_folded() -> None:
    assert constant_value(compile_expression("BM * 2 if EVEN else 1 // 0", SCOPE)) == 256
    assert constant_value(compile_expression("M", SCOPE)) is None


@settings(max_examples=600, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_run_to_an_end(code: bytes) -> None:
    """What `check` lets through must evaluate to a value or a named error: never an index error, never a loop."""
    try:
        check(code, 5)
    except ExpressionError:
        return
    if code:
        with contextlib.suppress(ExpressionError):
            assert isinstance(evaluate(code, (1, 2, 3, 4, 5)), int)
