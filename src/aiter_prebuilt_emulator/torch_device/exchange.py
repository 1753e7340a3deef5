"""DLPack: who takes a tensor of the program's, in Python or in native code, sees a ROCm device."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import memory, operators, streams

_CPU, _ROCM = 1, 10
_FAILED: Final = -1
#: Name of a capsule -> where its tensor's device lies behind its pointer, in bytes.
_CAPSULES: Final = {b"dltensor": 8, b"dltensor_versioned": 40}
_TABLE: Final = b"dlpack_exchange_api"
_KEPT: Final[list[Any]] = []


class _Tensor(ctypes.Structure):
    """The head of ``DLTensor`` of DLPack 1."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


_BORROW: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
_STREAM: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class _Table(ctypes.Structure):
    """``DLPackExchangeAPI``."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p), ("make", ctypes.c_void_p), ("borrow", _BORROW), ("stream", _STREAM),
    )  # fmt: skip


def _device_words(capsule: Any) -> Any:
    """Type and ordinal of the capsule's device, as an array that can be written; None: it was used, or is none."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    for name, offset in _CAPSULES.items():
        if valid(capsule, name):
            return (ctypes.c_int32 * 2).from_address(pointer(capsule, name) + offset)
    return None


def _export(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    place = memory.ordinal_of(tensor)
    if place is not None:
        kwargs.pop("stream", None)
        kwargs.pop("dl_device", None)
    with memory.inside(), torch._C.DisableTorchFunction():
        capsule = torch.Tensor.__dlpack__(tensor, *args, **kwargs)
    if place is not None:
        words = _device_words(capsule)
        words[0], words[1] = _ROCM, place
    return capsule


def _export_device(tensor: torch.Tensor) -> Any:
    place = memory.ordinal_of(tensor)
    if place is not None:
        return _ROCM, place
    with memory.inside(), torch._C.DisableTorchFunction():
        return torch.Tensor.__dlpack_device__(tensor)


def _install_import() -> None:
    own: Any = torch.utils.dlpack.from_dlpack

    def from_dlpack(ext_tensor: Any, **kwargs: Any) -> Any:
        """Torch's own, for capsules of a ROCm device too."""
        if isinstance(ext_tensor, torch.Tensor):
            return ext_tensor.view_as(ext_tensor)
        capsule = ext_tensor.__dlpack__() if hasattr(ext_tensor, "__dlpack__") else ext_tensor
        words = _device_words(capsule)
        if words is not None and words[0] == _ROCM:
            words[0], words[1] = _CPU, 0
            return own(capsule)
        return own(ext_tensor if words is None else capsule, **kwargs)

    kind: Any = torch
    kind.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack


def _install_table() -> None:
    """Native code asks torch's type for a table of functions: ours is in front of it."""
    kind: Any = torch.Tensor
    if not hasattr(kind, "__dlpack_c_exchange_api__"):
        return
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    table = _Table.from_address(pointer(kind.__dlpack_c_exchange_api__, _TABLE))
    own: Any = table.borrow

    # An exception that leaves a callback is printed, and C sees 0, which means success.
    def borrow(tensor: torch.Tensor, out: Any) -> int:
        try:
            if own(tensor, out) != 0:
                return _FAILED
            place = memory.ordinal_of(tensor)
        except Exception:  # noqa: BLE001  # torch refuses sparse and quantised tensors; `__dlpack__` says so to who asks
            return _FAILED
        if place is not None:
            out.contents.device_type, out.contents.device_id = _ROCM, place
        return 0

    def stream(kind: int, ordinal: int, out: Any) -> int:
        try:
            out[0] = streams.current_stream(ordinal).cuda_stream or None if kind == _ROCM else None
        except Exception:  # noqa: BLE001  # C has no other way to hear of it
            return _FAILED
        return 0

    ours = _Table(
        table.major, table.minor, None, None, table.export, table.make, _BORROW(borrow), _STREAM(stream)
    )
    _KEPT.append(ours)
    kind.__dlpack_c_exchange_api__ = capsule(ctypes.addressof(ours), _TABLE, None)


def install() -> None:
    """In both directions."""
    operators.add_special(torch.Tensor.__dlpack__, _export)
    operators.add_special(torch.Tensor.__dlpack_device__, _export_device)
    _install_import()
    _install_table()
