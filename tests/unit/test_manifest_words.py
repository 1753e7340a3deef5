"""The texts of a manifest, one at a time: signatures, attributes, Python's signature, and what an assumption means."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from build_tools.manifest import operators, sharing
from build_tools.manifest.grammar import (
    MAX_ALIGN,
    AttributeSpec,
    SignatureError,
    TensorSpec,
    is_symbol,
    parse_attribute,
    parse_tensor,
)
from build_tools.manifest.model import Kernel
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import (
    REQUIRED,
    Parameter,
    PythonSignatureError,
    literal,
    parse_python,
)

TYPES = {"T": ["bf16", "f16"]}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("T[]", ("in", "T", False, (), None, 1, False, None)),
        ("f32[N]", ("in", "f32", False, ("N",), None, 1, False, None)),
        ("fp8 [ * M , cdiv(N, 2), _ ]", ("in", "fp8", True, ("M", "cdiv(N, 2)", "_"), None, 1, False, None)),
        ("inout T[*M, N] strides [row, 1] align 16 optional", ("inout", "T", True, ("M", "N"), ("row", "1"), 16, True, None)),
        ("out T[M] strides[_] in place of x", ("out", "T", False, ("M",), ("_",), 1, False, "x")),
        (f"T[M] align {1 << 31}", ("in", "T", False, ("M",), None, 1 << 31, False, None)),
        ("T[min(M, max(N, 2)), 3]", ("in", "T", False, ("min(M, max(N, 2))", "3"), None, 1, False, None)),
    ],
)  # fmt: skip
def test_a_tensor(text: str, spec: tuple[Any, ...]) -> None:
    assert parse_tensor("x", text, TYPES) == TensorSpec("x", *spec)


def test_what_a_tensor_binds() -> None:
    spec = parse_tensor("x", "T[*M, N*2, _, K] strides [_, s, 1, t]", TYPES)
    assert spec.symbols() == ("M", "K", "s", "t")
    assert parse_tensor("x", "T[M]", TYPES).symbols() == ("M",)
    assert [is_symbol(text) for text in ("M", "_", "_M", "1", "M2", "2M", "")] == [
        True, False, True, False, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("T", "is not of the form"),
        ("U[M]", "'U' is neither an element type nor a type variable (known: T, bool, "),
        ("T[M, *N]", "only the first dim of 'T[M, *N]' may be starred"),
        ("T[**M]", "only the first dim"),
        ("T[M, N] strides [1]", "'T[M, N] strides [1]' has 2 dims and 1 strides"),
        ("T[M, , N]", "an empty dim in [M, , N]"),
        ("T[M,]", "an empty dim in [M,]"),
        ("T[M] align 0", "alignment 0 in 'T[M] align 0' is not a power of two"),
        ("T[M] align 3", "alignment 3 in 'T[M] align 3' is not a power of two"),
        ("T[M] align 24", "alignment 24 in 'T[M] align 24' is not a power of two"),
        (f"T[M] align {1 << 32}", f"alignment {1 << 32} in 'T[M] align {1 << 32}' is more than {1 << 31}"),
        ("T[M] in place of x", "only an 'out' can be in place of another tensor"),
        ("inout T[M] in place of x", "only an 'out' can be in place of another tensor"),
    ],
)
def test_a_tensor_that_is_none(text: str, words: str) -> None:
    with pytest.raises(SignatureError) as refused:
        parse_tensor("x", text, TYPES)
    assert words in str(refused.value)


def test_a_returned_tensor() -> None:
    assert parse_tensor("x", "T[M]", TYPES, returned=True).role == "out"
    assert parse_tensor("x", "out T[M]", TYPES, returned=True).role == "out"
    with pytest.raises(SignatureError, match=r"^a returned tensor is an output, not 'inout'$"):
        parse_tensor("x", "inout T[M]", TYPES, returned=True)
    assert MAX_ALIGN == 2**31  # the last power of two of a u32


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("int", ("int", (), None)), ("int = -3", ("int", (), "-3")), ("int=" + "9" * 18, ("int", (), "9" * 18)),
        ("bool = true", ("bool", (), "true")), ("float = 1e-6", ("float", (), "1e-6")), ("float = .5", ("float", (), ".5")),
        ("float = 1.", ("float", (), "1.")), ("float = -inf", ("float", (), "-inf")), ("float = nan", ("float", (), "nan")),
        ("enum(a, b)", ("enum", ("a", "b"), None)), ("enum(a,b) = b", ("enum", ("a", "b"), "b")),
        ("text", ("text", (), None)), ("text = none", ("text", (), "none")),
    ],
)  # fmt: skip
def test_an_attribute(text: str, spec: tuple[Any, ...]) -> None:
    assert parse_attribute("x", text) == AttributeSpec("x", *spec)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("number", "'number' is not of the form 'int|bool|float|enum(a, b)|text [= default]'"),
        ("enum", "'enum': an enum names its values, nothing else does"),
        ("enum( )", "an enum names its values"),
        ("int(a)", "an enum names its values"),
        ("int = 1_0", "'1_0' in 'int = 1_0' is not a value of int"),
        ("int = +1", "is not a value of int"),
        ("int = " + "9" * 19, "is not a value of int"),
        ("float = 1e", "is not a value of float"),
        ("float = .", "is not a value of float"),
        ("bool = True", "'True' in 'bool = True' is not a value of bool"),
        ("enum(a, b) = c", "'c' in 'enum(a, b) = c' is not a value of enum"),
        ("enum(a, b) = true", "is not a value of enum"),
        ("text = a", "'a' in 'text = a' is not a value of text"),
        ("text(a)", "an enum names its values"),
    ],
)
def test_an_attribute_that_is_none(text: str, words: str) -> None:
    with pytest.raises(SignatureError) as refused:
        parse_attribute("x", text)
    assert words in str(refused.value)


def test_a_python_signature() -> None:
    text = "(x: Tensor, y: Tensor | None, n: int | None = None, e: float = 1e-6, s: str = 'a', t: tuple[int, ...] = (1, -1))"
    found = parse_python(text + " -> tuple[Tensor, Tensor]")
    assert found.returned == 2 and found.names == ("x", "y", "n", "e", "s", "t")
    assert found.parameters == (
        Parameter("x", "Tensor", False, REQUIRED), Parameter("y", "Tensor", True, REQUIRED), Parameter("n", "int", True, None),
        Parameter("e", "float", False, 1e-6), Parameter("s", "str", False, "a"),
        Parameter("t", "tuple[int, ...]", False, (1, -1)),
    )  # fmt: skip
    assert found.parameter("e") is found.parameters[3] and found.parameter("z") is None
    assert [each.required for each in found.parameters] == [True, True, False, False, False, False]
    assert [each.text for each in found.parameters] == [
        "x: torch.Tensor", "y: torch.Tensor | None", "n: int | None = None", "e: float = 1e-06", 's: str = "a"',
        "t: tuple[int, ...] = (1, -1)",
    ]  # fmt: skip
    (chosen,) = parse_python("(activation: Enum = 0) -> None").parameters
    assert (chosen.kind, chosen.enum, chosen.text) == ("int", True, "activation: int | Enum = 0")
    assert [parse_python(f"() -> {what}").returned for what in ("None", "Tensor", "tuple[Tensor]")] == [
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(x: Tensor", "is not of the form '(input: Tensor, epsilon: float = 1e-6) -> Tensor'"),
        ("(lambda: int) -> None", "'lambda' is no name of a parameter here"),
        ("(*x: int) -> None", "only plain parameters: no *, no /"),
        ("(**x: int) -> None", "only plain parameters: no *, no /"),
        ("(x: int, /) -> None", "only plain parameters: no *, no /"),
        ("(*, x: int) -> None", "only plain parameters: no *, no /"),
        ("(x) -> None", "parameter 'x' has no annotation"),
        (
            "(x: complex) -> None",
            "'x' is annotated 'complex': not one of Tensor, dtype, int, bool, float, str, tuple[int, ...]",
        ),
        ("(x: int = None) -> None", "'x' has the default None: annotate it int | None"),
        ("(x: int = f()) -> None", "the default 'f()' is no literal"),
        ("(x: int)", "what it returns is missing"),
        ("(x: int) -> int", "it returns 'int': not Tensor"),
        ("(x: int) -> tuple[Tensor, ...]", "it returns 'tuple[Tensor, ...]'"),
        ("(_x: int) -> None", "it starts with a letter, and has letters, digits and _"),
        ("(kinds: int) -> None", "references, or generated functions, use it themselves"),
    ],
)
def test_a_python_signature_that_is_none(text: str, words: str) -> None:
    with pytest.raises(PythonSignatureError) as refused:
        parse_python(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1e-6, "1e-06"), ("a", '"a"'), ('"', "'\"'"), ("\\", '"\\\\"'), (None, "None")],
)
def test_a_default_as_code(value: object, text: str) -> None:
    assert literal(value) == text


def _conditions(constants: Mapping[str, object], *assumptions: Mapping[str, object]) -> list[str]:
    """Of a kernel whose steps assume this; ``x`` and ``y`` are tensors."""
    steps = [{"symbol": "k", "grid": [1], "args": [], "assume": each} for each in assumptions]
    row = {
        "name": "k",
        "backend": "hip",
        "targets": ["gfx942"],
        "source": "k.hip",
        "constants": constants,
        "steps": steps,
    }
    return list(sharing._implied(Kernel.model_validate(row), {"x", "y"}))


def test_what_is_assumed_is_asked() -> None:
    both = {"divisible": ["x", "N", "y"]}
    assert _conditions({}, both) == ["aligned(x, 16) and aligned(y, 16)", "N % 16 == 0"]
    assert _conditions({}) == [] and _conditions({}, {"divisible": ["N"]}, {"divisible": ["N", "K"]}) == [
        "N % 16 == 0 and K % 16 == 0"
    ]
    for always in (1, True):
        assert _conditions({"EVEN": always}, {"when_constant": "EVEN", **both}) == _conditions({}, both)
    for sometimes in ({}, {"EVEN": 0}, {"EVEN": 2}, {"EVEN": False}):
        assert _conditions(sometimes, {"when_constant": "EVEN", **both}) == [
            "not EVEN or (aligned(x, 16) and aligned(y, 16))", "not EVEN or N % 16 == 0",
        ]  # fmt: skip
    three = (
        {"when_constant": "A", "divisible": ["x"]},
        {"divisible": ["N"]},
        {"when_constant": "A", "divisible": ["M"]},
    )
    assert _conditions({}, *three) == [
        "not A or aligned(x, 16)", "not A or M % 16 == 0", "N % 16 == 0",
    ]  # fmt: skip


def test_the_scalars_of_a_native_call() -> None:
    """Of a parameter that has one value no kernel hears."""
    text: Any = SimpleNamespace(function=None, attributes=None, ignored=["i"])
    python = parse_python(
        "(x: Tensor, i: int, n: int, o: int | None, m: str = 'a', "
        "f: bool = False, g: bool = True, two: int = 3, e: float = 0.5, k: str | None = None, z: str = 'z') -> None"
    )
    problems = Problems()
    covered = {"m": ("a", "b"), "f": (False,), "two": (3, 4)}
    assert operators._attributes(text, python, covered, problems) == {
        "n": "int", "o": "int", "m": "enum(a, b) = a", "g": "bool = true", "two": "int = 3", "e": "float = 0.5",
        "k": "text = none", "z": "text = none",
    }  # fmt: skip
    first, second = problems.lines
    assert first.endswith("'o' may be None, which no kernel takes: cover it or name a function")
    assert second.endswith("'z' is any text, whose default is None or empty")
    text.function, text.attributes = "f", {"n": "int"}
    assert operators._attributes(text, python, covered, problems) == {"n": "int"}
