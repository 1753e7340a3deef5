"""Kernels that do what they must not: the error, the line that says where, and the device afterwards."""

from __future__ import annotations

import json

import pytest
from support.hip_faults import BUFFER, kernel, one_line
from support.hip_process import Launch, launch, program

ILLEGAL_ADDRESS, TIME_OUT, ASSERT, LAUNCH_FAILURE = 700, 702, 710, 719

#: Body, error, what the line says.
_FAULTS = {
    "endless": ("again:\ns_branch again", TIME_OUT, "instruction"),
    "trap": ("s_trap 2", ASSERT, "trap"),
    "null": (
        "v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 0\nglobal_load_dword v4, v[2:3], off", ILLEGAL_ADDRESS, "null pointer",
    ),
    "past_the_end": ("v_add_u32_e32 v1, 0x100, v1\nglobal_store_dword v1, v0, s[4:5]", ILLEGAL_ADDRESS, "past the end"),
    "before_the_start": (
        "global_load_dword v4, v1, s[4:5] offset:-256", ILLEGAL_ADDRESS, "before the start|past the end|no allocation",
    ),
    "lds": ("v_mov_b32_e32 v2, 0x10000\nds_read_b32 v3, v2", LAUNCH_FAILURE, "LDS|lds"),
    "jump": (
        "s_getpc_b64 s[6:7]\ns_add_u32 s6, s6, 0x100000\ns_addc_u32 s7, s7, 0\ns_setpc_b64 s[6:7]", LAUNCH_FAILURE, "jump",
    ),
    "unknown": (".long 0xfc000000", LAUNCH_FAILURE, "0xfc000000|fc000000"),
    "one_wave_of_two": (
        "v_readfirstlane_b32 s6, v0\ns_cmp_eq_u32 s6, 0\ns_cbranch_scc1 alone\ns_endpgm\nalone:\ns_branch alone",
        TIME_OUT, "instruction",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _FAULTS)
def test_faults_of_kernels(name: str) -> None:
    """The line names the kernel and where it was; a launch after it answers the same until the device is reset."""
    body, expected, says = _FAULTS[name]
    blocks = (128, 1, 1) if name == "one_wave_of_two" else (64, 1, 1)
    answer, log = launch(Launch(kernel(body), [BUFFER], block=blocks), limit="20000")
    assert answer.status == expected, log
    one_line(log, "kernel", "code\\+0x", says)


_STICKY = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_last_fault.restype = ctypes.c_char_p
assert lib.apb_emulator_last_fault() is None
functions = []
for text in sys.argv[2:4]:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(text)) == 0
    assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
    functions.append(function)
bad, good = functions
data, back = ctypes.c_void_p(), ctypes.create_string_buffer(256)
assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(256)) == 0
event = ctypes.c_void_p()
assert lib.hipEventCreate(ctypes.byref(event)) == 0
params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
go = lambda function: lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None)
fresh = [go(good), lib.hipDeviceSynchronize()]
first = go(bad)
after = [go(good), lib.hipDeviceSynchronize(), lib.hipStreamSynchronize(None), lib.hipStreamQuery(None)]
after += [lib.hipEventRecord(event, None), lib.hipEventSynchronize(event)]
after += [lib.hipMemcpy(back, data, ctypes.c_size_t(256), 2), lib.hipMemset(data, 0, ctypes.c_size_t(4))]
after += [lib.hipCtxSynchronize(), lib.hipGetLastError()]
message = lib.apb_emulator_last_fault().decode()
reset = [lib.hipDeviceReset(), go(good), lib.hipDeviceSynchronize(), lib.hipMemcpy(back, data, ctypes.c_size_t(256), 2)]
print(json.dumps([fresh, first, after, reset, message, lib.hipGetLastError()]))
"""


def test_a_fault_stays_until_the_device_is_reset() -> None:
    bad = kernel("v_add_u32_e32 v1, 0x100, v1\nglobal_store_dword v1, v0, s[4:5]")
    out, log = program(_STICKY, bad.hex(), kernel("global_store_dword v1, v0, s[4:5]").hex())
    fresh, first, after, reset, message, last = json.loads(out)
    assert fresh == [0, 0] and first == ILLEGAL_ADDRESS
    assert after == [ILLEGAL_ADDRESS] * len(after)
    assert reset == [0] * 4 and last == 0
    assert one_line(log, "hipModuleLaunchKernel", r"hipErrorIllegalAddress \(700\)").endswith(message)


def test_use_after_free() -> None:
    source = """
import ctypes, sys
lib, module, function, data = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(sys.argv[2])) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(256)) == 0
assert lib.hipFree(data) == 0
params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
print(lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None))
"""
    out, log = program(source, kernel("global_store_dword v1, v0, s[4:5]").hex())
    assert int(out) == ILLEGAL_ADDRESS
    one_line(log, "freed")
