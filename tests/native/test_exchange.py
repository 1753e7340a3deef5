"""Tensors through DLPack: the C exchange API in all its forms, __dlpack__, and torch-like objects."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from native import exchange
from native.conftest import Blob, Serve, Stub
from native.exchange import CPU, CUDA, DeviceTensor, GpuTensor
from native.synthetic import A, Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

X = 0x7F0000000100


@pytest.fixture
def op(serve: Serve, blob: Blob) -> Operator:
    step = S("k", ["ptr x", "i64 M", "i64 s", "f32 eps"], ["M"])
    return serve(
        Op(
            "o",
            [T("x", "bf16", ["M", "N"], ["s", "1"])],
            [A("eps", "float", "1")],
            recipes=[R(steps=[step], blob=blob())],
        )
    )


def test_the_exchange_api_and_its_stream(op: Operator, stub: Stub) -> None:
    GpuTensor.stream, DeviceTensor.stream = 0x55, 0x55
    op(GpuTensor(X, "bf16", (4, 8), (16, 1), offset=32), 2.0)
    assert stub.kernargs() == struct.pack("<Qqqf", X + 32, 4, 16, 2.0) and stub.launch().stream == 0x55
    op(GpuTensor(X, "bf16", (4, 8), (16, 1)), 3.0, stream=0x66)
    assert stub.launch().stream == 0x66 and stub.kernargs()[:8] == struct.pack("<Q", X)


def test_null_strides_mean_dense(op: Operator, stub: Stub) -> None:
    for _ in range(2):
        op(GpuTensor(X, "bf16", (4, 8), "null"))
        assert stub.kernargs()[:24] == struct.pack("<Qqq", X, 4, 8)


def test_a_table_without_borrow_uses_the_managed_tensor_and_gives_it_back(op: Operator, stub: Stub) -> None:
    """Shape and strides are the exporter's memory, which is gone with the tensor that is given back."""
    freed: list[Any] = []

    def give_back(managed: Any) -> None:
        freed.append(managed)
        for values in (managed[0].tensor.shape, managed[0].tensor.strides):
            for dim in range(managed[0].tensor.ndim):
                values[dim] = -(2**40)

    def export(tensor: DeviceTensor, out: Any) -> int:
        managed = exchange.Managed(1, 3, None, exchange.DELETER(give_back), 0)
        ctypes.memmove(
            ctypes.byref(managed.tensor), ctypes.byref(tensor.tensor), ctypes.sizeof(exchange.Tensor)
        )
        shape, strides = (ctypes.c_int64 * 2)(*tensor._shape), (ctypes.c_int64 * 2)(*tensor._strides)
        managed.tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        managed.tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        exchange._KEEP += (managed, shape, strides)
        out[0] = ctypes.pointer(managed)
        return 0

    kind = exchange.exposing(exchange.table(None, export=export))
    for address in (X, X + 64):  # the first call and one that is known
        op(kind(address, "bf16", (4, 8), (9, 1)))
        assert stub.kernargs()[:24] == struct.pack("<Qqq", address, 4, 9) and freed


def test_an_older_table_behind_a_newer_one(op: Operator, stub: Stub) -> None:
    newer = exchange.table(
        lambda *_: pytest.fail("this major version is unknown"), major=2, previous=exchange.table()
    )
    op(exchange.exposing(newer)(X, "bf16", (4, 8)))
    only_newer = exchange.table(lambda *_: pytest.fail("this major version is unknown"), major=2)
    with pytest.raises(errors.ArgumentKindError, match="tensor"):
        op(exchange.exposing(only_newer)(X, "bf16", (4, 8)))
    assert stub.launches() == 1


