"""A recipe whose calls are all dense gets no receipt, nor one of a size or of a ranged option that is always the same: what
stands in the kernel in its place would be right in all of them. What a condition holds is not asked for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import toy_operator

from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.records import (
    BACKENDS,
    DIM_BIND,
    Attribute,
    Condition,
    Dim,
    Kernel,
    Operator,
    Recipe,
    Tensor,
)
from build_tools.cases import make, parts, table
from build_tools.judge.receipts import Provable
from build_tools.manifest.problems import Problems
from build_tools.prove.call_coverage import Walked

CALLS = """
[toy]
default = "index~permutation N=6 M=2 T=bf16 Q=i8 O=f32 epsilon=0.5 bias=none"
golden = "M=1 N=4"
calls = ["M=2", "M=3 N=7", "M=3 N=7 gaps=8", "M=3 N=7 in_row=9", "M=1 gaps=8", "M=3 N=7 shift=1"]
"""
SLOTS = ("M", "N", "out_row", "in_row", "shift", "CUS", "&out", "?out", "&input", "?input")
PLACES = {name: slot for slot, name in enumerate(SLOTS)}
DENSE = "is as sizes give it in each call that chooses it"


def built(*conditions: str) -> tuple[Operator, Recipe]:
    """The operator as a bundle has it, and a recipe under these conditions."""
    tensors = tuple(
        Tensor(
            name, role, 0, 1, 0, 0, 0, 1, PLACES[f"&{name}"], PLACES[f"?{name}"],
            tuple(Dim(DIM_BIND, PLACES[dim], b"") for dim in ("M", "N")), (Dim(DIM_BIND, PLACES[row], b""),),
        )
        for name, role, row in (("out", 1, "out_row"), ("input", 0, "in_row"))
    )  # fmt: skip
    shift = Attribute("shift", "0", 0, PLACES["shift"], ())
    operator = Operator("toy", "", "", 0, (), tensors, (shift,), SLOTS, (), (), (), (), (), ())
    codes = tuple(Condition(text, compile_expression(text, Scope(PLACES, {}))) for text in conditions)
    return operator, Recipe(0, "v", (), codes, b"", b"", ())


def told(
    tmp_path: Path, chosen: list[str], *conditions: str, unasked: str = "", **given: frozenset[str]
) -> str:
    """What is said of a recipe that these calls choose."""
    cases = replace(toy_operator.cases(tmp_path, CALLS), unasked=unasked)
    none: frozenset[str] = frozenset()
    recipe = Provable(
        "toys", "toy.row", "v", "gfx942", none, "now", "it", {},
        ranged=given.get("ranged", none), sized=given.get("sized", none), built=built(*conditions),
    )  # fmt: skip
    walked = Walked({"a": recipe})
    bounds = {bound.label: bound for bound in make.bounds(cases, "gfx942", toy_operator.targets()["gfx942"])}
    for label in chosen:
        walked.note(cases, bounds[label], ["a"])
    return "; ".join([*walked.narrow().values(), *walked.needless()])


def test_calls_that_are_all_dense_are_refused(tmp_path: Path) -> None:
    """Planted: a kernel in which the sizes give the step between rows is right in the first two calls."""
    dense = f"toy.row[v]: out_row {DENSE}; in_row {DENSE}"
    assert told(tmp_path, ["M=2", "M=3 N=7"]) == dense
    assert told(tmp_path, ["M=2", "M=3 N=7 gaps=8"]) == ""
    assert told(tmp_path, ["M=2", "M=3 N=7 in_row=9"]) == f"toy.row[v]: out_row {DENSE}"
    lone = told(tmp_path, ["M=2", "M=1 gaps=8"])
    assert lone == dense, "one row has no step to the next"


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        (("in_row == N and out_row == N",), ""),
        (("M == 1 or in_row == N", "out_row == N"), ""),
        (("in_row == N",), "out_row"),
        (("in_row == out_row", "in_row == N"), ""),
        (("in_row == out_row",), "out_row in_row"),  # both may be another
        (("in_row % 2 == 0 or N == 7", "in_row < 1000"), "out_row in_row"),
        (("in_row == 9 or in_row == N",), "out_row"),
    ],
)
def test_what_conditions_hold_is_not_asked_for(
    tmp_path: Path, conditions: tuple[str, ...], left: str
) -> None:
    words = "; ".join(f"{name} {DENSE}" for name in left.split())
    assert told(tmp_path, ["M=2", "M=3 N=7"], *conditions) == (words and f"toy.row[v]: {words}")


def test_a_ranged_option_of_one_value_is_refused(tmp_path: Path) -> None:
    ranged = frozenset({"shift"})
    calls = ["M=2", "M=3 N=7 gaps=8"]
    one = "toy.row[v]: shift is 0 in each call that chooses it"
    assert told(tmp_path, calls, "shift >= 0 and shift < 4", ranged=ranged) == one
    assert told(tmp_path, calls, "N % 3 == 0 or shift <= N", ranged=ranged) == one
    assert told(tmp_path, [*calls, "M=3 N=7 shift=1"], "shift >= 0 and shift < 4", ranged=ranged) == ""
    assert told(tmp_path, calls, "shift >= 0 and shift <= 0", ranged=ranged) == "", "no other value is taken"


def test_a_size_that_a_kernel_is_given_has_two_values(tmp_path: Path) -> None:
    sized = frozenset({"N", "M"})
    one = "toy.row[v]: M is 3 in each call that chooses it; N is 7 in each call that chooses it"
    calls = ["M=3 N=7", "M=3 N=7 gaps=8"]
    assert told(tmp_path, calls, sized=sized) == one
    assert told(tmp_path, calls, "N == 7 and M <= 3", sized=sized).count("is 3") == 1
    assert told(tmp_path, calls, "N == 7", sized=sized) == one.partition(";")[0]
    assert told(tmp_path, [*calls, "M=2"], sized=sized) == ""


def test_an_operator_that_is_not_asked_needs_it(tmp_path: Path) -> None:
    sized = frozenset({"N", "M"})
    calls = ["M=3 N=7", "M=3 N=7 gaps=8"]
    assert told(tmp_path, calls, sized=sized, unasked="made up") == ""
    said = "toy: all its sizes have two values: take it out of manifests/unasked.toml"
    assert told(tmp_path, [*calls, "M=2"], sized=sized, unasked="made up") == said


def test_lint_asks_for_names_of_operators_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "unasked.toml").write_text('[sizes]\ntoj = "made up"\ntoy = ""\n')
    found = list(parts.unknown([toy_operator.subject()], tmp_path))
    assert (
        f"{tmp_path.name}/unasked.toml: sizes.toj: no operator has this name (did you mean 'toy'?)" in found
    )
    problems = Problems()
    assert table.unasked(tmp_path, problems).keys() == {"toj", "toy"}
    assert problems.lines == [f"{tmp_path.name}/unasked.toml: sizes.toy: is not a reason"]


def shared_ways(
    tmp_path: Path, chosen: list[str], *conditions: str, backend: str = "asm", left: str = ""
) -> str:
    """What is said of strides that let elements share memory, of a recipe of assembly that these calls choose."""
    calls = CALLS.replace('"M=3 N=7 shift=1"]', '"M=3 N=7 shift=1", "M=3 in_row=0", "M=3 in_row=2"]')
    cases = replace(toy_operator.cases(tmp_path, calls), unshared=left)
    operator, recipe = built(*conditions)
    kernel = Kernel("row", BACKENDS.index(backend), 0, 0)
    none: frozenset[str] = frozenset()
    known = Provable(
        "toys", "toy.row", "v", "gfx942", none, "now", "it", {}, built=(replace(operator, kernels=(kernel,)), recipe),
    )  # fmt: skip
    walked = Walked({"a": known})
    bounds = {bound.label: bound for bound in make.bounds(cases, "gfx942", toy_operator.targets()["gfx942"])}
    for label in chosen:
        walked.note(cases, bounds[label], ["a"])
    return "; ".join([*walked.unshared().values(), *walked.needless()])


def test_strides_that_share_memory_are_asked_of_assembly(tmp_path: Path) -> None:
    """Planted: an object that ends what it reads at its rows times their stride is right in dense calls alone."""
    both = "toy.row[v]: in_row may be 0; in_row may be less than a row, and no call of the kernel has it so"
    assert shared_ways(tmp_path, ["M=2"]) == both
    assert shared_ways(tmp_path, ["M=2"], "in_row % 3 == 0") == both, "0 is a multiple of everything"
    assert "may be 0" not in shared_ways(tmp_path, ["M=2", "M=3 in_row=0"])
    assert shared_ways(tmp_path, ["M=2", "M=3 in_row=0", "M=3 in_row=2"]) == ""
    assert shared_ways(tmp_path, ["M=2"], "in_row >= N") == "", "conditions refuse both"
    assert shared_ways(tmp_path, ["M=2", "M=1 gaps=8"], "in_row >= N") == "", (
        "one row has the stride that sizes give"
    )
    assert shared_ways(tmp_path, ["M=2"], backend="triton") == "", "not asked of kernels of ours yet"


def test_what_is_not_asked_yet_is_said_and_needed(tmp_path: Path) -> None:
    assert shared_ways(tmp_path, ["M=2"], left="its calls take minutes") == ""
    spare = shared_ways(tmp_path, ["M=2"], "in_row >= N", left="its calls take minutes")
    assert spare == "toy: each stride that may be shared has a call: take it out of manifests/unasked.toml"
