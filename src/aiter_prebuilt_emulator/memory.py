"""Tensors in HIP memory without torch: upload bytes, hand them to an operator, read them back.

A :class:`DeviceArray` is memory of the emulated (or any HIP) device with a type and a shape. ``raw`` is what
``aiter_prebuilt``'s operators take as a tensor. There is no ``__dlpack__``: who takes a ROCm DLPack tensor is a GPU build.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Final

from aiter_prebuilt_emulator import library

_HOST_TO_DEVICE: Final = 1
_DEVICE_TO_HOST: Final = 2
#: Bytes of an element; every type that is not named here has one.
_ITEMSIZE: Final = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i16": 2}


class HipError(RuntimeError):
    """A HIP call answered something else than success; the text has its name and the emulator's last message."""


@cache
def _hip() -> ctypes.CDLL:
    handle = ctypes.CDLL(library())
    handle.hipGetErrorName.restype = ctypes.c_char_p
    handle.hipMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    handle.hipMemset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    handle.hipMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
    handle.hipFree.argtypes = [ctypes.c_void_p]
    return handle


def call(name: str, *arguments: object) -> None:
    """Call a HIP function; anything but success raises :class:`HipError`."""
    status = getattr(_hip(), name)(*arguments)
    if status:
        raise HipError(f"{name} answered {status} ({_hip().hipGetErrorName(status).decode()})")


def select(ordinal: int) -> None:
    """Make a device current for this thread."""
    call("hipSetDevice", ordinal)


class DeviceArray:
    """``shape`` elements of ``dtype`` ("bf16", "f16", "f32", "i8", "e4m3fn", ...) in device memory, dense unless ``strides``.

    ``strides`` count elements; ``offset`` elements lie before the first one. The memory is filled with
    ``poison`` (0xFF: NaN in every float type) and freed with the object.
    """

    def __init__(
        self,
        dtype: str,
        shape: Sequence[int],
        data: bytes | None = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        ordinal: int = 0,
        poison: int = 0xFF,
    ) -> None:
        self.dtype, self.shape, self.ordinal = dtype, tuple(shape), ordinal
        self.itemsize = _ITEMSIZE.get(dtype, 1)
        self.strides = tuple(strides) if strides is not None else None
        span = math.prod(self.shape)
        if self.strides is not None and span:
            span = 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        self.nbytes = (offset + span) * self.itemsize
        select(ordinal)
        address = ctypes.c_void_p()
        call("hipMalloc", ctypes.byref(address), max(self.nbytes, 1))
        self.base = address.value or 0
        self.address = self.base + offset * self.itemsize
        if data is None:
            call("hipMemset", self.base, poison, self.nbytes)
        else:
            self.write(data)

    @property
    def raw(self) -> tuple[int, str, tuple[int, ...], tuple[int, ...] | None, tuple[str, int]]:
        """The tensor as ``aiter_prebuilt``'s operators take it when there is no torch."""
        return self.address, self.dtype, self.shape, self.strides, ("amd", self.ordinal)

    def write(self, data: bytes) -> None:
        """Copy ``data``, the whole allocation's bytes, to the device."""
        if len(data) != self.nbytes:
            raise ValueError(f"{len(data)} bytes for an allocation of {self.nbytes}")
        call("hipMemcpy", self.base, data, self.nbytes, _HOST_TO_DEVICE)

    def read(self) -> bytes:
        """Read the allocation's bytes after all launches are done."""
        data = ctypes.create_string_buffer(max(self.nbytes, 1))
        call("hipDeviceSynchronize")
        call("hipMemcpy", data, self.base, self.nbytes, _DEVICE_TO_HOST)
        return data.raw[: self.nbytes]

    def free(self) -> None:
        """Give the memory back; using the array afterwards is an error that the emulator reports."""
        base, self.base = self.base, 0
        if base:
            call("hipFree", base)

    def __del__(self) -> None:
        if getattr(self, "base", 0):
            _hip().hipFree(self.base)
