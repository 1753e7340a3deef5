"""Words and a signature become shapes, strides, offsets and types; a call that cannot be made says what it lacks."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from support import toy_operator

from build_tools.cases import bind, words
from build_tools.cases.bind import BindError, Bound, Layout
from build_tools.cases.subject import Subject
from build_tools.manifest.grammar import parse_tensor
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import parse_python

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


def test_inputs_may_share_places_where_a_word_says_so() -> None:
    assert _one(FULL + "in_row=0", "input").strides == (0, 1)
    assert _one(FULL + "in_row=5", "input").strides == (5, 1)
    with pytest.raises(BindError, match=r"out is written, and strides \[0, 1\] of \(2, 6\)"):
        _bind(FULL + "out_row=0")


def test_a_dim_of_stride_0_takes_no_place() -> None:
    """What no word says lies dense around it, as around a dim that torch expands."""
    spec = parse_tensor("input", "T[B, S, H, N] strides [in_b, in_s, in_h, 1]", {"T": ["bf16"]})
    toy = toy_operator.subject()
    own = tuple(each for each in toy.parameters if each.kind != "Tensor" or each.name == "input")
    subject = replace(toy, parameters=own, arguments=(spec,), returns=(), type_of={}, types={"T": ("bf16",)})
    words_of = {
        "in_s=0": (12, 0, 6, 1),
        "in_h=0": (18, 6, 0, 1),
        "in_s=0 in_h=0": (6, 0, 0, 1),
        "in_b=0": (0, 12, 6, 1),
    }
    for text, strides in words_of.items():
        found = _bind(f"B=2 S=3 H=2 N=6 epsilon=0.5 T=bf16 {text}", subject=subject)[0].tensors["input"]
        assert found is not None
        assert found.strides == strides, text


def test_gaps_and_swapped_dims() -> None:
    """Each stride that no word says is further than dense by another number; of a last dim never."""
    assert _one(FULL + "gaps=8", "out").strides == (14, 1)
    assert _one(FULL + "gaps=8", "input").strides == (22, 1)
    assert _one(FULL + "gaps=8 in_row=9", "input").strides == (9, 1)
    assert _one(FULL + "gaps=8", "total").strides == (1, 1), "the function makes it"
    arguments = tuple(
        parse_tensor(name, text, {})
        for name, text in {"q": "f32[B, S, H, D] strides [b, s, h, 1]", "k": "f32[B, D]"}.items()
    )
    heads = replace(toy_operator.subject(), arguments=arguments, returns=(), types={}, parameters=())
    heads = replace(
        heads, parameters=parse_python("(q: Tensor, k: Tensor) -> None").parameters, type_of={}, covered={}
    )

    def strides(text: str) -> tuple[int, ...]:
        problems = Problems()
        (bound,) = bind.bind(heads, words.read(text, heads, [], [], problems), "e4m3fn")
        layout = bound.tensors["q"]
        assert layout is not None and not problems.lines
        return layout.strides

    assert strides("B=2 S=3 H=4 D=5 swapped=1,2") == (60, 5, 15, 1)
    assert strides("B=2 S=3 H=4 D=5 swapped=1,2 b=100") == (100, 5, 15, 1)
    assert strides("B=2 S=3 H=4 D=5 swapped=1,2 h=40") == (480, 160, 40, 1), "one of them is said"


def test_values_that_go_together() -> None:
    bounds = list(_bind("M=2&3 N=6 epsilon=1&2 shift=0|1 T=bf16 Q=i8 O=f32"))
    assert [(bound.sizes["M"], bound.values["epsilon"], bound.values["shift"]) for bound in bounds] == [
        (2, 1.0, 0), (2, 1.0, 1), (3, 2.0, 0), (3, 2.0, 1),
    ]  # fmt: skip
    assert len({bound.label for bound in bounds}) == 4
    with pytest.raises(BindError, match="M, epsilon have different numbers of values"):
        _bind("M=2&3&4 N=6 epsilon=1&2")


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
