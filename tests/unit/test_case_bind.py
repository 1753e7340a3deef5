"""Words and a signature become shapes, strides, offsets and types; a call that cannot be made says what it lacks."""

from __future__ import annotations

import dataclasses

import pytest
from support import toy_operator

from build_tools.cases import bind, words
from build_tools.cases.bind import BindError, Bound, Layout
from build_tools.cases.subject import Subject
from build_tools.manifest.grammar import parse_tensor
from build_tools.manifest.problems import Problems

FULL = "M=2 N=6 epsilon=0.5 "


def _bind(text: str, fp8: str = "e4m3fn", subject: Subject | None = None) -> list[Bound]:
    problems = Problems()
    subject = subject or toy_operator.subject()
    read = words.read(text, subject, ["normal"], ["gfx942"], problems)
    assert problems.lines == []
    return list(bind.bind(subject, read, fp8))


def _one(text: str, tensor: str, fp8: str = "e4m3fn") -> Layout:
    layout = _bind(text + " T=bf16 Q=i8 O=f32", fp8)[0].tensors[tensor]
    assert layout is not None
    return layout


def test_types_that_are_not_said_take_each_of_their_values() -> None:
    found = _bind(FULL + "T=f16", "e4m3fnuz")
    assert [bound.label for bound in found] == [
        f"M=2 N=6 epsilon=0.5 T=f16 Q={q} O={o}" for q in ("fp8", "i8") for o in ("bf16", "f32")
    ]
    outs = [bound.tensors["out"] for bound in found]
    assert [out and out.dtype for out in outs] == ["e4m3fnuz", "e4m3fnuz", "i8", "i8"]
    assert [bound.values["kind"] for bound in found] == ["bf16", "f32"] * 2, (
        "the parameter that chooses a type"
    )
    assert all(bound.tensors["bias"] is not None for bound in found)


def test_options_of_which_several_values_are_said_take_each_of_them() -> None:
    found = _bind("M=2 N=6 epsilon=0.5|2.0 fast=false|true bias=none T=f16 Q=i8")
    labels = [bound.label for bound in found]
    assert labels == [
        f"M=2 N=6 bias=none T=f16 Q=i8 epsilon={epsilon} fast={fast} O={o}"
        for epsilon in ("0.5", "2.0") for fast in ("false", "true") for o in ("bf16", "f32")
    ]  # fmt: skip
    told = [(bound.values["epsilon"], bound.values["fast"]) for bound in found[::2]]
    assert told == [(0.5, False), (0.5, True), (2.0, False), (2.0, True)]
    assert all({"epsilon", "fast"} <= bound.stated and bound.words.values["epsilon"] for bound in found)


def test_one_type_may_be_another() -> None:
    (found,) = _bind(FULL + "T=bf16 O=T Q=i8")
    assert found.types == {"T": "bf16", "O": "bf16", "Q": "i8"}
    with pytest.raises(BindError, match="O=T: 'f16' is not one of bf16, f32"):
        _bind(FULL + "T=f16 O=T Q=i8")


def test_shapes_strides_and_offsets() -> None:
    assert _one(FULL, "input") == Layout("input", "in", "bf16", (2, 6), (6, 1), 0, returned=False)
    assert _one(FULL + "in_row=9 input@3", "input") == Layout(
        "input", "in", "bf16", (2, 6), (9, 1), 3, returned=False
    )
    many = _one("M=(2,3,1) N=4 epsilon=1 in_row=5", "input")
    assert (many.shape, many.strides) == ((2, 3, 1, 4), (15, 5, 5, 1))
    assert _one("M=(2,3) N=4 epsilon=1", "total") == Layout(
        "total", "out", "f32", (2, 3, 1), (3, 1, 1), 0, returned=True
    )
    assert _one("M=() N=4 epsilon=1", "input").shape == (4,)
    assert _one("M=0 N=4 epsilon=1", "input").strides == (4, 1)


def test_expressions_wait_for_what_they_name() -> None:
    found = _one("M=(N//2,2) N=in_row-4 in_row=4*sizeof_T epsilon=1", "input")
    assert (found.shape, found.strides) == ((2, 2, 4), (16, 8, 1))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("M=2 epsilon=1", "'N' is not said, and out needs it"),
        ("M=2 N=6", "'epsilon' has no default: say epsilon=VALUE"),
        (FULL + "T=f32", "T=f32: 'f32' is not one of bf16, f16"),
        (FULL + "kind=none O=f32", "without kind, O is bf16"),
        ("M=N N=M epsilon=1", "M, N: each is said by the other"),
        ("M=K N=1 epsilon=1", "M: unknown name 'K'"),
        ("M=2 N=3-4 epsilon=1", "N=3-4 is negative"),
        ("M=2 N=1//0 epsilon=1", "N: division by zero"),
        ("M=2 N=open(1) epsilon=1", "N: "),
        ("M=100000 N=100000 epsilon=1", "10000000000 elements"),
        (
            FULL + "out_row=5",
            r"out is written, and strides \[5, 1\] of \(2, 6\) put two elements in one place",
        ),
    ],
)
def test_what_cannot_be_bound(text: str, problem: str) -> None:
    with pytest.raises(BindError, match=problem):
        _bind(text)


def test_inputs_may_overlap() -> None:
    assert _one(FULL + "in_row=0", "input").strides == (0, 1)


def test_a_tensor_that_is_left_out_needs_no_sizes() -> None:
    subject = toy_operator.subject()
    lonely = parse_tensor("bias", "T[R] optional", toy_operator.TYPES)
    subject = dataclasses.replace(
        subject, arguments=tuple(lonely if spec.name == "bias" else spec for spec in subject.arguments)
    )
    assert all(bound.tensors["bias"] is None for bound in _bind(FULL + "bias=none", subject=subject))
    with pytest.raises(BindError, match="'R' is not said, and bias needs it"):
        _bind(FULL, subject=subject)


def test_a_type_without_a_codec_is_refused() -> None:
    subject = toy_operator.subject()
    packed = parse_tensor("index", "fp4x2[N]", toy_operator.TYPES)
    subject = dataclasses.replace(
        subject, arguments=tuple(packed if spec.name == "index" else spec for spec in subject.arguments)
    )
    with pytest.raises(BindError, match="index: no case can hold fp4x2"):
        _bind(FULL, subject=subject)


def test_values_keep_what_was_stated_apart_from_defaults() -> None:
    found = _bind(FULL + "shift=0 otype=input.dtype T=f16 Q=i8 O=f32")[0]
    assert found.values == {
        "epsilon": 0.5, "mode": "plain", "shift": 0, "fast": False, "once": True, "kind": "f32", "otype": "f16",
    }  # fmt: skip
    assert found.stated == {"epsilon", "shift", "otype"}
