"""What the calls of a recipe show of its options and optional tensors: each in two values, and calls that tell them apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import toy_operator

from build_tools.cases import make
from build_tools.judge.receipts import Provable
from build_tools.prove.call_coverage import Walked

CALLS = """
[toy]
default = "index~permutation N=6 M=2 T=bf16 Q=i8 O=f32 epsilon=0.5"
golden = "M=1 N=4 bias=none"
calls = ["bias~normal", "bias=none", "bias=none epsilon=2.0", {more}]
"""


def walked(tmp_path: Path, chosen: list[str], opened: set[str], more: str = "", words: str = "") -> Walked:
    """The calls of these labels choose the one recipe; it reads none of ``opened``."""
    cases = toy_operator.cases(tmp_path, CALLS.replace("{more}", more) + words)
    recipe = Provable("toys", "toy.row", "v", "gfx942", frozenset(), "now", "it", {}, frozenset(opened))
    found = Walked({"a": recipe})
    bounds = {bound.label: bound for bound in make.bounds(cases, "gfx942", toy_operator.targets()["gfx942"])}
    for label in chosen:
        found.note(cases, bounds[label], ["a", "elsewhere"])
    return found


def test_an_option_that_no_condition_reads_needs_two_values(tmp_path: Path) -> None:
    one = walked(tmp_path, ["bias~normal", "bias=none"], {"epsilon", "bias", "shift"})
    assert one.narrow() == {
        "a": "toy.row[v]: epsilon is 0.5 in each call that chooses it; shift is 0 in each call that chooses it"
    }
    assert walked(tmp_path, ["bias~normal", "bias=none"], {"bias"}).narrow() == {}
    other = walked(tmp_path, ["bias=none", "bias=none epsilon=2.0"], {"epsilon", "bias"})
    assert other.narrow() == {"a": "toy.row[v]: bias is left out in each call that chooses it"}
    said = 'insensitive.epsilon = "made up"\n'
    assert walked(tmp_path, ["bias=none"], {"epsilon"}, words=said).narrow() == {}


def test_calls_of_two_values_must_tell_them_apart(tmp_path: Path) -> None:
    """One of them alone would be right with a value that stands in the kernel; a call of no rows tells nothing apart."""
    good = walked(tmp_path, ["bias~normal", "bias=none", "bias=none epsilon=2.0"], {"epsilon", "bias"})
    assert good.narrow() == good.unnoticed(["a"]) == {}
    empty = 'insensitive.M = "no row, nothing to see"\n'
    blind = '"M=0 bias~normal", "M=0 bias=none epsilon=2.0"'
    for chosen in (
        ["M=0 bias~normal", "M=0 bias=none epsilon=2.0"],
        ["bias~normal", "M=0 bias=none epsilon=2.0"],
    ):
        weak = walked(tmp_path, chosen, {"epsilon", "bias"}, blind, empty)
        assert weak.narrow() == {}
        assert weak.unnoticed(["a"]) == {
            "a": "toy.row[v]: no two calls that choose it notice another value of epsilon, bias"
        }
    said = f'{empty}insensitive."row.epsilon" = "made up"\n'
    weak = walked(tmp_path, ["bias~normal", "M=0 bias=none epsilon=2.0"], {"epsilon"}, blind, said)
    assert weak.unnoticed(["a"]) == {}, "of this kernel it is said"


@pytest.mark.parametrize(
    ("absent", "said"), [(False, {}), (True, {"a": "toy.row[v]: out is given in each call that chooses it"})]
)
def test_a_result_counts_where_some_call_leaves_it_out(
    tmp_path: Path, absent: bool, said: dict[str, str]
) -> None:
    """Elsewhere the function makes it, and a kernel always has it."""
    cases = toy_operator.cases(tmp_path, CALLS.replace("{more}", ""))
    subject = cases.subject
    arguments = tuple(
        replace(spec, optional=spec.optional or spec.name == "out") for spec in subject.arguments
    )
    calls = cases.calls
    if absent:
        calls = (*calls, replace(calls[0], absent=frozenset({"out"})))
    cases = replace(cases, subject=replace(subject, arguments=arguments), calls=calls)
    recipe = Provable("toys", "toy.row", "v", "gfx942", frozenset(), "now", "it", {}, frozenset({"out"}))
    found = Walked({"a": recipe})
    found.note(cases, next(make.bounds(cases, "gfx942", toy_operator.targets()["gfx942"])), ["a"])
    assert found.narrow() == said
