"""Layouts that no kernel takes are refused at the border, by name, however the tensor comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import Capsules, DeviceTensor, GpuTensor
from native.synthetic import Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

X, OUT = 0x7F0000000100, 0x7F0000200000
SIZE = 2**40


@pytest.fixture
def op(serve: Serve, blob: Blob) -> Operator:
    """out bf16[M, N] strided, x bf16[*R, K] strided."""
    tensors = [
        T("out", "bf16", ["M", "N"], ["out_row", "out_column"], role="out"),
        T("x", "bf16", ["*R", "K"], ["row", "column"]),
    ]
    return serve(Op("op", tensors, recipes=[R(steps=[S("k", ["ptr out", "ptr x"])], blob=blob())]))


def forms(address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Any]:
    """One layout by each way that a tensor comes in."""
    tensor = DeviceTensor(address, "bf16", shape, strides)
    return [
        raw(address, "bf16", shape, strides),
        GpuTensor(address, "bf16", shape, strides),
        Capsules(tensor, versioned=True),
        Capsules(tensor, versioned=False),
    ]


REFUSED: list[tuple[tuple[int, ...], tuple[int, ...], type[errors.ArgumentError], str]] = [
    ((4, 8), (-8, 1), errors.ArgumentStrideError, r"stride of dim 0 is -8, and no.*contiguous\(\)"),
    ((4, 8), (8, -1), errors.ArgumentStrideError, r"stride of dim 1 is -1.*strides \[8, -1\]"),
    ((2, 4, 8), (-32, 8, 1), errors.ArgumentStrideError, "stride of dim 0 is -32"),
    ((4, 8), (-(2**63), 1), errors.ArgumentStrideError, "stride of dim 0 is -9223372036854775808"),
    ((4, 8), (2**62, 1), errors.ArgumentStrideError, "beyond 64-bit offsets"),
    ((4, 8), (2**61, 1), errors.ArgumentStrideError, "beyond 64-bit offsets"),
    ((3, 3), (2**62 - 1, 2**62 - 1), errors.ArgumentStrideError, "beyond 64-bit offsets"),
    ((SIZE, SIZE), (0, 0), errors.ArgumentShapeError, r"its shape is \[1099511627776, 1099511627776\]"),
    ((-4, 8), (8, 1), errors.ArgumentShapeError, r"its shape is \[-4, 8\]"),
]


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize(("shape", "strides", "kind", "words"), REFUSED)
def test_layouts_that_no_kernel_takes(
    op: Operator,
    stub: Stub,
    form: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    kind: type[errors.ArgumentError],
    words: str,
) -> None:
    good = raw(OUT, "bf16", (4, 8))
    for _ in range(2):
        launches = stub.launches()
        with pytest.raises(kind, match=f"op: argument x: .*{words}"):
            op(good, forms(X, shape, strides)[form])
        if len(shape) == 2:
            with pytest.raises(kind, match=f"op: argument out: .*{words}"):
                op(forms(OUT, shape, strides)[form], raw(X, "bf16", (4, 8)))
        assert stub.launches() == launches
        op(good, raw(X, "bf16", (4, 8)))


def test_memory_that_would_wrap_around(op: Operator, stub: Stub) -> None:
    out = raw(OUT, "bf16", (4, 8))
    with pytest.raises(
        errors.ArgumentStrideError, match="x: its 64 bytes at 0xffffffffffffffe0 leave the 64-bit"
    ):
        op(out, raw(2**64 - 32, "bf16", (4, 8)))
    assert stub.launches() == 0


ACCEPTED: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1, 8), (-8, 1)),  # the stride of a dim of size 1 says nothing
    ((0, 8), (-8, -1)),  # and of an empty tensor none does
    ((4, 8), (0, 1)),  # an input may repeat its rows
    ((4, 1), (2**59, -1)),
]


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize(("shape", "strides"), ACCEPTED)
def test_layouts_that_look_odd_and_are_not(
    op: Operator, stub: Stub, form: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    op(raw(OUT, "bf16", (4, 8)), forms(X, shape, strides)[form])
    assert stub.launches() == 1
