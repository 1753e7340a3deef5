"""Make HIP calls in a process that :mod:`support.hip_process` starts.

It reads requests as JSON from standard input and prints the answers.

Plain ctypes and the standard library: as little as possible between the test and the library.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

_TO_DEVICE, _FROM_DEVICE = 1, 2


def _block(values: list[bytes], size: int) -> bytes:
    """The values at their natural alignment, cut to ``size`` bytes when that is not negative."""
    data = b""
    for value in values:
        data += bytes(-len(data) % min(len(value), 8)) + value
    return data if size < 0 else data[:size]


class Hip:
    """The calls, with buffers and handles that live as long as a request."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)

    def must(self, name: str, *arguments: Any) -> None:
        """Calls ``name``; it must succeed."""
        status = getattr(self.lib, name)(*arguments)
        assert status == 0, (name, status)

    def upload(self, contents: bytes) -> ctypes.c_void_p:
        """Device memory of exactly these bytes."""
        pointer = ctypes.c_void_p()
        self.must("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(len(contents)))
        self.must("hipMemcpy", pointer, contents, ctypes.c_size_t(len(contents)), _TO_DEVICE)
        return pointer

    def download(self, pointer: ctypes.c_void_p, size: int) -> bytes:
        """``size`` bytes of device memory."""
        out = ctypes.create_string_buffer(size)
        self.must("hipMemcpy", out, pointer, ctypes.c_size_t(size), _FROM_DEVICE)
        return out.raw

    def start(self, function: ctypes.c_void_p, request: dict[str, Any], values: list[bytes]) -> int:
        """Launches and waits; the first error of either."""
        dims = [ctypes.c_uint(value) for value in request["dims"]]
        keep = [ctypes.create_string_buffer(value, len(value)) for value in values]
        params, extra = None, None
        if request["packed"]:
            data = _block(values, request["size"])
            block, size = ctypes.create_string_buffer(data, max(len(data), 1)), ctypes.c_size_t(len(data))
            address = [ctypes.cast(item, ctypes.c_void_p).value for item in (block, ctypes.pointer(size))]
            extra = (ctypes.c_void_p * 5)(1, address[0], 2, address[1], 3)
        else:
            params = (ctypes.c_void_p * max(len(keep), 1))(
                *[ctypes.cast(item, ctypes.c_void_p) for item in keep]
            )
        status = int(self.lib.hipModuleLaunchKernel(function, *dims, None, params, extra))
        return status or int(self.lib.hipDeviceSynchronize())

    def answer(self, request: dict[str, Any], names: list[str]) -> dict[str, Any]:
        """One request from load to unload."""
        out: dict[str, Any] = {"loaded": -1, "found": -1, "status": -1, "buffers": [], "globals": {}}
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.must("hipSetDevice", request["device"])
        image = bytes.fromhex(request["image"])
        out["loaded"] = self.lib.hipModuleLoadData(ctypes.byref(module), image)
        if out["loaded"]:
            return out
        out["found"] = self.lib.hipModuleGetFunction(
            ctypes.byref(function), module, request["kernel"].encode()
        )
        if out["found"]:
            return out
        buffers, values = [], []
        for kind, text in request["arguments"]:
            value = bytes.fromhex(text)
            if kind == "buffer":
                buffers.append((self.upload(value), len(value)))
                value = (buffers[-1][0].value or 0).to_bytes(8, "little")
            values.append(value)
        out["status"] = self.start(function, request, values)
        if out["status"] == 0:
            out["buffers"] = [self.download(pointer, size).hex() for pointer, size in buffers]
            for name in names:
                pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
                if (
                    self.lib.hipModuleGetGlobal(
                        ctypes.byref(pointer), ctypes.byref(size), module, name.encode()
                    )
                    == 0
                ):
                    out["globals"][name] = self.download(pointer, size.value).hex()
        return out


def main() -> None:
    """Answers on standard output."""
    document = json.load(sys.stdin)
    hip = Hip(sys.argv[1])
    hip.must("hipInit", 0)
    print(json.dumps([hip.answer(request, document["names"]) for request in document["requests"]]))


if __name__ == "__main__":
    main()
