"""The grammar of a call: what is right becomes a record, and everything wrong is said with what was meant."""

from __future__ import annotations

import pytest
from support import toy_operator

from build_tools.cases import words
from build_tools.cases.words import Draw, Several, Together, Words
from build_tools.manifest.grammar import parse_tensor
from build_tools.manifest.operators import ArgumentType
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import parse_python

TARGETS = ["gfx942", "gfx950", "sm_90"]
DRAWS = ["normal", "edges", "upward"]


def _read(text: str) -> tuple[Words, list[str]]:
    problems = Problems()
    with problems.file("manifests/toys/cases.toml"), problems.at("toy", "calls", 0):
        found = words.read(text, toy_operator.subject(), DRAWS, TARGETS, problems)
    prefix = "manifests/toys/cases.toml: toy.calls[0]: "
    assert all(line.startswith(prefix) for line in problems.lines)
    return found, [line.removeprefix(prefix) for line in problems.lines]


def test_every_kind_of_word() -> None:
    text = (
        "M=(2,3)  N=4*M in_row=8 T=bf16 epsilon=1e-6 shift=-2 fast=true mode=twice kind=none otype=input.dtype bias=none "
        "input@3 state~edges cus=4 targets=gfx950,sm_90 index~upward:-1,2.5"
    )
    found, problems = _read(text)
    assert problems == []
    assert found.text == " ".join(text.split())
    assert found.symbols == {"M": ("2", "3"), "N": "4*M", "in_row": "8"}
    assert found.types == {"T": "bf16"}
    assert found.values == {
        "epsilon": 1e-6, "shift": -2, "fast": True, "mode": "twice", "kind": None, "otype": ArgumentType("input"),
    }  # fmt: skip
    assert found.absent == {"bias"} and found.offsets == {"input": 3}
    assert found.draws == {"state": Draw("edges"), "index": Draw("upward", (-1.0, 2.5))}
    assert (found.compute_units, found.targets) == (4, ("gfx950", "sm_90"))


def test_several_values_of_an_option() -> None:
    found, problems = _read("M=2 shift=1|-2 fast=true|false")
    assert problems == []
    assert found.values == {"shift": Several((1, -2)), "fast": Several((True, False))}
    assert _read("shift=1|1")[1] == ["shift=1|1: 1 is said twice"]
    assert _read("shift=1|x")[1] == ["shift=x: not a value of 'shift: int = 0'"]
    assert _read("shift=1|")[1] == ["shift=: not a value of 'shift: int = 0'"]


def test_gaps_swapped_dims_and_values_that_go_together() -> None:
    found, problems = _read("M=2&3 shift=1&-2 gaps=16 swapped=0,1")
    assert problems == []
    assert (found.symbols, found.values) == ({"M": Together(("2", "3"))}, {"shift": Together((1, -2))})
    assert (found.gaps, found.swapped) == (16, (0, 1))
    assert found.over(Words(gaps=8)).gaps == 16 and Words().over(found).swapped == (0, 1)
    assert _read("gaps=0")[1] == ["gaps=0: not a number of elements"]
    assert _read("swapped=1,1")[1] == _read("swapped=1,1")[1] == ["swapped=1,1: not two dims"]
    assert _read("swapped=1")[1] == ["swapped=1: not two dims"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("(-1,-1)", (-1, -1)), ("(7)", (7,)), ("()", None), ("(1,)", None), ("1,2", None), ("(1,x)", None)],
)
def test_a_tuple_of_integers(text: str, value: object) -> None:
    (window,) = parse_python("(window_size: tuple[int, ...] = (-1, -1, 0)) -> None").parameters
    found = words.read_value(window, text)
    assert found == value if value else not isinstance(found, tuple)


