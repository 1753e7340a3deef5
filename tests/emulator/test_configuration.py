"""The emulated machine is what the environment says: devices, memory, named errors. Every address is checked."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from support.hip_process import INVALID_VALUE, SUCCESS, Launch, launch, program
from support.linked import kernel_source, link, metadata

OUT_OF_MEMORY, NO_DEVICE = 2, 100

_FACTS = r"""
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
count, rows = ctypes.c_int(), []
status = lib.hipInit(0)
if status == 0:
    assert lib.hipGetDeviceCount(ctypes.byref(count)) == 0
for device in range(count.value):
    units, total = ctypes.c_int(), ctypes.c_size_t()
    assert lib.hipDeviceGetAttribute(ctypes.byref(units), 63, device) == 0
    assert lib.hipDeviceTotalMem(ctypes.byref(total), device) == 0
    properties = ctypes.create_string_buffer(8192)
    assert lib.hipGetDevicePropertiesR0600(properties, device) == 0
    target = b"gfx942:" if b"gfx942:" in properties.raw else b"gfx950:"
    at = properties.raw.index(target)
    rows.append([properties.raw[at:properties.raw.index(b"\0", at)].decode(), units.value, total.value])
print(json.dumps([status, rows]))
"""


def facts(**environment: str) -> tuple[int, list[list[object]], str]:
    """hipInit's code, and per device its architecture's name, compute units and bytes of memory."""
    out, log = program(_FACTS, **environment)
    status, rows = json.loads(out)
    return status, rows, log


def test_one_mi300x_unless_said() -> None:
    status, rows, log = facts()
    assert (status, rows, log) == (SUCCESS, [["gfx942:sramecc+:xnack-", 304, 16 << 30]], "")


def test_mixed_devices() -> None:
    status, rows, _ = facts(
        devices="gfx942:cus=80:memory=8G, gfx950 ,gfx950:memory=512M:cus=32,gfx942:memory=1073741824"
    )
    assert status == SUCCESS
    assert rows == [
        ["gfx942:sramecc+:xnack-", 80, 8 << 30],
        ["gfx950:sramecc+:xnack-", 256, 16 << 30],
        ["gfx950:sramecc+:xnack-", 32, 512 << 20],
        ["gfx942:sramecc+:xnack-", 304, 1 << 30],
    ]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("devices", "gfx90a", "gfx90a"),
        ("devices", "gfx942,", "gfx942 or gfx950"),
        ("devices", "gfx942:cus=0", "cus=0"),
        ("devices", "gfx942:cus=many", "cus=many"),
        ("devices", "gfx942:memory=8X", "memory=8X"),
        ("devices", "gfx942:memory=99999999999G", "memory="),
        ("devices", "gfx942:colour=red", "colour=red"),
        ("threads", "0", "THREADS"),
        ("threads", "two", "THREADS"),
        ("checks", "lds,everything", "everything"),
        ("checks", "report", "all,report"),
        ("known", "races:0x4:k hazards", "found 'hazards', expected CHECK:0xOFFSET:KERNEL"),
        ("known", "hazards:0x10", "'hazards:0x10'"),
        ("known", "hazards:10:k", "'hazards:10:k'"),
        ("known", "hazards:0x:k", "'hazards:0x:k'"),
        ("known", "hazards:0x1g:k", "'hazards:0x1g:k'"),
        ("known", "traps:0x10:k", "'traps:0x10:k'"),
        ("known", "hazards:0x10:", "'hazards:0x10:'"),
        ("known", "hazards:0x10-12:k", "'hazards:0x10-12:k'"),
        ("known", "hazards:-0x12:k", "'hazards:-0x12:k'"),
        ("limit", "-1", "LIMIT"),
        ("limit", "1e9", "LIMIT"),
        ("fill", "255", "FILL"),
        ("fill", "0x100", "FILL"),
        ("fill", "ones", "a byte, 0x00 to 0xff"),
        ("log", "loud", "LOG"),
    ],
)
def test_what_is_not_understood_is_an_error(variable: str, value: str, words: str) -> None:
    status, rows, log = facts(**{variable: value})
    assert status == INVALID_VALUE and rows == []
    name = "AITER_PREBUILT_EMULATOR" + ("" if variable == "devices" else f"_{variable.upper()}")
    assert f"{name}: found '" in log and words in log and "expected" in log


def test_log_off_says_nothing() -> None:
    assert facts(devices="gfx942:colour=red", log="off")[2] == ""


_MEMORY = r"""
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
free, total, out = ctypes.c_size_t(), ctypes.c_size_t(), []
def take(size):
    pointer = ctypes.c_void_p()
    return lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)), pointer
