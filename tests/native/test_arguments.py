"""Every refusal of the signature: its class, its words, and nothing launched or loaded."""

from __future__ import annotations

import numpy as np
import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.synthetic import A, Op, R, T

X, OUT = 0x7F0000000100, 0x7F0000200000


def op_spec(blob: str) -> Op:
    """out T[*M, N] strided, x T[*M, N] strided and aligned, w fp8[N, K+1] contiguous, s f32[] optional, mode, k."""
    return Op(
        "op",
        [
            T("out", "T", ["*M", "N"], ["out_row", "1"], role="out"),
            T("x", "T", ["*M", "N"], ["row", "1"], align=16),
            T("w", "e4m3fnuz", ["N", "k + 1"]),
            T("s", "f32", [], optional=True),
        ],
        [
            A("k", "int", "3"),
            A("flag", "bool", "false"),
            A("eps", "float", "1e-5"),
            A("mode", "enum", "b", ("a", "b")),
        ],
        types={"T": ["bf16", "f16"]},
        recipes=[R(variant=t, types=(t,), blob=blob) for t in ("bf16", "f16")],
        signature="op(out, x, w, s, k, flag, eps, mode)",
    )


GOOD: dict[str, object] = {
    "out": raw(OUT, "bf16", (6, 64)),
    "x": raw(X, "bf16", (2, 3, 64)),
    "w": raw(0x7F0001000000, "e4m3fnuz", (64, 4)),
    "s": None,
    "k": 3,
    "flag": False,
    "eps": 1e-5,
    "mode": "a",
}