def test_workspace_from_the_framework_of_the_tensors(serve: Serve, stub: Stub, blob: Blob) -> None:
    step = S("k", ["ptr workspace", "ptr x"])
    op = serve(Op("o", [T("x", "f32", ["N"])], recipes=[R(workspace="N * 4", steps=[step], blob=blob())]))
    asked: list[tuple[int, int, int]] = []
    freed: list[int] = []
    memory = ctypes.create_string_buffer(8192)
    base = (ctypes.addressof(memory) + 255) // 256 * 256

    def allocate(prototype: Any, out: Any, context: Any, set_error: Any) -> int:
        asked.append((prototype[0].shape[0], prototype[0].device_type, prototype[0].bits))
        if prototype[0].shape[0] > 4096:
            set_error(context, b"MemoryError", b"out of made-up memory")
            return -1
        managed = exchange.Managed(
            1,
            3,
            None,
            exchange.DELETER(lambda m: freed.append(1)),
            0,
            exchange.Tensor(base + (prototype[0].shape[0] == 20)),
        )
        exchange._KEEP.append(managed)
        out[0] = ctypes.pointer(managed)
        return 0

    made = exchange.table()
    made.allocate = exchange.ALLOCATE(allocate)
    kind = exchange.exposing(made)
    op(kind(X, "f32", (16,)))
    assert asked == [(64, exchange.ROCM, 8)] and len(freed) == 1 and stub.mallocs() == 0
    assert stub.kernargs() == struct.pack("<QQ", base, X)
    with pytest.raises(errors.LaunchError, match="MemoryError: out of made-up memory"):
        op(kind(X, "f32", (4096,)))
    with pytest.raises(errors.LaunchError, match="aligned to 256 bytes"):
        op(kind(X, "f32", (5,)))
    assert stub.launches() == 1 and len(freed) == 2
    op(kind(X, "f32", (16,)), stream=0x10)
    assert stub.mallocs() == 1 and len(asked) == 3, (
        "a stream that the framework does not know takes the driver's allocator"
    )


def test_cpu_and_null_tensors_are_refused_warm_and_cold(op: Operator, stub: Stub) -> None:
    for _ in range(2):
        with pytest.raises(errors.ArgumentDeviceError, match="CPU"):
            op(GpuTensor(X, "bf16", (4, 8), device=(CPU, 0)))
        with pytest.raises(errors.ArgumentDeviceError, match="no memory"):
            op(GpuTensor(0, "bf16", (4, 8)))
        with pytest.raises(errors.ArgumentDeviceError, match="device type 7"):
            op(GpuTensor(X, "bf16", (4, 8), device=(7, 0)), stream=0)
        op(GpuTensor(X, "bf16", (4, 8)))
    assert stub.launches() == 2


class Array:
    """What CuPy looks like: __dlpack__ with a stream, and __dlpack_device__."""

    def __init__(self, tensor: DeviceTensor, versioned: bool) -> None:
        self.tensor, self.versioned = tensor, versioned
        self.calls: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.tensor.device_type, self.tensor.tensor.device_id

    def __dlpack__(self, **keywords: Any) -> Any:
        self.calls.append(keywords)
        if self.versioned:
            managed = exchange.Managed(1, 0, None, exchange.DELETER(), 0, self.tensor.tensor)
            exchange._KEEP.append(managed)
            return exchange.capsule(ctypes.addressof(managed), b"dltensor_versioned")
        if "max_version" in keywords:
            raise TypeError("unexpected keyword max_version")

        class Legacy(ctypes.Structure):
            _fields_ = [
                ("tensor", exchange.Tensor),
                ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p),
            ]

        legacy = Legacy(self.tensor.tensor)
        exchange._KEEP.append(legacy)
        return exchange.capsule(ctypes.addressof(legacy), b"dltensor")


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_objects(op: Operator, stub: Stub, versioned: bool) -> None:
    array = Array(DeviceTensor(X, "bf16", (4, 8)), versioned)
    op(array)
    assert stub.kernargs()[:24] == struct.pack("<Qqq", X, 4, 8) and stub.launch().stream is None
    assert {call["stream"] for call in array.calls} == {0}, "ROCm's default stream"
    op(array, stream=0x77)
    assert array.calls[-1]["stream"] == 0x77 and stub.launch().stream == 0x77