def left():
    assert lib.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value
before = left()
status, first = take(48 << 20)
out += [status, before - left(), take(32 << 20)[0], lib.hipFree(first), left() == before]
for _ in range(200):  # freed memory rests, but it comes back
    status, pointer = take(40 << 20)
    out.append(status)
    out.append(lib.hipFree(pointer))
small = [take(100)[1].value for _ in range(1000)]
out.append(all(address % 256 == 0 for address in small) and len(set(small)) == 1000)
print(json.dumps(out))
"""


def test_memory_ends_where_the_environment_says() -> None:
    out, _ = program(_MEMORY, devices="gfx942:memory=64M", log="off")
    status, used, second, freed, restored, *loop, small = json.loads(out)
    assert (status, used, second, freed, restored) == (SUCCESS, 48 << 20, OUT_OF_MEMORY, SUCCESS, True)
    assert set(loop) == {0} and small


_FILLED = r"""
import ctypes, json, sys
lib, out = ctypes.CDLL(sys.argv[1]), []
def read(pointer, size):
    data = ctypes.create_string_buffer(size)
    assert lib.hipMemcpy(data, pointer, ctypes.c_size_t(size), 2) == 0
    return sorted(set(data.raw))
for size in (1, 1000, 100000):
    pointer, other = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.hipMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(size), None) == 0
    assert lib.hipMalloc(ctypes.byref(other), ctypes.c_size_t(100000)) == 0
    out.append([read(pointer, size), read(other, 100000)])
    assert lib.hipFreeAsync(pointer, None) == 0
print(json.dumps(out))
"""


@pytest.mark.parametrize(
    ("fill", "byte"), [({}, 0), ({"fill": "0x00"}, 0), ({"fill": "0xff"}, 255), ({"fill": "0x7"}, 7)]
)
def test_memory_of_a_stream_is_full_of_what_the_environment_says(fill: dict[str, str], byte: int) -> None:
    """What a launch takes as its workspace; tensors are filled by who makes them."""
    out, _ = program(_FILLED, **fill)
    assert json.loads(out) == [[[byte], [0]]] * 3


#: Loads one dword at the address it is given.
_LOAD = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v0, 0
    s_waitcnt lgkmcnt(0)
    global_load_dword v1, v0, s[4:5]
    s_endpgm
"""

#: argv: library, code object, what to do. Loads a dword at an address that is or is not alive.
_TOUCH = r"""
import ctypes, sys
lib, image, case, offset = ctypes.CDLL(sys.argv[1]), open(sys.argv[2], "rb").read(), sys.argv[3], int(sys.argv[4])
module, function = ctypes.c_void_p(), ctypes.c_void_p()
def must(status):
    assert status == 0, status
def malloc(device, size):
    pointer = ctypes.c_void_p()
    must(lib.hipSetDevice(device))
    must(lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)))
    return pointer
must(lib.hipInit(0))
data, other = malloc(0, 1000), malloc(1, 1000)
must(lib.hipSetDevice(0))
host = ctypes.create_string_buffer(4096)
address = {"own": data, "freed": data, "peer": other, "enabled": other}.get(case, ctypes.c_void_p(ctypes.addressof(host))).value
if case == "null":
    address = 0
if case == "freed":
    must(lib.hipFree(data))
    other = malloc(0, 1000)
if case == "enabled":
    must(lib.hipDeviceEnablePeerAccess(1, 0))
if case in ("registered", "unregistered"):
    must(lib.hipHostRegister(host, ctypes.c_size_t(4096), 0))
if case == "unregistered":
    must(lib.hipHostUnregister(host))
must(lib.hipModuleLoadData(ctypes.byref(module), image))
must(lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel"))
value = ctypes.c_void_p(address + offset)
params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
status = lib.hipModuleLaunchKernel(function, *[ctypes.c_uint(n) for n in (1, 1, 1, 1, 1, 1, 0)], None, params, None)
print(status or lib.hipDeviceSynchronize())
"""


