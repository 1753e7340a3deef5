"""The signature of an operator as slots and contract records."""

from __future__ import annotations

from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.records import (
    DIM_ANY,
    DIM_BIND,
    DIM_EXPRESSION,
    NONE8,
    Attribute,
    Dim,
    TypeVariable,
)
from build_tools.manifest.problems import Problems
from build_tools.plan.slots import Slots, assign_slots, attribute_records, tensor_records, type_variables

SIGNATURE: dict[str, Any] = {
    "types": {"T": ["bf16", "f16"], "Q": ["fp8", "i8"]},
    "arguments": {
        "x": "T[*M, N] strides [row, _] align 16",
        "scale": "f32[N * 2] optional",
        "y": "inout Q[N, N + M] strides [N * 2, 1]",
        "z": "out T[*M, N] strides [row, _] in place of x",
        "w": "out f32[N] in place of v",
        "v": "f32[N] align 2",
    },
    "returns": {"sums": "fp8[M]"},
    "attributes": {
        "epsilon": "float", "mode": "enum(fast, exact) = exact", "bound": "float = 1.5", "left": "int = -3",
        "on": "bool = false",
    },
}  # fmt: skip


def said(**changes: Any) -> list[str]:
    problems = Problems()
    assign_slots(planned.operator(**changes), problems)
    return problems.lines


@pytest.fixture
def slots() -> Slots:
    return planned.slots(**SIGNATURE)


def test_names_have_one_slot_each(slots: Slots) -> None:
    tensors = ("x", "scale", "y", "z", "w", "v", "sums")
    addresses = tuple(sign + name for name in tensors for sign in "&?")
    assert slots.names == ("M", "N", "row", "mode", "left", "on", "CUS", *addresses)
    assert slots.floats == ("epsilon", "bound")
    assert (slots.name, slots.return_count) == ("scale", 1)
    assert [slots.tensor_index(name) for name in (*tensors, "none")] == [0, 1, 2, 3, 4, 5, 6, None]
    assert slots.types == {"T": ("bf16", "f16"), "Q": ("fp8", "i8")}


def test_expressions_see_slots_constants_and_enums(slots: Slots) -> None:
    scope = slots.scope({"BLOCK": 4}, {"T": "bf16"})
    assert scope.slots == {name: place for place, name in enumerate(slots.names)}
    assert scope.constants == {"BLOCK": 4} and scope.strings == {"T": "bf16"}
    assert scope.enums == {"mode": ("fast", "exact")}
    assert slots.scope().constants == {}


def test_the_canonical_text_has_everything_that_bundles_must_share(slots: Slots) -> None:
    assert slots.text() == (
        "T=bf16|f16 Q=fp8|i8 scale("
        "x: in T[*M, N] strides [row, _] align 16, "
        "scale: in f32[N * 2] optional, "
        "y: inout Q[N, N + M] strides [N * 2, 1], "
        "z: out T[*M, N] strides [row, _], "
        "w: out f32[N], "
        "v: in f32[N] align 2, "
        "sums: out fp8[M]"
        ", epsilon: float, mode: enum(fast, exact) = exact, bound: float = 1.5, left: int = -3, on: bool = false) -> 1"
    )
    assert planned.slots().text() == "T=bf16|f16 scale(out: out T[M, N], x: in T[M, N]) -> 0"


def test_tensors_as_a_bundle_has_them(slots: Slots) -> None:
    problems = Problems()
    records = tensor_records(slots, "e4m3fnuz", problems)
    assert problems.lines == []
    fixed = {name: dtype.BY_NAME[name].number for name in ("f32", "e4m3fnuz")}
    rows = {
        record.name: (
            record.role, record.optional, record.star, record.contiguous, record.type_var, record.dtype, record.align,
            record.address_slot, record.given_slot, record.in_place,
        )
        for record in records
    }  # fmt: skip
    assert rows == {
        "x": (0, 0, 1, 0, 0, 0, 16, 7, 8, 0),
        "scale": (0, 1, 0, 1, NONE8, fixed["f32"], 1, 9, 10, 0),
        "y": (2, 0, 0, 0, 1, 0, 1, 11, 12, 0),
        "z": (1, 0, 1, 0, 0, 0, 1, 13, 14, 1),
        "w": (1, 0, 0, 1, NONE8, fixed["f32"], 1, 15, 16, 6),
        "v": (0, 0, 0, 1, NONE8, fixed["f32"], 2, 17, 18, 0),
        "sums": (1, 0, 0, 1, NONE8, fixed["e4m3fnuz"], 1, 19, 20, 0),
    }


def test_dims_bind_are_anything_or_have_a_value(slots: Slots) -> None:
    x, scale, y, *_ = tensor_records(slots, "e4m3fn", Problems())
    m, n, row = (Dim(DIM_BIND, place, b"") for place in range(3))
    assert (x.dims, x.strides) == ((m, n), (row, Dim(DIM_ANY, 0, b"")))
    assert scale.strides == ()
    (twice,) = scale.dims
    assert (twice.kind, twice.slot) == (DIM_EXPRESSION, 0) and evaluate(twice.code, (3, 5)) == 10
    assert y.dims[0] == n
    assert [(dim.kind, dim.slot, evaluate(dim.code, (3, 5))) for dim in (y.dims[1], *y.strides)] == [
        (DIM_EXPRESSION, 0, 8), (DIM_EXPRESSION, 0, 10), (DIM_EXPRESSION, 0, 1)
    ]  # fmt: skip


