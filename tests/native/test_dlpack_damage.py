"""What an exporter must not say: refused in words through every door of DLPack, never read past, never a crash."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native import exchange
from native.conftest import Blob, Serve, Stub
from native.exchange import Capsules, DeviceTensor, GpuTensor
from native.synthetic import Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

X = 0x7F0000000100
Damage = Callable[[exchange.Tensor], object]


@pytest.fixture
def op(serve: Serve, blob: Blob) -> Operator:
    tensors = [T("x", "bf16", ["*M", "N"], ["s", "1"])]
    return serve(Op("o", tensors, recipes=[R(steps=[S("k", ["ptr x", "i64 M"])], blob=blob())]))


def managed_kind() -> Any:
    """A type whose exchange table lends nothing and exports managed tensors."""

    def export(tensor: DeviceTensor, out: Any) -> int:
        managed = exchange.Managed(1, 3, None, exchange.DELETER(), 0, tensor.tensor)
        exchange._KEEP.append(managed)
        out[0] = ctypes.pointer(managed)
        return 0

    return exchange.exposing(exchange.table(None, export=export))


def doors() -> dict[str, Callable[[DeviceTensor], Any]]:
    """Every way for a DLTensor to come in."""

    def as_type(kind: Any) -> Callable[[DeviceTensor], Any]:
        def turned(tensor: DeviceTensor) -> Any:
            tensor.__class__ = kind
            return tensor

        return turned

    return {
        "borrowed": as_type(GpuTensor),
        "managed": as_type(managed_kind()),
        "versioned": lambda tensor: Capsules(tensor, versioned=True),
        "legacy": lambda tensor: Capsules(tensor, versioned=False),
    }


def null(field: str) -> Damage:
    return lambda tensor: ctypes.memset(
        ctypes.addressof(tensor) + getattr(exchange.Tensor, field).offset, 0, ctypes.sizeof(ctypes.c_void_p)
    )


def put(**fields: int) -> Damage:
    def change(tensor: exchange.Tensor) -> None:
        for name, value in fields.items():
            setattr(tensor, name, value)

    return change


REFUSED: dict[str, tuple[Damage, type[errors.ArgumentError], str]] = {
    "ndim -1": (
        put(ndim=-1),
        errors.ArgumentKindError,
        "it has -1 dims, 0 to 16 are taken|gave no description",
    ),
    "ndim least": (put(ndim=-(2**31)), errors.ArgumentKindError, "it has -2147483648 dims"),
    "ndim 17": (put(ndim=17), errors.ArgumentKindError, "it has 17 dims"),
    "ndim most": (put(ndim=2**31 - 1), errors.ArgumentKindError, "it has 2147483647 dims"),
    "no shape": (null("shape"), errors.ArgumentKindError, "it has 2 dims and no shape"),
    "offset": (put(byte_offset=2**64 - 1), errors.ArgumentKindError, "byte_offset 18446744073709551615"),
    "no memory": (null("data"), errors.ArgumentDeviceError, "no memory"),
    "4 lanes": (put(lanes=4), errors.ArgumentDTypeError, "code 4, 16 bits, 4 lanes"),
    "0 lanes": (put(lanes=0), errors.ArgumentDTypeError, "0 lanes"),
    "17 bits": (put(bits=17), errors.ArgumentDTypeError, "17 bits"),
    "0 bits": (put(bits=0), errors.ArgumentDTypeError, "0 bits"),
    "code": (put(code=200), errors.ArgumentDTypeError, "code 200"),
    "device type": (put(device_type=-7), errors.ArgumentDeviceError, "device type -7"),
}


@pytest.mark.parametrize("door", ["borrowed", "managed", "versioned", "legacy"])
@pytest.mark.parametrize("damage", REFUSED)
def test_damaged_tensors(op: Operator, stub: Stub, door: str, damage: str) -> None:
    change, kind, words = REFUSED[damage]
    enter = doors()[door]
    for _ in range(2):
        launches = stub.launches()
        bad = DeviceTensor(X, "bf16", (4, 8))
        change(bad.tensor)
        with pytest.raises(kind, match=words):
            op(enter(bad))
        assert stub.launches() == launches
        op(GpuTensor(X, "bf16", (4, 8)))


@pytest.mark.parametrize("door", ["borrowed", "managed", "versioned", "legacy"])
def test_sizes_that_cannot_be(op: Operator, stub: Stub, door: str) -> None:
    enter = doors()[door]
    for shape in ((-1, 8), (4, -(2**63)), (2**40, 2**40), (2**21, 2**21, 2**22)):
        for strides in ("null", None):
            with pytest.raises(errors.ArgumentShapeError, match="must be a shape of sizes from 0"):
                op(enter(DeviceTensor(X, "bf16", shape, strides or (8,) * len(shape))))
    assert stub.launches() == 0


@pytest.mark.parametrize("door", ["borrowed", "managed", "versioned", "legacy"])
def test_null_strides_mean_dense(op: Operator, stub: Stub, door: str) -> None:
    op(doors()[door](DeviceTensor(X, "bf16", (2, 2, 8), "null")))
    assert stub.kernargs() == X.to_bytes(8, "little") + (4).to_bytes(8, "little")


def test_capsules_that_are_none(op: Operator, stub: Stub) -> None:
    good = DeviceTensor(X, "bf16", (4, 8))
    for keywords, words in (
        ({"name": b"used_dltensor"}, "already consumed"),
        ({"name": b"used_dltensor_versioned"}, "already consumed"),
        ({"name": b"tensor"}, "no capsule named dltensor"),
        ({"major": 2}, "returned DLPack version 2; version 1 is supported"),
        ({"major": 0}, "returned DLPack version 0"),
    ):
        with pytest.raises(errors.ArgumentKindError, match=words):
            op(Capsules(good, **keywords))
    for gives in (None, 3, b"dltensor"):
        wrong = type("Wrong", (Capsules,), {"__dlpack__": lambda self, gives=gives, **_: gives})
        with pytest.raises(errors.ArgumentKindError, match="no capsule named dltensor"):
            op(wrong(good))
    assert stub.launches() == 0


def test_exchange_tables_that_lack_something(op: Operator, stub: Stub) -> None:
    no_stream, no_export, empty, circle = (exchange.table() for _ in range(4))
    no_stream.stream = exchange.STREAM()
    no_export.borrow = exchange.BORROW()
    empty.borrow, empty.stream = exchange.BORROW(), exchange.STREAM()
    circle.major, circle.previous = 2, ctypes.addressof(circle)
    for broken in (no_stream, no_export, empty, circle):
        with pytest.raises(errors.ArgumentKindError, match="none of the 1 arguments is a tensor"):
            op(exchange.exposing(broken)(X, "bf16", (4, 8)))
    assert stub.launches() == 0


def test_managed_tensors_that_are_none(op: Operator, stub: Stub) -> None:
    freed: list[int] = []

    def newer(tensor: DeviceTensor, out: Any) -> int:
        managed = exchange.Managed(2, 0, None, exchange.DELETER(lambda _: freed.append(1)), 0, tensor.tensor)
        exchange._KEEP.append(managed)
        out[0] = ctypes.pointer(managed)
        return 0

    for export, words in (
        (newer, "framework with DLPack 2; version 1 is supported"),
        (lambda *_: 0, "cannot be exported by its framework"),
    ):
        kind = exchange.exposing(exchange.table(None, export=export))
        with pytest.raises(errors.ArgumentKindError, match=words):
            op(kind(X, "bf16", (4, 8)))
    assert stub.launches() == 0 and freed