@pytest.mark.parametrize(
    ("case", "offset", "words"),
    [
        ("own", 996, None),
        ("own", 1000, "4 bytes past the end of allocation"),
        ("own", 998, "2 bytes past the end of allocation"),
        ("own", -4, "4 bytes before the start of allocation"),
        ("null", 0, "a null pointer"),
        ("null", 256, "a null pointer with an offset"),
        ("freed", 16, "freed"),
        ("peer", 0, "belongs to device 1: peer access is not enabled"),
        ("enabled", 0, None),
        ("host", 0, "allocation"),
        ("registered", 4092, None),
        ("registered", 4096, "past the end of allocation"),
        ("unregistered", 0, "unregistered"),
    ],
)
def test_every_address_is_checked(case: str, offset: int, words: str | None, tmp_path: Path) -> None:
    path = tmp_path / "kernel.co"

    path.write_bytes(link("gfx942", kernel_source(_LOAD) + metadata([(0, 8, "by_value")])))
    out, log = program(_TOUCH, str(path), case, str(offset), devices="gfx942,gfx942")
    assert (out.strip() == "0") is (words is None), log
    if words:
        assert "illegal address" in log and words in log and "code+0x" in log


def test_checks_cost_nothing_when_off() -> None:
    # Reads LDS that nobody wrote: garbage without checks, a fault with them.
    body = "v_mov_b32_e32 v0, 0\nds_read_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    image = link("gfx942", kernel_source(body) + metadata([]))
    verdicts = {
        checks: launch(Launch(image, lds=64), checks=checks)[0].status == SUCCESS
        for checks in ("none", "hazards", "lds", "all")
    }
    assert verdicts == {"none": True, "hazards": True, "lds": False, "all": False}


def test_the_last_word_on_checks_counts() -> None:
    body = "v_mov_b32_e32 v0, 0\nds_read_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    image = link("gfx942", kernel_source(body) + metadata([]))
    assert launch(Launch(image, lds=64), checks="all,none")[0].status == SUCCESS
    assert launch(Launch(image, lds=64), checks="none, lds")[0].status != SUCCESS


def test_results_do_not_depend_on_threads() -> None:
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_lshl_b32 s6, s2, 8
    v_lshl_add_u32 v1, v0, 2, s6
    v_lshl_add_u32 v2, s2, 6, v0
    v_mul_lo_u32 v2, v2, v2
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v2, s[4:5]
    s_endpgm
    """
    image = link("gfx942", kernel_source(body) + metadata([(0, 8, "global_buffer")]))
    count = random.randint(50, 300)
    request = Launch(image, [("buffer", bytes(count * 256))], grid=(count, 1, 1))
    expected = [i * i & 0xFFFFFFFF for i in range(count * 64)]
    for threads in ("1", "2", str(len(os.sched_getaffinity(0)) + 5)):
        answer, log = launch(request, threads=threads)
        assert answer.status == SUCCESS and answer.words() == expected, log


@pytest.mark.parametrize(("size", "fits"), [(4, True), (1, True), (5, True), (8, True), (9, False)])
def test_scalar_loads_reach_the_end_of_a_dword(size: int, fits: bool) -> None:
    # LLVM reads a uniform byte as a dword; what lies in a dword that has no byte of the allocation is still out of bounds.
    offset = {4: 0, 1: 0, 5: 4, 8: 4, 9: 12}[size]
    wait = "s_waitcnt lgkmcnt(0)\n"
    body = f"s_load_dwordx2 s[4:5], s[0:1], 0x0\n{wait}s_load_dword s6, s[4:5], {offset}\n{wait}s_endpgm"
    image = link("gfx942", kernel_source(body) + metadata([(0, 8, "global_buffer")]))
    answer, log = launch(Launch(image, [("buffer", bytes(size))]))
    assert (answer.status == SUCCESS) is fits, log


#: The machine's four devices, told apart by their compute units.
_FOUR = "gfx942:cus=10,gfx942:cus=20,gfx950:cus=30,gfx942:cus=40"


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({}, [10, 20, 30, 40]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [30, 10]),
        ({"ROCR_VISIBLE_DEVICES": " 3 , 1 "}, [40, 20]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"ROCR_VISIBLE_DEVICES": "1,9,2"}, [20]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-emulator00000002"}, [30]),
        ({"HIP_VISIBLE_DEVICES": "3,1"}, [40, 20]),
        ({"HIP_VISIBLE_DEVICES": ""}, [10, 20, 30, 40]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": "0,x,1"}, [10]),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [30]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, [20]),
        ({"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "1,0"}, [30, 40]),
        ({"ROCR_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "1"}, []),
    ],
)
def test_visible_devices_mean_what_they_mean_to_rocm(environment: dict[str, str], seen: list[int]) -> None:
    status, rows, _ = facts(devices=_FOUR, **environment)
    assert [units for _, units, _ in rows] == seen
    assert status == (SUCCESS if seen else NO_DEVICE)