REFUSED: list[tuple[dict[str, object], type[errors.AiterPrebuiltError], str]] = [
    # what is passed instead, class, words
    ({"x": None}, errors.ArgumentKindError, "op: x must be a tensor, got None"),
    ({"x": 3}, errors.ArgumentKindError, "op: x must be a tensor, got an object of type int"),
    ({"x": "text"}, errors.ArgumentKindError, "op: x must be a tensor, got an object of type str"),
    (
        {"x": (1, 2)},
        errors.ArgumentKindError,
        "op: x must be a tensor or a tuple of 5 items, got a tuple of 2",
    ),
    (
        {"x": ("a", "bf16", (6, 64), None, ("amd", 0))},
        errors.ArgumentKindError,
        "op: x must have an integer as its address",
    ),
    ({"x": raw(X, "bf17", (6, 64))}, errors.ArgumentKindError, "op: x has the unknown element type 'bf17'"),
    ({"x": raw(X, "bf16", (6, 64), (64,))}, errors.ArgumentKindError, "shape and strides of the same number"),
    ({"x": raw(X, "bf16", (1,) * 17)}, errors.ArgumentKindError, "at most 16"),
    ({"x": raw(X, "bf16", (6, 64), device=("intel", 0))}, errors.ArgumentKindError, r"\(vendor, ordinal\)"),
    (
        {"x": raw(X, "bf16", (6, 64), device=("amd", 1))},
        errors.ArgumentDeviceError,
        "op: x must be on device 0, as out is; got device 1",
    ),
    ({"x": raw(X, "bf16", (6, 64), device=("nvidia", 0))}, errors.ArgumentDeviceError, "one device"),
    (
        {"x": np.zeros((6, 64), np.float16)},
        errors.ArgumentDeviceError,
        "op: x must be on the GPU, got a tensor on the CPU",
    ),
    ({"x": raw(0, "bf16", (6, 64))}, errors.ArgumentDeviceError, "no memory"),
    (
        {"x": raw(X, "f32", (6, 64))},
        errors.ArgumentDTypeError,
        "op: x must be bf16, as the other tensors of type T are, got f32",
    ),
    (
        {"out": raw(OUT, "f32", (6, 64))},
        errors.ArgumentDTypeError,
        "op: out must be bf16 or f16, got f32",
    ),
    (
        {"w": raw(X, "e4m3fn", (64, 4))},
        errors.ArgumentDTypeError,
        "op: w must be e4m3fnuz, got e4m3fn.*the type of this GPU",
    ),
    ({"x": raw(X, "bf16", (6,))}, errors.ArgumentShapeError, r"op: x must be \[\*M, N\], got \[6\]"),
    (
        {"w": raw(X, "e4m3fnuz", (64,))},
        errors.ArgumentShapeError,
        r"op: w must be \[N, 4\], got \[64\] \(1 dims\)",
    ),
    (
        {"w": raw(X, "e4m3fnuz", (64, 5))},
        errors.ArgumentShapeError,
        r"op: w must be \[N, 4\], got \[64, 5\]: dim 1 must be 4",
    ),
    (
        {"w": raw(X, "e4m3fnuz", (63, 4))},
        errors.ArgumentShapeError,
        "N is 64 in the arguments before it, not 63",
    ),
    ({"x": raw(X, "bf16", (7, 64))}, errors.ArgumentShapeError, "M is 6 in the arguments before it, not 7"),
    (
        {"x": raw(X, "bf16", (-1, 64))},
        errors.ArgumentShapeError,
        r"x must be a shape of sizes from 0 that fit 64 bits, got \[-1, 64\]",
    ),
    (
        {"x": raw(X, "bf16", (2**62, 2**62, 64))},
        errors.ArgumentShapeError,
        "x must be a shape of sizes from 0",
    ),
    ({"s": raw(X, "f32", (1,))}, errors.ArgumentShapeError, r"op: s must be \[\], got \[1\] \(1 dims\)"),
    ({"k": 2**62 * 2 - 1}, errors.ArgumentShapeError, "cannot be checked: a value does not fit 64 bits"),
    (
        {"x": raw(X, "bf16", (6, 64), (64, 2))},
        errors.ArgumentStrideError,
        r"op: x must have stride 1 in dim 1, got strides \[64, 2\]",
    ),
    (
        {"x": raw(X, "bf16", (2, 3, 64), (500, 64, 1))},
        errors.ArgumentStrideError,
        "op: x must have leading dims that collapse into one",
    ),
    (
        {"w": raw(X, "e4m3fnuz", (64, 4), (8, 1))},
        errors.ArgumentStrideError,
        "op: w must be contiguous, got strides",
    ),
    (
        {"x": raw(X + 8, "bf16", (6, 64))},
        errors.ArgumentAlignmentError,
        "op: x must be aligned to 16 bytes, got the address 0x7f0000000108",
    ),
    ({"k": "3"}, errors.ArgumentKindError, "op: k must be an int of 64 bits, got '3'"),
    ({"k": 2.5}, errors.ArgumentKindError, "op: k must be an int of 64 bits, got 2.5"),
    ({"k": None}, errors.ArgumentKindError, "op: k must be an int of 64 bits, got None"),
    ({"k": 2**70}, errors.ArgumentKindError, "op: k must be an int of 64 bits, got 1180591620717411303424"),
    ({"k": []}, errors.ArgumentKindError, r"op: k must be an int of 64 bits, got \[\]"),
    ({"k": float("nan")}, errors.ArgumentKindError, "op: k must be an int of 64 bits, got nan"),
    ({"flag": 2**70}, errors.ArgumentKindError, "op: flag must be a bool, got 1180591620717411303424"),
    ({"flag": None}, errors.ArgumentKindError, "op: flag must be a bool, got None"),
    ({"eps": 2**2000}, errors.ArgumentKindError, "op: eps must be a float, got"),
    ({"eps": None}, errors.ArgumentKindError, "op: eps must be a float, got None"),
    ({"eps": [1.0]}, errors.ArgumentKindError, "op: eps must be a float, got"),
    ({"mode": None}, errors.ArgumentKindError, "op: mode must be one of a, b, got None"),
    ({"flag": 2}, errors.ArgumentKindError, "op: flag must be a bool, got 2"),
    ({"eps": "x"}, errors.ArgumentKindError, "op: eps must be a float, got 'x'"),
    ({"mode": "c"}, errors.ArgumentKindError, "op: mode must be one of a, b, got 'c'"),
    ({"mode": 0}, errors.ArgumentKindError, "op: mode must be one of a, b, got 0"),
]


@pytest.mark.parametrize(
    ("changed", "kind", "words"), REFUSED, ids=[f"{i}-{c[1].__name__}" for i, c in enumerate(REFUSED)]
)
def test_refused(
    serve: Serve,
    stub: Stub,
    blob: Blob,
    changed: dict[str, object],
    kind: type[errors.AiterPrebuiltError],
    words: str,
) -> None:
    op = serve(op_spec(blob()))
    with pytest.raises(kind, match=words) as caught:
        op(*{**GOOD, **changed}.values())
    assert type(caught.value) is kind and caught.value.asked.startswith("op")
    assert isinstance(caught.value, errors.ArgumentError)
    assert caught.value.fix or " must be " in caught.value.found, "the sentence says what to do"
    assert stub.launches() == 0 and stub.load_attempts() == 0
    op(*GOOD.values())
    assert stub.launches() == 1, "the refusal left nothing behind"


