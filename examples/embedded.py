"""torch on the embedded device: in this process the memory of torch's CPU tensors is the device's.

The device is a library on the processor (``aiter-prebuilt-emulator``) whose kernels take addresses of host memory once HIP knows
them, as pinned memory is known to a GPU. So torch keeps its own allocator and operators, and one thing changes: a tensor that is
handed to a kernel says that it lies on ROCm device 0. On a GPU none of this is needed: tensors are on ``cuda``.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

import torch

_ROCM: Final = 10
_NAME: Final = b"dlpack_exchange_api"


class _Tensor(ctypes.Structure):
    """``DLTensor`` of DLPack 1."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_BORROW: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
_STREAM: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class _Table(ctypes.Structure):
    """``DLPackExchangeAPI``: how a framework shows its tensors to native code."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p), ("make", ctypes.c_void_p), ("borrow", _BORROW), ("stream", _STREAM),
    )  # fmt: skip


#: What torch's type shows from here on must stay as long as it does.
_KEPT: Final[list[EmbeddedDevice]] = []


class EmbeddedDevice:
    """One device of ``target`` for this process: make it before the first call of a kernel."""

    def __init__(self, target: str) -> None:
        import aiter_prebuilt_emulator

        path = aiter_prebuilt_emulator.library()
        # torch's operators run at once, and do not ask the device whether a kernel still waits for another rank's.
        os.environ.update(AITER_PREBUILT_EMULATOR=target, AITER_PREBUILT_HIP=path, HIP_LAUNCH_BLOCKING="1")
        self._hip = ctypes.CDLL(path)
        self._hip.hipHostRegister.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        self._hip.hipHostUnregister.argtypes = [ctypes.c_void_p]
        #: Start -> end of the memory that HIP knows.
        self._known: dict[int, int] = {}
        _KEPT.append(self)
        self._show()
        # Which device it is on a tensor says by an index, which those on the processor have not.
        setattr(torch.Tensor, "target", target)  # noqa: B010  # torch's types know no such attribute

    def _show(self) -> None:
        """Put a table of ours in the place of torch's, which is asked first."""
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        kind: Any = torch.Tensor
        table = _Table.from_address(pointer(kind.__dlpack_c_exchange_api__, _NAME))
        own: Any = table.borrow

        def borrow(tensor: torch.Tensor, out: Any) -> int:
            status: int = own(tensor, out)
            if status == 0:
                out.contents.device_type = _ROCM
                storage = tensor.untyped_storage()
                self._tell(storage.data_ptr(), storage.nbytes())
            return status

        def stream(kind: int, ordinal: int, out: Any) -> int:
            del kind, ordinal
            out[0] = None
            return 0

        # Without an allocator a kernel's workspace is the driver's.
        self._table = _Table(
            table.major, table.minor, None, None, table.export, table.make, _BORROW(borrow), _STREAM(stream)
        )  # fmt: skip
        kind.__dlpack_c_exchange_api__ = capsule(ctypes.addressof(self._table), _NAME, None)

    def _tell(self, start: int, size: int) -> None:
        """HIP knows this memory from here on. What it knew of the same bytes belonged to a tensor that is gone."""
        end = start + size
        if size == 0 or self._known.get(start) == end:
            return
        for first, last in list(self._known.items()):
            if first < end and start < last:
                self._checked("hipHostUnregister", first)
                del self._known[first]
        self._checked("hipHostRegister", start, size, 0)
        self._known[start] = end

    def _checked(self, name: str, *arguments: int) -> None:
        status = getattr(self._hip, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answered {status}")