def test_cuda_managed_memory_counts_as_cuda(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(Op("o", [T("x", "u8", ["N"])], recipes=[R(blob=blob())]), vendor=1, target="sm_90")
    op(GpuTensor(X, "u8", (4,), device=(13, 0)))
    op(GpuTensor(X, "u8", (4,), device=(CUDA, 0)))
    assert stub.launches() == 2


class Device:
    def __init__(self, kind: str, index: int | None) -> None:
        self.type, self.index = kind, index


class OldTorch:
    """What a tensor of torch 2.9 looks like."""

    def __init__(self, device: Device, dtype: str = "torch.bfloat16") -> None:
        self.device, self.dtype, self.shape = device, dtype, (4, 8)

    def data_ptr(self) -> int:
        return X

    def stride(self) -> tuple[int, int]:
        return (8, 1)


def test_torch_without_the_exchange_api(op: Operator, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    torch: Any = types.ModuleType("torch")
    cuda: Any = types.ModuleType("torch.cuda")
    version: Any = types.ModuleType("torch.version")
    cuda.current_stream = lambda ordinal: types.SimpleNamespace(cuda_stream=0x99 + ordinal)
    version.hip = "6.4"
    torch.cuda, torch.version = cuda, version
    for name, module in (("torch", torch), ("torch.cuda", cuda), ("torch.version", version)):
        monkeypatch.setitem(sys.modules, name, module)
    op(OldTorch(Device("cuda", 0)))
    assert stub.kernargs()[:24] == struct.pack("<Qqq", X, 4, 8) and stub.launch().stream == 0x99
    for device, dtype, kind in (
        (Device("cpu", None), "torch.bfloat16", errors.ArgumentDeviceError),
        (Device("meta", None), "torch.bfloat16", errors.ArgumentDeviceError),
        (Device("cuda", 0), "torch.complex64", errors.ArgumentDTypeError),
        (Device("cuda", None), "torch.bfloat16", errors.ArgumentKindError),
    ):
        with pytest.raises(kind):
            op(OldTorch(device, dtype))
    assert stub.launches() == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("says", ["raises", "nothing", "minus one"])
def test_a_tensor_that_is_not_exported_is_never_the_one_before(op: Operator, stub: Stub, says: str) -> None:
    """An exporter in Python that raises looks like success to C, and has filled in nothing; one that answers -1 may set no
    exception. Both are refused with what ``__dlpack__`` says, cold and after a call that left its tensor on the stack.
    """

    def borrow(tensor: Any, out: Any) -> int:
        if tensor.tensor.data == X:
            return exchange.fill_borrow(tensor, out)
        if says == "raises":
            raise RuntimeError("Cannot pack a sparse tensor")
        return 0 if says == "nothing" else -1

    kind = exchange.exposing(exchange.table(borrow))
    kind.__dlpack__ = lambda self, **_: (_ for _ in ()).throw(BufferError("can't export a sparse tensor"))
    for count in range(3):
        with pytest.raises(errors.ArgumentKindError, match="can't export a sparse tensor"):
            op(kind(X + 64, "bf16", (4, 8)))
        assert stub.launches() == count
        op(kind(X, "bf16", (4, 8)))


def test_real_torch_tensors(op: Operator, stub: Stub) -> None:
    pytest.importorskip("torch")
    import torch

    with pytest.raises(errors.ArgumentDeviceError, match="CPU"):
        op(torch.zeros(4, 8, dtype=torch.bfloat16))
    with pytest.raises(errors.ArgumentDeviceError, match="meta"):
        op(torch.zeros(4, 8, dtype=torch.bfloat16, device="meta"))
    with pytest.raises(errors.ArgumentKindError, match="cannot be exported"):
        op(torch.zeros(4, 8).to_sparse())
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(4, 8, dtype=torch.bfloat16)
    with pytest.raises(errors.ArgumentDeviceError):
        op(fake)
    assert stub.launches() == 0
