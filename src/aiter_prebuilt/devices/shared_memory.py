"""Device memory that the ranks of a host share: exported to other processes, mapped from them, coherent while launches run."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import DriverError, UnsupportedError

#: hipDeviceMallocUncached: no cache of a device keeps lines of it, so that stores are seen by others before a launch ends. On
#: NVIDIA GPUs ordinary memory will do: what comes to it from other devices goes through its own device's cache.
_UNCACHED: Final = 3
#: ...IpcMemLazyEnablePeerAccess, the one flag that opening a handle takes.
_LAZY: Final = 1
_ALREADY_ENABLED: Final = 704
#: sizeof(hipIpcMemHandle_t), sizeof(CUipcMemHandle)
HANDLE_BYTES: Final = 64
#: NVIDIA's driver exports whole pages of this size, and whatever else lies in them.
_EXPORTED: Final = 2 << 20

#: What is called in the same way, by vendor.
_NAMES: Final = {
    "amd": {
        "fill": "hipMemset",
        "synchronize": "hipDeviceSynchronize",
        "export": "hipIpcGetMemHandle",
        "open": "hipIpcOpenMemHandle",
        "unmap": "hipIpcCloseMemHandle",
        "can reach": "hipDeviceCanAccessPeer",
        "reach": "hipDeviceEnablePeerAccess",
        "free": "hipFree",
    },
    "nvidia": {
        "fill": "cuMemsetD8_v2",
        "synchronize": "cuCtxSynchronize",
        "export": "cuIpcGetMemHandle",
        "open": "cuIpcOpenMemHandle_v2",
        "unmap": "cuIpcCloseMemHandle",
        "can reach": "cuDeviceCanAccessPeer",
        "reach": "cuCtxEnablePeerAccess",
        "free": "cuMemFree_v2",
    },
}
_TOPOLOGY: Final = {"amd": "rocm-smi --showtopo", "nvidia": "nvidia-smi topo -m"}


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class SharedMemory:
    """One allocation on a device, and those of others that were mapped beside it."""

    def __init__(self, place: tuple[str, int], nbytes: int) -> None:
        """``nbytes`` on a device (vendor and ordinal), zeros.

        Raises:
            DriverError: the driver cannot be opened, has no such device or not so much memory.
        """
        vendor, ordinal = place
        self.facts = device.facts(vendor, ordinal)
        self._library = ctypes.CDLL(device.probe(vendor).path)
        self._names = _NAMES[vendor]
        self._nvidia = vendor == "nvidia"
        self._context = self._primary(ordinal) if self._nvidia else ctypes.c_void_p()
        self._mapped: list[int] = []
        address = ctypes.c_uint64()
        with self._current():
            if self._nvidia:
                whole = -(-nbytes // _EXPORTED) * _EXPORTED
                self._ask("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(whole))
            else:
                self._ask("hipExtMallocWithFlags", ctypes.byref(address), ctypes.c_size_t(nbytes), _UNCACHED)
            self.address: int = address.value
            self._call("fill", address, 0, ctypes.c_size_t(nbytes))
            self._call("synchronize")

    def _primary(self, ordinal: int) -> ctypes.c_void_p:
        """Return the primary context of an NVIDIA device.

        torch and the runtime use it. It stays: both need it until the process ends.
        """
        context = ctypes.c_void_p()
        self._ask("cuInit", 0)
        self._ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        return context

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make the device current while the context lasts.

        A driver allocates and maps on the device that is current in the calling thread: torch's choice stays as before.
        """
        if self._nvidia:
            self._ask("cuCtxPushCurrent_v2", self._context)
            try:
                yield
            finally:
                self._ask("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
            return
        before = ctypes.c_int()
        self._ask("hipGetDevice", ctypes.byref(before))
        self._ask("hipSetDevice", self.facts.ordinal)
        try:
            yield
        finally:
            self._ask("hipSetDevice", before.value)

    def _call(self, word: str, *arguments: Any, allowed: int = 0) -> None:
        self._ask(self._names[word], *arguments, allowed=allowed)

    def _ask(self, name: str, *arguments: Any, allowed: int = 0) -> None:
        status = getattr(self._library, name)(*arguments)
        if status not in (0, allowed):
            raise DriverError(
                f"call {name}", f"the driver answered {status}", "Check the driver: aiter-prebuilt doctor"
            )

    def handle(self) -> bytes:
        """Export the memory for another process of this host: 64 bytes.

        Raises:
            DriverError: the driver exports no memory.
        """
        made = _Handle()
        with self._current():
            self._call("export", ctypes.byref(made), ctypes.c_uint64(self.address))
        return bytes(made)

    def map_process(self, handle: bytes) -> int:
        """Return the address here of another process's memory.

        Raises:
            DriverError: it is no handle of memory that is alive, or the devices cannot reach each other.
        """
        address = ctypes.c_uint64()
        with self._current():
            asked = _Handle.from_buffer_copy(handle)
            self._call("open", ctypes.byref(address), asked, _LAZY)
        self._mapped.append(address.value)
        return address.value

    def map_device(self, ordinal: int) -> None:
        """Let this device touch the memory of another one of this process.

        Raises:
            UnsupportedError: the devices cannot reach each other.
            DriverError: the driver refuses it.
        """
        if ordinal == self.facts.ordinal:
            return
        can = ctypes.c_int()
        self._call("can reach", ctypes.byref(can), self.facts.ordinal, ordinal)
        if not can.value:
            raise UnsupportedError(
                f"access the memory of device {ordinal} from device {self.facts.ordinal}",
                "the driver reports no peer access between them",
                f"Use connected devices of one host: {_TOPOLOGY[self.facts.vendor]}",
            )
        peer = self._primary(ordinal) if self._nvidia else ordinal
        with self._current():
            self._call("reach", peer, 0, allowed=_ALREADY_ENABLED)

    def close(self) -> None:
        """Unmap what was mapped and free the memory, when the device has nothing left to do. A second time: nothing."""
        if not self.address:
            return
        with self._current():
            self._call("synchronize")
            while self._mapped:
                self._call("unmap", ctypes.c_uint64(self._mapped.pop()))
            address, self.address = self.address, 0
            self._call("free", ctypes.c_uint64(address))
