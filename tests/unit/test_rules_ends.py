"""The rules of an operator block at their ends: the last that holds, and the first that is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.bundles import small_operator, tensor

from aiter_prebuilt.contract import expression, rules
from aiter_prebuilt.contract.header import FormatError
from aiter_prebuilt.contract.records import (
    ARG_FLOAT as FLOATING,
)
from aiter_prebuilt.contract.records import (
    ARG_INT as INTEGER,
)
from aiter_prebuilt.contract.records import (
    ARG_TENSOR as TENSOR,
)
from aiter_prebuilt.contract.records import (
    ARG_WORKSPACE as WORKSPACE,
)
from aiter_prebuilt.contract.records import (
    NONE8,
    Arg,
    Attribute,
    Dim,
    Operator,
    TunedRow,
    TypeVariable,
)
from aiter_prebuilt.contract.rules import check_operator, default_fits

BASE = small_operator("one")
ONE = expression.compile_expression("1", expression.Scope({}))
INT, BOOL, FLOAT, ENUM, TEXT = range(5)


def with_tensor(**changes: Any) -> Operator:
    return replace(BASE, tensors=(replace(BASE.tensors[0], **changes), BASE.tensors[1]))


def with_recipe(**changes: Any) -> Operator:
    return replace(BASE, recipes=(replace(BASE.recipes[0], **changes), BASE.recipes[1]))


def with_step(**changes: Any) -> Operator:
    return with_recipe(steps=(replace(BASE.recipes[0].steps[0], **changes),))


def with_arg(arg: Arg, size: int = 24) -> Operator:
    return with_step(args=(arg,), kernarg_size=size)


def with_dims(count: int) -> Operator:
    return with_tensor(dims=(Dim(2, 0, ONE),) * count)


def attributes(*kinds: int, default: str = "") -> Operator:
    made = tuple(Attribute(f"a{at}", default, kind, 0, ()) for at, kind in enumerate(kinds))
    return replace(BASE, attributes=(*BASE.attributes, *made))


def tuned(*rows: TunedRow) -> Operator:
    return replace(BASE, tuned_slots=(6,), tuned=rows)


VARIABLE = TypeVariable("T", (15,))
HOLDS = {
    "as it is": BASE,
    "all returned": replace(BASE, return_count=2),
    "48 tensors": replace(BASE, tensors=BASE.tensors * 24),
    "48 attributes": attributes(*[INT] * 47),
    "512 slots": replace(BASE, slots=BASE.slots + ("s",) * 505),
    "16 floats": replace(BASE, floats=("f",) * 16),
    "16 type variables": replace(BASE, type_variables=(VARIABLE,) * 16, recipes=()),
    "a type variable": replace(
        with_tensor(type_var=0), type_variables=(VARIABLE,), recipes=(replace(BASE.recipes[0], types=(15,)),)
    ),
    "no type variable": with_tensor(type_var=NONE8, dtype=15, role=2),
    "last slots": with_tensor(address_slot=6, given_slot=6),
    "in place of the last": with_tensor(role=1, in_place=2),
    "16 dims": with_dims(16),
    "a star": with_tensor(star=1),
    "no dim": with_tensor(dims=()),
    "strides": with_tensor(contiguous=0, strides=(Dim(0, 99, b""), Dim(1, 6, b""))),
    "aligned to 128": with_tensor(align=128),
    "the last kinds": replace(BASE, kernels=(replace(BASE.kernels[0], backend=4, profile=1),)),
    "16 steps": with_recipe(steps=BASE.recipes[0].steps * 16),
    "kernarg of 4096": with_step(kernarg_size=4096),
    "1024 threads": with_step(block_x=8, block_y=16, block_z=8),
    "one thread": with_step(block_x=1),
    "no step": with_recipe(steps=()),
    "an argument at the end": with_arg(Arg(TENSOR, 8, 16, 1, b"")),
    "a workspace": with_arg(Arg(WORKSPACE, 8, 0, 99, b"")),
    "four bytes": with_arg(Arg(INTEGER, 4, 20, 99, ONE)),
    "one byte": with_arg(Arg(INTEGER, 1, 23, 99, ONE)),
    "an empty table": replace(BASE, tuned_slots=(0, 6)),
    "equal rows": tuned(TunedRow(304, 1, (1,)), TunedRow(304, 0, (1,)), TunedRow(304, 0, (2,)), TunedRow(305, 0, (1,))),
    "a row for a range": tuned(TunedRow(304, 1, (1,), (9,)), TunedRow(304, 1, (10,), (10,))),
    "an attribute with a default": attributes(INT, default="1"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDS)
def test_the_last_that_holds(name: str) -> None:
    check_operator(HOLDS[name], 1)


COUNTS = "more than 48 tensors, 48 attributes, 512 slots or 16 floats"
IN_PLACE = "tensor out has memory of a tensor that it cannot be in place of"
BLOCK = "a block of no threads or more than 1024"
REFUSED = {
    "49 tensors": (replace(BASE, tensors=(*BASE.tensors * 24, tensor("y", 0, 5))), COUNTS),
    "49 attributes": (attributes(*[INT] * 48), COUNTS),
    "513 slots": (replace(BASE, slots=BASE.slots + ("s",) * 506), COUNTS),
    "17 floats": (replace(BASE, floats=("f",) * 17), COUNTS),
    "17 type variables": (
        replace(BASE, type_variables=(VARIABLE,) * 17, recipes=()), "more than 16 type variables",
    ),
    "3 returned": (replace(BASE, return_count=3), "more returns than tensors"),
    "type 16": (replace(BASE, type_variables=(TypeVariable("T", (16,)),)), "type variable T allows type 16"),
    "a type variable": (with_tensor(type_var=0), "tensor out has an unknown type variable"),
    "element type": (with_tensor(dtype=16), "tensor out has an unknown type or role"),
    "role": (with_tensor(role=3), "tensor out has an unknown type or role"),
    "address": (with_tensor(address_slot=7), "tensor out has a slot out of range"),
    "given": (with_tensor(given_slot=7), "tensor out has a slot out of range"),
    "in place of none": (with_tensor(role=1, in_place=3), IN_PLACE),
    "an input in place": (with_tensor(role=0, in_place=1), IN_PLACE),
    "both ways in place": (with_tensor(role=2, in_place=1), IN_PLACE),
    "align": (with_tensor(align=12), "tensor out has an alignment that is no power of two"),
    "17 dims": (with_dims(17), "tensor out has too many dims"),
    "a star alone": (with_tensor(star=1, dims=()), "tensor out has a star and no dim"),
    "one stride": (with_tensor(contiguous=0, strides=(Dim(0, 0, b""),)), "tensor out has not one stride per dim"),
    "strides too many": (with_tensor(strides=(Dim(0, 0, b""),) * 2), "tensor out has not one stride per dim"),
    "kind of dim": (with_tensor(dims=(Dim(3, 0, ONE),)), "tensor out has a dim of unknown kind"),
    "slot of dim": (with_tensor(dims=(Dim(1, 7, b""),)), "tensor out has a dim with a slot out of range"),
    "no expression": (with_tensor(dims=(Dim(2, 0, b""),)), "tensor out has a dim without its expression"),
    "backend": (replace(BASE, kernels=(replace(BASE.kernels[0], backend=5),)), "kernel kernel has an unknown backend or profile"),
    "profile": (replace(BASE, kernels=(replace(BASE.kernels[0], profile=2),)), "kernel kernel has an unknown backend or profile"),
    "kind of attribute": (attributes(5), "attribute a0 has an unknown kind"),
    "slot of float": (
        replace(BASE, attributes=(Attribute("eps", "", FLOAT, 1, ()),)), "attribute eps has a slot out of range",
    ),
    "slot of int": (replace(BASE, attributes=(Attribute("n", "", INT, 7, ()),)), "attribute n has a slot out of range"),
    "a default before none": (
        replace(BASE, attributes=(Attribute("n", "1", INT, 0, ()), Attribute("m", "", INT, 0, ()))),
        "attribute m has no default and stands behind one that has",
    ),
    "another default": (attributes(INT, default="x"), "attribute a0 has a default of another kind"),
    "17 steps": (with_recipe(steps=BASE.recipes[0].steps * 17), "a recipe has 17 steps"),
    "kernarg of 4097": (with_step(kernarg_size=4097), "a kernarg buffer of 4097 bytes"),
    "1025 threads": (with_step(block_x=1025), BLOCK),
    "x times z": (with_step(block_x=513, block_z=2), BLOCK),
    "y times z": (with_step(block_x=1, block_y=2, block_z=513), BLOCK),
    "no threads": (with_step(block_y=0), BLOCK),
    "recipe's kernel": (with_recipe(kernel=1), "a recipe names kernel 1"),
    "recipe's types": (with_recipe(types=(0,)), "a recipe leaves a type variable open"),
    "step's entry": (with_step(entry=1), "a step names entry 1"),
    "kind of argument": (with_arg(Arg(6, 8, 0, 0, b"")), "a kernel argument of unknown kind"),
    "4 bytes of pointer": (with_arg(Arg(TENSOR, 4, 0, 0, b"")), "a kernel argument of 4 bytes"),
    "4 bytes of workspace": (with_arg(Arg(WORKSPACE, 4, 0, 0, b"")), "a kernel argument of 4 bytes"),
    "a byte of pointer": (with_arg(Arg(TENSOR, 1, 0, 0, b"")), "a kernel argument of 1 bytes"),
    "a byte of float": (with_arg(Arg(FLOATING, 1, 0, 0, b"")), "a kernel argument of 1 bytes"),
    "two bytes": (with_arg(Arg(INTEGER, 2, 0, 0, ONE)), "a kernel argument of 2 bytes"),
    "a byte behind the end": (with_arg(Arg(INTEGER, 1, 24, 0, ONE)), "a kernel argument leaves the kernarg buffer"),
    "16 bytes": (with_arg(Arg(INTEGER, 16, 0, 0, ONE)), "a kernel argument of 16 bytes"),
    "behind the end": (with_arg(Arg(TENSOR, 8, 17, 0, b"")), "a kernel argument leaves the kernarg buffer"),
    "no tensor": (with_arg(Arg(TENSOR, 8, 0, 2, b"")), "a kernel argument names no tensor"),
    "no float": (with_arg(Arg(FLOATING, 4, 0, 1, b"")), "a kernel argument names no float attribute"),
    "no program": (with_arg(Arg(INTEGER, 4, 0, 0, b"")), "an integer argument has no program"),
    "row's recipe": (tuned(TunedRow(304, 2, (1,))), "a tuned row names recipe 2"),
    "no values": (tuned(TunedRow(304, 1, ())), "a tuned row has another number of values"),
    "ends elsewhere": (tuned(TunedRow(304, 1, (1,), (1, 1))), "a tuned row ends with another number of values"),
    "ends too early": (tuned(TunedRow(304, 1, (2,), (1,))), "a tuned row ends before it begins"),
    "order of values": (tuned(TunedRow(304, 1, (2,)), TunedRow(304, 0, (1,))), "tuned rows are not sorted"),
    "order of units": (tuned(TunedRow(305, 1, (1,)), TunedRow(304, 0, (2,))), "tuned rows are not sorted"),
    "tuned slot": (replace(BASE, tuned_slots=(7,)), "a tuned slot is out of range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_first_that_is_refused(name: str) -> None:
    operator, words = REFUSED[name]
    with pytest.raises(FormatError) as refused:
        check_operator(operator, 1)
    assert str(refused.value) == words


def test_a_code_object_that_the_bundle_has() -> None:
    entry = replace(BASE.entries[0], code_object=3)
    check_operator(replace(BASE, entries=(entry,)), 4)
    with pytest.raises(FormatError, match=r"^entry gfx942-hip-one names code object 3$"):
        check_operator(replace(BASE, entries=(entry,)), 3)


@pytest.mark.parametrize(
    ("kind", "text", "fits"),
    [
        (INT, "0", True), (INT, "-9223372036854775808", True), (INT, "-9223372036854775809", False), (INT, "+1", False),
        (INT, "9223372036854775807", True), (INT, "9223372036854775808", False), (INT, "1.0", False), (INT, "", False),
        (INT, "1e3", False), (FLOAT, "+1e-6", True), (FLOAT, "-.5", True), (FLOAT, "1", True), (FLOAT, "inf", False),
        (FLOAT, "1e", False), (FLOAT, "1_0", False), (FLOAT, "1\n", False), (BOOL, "true", True), (BOOL, "false", True),
        (BOOL, "True", False), (BOOL, "1", False), (ENUM, "a", True),
        (ENUM, "b", True), (ENUM, "c", False), (ENUM, "true", False),
        (TEXT, "none", True), (TEXT, "a", False), (TEXT, "0", False),
    ],
)  # fmt: skip
def test_defaults(kind: int, text: str, fits: bool) -> None:
    assert default_fits(Attribute("x", text, kind, 0, ("a", "b"))) is fits


def test_the_limits_are_those_of_the_format() -> None:
    assert rules.MAX_WALK == 1 << 24