def test_refused_also_when_the_memo_is_warm(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(op_spec(blob()))
    op(*GOOD.values())
    for changed, kind, words in REFUSED:
        with pytest.raises(kind, match=words):
            op(*{**GOOD, **changed}.values())
    assert stub.launches() == 1


@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_wrong_count(serve: Serve, stub: Stub, blob: Blob, count: int) -> None:
    op = serve(op_spec(blob()))
    values = [*GOOD.values(), 1][:count]
    kind = errors.ArgumentKindError if count == 0 else errors.ArgumentCountError
    with pytest.raises(
        kind,
        match="none of the 0 arguments is a tensor"
        if count == 0
        else f"op: takes 4 to 8 arguments, got {count}",
    ):
        op(*values)
    assert stub.launches() == 0


ACCEPTED = [
    {"x": raw(X, "bf16", (6, 64), (640, 1))},  # padded rows
    {"x": raw(X, "bf16", (1, 6, 64), (5, 64, 1))},  # the stride of a dim of size 1 says nothing
    {"x": raw(X, "bf16", (2, 1, 3, 64), (192, 7, 64, 1))},
    {"s": raw(X, "f32", ())},
    {"flag": True},
    {"flag": 1},
    {"k": np.int64(3)},
    {"eps": 1},
    {"eps": np.float32(0.5)},
    {"out": raw(0, "bf16", (0, 64)), "x": raw(0, "bf16", (2, 0, 64))},
    {"out": raw(OUT, "bf16", (1, 64)), "x": raw(X, "bf16", (64,))},
    {"out": raw(OUT, "f16", (6, 64)), "x": raw(X, "float16", (6, 64))},  # manifest and torch names
]


@pytest.mark.parametrize("changed", ACCEPTED, ids=range(len(ACCEPTED)))
def test_accepted(serve: Serve, stub: Stub, blob: Blob, changed: dict[str, object]) -> None:
    serve(op_spec(blob()))(*{**GOOD, **changed}.values())
    assert stub.launches() == 1


@pytest.mark.parametrize("dim", ["1", "k - 2"])
def test_a_tensor_without_dims_is_one_number(serve: Serve, stub: Stub, blob: Blob, dim: str) -> None:
    """vLLM's scales have no dims where AITER's signature says [1]; no dims are not any number of them."""
    op = serve(
        Op(
            "scaled",
            [T("x", "f32", ["N"]), T("scale", "f32", [dim], optional=True)],
            [A("k", "int", "3")],
            recipes=[R(blob=blob())],
            signature="scaled(x, scale, k)",
        )
    )
    for shape in ((), (1,)):
        op(raw(X, "f32", (4,)), raw(OUT, "f32", shape))
    assert stub.launches() == 2
    if dim != "1":
        with pytest.raises(
            errors.ArgumentShapeError, match=r"scale must be \[3\], got \[\]: dim 0 must be 3"
        ):
            op(raw(X, "f32", (4,)), raw(OUT, "f32", ()), 5)
    with pytest.raises(errors.ArgumentShapeError, match=r"scaled: x must be \[.*\], got \[\] \(0 dims\)"):
        op(raw(X, "f32", ()), None)
    with pytest.raises(
        errors.ArgumentShapeError, match=r"scaled: scale must be \[.*\], got \[1, 1\] \(2 dims\)"
    ):
        op(raw(X, "f32", (4,)), raw(OUT, "f32", (1, 1)))


def test_a_stride_that_two_tensors_share(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(
        Op(
            "shared",
            [T("a", "f32", ["M", "N"], ["s", "1"]), T("b", "f32", ["M", "N"], ["s", "1"])],
            recipes=[R(blob=blob())],
        )
    )
    with pytest.raises(
        errors.ArgumentStrideError,
        match="shared: b must have the same s as the arguments before it, 8; got strides",
    ):
        op(raw(X, "f32", (2, 4), (8, 1)), raw(OUT, "f32", (2, 4), (4, 1)))
    op(raw(X, "f32", (1, 4), (8, 1)), raw(OUT, "f32", (1, 4), (4, 1)))
    assert stub.launches() == 1


def test_first_given_tensor_names_the_device(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(op_spec(blob()))
    cpu = np.zeros((6, 64), np.float16)
    with pytest.raises(
        errors.ArgumentDeviceError, match="op: argument 1 must be on the GPU, got a tensor on the CPU"
    ):
        op(cpu, cpu, cpu, None)
    assert stub.launches() == 0


def test_an_element_must_not_straddle_its_own_size(serve: Serve, stub: Stub, blob: Blob) -> None:
    """No signature says so: an address that is no multiple of the element is refused, also once an aligned call is known."""
    op = serve(Op("o", [T("x", "f32", ["N"])], recipes=[R(blob=blob())]))
    op(raw(0x1000, "f32", (4,)))
    for off in (1, 2, 3):
        with pytest.raises(
            errors.ArgumentAlignmentError, match="x must be aligned to 4 bytes, got the address 0x10"
        ):
            op(raw(0x1000 + off, "f32", (4,)))
    op(raw(0x1004, "f32", (4,)))
    assert stub.launches() == 2
