"""Host memory that a launch names and that is not there: an error code, not the end of the process."""

from __future__ import annotations

import json

from support.hip_process import program
from support.linked import kernel_source, link, metadata

INVALID_VALUE = 1

#: Addresses at which nothing is, or nothing that can be read, in each place of a launch's arguments.
_WILD = """
import ctypes, json, mmap, sys
lib, module, function = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_void_p()
assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(sys.argv[2])) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
page = mmap.PAGESIZE
two = libc.mmap(None, 2 * page, 3, 0x22, -1, 0)
assert libc.mprotect(two + page, page, 0) == 0  # the second one cannot be read
buffer, size, pointer = (ctypes.c_char * 8)(), ctypes.c_size_t(8), ctypes.c_void_p(0)
def go(params, extra):
    return lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, extra)
def listed(buffer, size):
    return (ctypes.c_void_p * 5)(1, buffer, 2, size, 3)
good = go((ctypes.c_void_p * 1)(ctypes.addressof(buffer)), None),
good += go(None, listed(ctypes.addressof(buffer), ctypes.addressof(size))),
last = two + page - 8
ctypes.memmove(last, (ctypes.c_void_p * 1)(ctypes.addressof(buffer)), 8)
good += go(ctypes.c_void_p(last), None),
ctypes.memmove(last, (ctypes.c_void_p * 1)(1), 8)
codes = []
for wild in (0xdead, two + page, two + page - 4, 1 << 63, (1 << 64) - 4):
    codes.append([
        go(ctypes.c_void_p(wild), None), go((ctypes.c_void_p * 1)(wild), None), go(None, ctypes.c_void_p(wild)),
        go(None, listed(wild, ctypes.addressof(size))), go(None, listed(ctypes.addressof(buffer), wild)),
    ])
codes.append([go(None, ctypes.c_void_p(last))])  # a list that ends in the middle of a pair
print(json.dumps([good, codes, lib.hipDeviceSynchronize()]))
"""


def test_arguments_that_are_not_mapped() -> None:
    image = link("gfx942", kernel_source("s_endpgm") + metadata([(0, 8, "global_buffer")]))
    out, log = program(_WILD, image.hex())
    good, codes, after = json.loads(out)
    assert good == [0, 0, 0] and after == 0
    assert codes == [[INVALID_VALUE] * 5] * 5 + [[INVALID_VALUE]]
    failed = sum(map(len, codes))  # each says so once
    assert len(log.splitlines()) == log.count("is not mapped") == failed
    assert "kernelParams, entry 0 at 0xdead" in log
