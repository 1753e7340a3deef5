"""Layouts that no kernel takes are refused at the border, by name, however the tensor comes in."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native import exchange
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import CPU, CUDA, ROCM, Capsules, DeviceTensor, GpuTensor
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
    (
        (4, 8),
        (-8, 1),
        errors.ArgumentStrideError,
        r"must have no negative stride, got strides \[-8, 1\] with shape \[4, 8\].*contiguous\(\)",
    ),
    ((4, 8), (8, -1), errors.ArgumentStrideError, r"must have no negative stride, got strides \[8, -1\]"),
    (
        (2, 4, 8),
        (-32, 8, 1),
        errors.ArgumentStrideError,
        r"must have no negative stride, got strides \[-32, 8, 1\]",
    ),
    (
        (4, 8),
        (-(2**63), 1),
        errors.ArgumentStrideError,
        r"must have no negative stride, got strides \[-9223372036854775808, 1\]",
    ),
    ((4, 8), (2**62, 1), errors.ArgumentStrideError, "must fit 64-bit offsets"),
    ((4, 8), (2**61, 1), errors.ArgumentStrideError, "must fit 64-bit offsets"),
    ((3, 3), (2**62 - 1, 2**62 - 1), errors.ArgumentStrideError, "must fit 64-bit offsets"),
    (
        (SIZE, SIZE),
        (0, 0),
        errors.ArgumentShapeError,
        r"must be a shape of sizes from 0 that fit 64 bits, got \[1099511627776, 1099511627776\]",
    ),
    (
        (-4, 8),
        (8, 1),
        errors.ArgumentShapeError,
        r"must be a shape of sizes from 0 that fit 64 bits, got \[-4, 8\]",
    ),
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
        with pytest.raises(kind, match=rf"op: x .*{words}"):
            op(good, forms(X, shape, strides)[form])
        if len(shape) == 2:
            with pytest.raises(kind, match=rf"op: out .*{words}"):
                op(forms(OUT, shape, strides)[form], raw(X, "bf16", (4, 8)))
        assert stub.launches() == launches
        op(good, raw(X, "bf16", (4, 8)))


def test_memory_that_would_wrap_around(op: Operator, stub: Stub) -> None:
    out = raw(OUT, "bf16", (4, 8))
    with pytest.raises(
        errors.ArgumentStrideError,
        match="x must end within 64-bit addresses, got 64 bytes at 0xffffffffffffffe0",
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


BEYOND = (-1, -(2**70), 2**64, 2**64 + X, 2**200)


@pytest.mark.parametrize("number", BEYOND)
def test_addresses_and_streams_beyond_64_bits(op: Operator, stub: Stub, number: int) -> None:
    good = raw(OUT, "bf16", (4, 8)), raw(X, "bf16", (4, 8))
    for _ in range(2):
        launches = stub.launches()
        with pytest.raises(
            errors.ArgumentKindError, match="op: x must have an address of 64 bits that is not negative"
        ):
            op(good[0], raw(number, "bf16", (4, 8)))
        with pytest.raises(errors.ArgumentKindError, match="op: stream must be an address of 64 bits"):
            op(*good, stream=number)
        with pytest.raises(TypeError, match="preload"):
            op.preload("amd", number)
        for device in ((ROCM, number), (2**32 + ROCM + number, 0)):
            with pytest.raises(
                errors.ArgumentKindError, match="op: x has __dlpack__, but no usable __dlpack_device__"
            ):
                op(good[0], Capsules(DeviceTensor(X, "bf16", (4, 8)), device=device))
        assert stub.launches() == launches
        op(*good, stream=2**64 - 1)
        assert stub.launch().stream == 2**64 - 1


@pytest.mark.parametrize("number", BEYOND)
def test_pointers_of_old_torch_beyond_64_bits(op: Operator, stub: Stub, number: int) -> None:
    device = type("Device", (), {"type": "cuda", "index": 0})()
    facts = {
        "data_ptr": lambda self: number,
        "stride": lambda self: (8, 1),
        "shape": (4, 8),
        "dtype": "torch.bfloat16",
    }
    with pytest.raises(
        errors.ArgumentKindError,
        match=r"op: x must have a data_ptr\(\), shape and stride\(\) of 64-bit integers",
    ):
        op(raw(OUT, "bf16", (4, 8)), type("OldTorch", (), {**facts, "device": device})())
    assert stub.launches() == 0


def test_read_only_tensors_are_not_written(op: Operator, stub: Stub) -> None:
    def managed(tensor: Any, out: Any) -> int:
        made = exchange.Managed(1, 3, None, exchange.DELETER(), 1, tensor.tensor)
        exchange._KEEP.append(made)
        out[0] = ctypes.pointer(made)
        return 0

    kind = exchange.exposing(exchange.table(None, export=managed))
    frozen = (Capsules(DeviceTensor(OUT, "bf16", (4, 8)), flags=1), kind(OUT, "bf16", (4, 8)))
    for tensor in frozen * 2:
        launches = stub.launches()
        with pytest.raises(
            errors.ArgumentKindError,
            match=r"op: out is written and must not be read-only.*Pass a writable copy",
        ):
            op(tensor, raw(X, "bf16", (4, 8)))
        assert stub.launches() == launches
        op(raw(X, "bf16", (4, 8)), tensor)  # reading is what it is for
    op(Capsules(DeviceTensor(OUT, "bf16", (4, 8)), flags=2), raw(X, "bf16", (4, 8)))  # IS_COPIED


@pytest.mark.parametrize("versioned", [True, False])
def test_a_device_that_contradicts_its_capsule(op: Operator, stub: Stub, versioned: bool) -> None:
    out = raw(OUT, "bf16", (4, 8))
    for says, is_on in (
        ((ROCM, 0), (ROCM, 1)),
        ((ROCM, 0), (CUDA, 0)),
        ((ROCM, 0), (CPU, 0)),
        ((ROCM, 1), (ROCM, 0)),
    ):
        array = Capsules(DeviceTensor(X, "bf16", (4, 8), device=is_on), versioned=versioned, device=says)
        words = (
            f"says type {says[0]}, device {says[1]}, its __dlpack__ says type {is_on[0]}, device {is_on[1]}"
        )
        with pytest.raises(errors.ArgumentDeviceError, match=words):
            op(out, array)
    assert stub.launches() == 0
