"""Track tensors on a device, and move tensors there.

A storage is all of one allocation, whose address names the device.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import driver

#: Address -> ordinal of a device; of pinned memory -1.
BLOCKS: Final[dict[int, int]] = {}
PINNED: Final = -1
#: Storage over pinned memory, by its address in torch -> the device that sees it: view_of_pinned().
_UNIFIED: Final[dict[int, int]] = {}
#: Address -> the streams of record_stream().
_USERS: Final[dict[int, list[Any]]] = {}
#: Ordinal of a device -> the most bytes that were in use there after an allocation.
PEAKS: Final[dict[int, int]] = {}
_NON_BLOCKING: Final = 1
_NO_TIMING: Final = 2
_DWORD: Final = 4
_RELAXED: Final = 2
#: Stream that captures -> the memory that was allocated for what it captures. The graph keeps it.
CAPTURED: Final[dict[int, list[Any]]] = {}


class _State(threading.local):
    """``inside``: torch's own code runs, for which all tensors are the processor's. ``streams``: of each device the one that is
    current, where that is not the default one. ``default``: the GPU of ``torch.set_default_device``.
    """

    def __init__(self) -> None:
        self.inside = False
        self.device = 0
        self.default: torch.device | None = None
        #: The GPU that an operator of ``torch.library`` is called for, by a device among its arguments.
        self.asked: int | None = None
        self.streams: dict[int, Any] = {}


STATE: Final = _State()


@contextmanager
def inside(value: bool = True) -> Iterator[None]:
    """While torch's own code runs, or (False) the program's again."""
    before, STATE.inside = STATE.inside, value
    try:
        yield
    finally:
        STATE.inside = before


@contextmanager
def current(ordinal: int) -> Iterator[None]:
    """With another current device."""
    before = STATE.device
    if before == ordinal:
        yield
        return
    select(ordinal)
    try:
        yield
    finally:
        select(before)


def select(ordinal: int) -> None:
    """Make a device current for this thread, for HIP as for torch."""
    driver.call("hipSetDevice", ordinal)
    STATE.device = ordinal


def free_and_total(ordinal: int) -> tuple[int, int]:
    """Bytes of a device that are free, and all."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with current(ordinal):
        driver.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def place_of(tensor: torch.Tensor) -> int | None:
    """Return the ordinal of a tensor's device, -1 for pinned memory.

    None: torch's own memory.
    """
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided:
            return None
        try:
            return place_of_storage(tensor.untyped_storage())
        except (RuntimeError, NotImplementedError):
            return None  # it has none


def place_of_storage(storage: torch.UntypedStorage) -> int | None:
    """Return the ordinal of a storage's device, -1 for pinned memory.

    None: torch's own memory, or none at all, as while a compiler traces.
    """
    if storage.device.type == "meta":
        return None
    place = BLOCKS.get(storage.data_ptr())
    return place if place != PINNED else _UNIFIED.get(storage._cdata, PINNED)


def ordinal_of(tensor: torch.Tensor) -> int | None:
    """Return the ordinal of a tensor's device.

    None: it is on none.
    """
    place = place_of(tensor)
    return None if place == PINNED else place


def record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Keep a tensor's memory until the stream's work ends.

    It is not given back before the stream's present work when the last tensor ends.
    """
    with torch._C.DisableTorchFunction():
        address = tensor.untyped_storage().data_ptr()
    if address in BLOCKS:
        _USERS.setdefault(address, []).append(stream)


@cache
def _release_stream(ordinal: int) -> int:
    """Frees that wait for several streams are enqueued here, so that none of those waits for another."""
    with current(ordinal):
        return driver.made("hipStreamCreateWithPriority", _NON_BLOCKING, 0)


def _behind(handles: list[int], ordinal: int) -> int:
    """Make a stream that waits for these streams' present work."""
    out = _release_stream(ordinal)
    for handle in handles:
        if handle and driver.number_of_capture(handle):
            continue  # its graph holds an address, and keeps nothing alive
        event = driver.made("hipEventCreateWithFlags", _NO_TIMING)
        driver.status("hipEventRecord", event, handle)
        driver.status("hipStreamWaitEvent", out, event, 0)
        driver.status("hipEventDestroy", event)
    return out


def _release(address: int, ordinal: int, stream: Any) -> None:
    del BLOCKS[address]
    kept = _USERS.pop(address, [])
    users = sorted({each.cuda_stream for each in kept})
    if ordinal == PINNED:
        driver.status("hipHostFree", address)
        return
    with current(ordinal):
        handle = 0 if stream is None else stream.cuda_stream
        if users and users != [handle]:
            handle = _behind([handle, *users], ordinal)
        if driver.status("hipFreeAsync", address, handle):
            driver.status("hipFree", address)


