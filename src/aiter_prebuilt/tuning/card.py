"""One device as the tuner uses it: memory without data, streams, graphs and events, by the driver's own functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import DriverError
from aiter_prebuilt.execute.run import embedded

#: What the tuner calls -> the name in each driver.
_HIP: Final = {
    "alloc": "hipMalloc", "free": "hipFree", "copy": "hipMemcpyDtoD", "queue_copy": "hipMemcpyDtoDAsync",
    "stream": "hipStreamCreateWithFlags",
    "drop_stream": "hipStreamDestroy", "begin": "hipStreamBeginCapture", "end": "hipStreamEndCapture",
    "instantiate": "hipGraphInstantiateWithFlags", "launch": "hipGraphLaunch", "drop_graph": "hipGraphDestroy",
    "drop_exec": "hipGraphExecDestroy", "event": "hipEventCreateWithFlags", "drop_event": "hipEventDestroy",
    "record": "hipEventRecord", "elapsed": "hipEventElapsedTime", "set": "hipMemsetAsync", "wait": "hipStreamSynchronize",
    "bus": "hipDeviceGetPCIBusId",
}  # fmt: skip
_CUDA: Final = {
    "alloc": "cuMemAlloc_v2", "free": "cuMemFree_v2", "copy": "cuMemcpyDtoD_v2", "queue_copy": "cuMemcpyDtoDAsync_v2",
    "stream": "cuStreamCreate",
    "drop_stream": "cuStreamDestroy_v2", "begin": "cuStreamBeginCapture_v2", "end": "cuStreamEndCapture",
    "instantiate": "cuGraphInstantiateWithFlags", "launch": "cuGraphLaunch", "drop_graph": "cuGraphDestroy",
    "drop_exec": "cuGraphExecDestroy", "event": "cuEventCreate", "drop_event": "cuEventDestroy_v2",
    "record": "cuEventRecord", "elapsed": "cuEventElapsedTime", "set": "cuMemsetD8Async", "wait": "cuStreamSynchronize",
    "bus": "cuDeviceGetPCIBusId",
}  # fmt: skip
_NON_BLOCKING: Final = 1
#: Capture of this thread alone: another thread of the program may do what it likes.
_THREAD_LOCAL: Final = 1
_L2_ATTRIBUTE: Final = 38
#: Bytes that no cache of an AMD card holds: 256 MiB are behind the L2 of MI300 and MI350.
_AMD_CACHE: Final = 256 << 20
#: The embedded device has no cache: a little is enough to walk the same way.
_EMBEDDED_CACHE: Final = 64 << 10


class Card(DeviceMemory):
    """Memory, streams and graphs of one device. :meth:`close` frees all."""

    def __init__(self, facts: DeviceFacts, path: str) -> None:
        super().__init__(facts, path)
        self.facts = facts
        self.embedded = embedded(path)
        self._names = _CUDA if self.nvidia else _HIP
        self.stream = self._handle("stream", ctypes.c_uint(_NON_BLOCKING))
        self._events = [self._handle("event", ctypes.c_uint(0)) for _ in range(2)]

    def _do(self, what: str, *arguments: Any) -> None:
        self._call(self._names[what], *arguments)

    def _handle(self, what: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._use()
        self._do(what, ctypes.byref(made), *arguments)
        return made

    @property
    def cache_bytes(self) -> int:
        """Bytes of the largest cache in front of memory."""
        if self.embedded:
            return _EMBEDDED_CACHE
        if not self.nvidia:
            return _AMD_CACHE
        found = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(found), _L2_ATTRIBUTE, self.device[1])
        return found.value

    @property
    def bus(self) -> str:
        """The device's address on the PCI bus, in lower case; "" where the driver does not say it."""
        text = ctypes.create_string_buffer(32)
        try:
            self._do("bus", text, len(text), self.device[1])
        except (DriverError, AttributeError):
            return ""
        return text.value.decode().lower()

    def reserve(self, size: int) -> int:
        """Allocate ``size`` bytes, with whatever they hold; :meth:`release` frees them."""
        address = ctypes.c_uint64()
        self._use()
        self._do("alloc", ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        return address.value

    def release(self, address: int) -> None:
        """Free what :meth:`reserve` returned."""
        self._use()
        self._do("free", ctypes.c_uint64(address))

    def repeat(self, address: int, block: bytes, size: int) -> None:
        """Fill ``size`` bytes with ``block`` over and over: the device copies what is there."""
        if not size:
            return
        done = min(len(block), size)
        self.write(address, block[:done])
        while done < size:
            part = min(done, size - done)
            self.copy(address + done, address, part)
            done += part

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy ``size`` bytes on the device."""
        self._use()
        self._do("copy", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size))

    def queue_copy(self, to: int, source: int, size: int) -> None:
        """Queue copying ``size`` bytes on the stream."""
        self._do(
            "queue_copy", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), self.stream
        )

    def set(self, address: int, value: int, size: int) -> None:
        """Queue writing ``size`` bytes of one value on the stream."""
        kind = ctypes.c_ubyte(value) if self.nvidia else ctypes.c_int(value)
        self._do("set", ctypes.c_uint64(address), kind, ctypes.c_size_t(size), self.stream)

    def wait(self) -> None:
        """Wait until the stream has nothing left to do."""
        self._use()
        self._do("wait", self.stream)

    def span(self, work: Callable[[], object]) -> float:
        """Microseconds between events before and behind what ``work`` queues on the stream."""
        first, last = self._events
        self._use()
        self._do("record", first, self.stream)
        work()
        self._do("record", last, self.stream)
        self.wait()
        found = ctypes.c_float()
        self._do("elapsed", ctypes.byref(found), first, last)
        return found.value * 1e3

    def graph(self, work: Callable[[], object]) -> Graph:
        """Record what ``work`` queues on the stream as a graph. Its kernels must be loaded already."""
        self._use()
        self._do("begin", self.stream, ctypes.c_int(_THREAD_LOCAL))
        made = ctypes.c_void_p()
        try:
            work()
        except BaseException:
            with suppress(DriverError):  # the capture is over either way
                self._do("end", self.stream, ctypes.byref(made))
            raise
        self._do("end", self.stream, ctypes.byref(made))
        try:
            return Graph(self, self._handle("instantiate", made, ctypes.c_ulonglong(0)))
        finally:
            self._do("drop_graph", made)

    def close(self) -> None:
        """Free everything, events and the stream too."""
        for event in self._events:
            self._do("drop_event", event)
        self._do("drop_stream", self.stream)
        self._events = []
        super().close()


class Graph:
    """A recorded sequence of launches on a card's stream."""

    def __init__(self, card: Card, made: ctypes.c_void_p) -> None:
        self._card, self._made = card, made

    def launch(self) -> None:
        """Queue all of it once."""
        self._card._do("launch", self._made, self._card.stream)  # noqa: SLF001  # one file, one thing

    def drop(self) -> None:
        """Free it."""
        self._card._do("drop_exec", self._made)  # noqa: SLF001