def test_a_dim_that_is_no_expression_is_said_where_it_stands() -> None:
    problems = Problems()
    changes = {"arguments": {"x": "f32[N]", "y": "f32[Z * 2]"}, "returns": {"z": "f32[N ? 2]"}}
    records = tensor_records(planned.slots(**changes), "e4m3fn", problems)
    assert [record.dims for record in records[1:]] == [(Dim(DIM_ANY, 0, b""),)] * 2
    unknown, wrong = problems.lines
    assert unknown.startswith("arguments.y: ") and "unknown name 'Z'" in unknown
    assert wrong.startswith("returns.z: ") and "N ? 2" in wrong


def test_attributes_as_a_bundle_has_them(slots: Slots) -> None:
    assert attribute_records(slots) == (
        Attribute("epsilon", "", 2, 0, ()),
        Attribute("mode", "exact", 3, 3, ("fast", "exact")),
        Attribute("bound", "1.5", 2, 1, ()),
        Attribute("left", "-3", 0, 4, ()),
        Attribute("on", "false", 1, 5, ()),
    )


@pytest.mark.parametrize("fp8", ["e4m3fn", "e4m3fnuz"])
def test_type_variables_have_the_targets_eight_bit_float(slots: Slots, fp8: str) -> None:
    number = {name: dtype.BY_NAME[name].number for name in ("bf16", "f16", "i8", fp8)}
    assert type_variables(slots, fp8) == (
        TypeVariable("T", (number["bf16"], number["f16"])),
        TypeVariable("Q", (number[fp8], number["i8"])),
    )


def test_what_cannot_be_read_is_left_out_and_the_rest_is_there() -> None:
    problems = Problems()
    changed = planned.operator(
        arguments={"a": "T[", "b": "f32[N]"}, returns={"c": "inout f32[N]", "d": "f32[N]"},
        attributes={"e": "flaot", "f": "int"},
    )  # fmt: skip
    slots = assign_slots(changed, problems)
    assert [spec.name for spec in slots.tensors] == ["b", "d"] and slots.return_count == 1
    assert slots.names == ("N", "f", "CUS", "&b", "?b", "&d", "?d")
    first, second, third = problems.lines
    assert first.startswith("arguments.a: 'T[' is not of the form")
    assert second == "returns.c: a returned tensor is an output, not 'inout'"
    assert third.startswith("attributes.e: 'flaot' is not of the form")


def test_ranks_up_to_the_readers() -> None:
    for count, expected in ((16, []), (17, ["arguments.x: 17 dims, the runtime takes at most 16"])):
        assert said(arguments={"x": f"f32[{', '.join('N' * count)}]"}) == expected
    assert said(returns={"y": f"f32[{', '.join('N' * 17)}]"}) == [
        "returns.y: 17 dims, the runtime takes at most 16"
    ]


def test_types_that_nobody_knows() -> None:
    (line,) = said(types={"T": ["bf16", "bf17"], "Q": ["fp8"]})
    assert line.startswith("types.T[1]: 'bf17' is not") and "did you mean 'bf16'" in line
    assert assign_slots(planned.operator(types={"T": ["bf17", "f16"]}), Problems()).types == {"T": ("f16",)}


def test_in_place_of_something_else_with_the_same_layout() -> None:
    base = {"x": "T[*M, N]", "q": "T[M, N]", "r": "bf16[*M, N]", "s": "T[*M, M]", "p": "out T[*M, N]"}
    for text, expected in (
        ("in place of x", []),
        ("in place of q", ["arguments.out: it cannot be in place of q: their types and dims are not the same text"]),
        ("in place of r", ["arguments.out: it cannot be in place of r: their types and dims are not the same text"]),
        ("in place of s", ["arguments.out: it cannot be in place of s: their types and dims are not the same text"]),
        ("in place of p", ["arguments.out: 'p' is no argument that is only read (known: q, r, s, x)"]),
    ):  # fmt: skip
        assert said(arguments={**base, "out": f"out T[*M, N] {text}"}) == expected
    assert (
        len(said(arguments={"a": "out T[N]", "b": "out T[N] in place of x", "c": "out T[N] in place of y"}))
        == 2
    )


def test_attributes_without_a_default_come_first() -> None:
    found = said(attributes={"a": "int", "b": "int = 1", "c": "float", "d": "int = 2", "e": "bool"})
    words = "an attribute without a default stands behind one with a default"
    assert found == [f"attributes.c: {words}", f"attributes.e: {words}"]
    assert said(attributes={"a": "int", "b": "int", "c": "int = 1"}) == []


def test_a_name_is_one_thing() -> None:
    found = said(attributes={"M": "int", "N": "float", "K": "int"})
    assert found == ["attributes.M: 'M' is a dim or stride already"]
