"""Device memory that the ranks of a host share: uncached, exported to other processes, mapped from them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiter_prebuilt import device
from aiter_prebuilt.errors import DriverError, UnsupportedError

#: hipDeviceMallocUncached: no cache of a device keeps lines of it, so that stores are seen by others before a launch ends.
_UNCACHED: Final = 3
#: hipIpcMemLazyEnablePeerAccess, the one flag that hipIpcOpenMemHandle takes.
_LAZY: Final = 1
_ALREADY_ENABLED: Final = 704
#: sizeof(hipIpcMemHandle_t)
HANDLE_BYTES: Final = 64


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class SharedMemory:
    """One allocation on an AMD device, and those of others that were mapped beside it."""

    def __init__(self, ordinal: int, nbytes: int) -> None:
        """``nbytes`` on device ``ordinal``, zeros.

        Raises:
            DriverError: the driver cannot be opened, has no such device or not so much memory.
        """
        self.facts = device.facts("amd", ordinal)
        self._library = ctypes.CDLL(device.probe("amd").path)
        self._mapped: list[int] = []
        address = ctypes.c_uint64()
        with self._current():
            self._call("hipExtMallocWithFlags", ctypes.byref(address), ctypes.c_size_t(nbytes), _UNCACHED)
            self.address: int = address.value
            self._call("hipMemset", address, 0, ctypes.c_size_t(nbytes))
            self._call("hipDeviceSynchronize")

    @contextmanager
    def _current(self) -> Iterator[None]:
        """A driver allocates and maps on the device that is current in the calling thread: torch's choice stays what it was."""
        before = ctypes.c_int()
        self._call("hipGetDevice", ctypes.byref(before))
        self._call("hipSetDevice", self.facts.ordinal)
        try:
            yield
        finally:
            self._call("hipSetDevice", before.value)

    def _call(self, name: str, *arguments: Any, allowed: int = 0) -> None:
        status = getattr(self._library, name)(*arguments)
        if status not in (0, allowed):
            raise DriverError(f"call {name}", f"it answered {status}", "see: aiter-prebuilt doctor")

    def handle(self) -> bytes:
        """What another process of this host maps the memory with: 64 bytes.

        Raises:
            DriverError: the driver exports no memory.
        """
        made = _Handle()
        with self._current():
            self._call("hipIpcGetMemHandle", ctypes.byref(made), ctypes.c_uint64(self.address))
        return bytes(made)

    def map_process(self, handle: bytes) -> int:
        """The address here of another process's memory.

        Raises:
            DriverError: it is no handle of memory that is alive, or the devices cannot reach each other.
        """
        address = ctypes.c_uint64()
        with self._current():
            asked = _Handle.from_buffer_copy(handle)
            self._call("hipIpcOpenMemHandle", ctypes.byref(address), asked, _LAZY)
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
        self._call("hipDeviceCanAccessPeer", ctypes.byref(can), self.facts.ordinal, ordinal)
        if not can.value:
            raise UnsupportedError(
                f"let device {self.facts.ordinal} touch the memory of device {ordinal}",
                "the driver says that it cannot",
                "use devices of one host that are connected: rocm-smi --showtopo",
            )
        with self._current():
            self._call("hipDeviceEnablePeerAccess", ordinal, 0, allowed=_ALREADY_ENABLED)

    def close(self) -> None:
        """Unmap what was mapped and free the memory, when the device has nothing left to do. A second time: nothing."""
        if not self.address:
            return
        with self._current():
            self._call("hipDeviceSynchronize")
            while self._mapped:
                self._call("hipIpcCloseMemHandle", ctypes.c_uint64(self._mapped.pop()))
            address, self.address = self.address, 0
            self._call("hipFree", ctypes.c_uint64(address))
