"""A described call, exactly: addresses, strides, types and attributes, and each thing that a description can have wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.bundles import SCOPE, small_operator

from aiter_prebuilt.contract.expression import compile_expression
from aiter_prebuilt.contract.records import (
    DIM_ANY,
    DIM_BIND,
    DIM_EXPRESSION,
    Attribute,
    Dim,
    Operator,
    TypeVariable,
)
from aiter_prebuilt.errors import ArgumentError, NoOperatorError
from aiter_prebuilt.inspection import decisions
from aiter_prebuilt.inspection.decisions import describe

BASE = small_operator("op")
INT, BOOL, FLOAT, ENUM = range(4)
M, N, CUS = (Dim(DIM_BIND, slot, b"") for slot in range(3))


def expression(text: str) -> Dim:
    return Dim(DIM_EXPRESSION, 0, compile_expression(text, SCOPE))


def with_x(**changes: Any) -> Operator:
    return replace(BASE, tensors=(BASE.tensors[0], replace(BASE.tensors[1], **changes)))


def x_of(operator: Operator, **settings: str) -> Any:
    return describe(operator, {"M": "3", "N": "5", **settings})[0][1]


def test_every_tensor_has_its_place() -> None:
    tensors, attributes, call = describe(BASE, {"M": "3", "N": "5"})
    assert tensors == [
        (2**40 + 2**44, "f32", (3, 5), (5, 1), ("amd", 0)),
        (2**40 + 2 * 2**44, "f32", (3, 5), (5, 1), ("amd", 0)),
    ]
    assert attributes == [1.0]
    assert call == {"types": {}, "symbols": {"M": 3, "N": 5}, "absent": []}


@pytest.mark.parametrize(
    ("align", "beyond"), [("1", 1), ("2", 2), ("128", 128), ("256", 0), ("512", 0), ("4096", 0)]
)
def test_an_address_is_aligned_to_no_more(align: str, beyond: int) -> None:
    assert x_of(BASE, **{"x.align": align})[0] == 2**40 + 2 * 2**44 + beyond


def test_strides() -> None:
    assert x_of(with_x(dims=(M, N, N)))[2:4] == ((3, 5, 5), (25, 5, 1))
    assert x_of(with_x(dims=(M, N, N)), M="0", N="0")[2:4] == ((0, 0, 0), (1, 1, 1))
    assert x_of(with_x(dims=()))[2:4] == ((), ())
    own = with_x(strides=(CUS, expression("1")))
    assert x_of(own)[3] == (5, 1) and x_of(own, CUS="40")[3] == (40, 1)
    assert describe(own, {"M": "3", "N": "5"})[2]["symbols"] == {"M": 3, "N": 5, "CUS": 5}
    assert describe(own, {"M": "3", "N": "5", "CUS": "-8"})[2]["symbols"]["CUS"] == -8
    assert x_of(with_x(strides=(expression("N + 2"), expression("2"))))[3] == (7, 2)
    assert x_of(with_x(strides=(Dim(DIM_ANY, 0, b""), Dim(DIM_ANY, 0, b""))))[3] == (5, 1)


def test_a_stride_that_another_tensor_says_is_the_same() -> None:
    both = replace(BASE, tensors=tuple(replace(each, strides=(CUS, N)) for each in BASE.tensors))
    first, second = describe(both, {"M": "3", "N": "5", "CUS": "9"})[0]
    assert first[3] == second[3] == (9, 5)


def test_types() -> None:
    variable = TypeVariable("T", (7, 6))
    operator = replace(with_x(type_var=0), type_variables=(TypeVariable("U", (9,)), variable))
    assert x_of(operator)[1] == "f64"
    operator = replace(operator, tensors=(BASE.tensors[0], replace(BASE.tensors[1], type_var=1)))
    assert x_of(operator)[1] == "bf16" and x_of(operator, T="f16")[1] == "f16"
    assert describe(operator, {"M": "1", "N": "1", "T": "f16"})[2]["types"] == {"U": "f64", "T": "f16"}
    with pytest.raises(ArgumentError) as refused:
        x_of(operator, T="f64")
    assert (refused.value.asked, refused.value.found, refused.value.fix) == (
        "T=f64", "T must be one of bf16, f16", "For example: T=bf16",
    )  # fmt: skip


def test_what_is_left_out() -> None:
    optional = with_x(optional=1, dims=(M, CUS))
    tensors, _, call = describe(optional, {"M": "3", "N": "5", "x": "none"})
    assert tensors[0][2] == (3, 5) and tensors[1] is None
    assert call == {"types": {}, "symbols": {"M": 3, "N": 5}, "absent": ["x"]}
    with pytest.raises(ArgumentError, match="CUS must be given"):
        describe(optional, {"M": "3", "N": "5"})
    with pytest.raises(ArgumentError, match="it has no symbol x"):
        describe(BASE, {"M": "3", "N": "5", "x": "none"})


@pytest.mark.parametrize(
    ("kind", "default", "text", "value"),
    [
        (FLOAT, "", None, 1.0), (FLOAT, "0.25", None, 0.25), (FLOAT, "0.25", "-2", -2.0),
        (ENUM, "", None, "a"), (ENUM, "b", None, "b"), (ENUM, "b", "a", "a"), (ENUM, "", "zzz", "zzz"),
        (BOOL, "", None, 0), (BOOL, "true", None, 1), (BOOL, "true", "false", 0), (BOOL, "", "1", 1),
        (INT, "", None, 0), (INT, "7", None, 7), (INT, "7", "-9223372036854775808", -(2**63)),
        (INT, "", "9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_attributes(kind: int, default: str, text: str | None, value: object) -> None:
    operator = replace(BASE, attributes=(Attribute("a", default, kind, 0, ("a", "b")),))
    settings = {"M": "3", "N": "5"} | ({} if text is None else {"a": text})
    (found,) = describe(operator, settings)[1]
    assert found == value and type(found) is type(value)


def wrong(operator: Operator, **settings: str) -> tuple[str, str, str]:
    with pytest.raises(ArgumentError) as refused:
        describe(operator, settings)
    return refused.value.asked, refused.value.found, refused.value.fix


WRITE = "For example: aiter-prebuilt explain op M=17 N=4096"


def test_what_is_wrong() -> None:
    assert wrong(BASE) == ("op", "M and N must be given", WRITE)
    assert wrong(BASE, M="1", N="1", b="2", a="1") == (
        "op",
        "it has no symbol a or b; its sizes are M, N",
        WRITE,
    )
    for text in ("x", "", "1.5", str(2**63), str(-(2**63) - 1)):
        assert wrong(BASE, M=text, N="1") == (
            f"M={text}", "the value must be an integer of 64 bits", "For example: M=16",
        )  # fmt: skip
    for text in ("0", "-1", "3", "24"):
        assert wrong(BASE, M="1", N="1", **{"x.align": text}) == (
            f"x.align={text}", "the alignment must be a power of two", "For example: x.align=16",
        )  # fmt: skip
    assert wrong(BASE, M="1", N="1", eps="half") == (
        "eps=half",
        "the value must be a number",
        "For example: eps=0.5",
    )
    divided = with_x(dims=(M, expression("M // N")))
    assert wrong(divided, M="1", N="0") == (
        "op",
        "a size cannot be computed: division by zero",
        WRITE,
    )


@pytest.mark.parametrize("cus", [0, -1, 2**31])
def test_compute_units_that_no_device_has(cus: int) -> None:
    with pytest.raises(ArgumentError) as refused:
        decisions.explain("op", {}, "gfx942", cus)
    assert (refused.value.asked, refused.value.found, refused.value.fix) == (
        "explain", f"--cus must be from 1 to 2**31 - 1, got {cus}", "For example: --cus 304",
    )  # fmt: skip


@pytest.mark.parametrize("cus", [1, 2**31 - 1])
def test_compute_units_that_a_device_may_have(cus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then what is asked next is which bundles serve it."""

    def none(*_: object) -> tuple[()]:
        return ()

    monkeypatch.setattr("aiter_prebuilt.bundles.locate.installed", none)
    monkeypatch.setattr("aiter_prebuilt.bundles.locate.for_target", none)
    with pytest.raises(NoOperatorError) as refused:
        decisions.explain("op", {}, "gfx942", cus)
    assert (refused.value.found, refused.value.fix) == ("No operator 'op'", "List all: aiter-prebuilt list")
