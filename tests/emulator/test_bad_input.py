"""What a program may do wrong: each is a HIP error with a line in the log that says what, and the process lives on."""

from __future__ import annotations

import json
import random
import struct

import pytest
from support.assembly import code_object
from support.hip import ADD_ONE, exported_names
from support.hip_faults import BUFFER, kernel, one_line
from support.hip_process import Launch, launch, program
from support.linked import PLAIN, kernel_source, link, metadata

INVALID_VALUE, INVALID_CONFIGURATION, INVALID_IMAGE, NO_BINARY = 1, 9, 200, 209
NOT_FOUND, ILLEGAL_ADDRESS, TIME_OUT, ASSERT, LAUNCH_FAILURE = 500, 700, 702, 710, 719

# --- images -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 1, 3, 4, 16, 63, 64, 65, 200, 1000])
def test_truncated_image(keep: int) -> None:
    """hipModuleLoadData gets no length: what follows is zeros here, as far as the header's tables reach."""
    image = code_object("gfx942", ADD_ONE)
    answer, log = launch(Launch(image[:keep] + bytes(len(image) - keep + 64), [BUFFER]))
    assert answer.loaded == INVALID_IMAGE or (answer.loaded, answer.found) == (0, NOT_FOUND), log
    one_line(log, "hipModuleLoadData: hipErrorInvalidImage|hipModuleGetFunction: hipErrorNotFound")


_RANDOM = """
import ctypes, json, sys
lib, rows = ctypes.CDLL(sys.argv[1]), []
data = ctypes.c_void_p()
assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(256)) == 0
params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
for text in sys.argv[2].split():
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    codes = [lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(text) + bytes(64))]
    if codes[-1] == 0:
        codes.append(lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel"))
    if codes[-1] == 0 and len(codes) == 2:
        codes.append(lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None))
        assert lib.hipDeviceReset() == 0 and lib.hipDeviceSynchronize() == 0
    rows.append(codes)
print(json.dumps(rows))
"""


def test_random_images() -> None:
    """Noise, noise behind a good start, and good images with a few wrong bytes, which may even work."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    rng, good = random.Random(seed), _small(code_object("gfx942", ADD_ONE))
    images = [rng.randbytes(rng.randrange(1, 400)) for _ in range(20)]
    images += [good[:4] + rng.randbytes(200) for _ in range(20)]
    for _ in range(20):
        broken = bytearray(good)
        for _ in range(rng.randrange(1, 8)):
            broken[rng.randrange(4, len(good))] = rng.randrange(256)
        images.append(bytes(broken))
    out, log = program(_RANDOM, " ".join(image.hex() for image in images), limit="100000")
    rows = json.loads(out)
    assert rows[:40] == [[INVALID_IMAGE]] * 40
    assert len(rows) == 60
    failed = [codes for codes in rows if codes[-1] != 0]
    assert len(log.splitlines()) == len(failed), log


def test_notes_behind_all_that_is_loaded() -> None:
    """An image without a size ends with its loadable segments: what is in memory behind them is somebody else's."""
    image = bytearray(_small(code_object("gfx942", ADD_ONE)))
    table, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    (at,) = (table + 56 * n for n in range(count) if struct.unpack_from("<I", image, table + 56 * n)[0] == 4)
    offset = struct.unpack_from("<Q", image, at + 8)[0]
    struct.pack_into("<Q", image, at + 32, len(image) - offset + 4)
    # What stands behind it would be the header of a note that goes on far away.
    out, log = program(_RANDOM.replace("bytes(64)", "b'\\xff' * 64"), image.hex())
    assert json.loads(out) == [[INVALID_IMAGE]]
    assert "truncated: segment" in log


def _small(image: bytes) -> bytes:
    """Without the section headers, which nothing that runs needs."""
    start = int.from_bytes(image[40:48], "little")
    head = bytearray(image[:start])
    head[40:48], head[58:64] = bytes(8), bytes(6)
    return bytes(head)


@pytest.mark.parametrize("target", ["gfx950", "gfx90a"])
def test_image_for_another_device(target: str) -> None:
    image = code_object("gfx950", ADD_ONE)
    if target == "gfx90a":
        image = image[:48] + bytes([0x3F]) + image[49:]  # e_flags name the processor
    answer, log = launch(Launch(image, [BUFFER]))
    assert answer.loaded == NO_BINARY
    one_line(log, target, "gfx942")