def test_an_empty_text() -> None:
    (name,) = parse_python("(kernelName: str) -> None").parameters
    assert words.read_value(name, "''") == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("epsilom=1", "toy has nothing called 'epsilom' (did you mean 'epsilon'?)"),
        ("M", "'M' is not NAME=VALUE, TENSOR@ELEMENTS or TENSOR~DRAW"),
        ("M==3 N=", "'N=' is not NAME=VALUE, TENSOR@ELEMENTS or TENSOR~DRAW"),
        ("9=3", "'9=3' is not NAME=VALUE"),
        ("N=(2,3)", "N=(2,3): only a *N stands for several dims"),
        ("M=2 M=3", "'M' is said twice"),
        ("epsilon=1_0", "epsilon=1_0: not a value of 'epsilon: float'"),
        ("epsilon=none", "epsilon=none: not a value of 'epsilon: float'"),
        ("shift=2.5", "shift=2.5: not a value of 'shift: int = 0'"),
        ("fast=1", "fast=1: not a value of 'fast: bool = False'"),
        ("mode=thrice", "mode=thrice: not served (covered: 'plain', 'twice')"),
        ("once=false", "once=false: not served (covered: True)"),
        ("kind=bf16", "kind=bf16: not a value of"),
        ("kind=input.dtype", "kind=input.dtype: say the type variable instead; only kind=none is written"),
        ("otype=out.dtype", "otype=out.dtype: not served (covered: None, input.dtype)"),
        ("bias=1", "'bias=1': a tensor is left out with bias=none; its values are drawn with bias~DRAW"),
        ("input=none", "'input=none': input cannot be left out"),
        ("bias=none bias~normal", "'bias' is left out and given in the same call"),
        ("inputt@1", "'inputt@1': no tensor is called 'inputt' (did you mean 'input'?)"),
        ("input@-1", "'input@-1': '-1' is not a number of elements"),
        ("input@1.5", "'input@1.5': '1.5' is not a number of elements"),
        ("total@1", "'total@1': the function allocates total itself"),
        ("out~normal", "'out~normal': out is written only; its values are never read"),
        ("input~norml", "no draw is called 'norml' (did you mean 'normal'?)"),
        ("input~normal:", "'input~normal:': a draw is NAME or NAME:NUMBER,NUMBER"),
        ("input~normal:__import__('os')", "a draw is NAME or NAME:NUMBER,NUMBER"),
        ("cus=0", "cus=0: not a number of compute units"),
        ("cus=¹", "cus=¹: not a number of compute units"),
        ("tree=Aiter", "tree=Aiter: not the name of a source tree"),
        ("targets=gfx942,gfx90a", "'gfx90a' is not a known target (did you mean 'gfx950'?)"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    _, problems = _read(text)
    assert any(line.startswith(problem) or problem in line for line in problems), problems


def test_everything_wrong_is_said_at_once() -> None:
    _, problems = _read("epsilom=1 input~norml cus=0 N=(1,2)")
    assert len(problems) == 4


def test_words_of_a_call_go_before_the_default() -> None:
    default, none = _read("epsilon=0.5 bias=none M=2 input~edges cus=3 targets=gfx942")
    call, wrong = _read("epsilon=1.0 bias~normal N=4")
    assert none == wrong == []
    both = call.over(default)
    assert both.text == "epsilon=1.0 bias~normal N=4"
    assert both.values == {"epsilon": 1.0} and both.symbols == {"M": "2", "N": "4"}
    assert both.absent == frozenset(), "a draw gives the tensor that the default leaves out"
    assert both.draws == {"input": Draw("edges"), "bias": Draw("normal")}
    assert (both.compute_units, both.targets) == (3, ("gfx942",))


def test_a_name_that_could_mean_two_things() -> None:
    import dataclasses

    subject = toy_operator.subject()
    clash = parse_tensor("index", "i64[epsilon]", toy_operator.TYPES)
    problems = Problems()
    words.check_names(
        dataclasses.replace(subject, arguments=(*subject.arguments[:3], clash, subject.arguments[4])),
        problems,
    )
    assert problems.lines == [
        "'epsilon' is a dim or stride symbol of toy and a parameter: rename one of them"
    ]
    problems = Problems()
    words.check_names(subject, problems)
    assert problems.lines == []
