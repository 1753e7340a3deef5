"""Make HIP calls in a process that :mod:`support.hip_peer` starts.

It reads and writes one line of JSON for each.

Plain ctypes and the standard library, as :mod:`support.hip_program`.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

_TO_DEVICE, _FROM_DEVICE = 1, 2


class Handle(ctypes.Structure):
    """`hipIpcMemHandle_t` and `hipIpcEventHandle_t`."""

    _fields_ = (("raw", ctypes.c_char * 64),)

    @classmethod
    def of(cls, text: str) -> Handle:
        """From hexadecimal digits."""
        return cls.from_buffer_copy(bytes.fromhex(text))

    def text(self) -> str:
        """Return the handle as hexadecimal digits."""
        return bytes(self).hex()


class Peer:
    """The calls. Each method answers what JSON can hold, HIP's code first."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.lib.hipIpcOpenMemHandle.argtypes = (ctypes.POINTER(ctypes.c_void_p), Handle, ctypes.c_uint)
        self.lib.hipIpcOpenEventHandle.argtypes = (ctypes.POINTER(ctypes.c_void_p), Handle)

    def call(self, name: str, *arguments: Any) -> int:
        """A call of numbers; a list of one number is an address."""
        values = [ctypes.c_void_p(value[0]) if isinstance(value, list) else value for value in arguments]
        return int(getattr(self.lib, name)(*values))

    def make(self, name: str, *arguments: Any) -> list[int]:
        """The same, with an address as the result."""
        out = ctypes.c_void_p()
        values = [
            ctypes.c_void_p(value[0]) if isinstance(value, list) else ctypes.c_size_t(value)
            for value in arguments
        ]
        return [int(getattr(self.lib, name)(ctypes.byref(out), *values)), out.value or 0]

    def handle(self, name: str, address: int) -> list[Any]:
        """The handle of an address or of an event."""
        out = Handle()
        return [int(getattr(self.lib, name)(ctypes.byref(out), ctypes.c_void_p(address))), out.text()]

    def open(self, name: str, text: str, *flags: int) -> list[int]:
        """Open a handle."""
        out = ctypes.c_void_p(1)
        return [int(getattr(self.lib, name)(ctypes.byref(out), Handle.of(text), *flags)), out.value or 0]

    def write(self, address: int, text: str) -> int:
        """Bytes into memory."""
        data = bytes.fromhex(text)
        return int(self.lib.hipMemcpy(ctypes.c_void_p(address), data, ctypes.c_size_t(len(data)), _TO_DEVICE))

    def read(self, address: int, size: int) -> list[Any]:
        """Bytes of memory."""
        out = ctypes.create_string_buffer(size)
        status = self.lib.hipMemcpy(out, ctypes.c_void_p(address), ctypes.c_size_t(size), _FROM_DEVICE)
        return [int(status), out.raw.hex()]

    def attribute(self, which: int, address: int) -> list[int]:
        """`hipPointerGetAttribute`."""
        out = ctypes.c_uint64()
        status = self.lib.hipPointerGetAttribute(ctypes.byref(out), which, ctypes.c_void_p(address))
        return [int(status), out.value]

    def span(self, address: int) -> list[int]:
        """`hipMemGetAddressRange`."""
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        status = self.lib.hipMemGetAddressRange(
            ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(address)
        )
        return [int(status), base.value or 0, size.value]

    def load(self, image: str) -> int:
        """The function `kernel` of a code object."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(image)) == 0
        assert self.lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
        return function.value or 0

    def start(self, function: int, grid: int, block: int, arguments: str) -> int:
        """Launches with a packed block of arguments."""
        data = bytes.fromhex(arguments)
        buffer, size = ctypes.create_string_buffer(data, len(data)), ctypes.c_size_t(len(data))
        at = [ctypes.cast(item, ctypes.c_void_p).value for item in (buffer, ctypes.pointer(size))]
        extra = (ctypes.c_void_p * 5)(1, at[0], 2, at[1], 3)
        dims = [ctypes.c_uint(value) for value in (grid, 1, 1, block, 1, 1, 0)]
        return int(self.lib.hipModuleLaunchKernel(ctypes.c_void_p(function), *dims, None, None, extra))

    def launch(self, function: int, grid: int, block: int, arguments: str) -> list[Any]:
        """The same, to its end. HIP's code, seconds on a processor, how often it was left to others."""
        before = resource.getrusage(resource.RUSAGE_SELF)
        status = self.start(function, grid, block, arguments) or self.lib.hipDeviceSynchronize()
        after = resource.getrusage(resource.RUSAGE_SELF)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [int(status), seconds, after.ru_nvcsw - before.ru_nvcsw]

    def file(self, name: str, size: int, seals: int) -> int:
        """A file in memory that a handle may name: what an exporter that means harm would make."""
        descriptor = os.memfd_create(name, os.MFD_ALLOW_SEALING)
        os.truncate(descriptor, size)
        if seals:
            import fcntl

            fcntl.fcntl(descriptor, 1033, seals)  # F_ADD_SEALS
        return descriptor


def main() -> None:
    """Until standard input ends."""
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        method: Callable[..., Any] = getattr(peer, name)
        print(json.dumps(method(*arguments)), flush=True)


if __name__ == "__main__":
    main()