@contextmanager
def _relaxed() -> Iterator[None]:
    """Let this thread allocate while one of its streams captures: memory is no part of a graph."""
    mode = ctypes.c_int(_RELAXED)
    driver.call("hipThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        driver.call("hipThreadExchangeStreamCaptureMode", ctypes.byref(mode))


def allocate(size: int, ordinal: int) -> torch.UntypedStorage:
    """Memory of a device, or pinned memory, freed with its last tensor in the order of the stream that is current now."""
    stream = None  # kept by the memory, so that it is there when that ends
    # A tensor of no elements lies somewhere, too, and atomics of 16 bits touch the dword that they are in. Nothing more is given:
    # an access beyond that is a fault here, where a card's allocator hides it.
    asked, size = size, max((size + _DWORD - 1) // _DWORD * _DWORD, _DWORD)
    if ordinal == PINNED:
        address = driver.made("hipHostMalloc", size, 0)
    else:
        stream = STATE.streams.get(ordinal)
        with current(ordinal), _relaxed() if stream is not None else nullcontext():
            address = driver.made("hipMalloc", size)
        free, total = free_and_total(ordinal)
        PEAKS[ordinal] = max(PEAKS.get(ordinal, 0), total - free)
    block = (ctypes.c_ubyte * size).from_address(address)
    BLOCKS[address] = ordinal
    weakref.finalize(block, _release, address, ordinal, stream).atexit = False
    if stream is not None and stream.is_capturing():
        CAPTURED.setdefault(stream.cuda_stream, []).append(block)
    with torch._C.DisableTorchFunction():
        out = torch.frombuffer(block, dtype=torch.uint8).untyped_storage()
        return out if asked == size else out[:asked]  # files of torch's are read and written by the size


def view_of_pinned(tensor: torch.Tensor, ordinal: int) -> torch.Tensor:
    """Return a tensor of the device on the same memory.

    Addresses are one for host and device, as with ``hipHostMalloc`` on a card.

    Raises:
        ValueError: the tensor is not in pinned memory.
    """
    if place_of(tensor) != PINNED:
        raise ValueError("only a tensor in pinned memory is seen from a device: make it with pin_memory()")
    with torch._C.DisableTorchFunction():
        base = tensor.untyped_storage()
        block = (ctypes.c_ubyte * base.nbytes()).from_address(base.data_ptr())
        storage = torch.frombuffer(block, dtype=torch.uint8).untyped_storage()
        _UNIFIED[storage._cdata] = ordinal
        # The memory stays while the view does.
        weakref.finalize(block, _forget, storage._cdata, base).atexit = False
        return torch.empty(0, dtype=tensor.dtype).set_(
            storage, tensor.storage_offset(), tensor.shape, tensor.stride()
        )


def _forget(unified: int, base: torch.UntypedStorage) -> None:
    del _UNIFIED[unified], base


def span_of(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to behind the last one."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def empty(like: torch.Tensor, ordinal: int, zeros: bool = False) -> torch.Tensor:
    """Allocate a tensor like another, with unread bytes.

    It has the sizes, strides and type of ``like``.
    """
    with torch._C.DisableTorchFunction():
        span = span_of(tuple(like.shape), like.stride())
        storage = allocate(span * like.element_size(), ordinal)
        out = torch.empty(0, dtype=like.dtype).set_(storage, 0, like.shape, like.stride())
        stream = STATE.streams.get(ordinal)
        if zeros and stream is not None and stream.is_capturing():
            driver.call("hipMemsetD8Async", storage.data_ptr(), 0, storage.nbytes(), stream.cuda_stream)
        elif zeros:
            ctypes.memset(storage.data_ptr(), 0, storage.nbytes())
        return out


def put(tensor: torch.Tensor, ordinal: int) -> torch.Tensor:
    """Move its bytes to a device's memory (or to pinned memory); the object, and what autograd knows of it, stay."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return tensor
        plain = tensor.detach()
        if plain.is_complex() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg()
        out = empty(plain, ordinal)
        span = span_of(tuple(plain.shape), plain.stride())
        if span:
            flat = plain.as_strided((span,), (1,), plain.storage_offset())
            out.as_strided((span,), (1,), 0).copy_(flat)
        tensor.data = out
        return tensor
