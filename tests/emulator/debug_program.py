"""What is debugged in tests: launches a kernel. argv: library, code object, kernel, workgroups, work items, number."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def main() -> int:
    lib = ctypes.CDLL(sys.argv[1])
    kernel, groups, items, number = sys.argv[3], *map(int, sys.argv[4:7])
    module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.hipModuleLoadData(ctypes.byref(module), Path(sys.argv[2]).read_bytes()) == 0
    assert lib.hipModuleGetFunction(ctypes.byref(function), module, kernel.encode()) == 0
    size = 4 * groups * items
    words = (ctypes.c_uint * (groups * items))(*range(groups * items))
    assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(size)) == 0
    assert lib.hipMemcpy(data, words, ctypes.c_size_t(size), 1) == 0
    at = ctypes.c_uint(number)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(at))
    print(f"data {data.value:#x}", flush=True)
    status = lib.hipModuleLaunchKernel(function, groups, 1, 1, items, 1, 1, 0, None, params, None)
    status = status or lib.hipDeviceSynchronize()
    assert status or lib.hipMemcpy(words, data, ctypes.c_size_t(size), 2) == 0
    print(f"status {status} sum {sum(words)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
