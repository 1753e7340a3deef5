"""Operators that view their tensors: what is launched is what a tensor of the view itself gets, whatever came before."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import ROCM, GpuTensor
from native.synthetic import A, Op, R, S, T

X = 0x7F0000000000
ROWS = (("order", 0, 4, (0, 2, -1, 1, 3)),)


def five(blob: str) -> Op:
    """All sizes and strides of a tensor with five dims, and an attribute."""
    args = ["ptr x", *(f"i64 {name}" for name in ("a", "b", "c", "d", "e", "p", "q", "r", "s", "t")), "i32 k"]
    return Op(
        "five",
        [
            T("x", "f32", ["a", "b", "c", "d", "e"], ["p", "q", "r", "s", "t"]),
            T("y", "u8", ["n"], optional=True),
        ],
        [A("k", "int", "0")],
        recipes=[R(steps=[S("k", args)], blob=blob)],
    )


def groups(blob: str) -> Op:
    """Rows of groups: how many, how long, and what is between them."""
    args = ["ptr x", "i64 M", "i64 N", "i64 row"]
    return Op(
        "groups", [T("x", "f32", ["*M", "N"], ["row", "1"])], recipes=[R(steps=[S("k", args)], blob=blob)]
    )


def told(address: int, shape: tuple[int, ...], strides: tuple[int, ...], k: int) -> bytes:
    """What the kernel of ``five`` gets; the stride of a single element, which means nothing, what the next dim spans."""
    strides = tuple(
        shape[d + 1] * strides[d + 1] if size == 1 else step
        for d, (size, step) in enumerate(zip(shape, strides, strict=True))
    )
    return struct.pack("<Q10qi", address, *shape, *strides, k)


def turned(values: tuple[int, ...]) -> tuple[int, ...]:
    """By ``ROWS``."""
    return values[0], values[2], 1, values[1], values[3]


def test_random_calls_in_turn_with_tensors_of_the_view(serve: Serve, stub: Stub, blob: Blob) -> None:
    """The memo is shared; sizes, strides, addresses and attributes change from call to call, often back again."""
    op = serve(five(blob()))
    rows = op.viewing(ROWS)
    rng = random.Random(7)
    for _ in range(2000):
        shape, strides = (tuple(rng.choice((2, 3)) for _ in range(4)) for _ in range(2))
        address, k = X + 4096 * rng.randrange(4), rng.randrange(2)
        wanted = told(address, turned(shape), turned(strides), k)
        if rng.random() < 0.3:
            op(GpuTensor(address, "f32", turned(shape), turned(strides)), None, k)
        else:
            make = GpuTensor if rng.random() < 0.7 else raw
            rows(make(address, "f32", shape, strides), None, k)
        assert stub.kernargs() == wanted
    assert rows.stats() == op.stats() and op.stats()["calls"] == 2000 and op.stats()["memo_hits"] > 300


def test_strides_that_change_in_place(serve: Serve, stub: Stub, blob: Blob) -> None:
    """The same tensor object, other strides."""
    rows = serve(five(blob())).viewing(ROWS)
    x = GpuTensor(X, "f32", (2, 3, 4, 5), (60, 20, 5, 1))
    for step in (1, 2, 1, 7):
        x._strides[3] = step
        rows(x, None)
        assert stub.kernargs() == told(X, (2, 4, 1, 3, 5), (60, 5, 1, 20, step), 0)


def test_what_does_not_fit_stays_as_it_is(serve: Serve, stub: Stub, blob: Blob) -> None:
    """Another rank is taken by its own dims; one that no signature takes is named with what it is."""
    rows = serve(five(blob())).viewing(ROWS)
    rows(GpuTensor(X, "f32", (2, 3, 4, 5, 6), (9, 8, 7, 6, 5)), None)
    assert stub.kernargs() == told(X, (2, 3, 4, 5, 6), (9, 8, 7, 6, 5), 0)
    with pytest.raises(errors.ArgumentError, match=r"five: x "):
        rows(GpuTensor(X, "f32", (2, 3, 4), (12, 4, 1)), None)
    with pytest.raises(errors.ArgumentError, match=r"five: x "):
        rows(None, GpuTensor(X, "u8", (3,)))
    assert stub.launches() == 1


def test_another_device(serve: Serve, stub: Stub, blob: Blob) -> None:
    rows = serve(five(blob())).viewing(ROWS)
    stub.set_devices(1)
    x = GpuTensor(X, "f32", (2, 3, 4, 5), (60, 20, 5, 1))
    rows(x, None)
    with pytest.raises(errors.NoDeviceError):
        rows(GpuTensor(X, "f32", (2, 3, 4, 5), (60, 20, 5, 1), device=(ROCM, 3)), None)
    rows(x, None)
    assert stub.launches() == 2


def test_groups_of_rows(serve: Serve, stub: Stub, blob: Blob) -> None:
    """In turn by 4, by 8 and not at all; rows that are no whole groups, and strided rows of several groups, are refused or not
    folded."""
    op = serve(groups(blob()))
    by = {size: op.viewing((("split", 0, size),)) for size in (4, 8)}
    for _ in range(2):
        for rows, width in ((3, 16), (5, 8), (1, 24)):
            x = GpuTensor(X, "f32", (rows, width))
            for size, view in by.items():
                view(x)
                assert stub.kernargs() == struct.pack("<Qqqq", X, rows * width // size, size, size)
            op(x)
            assert stub.kernargs()[8:24] == struct.pack("<qq", rows, width)
    by[8](GpuTensor(X, "f32", (3, 12)))  # no whole groups: as it is
    assert stub.kernargs()[8:24] == struct.pack("<qq", 3, 12)
    with pytest.raises(errors.ArgumentError):
        by[4](GpuTensor(X, "f32", (3, 8), (12, 1)))


def test_bytes_of_one_type_alone(serve: Serve, stub: Stub, blob: Blob) -> None:
    args = ["ptr x", "i64 N"]
    op = serve(Op("bytes", [T("x", "u8", ["N"])], recipes=[R(steps=[S("k", args)], blob=blob())]))
    viewed = op.viewing((("bytes", 0, "fp4x2"),))
    for _ in range(2):
        for kind in ("fp4x2", "u8"):
            viewed(GpuTensor(X, kind, (6,)))
            assert stub.kernargs() == struct.pack("<Qq", X, 6)
        for operator, kind in ((viewed, "e8m0"), (op, "fp4x2")):
            with pytest.raises(errors.ArgumentError):
                operator(GpuTensor(X, kind, (6,)))


def test_views_outlive_the_operator_that_they_are_of(serve: Serve, stub: Stub, blob: Blob) -> None:
    rows = serve(five(blob())).viewing(ROWS).viewing(ROWS)
    rows(GpuTensor(X, "f32", (2, 3, 4, 5), (60, 20, 5, 1)), None)
    assert rows.name == "five" and stub.launches() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [], ("order",), (("order", 0, 4),), (("order", 0, 4, (0, 4)),), (("order", 0, 17, (0,)),), (("split", 0, 0),),
        (("split", -1, 4),), (("bytes", 0, "f32"),), (("bytes", 0, "x"),), (("other", 0, 4),), (("split", 0, 4),) * 9,
        (("order", 0, 1, (0,) * 17),), None,
    ],
)  # fmt: skip
def test_what_is_no_view(serve: Serve, blob: Blob, wrong: Any) -> None:
    with pytest.raises(TypeError):
        serve(five(blob())).viewing(wrong)
