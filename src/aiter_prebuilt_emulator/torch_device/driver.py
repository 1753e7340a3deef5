"""HIP calls that the bridge makes, on the library of this package."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

import torch

from aiter_prebuilt_emulator import library

NOT_READY: Final = 600
OUT_OF_MEMORY: Final = 2
NO_DEVICE: Final = 100
_POINTER: Final = ctypes.c_void_p
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "hipMalloc": (ctypes.POINTER(_POINTER), ctypes.c_size_t),
    "hipHostMalloc": (ctypes.POINTER(_POINTER), ctypes.c_size_t, ctypes.c_uint),
    "hipHostFree": (_POINTER,),
    "hipFree": (_POINTER,),
    "hipFreeAsync": (_POINTER, _POINTER),
    "hipStreamCreateWithPriority": (ctypes.POINTER(_POINTER), ctypes.c_uint, ctypes.c_int),
    "hipStreamDestroy": (_POINTER,),
    "hipStreamQuery": (_POINTER,),
    "hipStreamSynchronize": (_POINTER,),
    "hipStreamWaitEvent": (_POINTER, _POINTER, ctypes.c_uint),
    "hipStreamGetPriority": (_POINTER, ctypes.POINTER(ctypes.c_int)),
    "hipThreadExchangeStreamCaptureMode": (ctypes.POINTER(ctypes.c_int),),
    "hipMemsetD8Async": (_POINTER, ctypes.c_ubyte, ctypes.c_size_t, _POINTER),
    "hipStreamIsCapturing": (_POINTER, ctypes.POINTER(ctypes.c_int)),
    "hipStreamBeginCapture": (_POINTER, ctypes.c_int),
    "hipStreamEndCapture": (_POINTER, ctypes.POINTER(_POINTER)),
    "hipGraphInstantiate": (ctypes.POINTER(_POINTER), _POINTER, _POINTER, _POINTER, ctypes.c_size_t),
    "hipGraphLaunch": (_POINTER, _POINTER),
    "hipGraphDestroy": (_POINTER,),
    "hipGraphExecDestroy": (_POINTER,),
    "hipEventCreateWithFlags": (ctypes.POINTER(_POINTER), ctypes.c_uint),
    "hipEventDestroy": (_POINTER,),
    "hipEventQuery": (_POINTER,),
    "hipEventRecord": (_POINTER, _POINTER),
    "hipEventSynchronize": (_POINTER,),
    "hipEventElapsedTime": (ctypes.POINTER(ctypes.c_float), _POINTER, _POINTER),
    "hipMemGetInfo": (ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)),
    "hipDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "hipDeviceGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int),
    "hipGetDevicePropertiesR0600": (_POINTER, ctypes.c_int),
}  # fmt: skip


@cache
def opened() -> ctypes.CDLL:
    """Return the library, for everybody in this process.

    What is linked against ``libamdhip64.so`` finds it loaded.
    """
    handle = ctypes.CDLL(library(), mode=ctypes.RTLD_GLOBAL)
    handle.hipGetErrorString.restype = ctypes.c_char_p
    for name, types in _SIGNATURES.items():
        getattr(handle, name).argtypes = types
    return handle


def status(name: str, *arguments: Any) -> int:
    """Call a HIP function and return its status."""
    return int(getattr(opened(), name)(*arguments))


def call(name: str, *arguments: Any) -> None:
    """Make a call that must succeed.

    Raises:
        RuntimeError: as torch has it for an error of the driver; torch.OutOfMemoryError: there is no memory.
    """
    code = status(name, *arguments)
    if code == 0:
        return
    text = f"HIP error: {opened().hipGetErrorString(code).decode()} ({name} answered {code})"
    raise torch.OutOfMemoryError(text) if code == OUT_OF_MEMORY else RuntimeError(text)


def made(name: str, *arguments: Any) -> int:
    """Return the handle or address that a call writes.

    Its first argument points there.
    """
    out = _POINTER()
    call(name, ctypes.byref(out), *arguments)
    return out.value or 0


def number(name: str, *arguments: Any) -> int:
    """Return the int that a call writes.

    Its first argument points there.
    """
    out = ctypes.c_int()
    call(name, ctypes.byref(out), *arguments)
    return out.value


def device_count() -> int:
    """Return how many devices the process sees; 0 where ``HIP_VISIBLE_DEVICES`` and its kin hide them all."""
    out = ctypes.c_int()
    if status("hipGetDeviceCount", ctypes.byref(out)) == NO_DEVICE:
        return 0
    call("hipGetDeviceCount", ctypes.byref(out))
    return out.value


def number_of_capture(stream: int) -> int:
    """Not zero while the stream captures."""
    out = ctypes.c_int()
    call("hipStreamIsCapturing", stream, ctypes.byref(out))
    return out.value


def made_last(name: str, first: int) -> int:
    """Return the handle that a call puts where its second argument points."""
    out = _POINTER()
    call(name, first, ctypes.byref(out))
    return out.value or 0


def reset_after_fault(ordinal: int) -> None:
    """``hipDeviceReset`` where the device has met a fault; its memory, modules and streams stay."""
    before = number("hipGetDevice")
    call("hipSetDevice", ordinal)
    if status("hipStreamQuery", None) not in (0, NOT_READY):
        call("hipDeviceReset")
    call("hipSetDevice", before)
