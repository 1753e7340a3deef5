"""A tensor type with DLPack's C exchange API, made with ctypes: device tensors without torch and without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from aiter_prebuilt.contract.dtype import BY_NAME

ROCM, CUDA, CPU = 10, 2, 1


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Managed._fields_ = [
    ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", DELETER),
    ("flags", ctypes.c_uint64), ("tensor", Tensor),
]  # fmt: skip

ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p, SET_ERROR
)
EXPORT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed)))
IMPORT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Managed), ctypes.POINTER(ctypes.py_object))
BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ALLOCATE),
        ("export", EXPORT), ("import_", IMPORT), ("borrow", BORROW), ("stream", STREAM),
    ]  # fmt: skip


_KEEP: list[Any] = []


def capsule(pointer: int, name: bytes) -> Any:
    """A PyCapsule over ``pointer``; ``name`` stays alive."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    _KEEP.append(name)
    return new(pointer, name, None)


class DeviceTensor:
    """A made-up tensor. ``strides`` may be "null": the exporter then gives a null pointer, which means dense."""

    stream = 0

    def __init__(
        self,
        address: int,
        kind: str,
        shape: tuple[int, ...],
        strides: Any = None,
        device: tuple[int, int] = (ROCM, 0),
        offset: int = 0,
    ) -> None:
        dense: list[int] = []
        step = 1
        for size in reversed(shape):
            dense.insert(0, step)
            step *= max(size, 1)
        self.tensor = Tensor(address, *device, len(shape), *BY_NAME[kind].dlpack)
        self._shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self._strides = (ctypes.c_int64 * max(len(shape), 1))(
            *(dense if strides in (None, "null") else strides)
        )
        self.tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        if strides != "null":
            self.tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        self.tensor.byte_offset = offset


def fill_borrow(instance: DeviceTensor, out: Any) -> int:
    """The exporter's borrow function."""
    ctypes.memmove(out, ctypes.byref(instance.tensor), ctypes.sizeof(Tensor))
    return 0


def _current_stream(kind: int, ordinal: int, out: Any) -> int:
    out[0] = DeviceTensor.stream
    return 0


def table(
    borrow: Callable[..., int] | None = fill_borrow,
    *,
    export: Callable[..., int] | None = None,
    major: int = 1,
    previous: Table | None = None,
) -> Table:
    """An exchange table; ``borrow`` None leaves the slot null."""
    made = Table(major, 3, ctypes.addressof(previous) if previous else None)
    made.stream = STREAM(_current_stream)
    if borrow is not None:
        made.borrow = BORROW(borrow)
    if export is not None:
        made.export = EXPORT(export)
    _KEEP.append(made)
    return made


def exposing(made: Table, name: str = "Exposed", base: type = DeviceTensor) -> Any:
    """A subclass of ``base`` whose type exposes ``made``."""
    return type(
        name,
        (base,),
        {"__dlpack_c_exchange_api__": capsule(ctypes.addressof(made), b"dlpack_exchange_api")},
    )


_TABLE = table()


class GpuTensor(DeviceTensor):
    """A DeviceTensor whose type exposes a table that borrows."""

    __dlpack_c_exchange_api__ = capsule(ctypes.addressof(_TABLE), b"dlpack_exchange_api")


class Legacy(ctypes.Structure):
    """DLManagedTensor of DLPack before 1.0."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Capsules:
    """An array with ``__dlpack__`` and ``__dlpack_device__`` over ``tensor``; the keywords make what they export wrong."""

    def __init__(
        self,
        tensor: DeviceTensor,
        *,
        versioned: bool = True,
        device: tuple[int, int] | None = None,
        flags: int = 0,
        major: int = 1,
        name: bytes | None = None,
    ) -> None:
        self.tensor, self.versioned, self.flags, self.major = tensor, versioned, flags, major
        self.device = device or (tensor.tensor.device_type, tensor.tensor.device_id)
        self.name = name or (b"dltensor_versioned" if versioned else b"dltensor")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        if not self.versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword max_version")
        managed = (
            Managed(self.major, 0, None, DELETER(), self.flags, self.tensor.tensor)
            if self.versioned
            else Legacy(self.tensor.tensor)
        )
        _KEEP.append(managed)
        return capsule(ctypes.addressof(managed), self.name)
