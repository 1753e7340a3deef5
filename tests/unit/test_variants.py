"""Variants of a kernel: every combination, its names, and what expressions see of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support import planned

from build_tools.manifest.model import Kernel
from build_tools.manifest.problems import Problems
from build_tools.plan.variants import Variant, expand
from build_tools.records import Constant


def said(made: Kernel, **signature: Any) -> list[str]:
    problems = Problems()
    expand(made, planned.slots(**signature), planned.target(), problems)
    return problems.lines


def test_variants_are_every_combination_in_the_order_written() -> None:
    made = planned.kernel(
        constants={"WAVE": "{wave}", "LDS": "{lds_bytes}", "FP8": "{fp8}", "NAME": "{target}", "TEXT": "{other}", "FIXED": 3},
        variants={
            "BLOCK": [64, {"BLOCK": 128, "WIDE": True}, {"name": "big", "BLOCK": 256, "FILL": "{wave}"}], "EVEN": [False, True],
        },
        types={"Q": ["i8", "fp8"]},
        **{"except": ["BLOCK == 128 and EVEN", "target == 'gfx950'", "T == 'f16' and sizeof_Q == 1 and wave != 64"]},
    )  # fmt: skip
    slots = planned.slots(types={"T": ["bf16", "f32"], "Q": ["fp8", "i8", "i32"]})
    found = planned.variants(made, slots)
    names = ["BLOCK64-EVEN0", "BLOCK64-EVEN1", "BLOCK128WIDE1-EVEN0", "big-EVEN0", "big-EVEN1"]
    types = [("bf16", "i8"), ("bf16", "e4m3fnuz"), ("f32", "i8"), ("f32", "e4m3fnuz")]
    assert [(each.types, each.name) for each in found] == [(pair, name) for pair in types for name in names]
    facts = {"WAVE": 64, "LDS": 65536, "FP8": "e4m3fnuz", "NAME": "gfx942", "TEXT": "{other}", "FIXED": 3}
    assert found[0].constants == {**facts, "BLOCK": 64, "EVEN": False, "T": "bf16", "Q": "i8"}
    assert found[4].constants == {**facts, "BLOCK": 256, "FILL": 64, "EVEN": True, "T": "bf16", "Q": "i8"}
    assert found[2].keys == {"BLOCK": ("BLOCK", "WIDE"), "EVEN": ("EVEN",)}


def test_what_expressions_of_a_variant_see() -> None:
    constants: dict[str, Constant] = {
        "BLOCK": 64,
        "EVEN": True,
        "T": "bf16",
        "Q": "e4m3fnuz",
        "TEXT": "other",
    }
    variant = Variant(
        planned.target(), ("bf16",), (("a", "A1"), ("b", "B2")), {"a": ("X", "Y"), "b": ("Z",)}, {**constants}
    )
    assert variant.numbers() == {
        "BLOCK": 64, "EVEN": 1, "wave": 64, "lds_bytes": 65536, "sizeof_T": 2, "sizeof_Q": 1
    }  # fmt: skip
    assert variant.strings() == {"T": "bf16", "Q": "e4m3fnuz", "TEXT": "other", "target": "gfx942"}
    scope = variant.scope(planned.slots())
    assert (scope.constants, scope.strings) == (variant.numbers(), variant.strings())
    assert [variant.name_of(used) for used in (None, {"Y"}, {"Z"}, {"X", "Z"}, {"W"}, set())] == [
        "A1-B2", "A1", "B2", "A1-B2", "default", "default"
    ]  # fmt: skip
    assert replace(variant, axes=()).name == "default"  # fmt: skip


def test_types_of_a_kernel_are_some_of_the_operators() -> None:
    made = planned.kernel(types={"U": ["bf16"], "T": ["bf61", "f16"], "V": []})
    assert said(made) == [
        "types.U: 'U' is not a type variable of the operator (known: T)",
        "types.T: 'bf61' is not a type that the operator allows (did you mean 'bf16'?)",
        "types.V: 'V' is not a type variable of the operator (known: T)",
    ]
    assert [each.types for each in expand(made, planned.slots(), planned.target(), Problems())] == [("f16",)]


def test_an_exception_that_is_no_expression_excludes_nothing() -> None:
    made = planned.kernel(variants={"B": [1, 2]}, **{"except": ["B == 1", "N > 1", "B > 1 // 0"]})
    problems = Problems()
    found = expand(made, planned.slots(), planned.target(), problems)
    assert [each.name for each in found] == ["B2"] * 2
    assert [line.partition(":")[0] for line in problems.lines] == ["except[1]", "except[2]"]


def test_constants_have_names_of_their_own() -> None:
    words = "has the name of a dim, stride, attribute or type variable of the operator"
    made = planned.kernel(
        constants={"T": 1, "B": 1}, variants={"N": [1], "M": [{"name": "x", "C": 2}], "A": [{"left": 1}]}
    )
    assert said(made, attributes={"left": "int", "name": "int"}) == [
        f"constant {name!r} {words}" for name in ("N", "T", "left")
    ]  # fmt: skip