def test_missing_symbol() -> None:
    answer, log = launch(Launch(code_object("gfx942", ADD_ONE), [BUFFER], kernel="no_such_kernel"))
    assert (answer.loaded, answer.found) == (0, NOT_FOUND)
    one_line(log, "hipModuleGetFunction", "no_such_kernel")


def test_absurd_argument_segment() -> None:
    """A wrong number in a descriptor is an error of the file, not gigabytes at the launch."""
    source = kernel_source("s_endpgm", descriptor=(*PLAIN, f"kernarg_size {1 << 31}"))
    answer, log = launch(Launch(link("gfx942", source + metadata([(0, 8, "global_buffer")])), [BUFFER]))
    assert answer.loaded == INVALID_IMAGE
    one_line(log, f"{1 << 31} bytes of arguments")


@pytest.mark.parametrize(("path", "code"), [("/dev/zero", 200), ("/", 200), ("/no/such/file", 301)])
def test_path_that_is_no_file(path: str, code: int) -> None:
    source = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1]).hipModuleLoad(ctypes.byref(ctypes.c_void_p()), sys.argv[2].encode()))
"""
    out, log = program(source, path)
    assert int(out) == code
    one_line(log, "hipModuleLoad", path)


# --- launches -----------------------------------------------------------------------------------------------

_THREE = [(0, 8, "global_buffer"), (8, 4, "by_value"), (16, 8, "by_value")]


@pytest.mark.parametrize("size", [0, 8, 12, 16, 20])
def test_too_few_arguments(size: int) -> None:
    """HIP takes a short buffer (AITER launches fused MoE kernels so); reading what is not there is a fault."""
    values = [BUFFER, ("bytes", bytes(4)), ("bytes", bytes(8))]
    image = link("gfx942", kernel_source("s_load_dwordx2 s[4:5], s[0:1], 0x10\ns_endpgm") + metadata(_THREE))
    answer, log = launch(Launch(image, values, packed=True, size=size))
    assert answer.status == ILLEGAL_ADDRESS
    one_line(log, "s_load_dwordx2", "8 bytes at")
    image = link("gfx942", kernel_source("s_endpgm") + metadata(_THREE))
    answer, log = launch(Launch(image, values, packed=True, size=size))
    assert (answer.status, log) == (0, "")


@pytest.mark.parametrize("size", [0, 23])
def test_too_few_arguments_before_hidden_ones(size: int) -> None:
    image = link("gfx942", kernel_source("s_endpgm") + metadata([*_THREE, (24, 4, "hidden_block_count_x")]))
    values = [BUFFER, ("bytes", bytes(4)), ("bytes", bytes(8))]
    answer, log = launch(Launch(image, values, packed=True, size=size))
    assert answer.status == INVALID_VALUE
    one_line(log, f"{size} bytes of arguments", "24")


def test_arguments_that_are_just_enough() -> None:
    image = link("gfx942", kernel_source("s_endpgm") + metadata(_THREE))
    values = [BUFFER, ("bytes", bytes(4)), ("bytes", bytes(8))]
    answer, log = launch(Launch(image, values, packed=True, size=24))
    assert answer.status == 0 and not log


_NO_ARGUMENTS = """
import ctypes, json, sys
lib, module, function = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_void_p()
assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(sys.argv[2])) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
def go(params, extra, name="hipModuleLaunchKernel"):
    return lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, extra)
