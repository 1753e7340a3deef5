"""Device memory without torch, through the driver library that the runtime itself opened: for commands and demonstrations."""

from __future__ import annotations

import ctypes
from typing import Any

from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.errors import DriverError

_HOST_TO_DEVICE = 1
_DEVICE_TO_HOST = 2


class DeviceMemory:
    """Allocations on one device; all are freed by :meth:`close`. ``path`` is ``DriverFacts.path``.

    A driver allocates on the device that is current in the calling thread, so every method makes its own the current one first.
    """

    def __init__(self, facts: DeviceFacts, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.device = (facts.vendor, facts.ordinal)
        self.nvidia = facts.vendor == "nvidia"
        self._held: list[int] = []
        self._context = ctypes.c_void_p()
        if self.nvidia:
            self._call("cuInit", 0)
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), facts.ordinal)
        self._use()

    def _use(self) -> None:
        if self.nvidia:
            self._call("cuCtxSetCurrent", self._context)
        else:
            self._call("hipSetDevice", self.device[1])

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise DriverError(
                f"call {name}", f"the driver answered {status}", "Check the driver: aiter-prebuilt doctor"
            )

    def upload(self, data: bytes) -> int:
        """Return new device memory with ``data``.

        Its address.
        """
        address = ctypes.c_uint64()
        self._use()
        self._call(
            "cuMemAlloc_v2" if self.nvidia else "hipMalloc",
            ctypes.byref(address),
            ctypes.c_size_t(len(data) or 1),
        )
        self._held.append(address.value)
        self.write(address.value, data)
        return address.value

    def write(self, address: int, data: bytes) -> None:
        """Copy ``data`` to ``address``."""
        size = ctypes.c_size_t(len(data))
        self._use()
        if self.nvidia:
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, size)
        else:
            self._call("hipMemcpy", ctypes.c_uint64(address), data, size, _HOST_TO_DEVICE)

    def download(self, address: int, size: int) -> bytes:
        """``size`` bytes at ``address``, after everything that was launched is done."""
        data = ctypes.create_string_buffer(size)
        self.synchronize()
        if self.nvidia:
            self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        else:
            self._call("hipMemcpy", data, ctypes.c_uint64(address), ctypes.c_size_t(size), _DEVICE_TO_HOST)
        return data.raw

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do; an error of earlier work is raised here."""
        self._use()
        self._call("cuCtxSynchronize" if self.nvidia else "hipDeviceSynchronize")

    def close(self) -> None:
        """Free everything that was uploaded."""
        self._use()
        while self._held:
            self._call("cuMemFree_v2" if self.nvidia else "hipFree", ctypes.c_uint64(self._held.pop()))
