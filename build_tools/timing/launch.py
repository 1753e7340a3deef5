"""Run as a program: launches the kernels of a list on the emulator, which writes what its timing model says of each.

    python launch.py JOBS.json LIBRARY

Memory is zeros: these kernels' time does not depend on what they multiply.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path
from typing import Any

#: hipModuleLaunchKernel's `extra`: where arguments are, how many bytes, end.
_POINTER, _SIZE, _END = 1, 2, 3


def _must(what: str, status: int) -> None:
    if status:
        sys.exit(f"{what}: hipError {status}")


class _Device:
    def __init__(self, library: str) -> None:
        self.hip = ctypes.CDLL(library)
        self.modules: dict[str, ctypes.c_void_p] = {}
        self.memory: dict[int, int] = {}
        _must("hipInit", self.hip.hipInit(0))

    def function(self, file: str, symbol: str) -> ctypes.c_void_p:
        if file not in self.modules:
            module = ctypes.c_void_p()
            _must(file, self.hip.hipModuleLoad(ctypes.byref(module), file.encode()))
            self.modules[file] = module
        found = ctypes.c_void_p()
        _must(symbol, self.hip.hipModuleGetFunction(ctypes.byref(found), self.modules[file], symbol.encode()))
        return found

    def buffer(self, place: int, size: int) -> int:
        """Return the memory of a place, the same for all jobs."""
        if place not in self.memory:
            address = ctypes.c_void_p()
            _must("hipMalloc", self.hip.hipMalloc(ctypes.byref(address), ctypes.c_size_t(size)))
            self.memory[place] = address.value or 0
        return self.memory[place]

    def packed(self, arguments: list[list[Any]]) -> bytes:
        """Each in 16 bytes."""
        parts = []
        for place, (kind, value) in enumerate(arguments):
            if kind == "ptr":
                parts.append(struct.pack("<QQ", self.buffer(place, value) if value else 0, 0))
            else:
                parts.append(struct.pack("<ixxxxxxxxxxxx" if kind == "i32" else "<fxxxxxxxxxxxx", value))
        return b"".join(parts)

    def launch(self, job: dict[str, Any]) -> None:
        function = self.function(job["file"], job["symbol"])
        raw = self.packed(job["arguments"])
        data, size = ctypes.create_string_buffer(raw, len(raw)), ctypes.c_size_t(len(raw))
        extra = (ctypes.c_void_p * 5)(_POINTER, ctypes.addressof(data), _SIZE, ctypes.addressof(size), _END)
        dims = [ctypes.c_uint(each) for each in (*job["grid"], job["block"], 1, 1, 0)]
        _must(job["symbol"], self.hip.hipModuleLaunchKernel(function, *dims, None, None, extra))


def main() -> None:
    """All jobs, in their order."""
    device = _Device(sys.argv[2])
    for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        device.launch(job)


if __name__ == "__main__":
    main()