size = ctypes.c_size_t(8)
endless = (ctypes.c_void_p * 64)(*[2, ctypes.addressof(size)] * 32)
odd = (ctypes.c_void_p * 3)(77, 0, 3)
unsized = (ctypes.c_void_p * 3)(1, ctypes.addressof(size), 3)
codes = [go(None, None), go((ctypes.c_void_p * 1)(None), None), go(None, endless), go(None, odd), go(None, unsized)]
codes.append(lib.hipModuleLaunchKernel(None, 1, 1, 1, 64, 1, 1, 0, None, None, None))
codes.append(lib.hipModuleLaunchKernel(ctypes.c_void_p(0x1234), 1, 1, 1, 64, 1, 1, 0, None, None, None))
codes.append(lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, ctypes.c_void_p(0x1234), None, None))
codes.append(lib.hipModuleLaunchKernel(module, 1, 1, 1, 64, 1, 1, 0, None, None, None))
print(json.dumps(codes))
"""


def test_null_and_wild_arguments() -> None:
    out, log = program(_NO_ARGUMENTS, kernel("").hex())
    assert json.loads(out) == [INVALID_VALUE] * 5 + [98, 98, 400, 98]
    assert len(log.splitlines()) == 9


@pytest.mark.parametrize(
    ("grid", "block", "says"),
    [
        ((1, 1, 1), (1025, 1, 1), "1024"),
        ((1, 1, 1), (32, 33, 1), "1024"),
        ((1, 1, 1), (0, 1, 1), "0 x 1 x 1"),
        ((0, 1, 1), (64, 1, 1), "0 x 1 x 1"),
        ((1, 0, 1), (64, 1, 1), "1 x 0 x 1"),
        ((1 << 26, 1, 1), (64, 1, 1), "work items"),
        ((1, 1 << 31, 1), (1, 2, 1), "work items"),
    ],
)
def test_grids_and_blocks_beyond_the_limits(
    grid: tuple[int, int, int], block: tuple[int, int, int], says: str
) -> None:
    answer, log = launch(Launch(code_object("gfx942", ADD_ONE), [BUFFER], grid=grid, block=block))
    assert answer.status == INVALID_CONFIGURATION
    one_line(log, says)


def test_block_larger_than_the_kernel_was_compiled_for() -> None:
    note = metadata([(0, 8, "global_buffer")]).replace(
        "flat_workgroup_size: 1024", "flat_workgroup_size: 128"
    )
    answer, log = launch(
        Launch(link("gfx942", kernel_source("s_endpgm") + note), [BUFFER], block=(192, 1, 1))
    )
    assert answer.status == LAUNCH_FAILURE
    one_line(log, "192", "128")


@pytest.mark.parametrize(("static", "dynamic"), [(0, 65537), (65536, 4), (1024, (1 << 32) - 1)])
def test_too_much_lds(static: int, dynamic: int) -> None:
    answer, log = launch(Launch(kernel("", static), [BUFFER], lds=dynamic))
    assert answer.status == INVALID_VALUE
    one_line(log, "LDS", str(dynamic), "65536")


def test_as_much_lds_as_there_is() -> None:
    answer, log = launch(Launch(kernel("", 1024), [BUFFER], lds=64512))
    assert answer.status == 0 and not log


# --- everything else ----------------------------------------------------------------------------------------

_EVERYTHING = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
print(json.dumps({name: lib[name](*[None] * 12) for name in sys.argv[2].split()}))
"""
#: These do not answer a hipError_t.
_OTHER_RESULTS = {
    "hipApiName", "hipKernelNameRef", "hipKernelNameRefByPtr", "hipGetErrorName", "hipGetErrorString", "hipCreateChannelDesc",
    "hipGetStreamDeviceId",
}  # fmt: skip


def test_every_entry_point_with_null_arguments() -> None:
    """No name crashes on nulls, whatever its signature, and none invents a code."""
    names = [name for name in exported_names() if name.startswith("hip") and name not in _OTHER_RESULTS]
    out, _ = program(_EVERYTHING, " ".join(names))
    codes = json.loads(out)
    assert len(codes) > 470
    known = {
        0,
        1,
        9,
        13,
        98,
        101,
        201,
        301,
        400,
        401,
        500,
        705,
        713,
        801,
        900,
        906,
    }  # 906: one of the calls begins a capture
    assert {name: got for name, got in codes.items() if got not in known} == {}


@pytest.mark.parametrize("value", ["gfx900", "gfx942:cus=x", "gfx942:memory=", ",,", "gfx942:what=1"])
def test_configuration_that_makes_no_sense(value: str) -> None:
    source = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
out = ctypes.byref(ctypes.c_void_p())
print(lib.hipInit(0), lib.hipGetDeviceCount(out), lib.hipMalloc(out, ctypes.c_size_t(4)))
"""
    out, log = program(source, devices=value)
    assert {int(code) for code in out.split()} == {INVALID_VALUE}
    one_line(log, "AITER_PREBUILT_EMULATOR")
