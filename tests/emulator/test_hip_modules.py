"""The C API of the embedded device: modules, functions, launches, registration."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.assembly import code_object
from support.emulator import library
from support.hip import (
    ADD_ONE,
    FROM_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    TO_DEVICE,
    Dim3,
    call,
    code,
    dwords,
    function,
    handle,
    launch,
    number,
    pointers,
    size,
    upload,
    words,
)  # fmt: skip
from support.linked import bundle, kernel_source, link, metadata


@pytest.fixture
def buffer() -> Iterator[ctypes.c_void_p]:
    """4096 bytes of device memory, zeros."""
    out = upload(bytes(4096))
    yield out
    code("hipFree", out)


# --- modules and functions ----------------------------------------------------------------------------------

#: data[item] = a + b: a 4-byte value, an 8-byte one of which the low half counts; hidden arguments behind them.
_TWO_VALUES = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dword s6, s[0:1], 0x8
  s_load_dword s7, s[0:1], 0x10
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  s_add_u32 s6, s6, s7
  v_mov_b32_e32 v2, s6
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""
_ARGUMENTS = [
    (0, 8, "global_buffer"),
    (8, 4, "by_value"),
    (16, 8, "by_value"),
    (24, 4, "hidden_block_count_x"),
]


def two_values() -> bytes:
    descriptor = [
        "next_free_vgpr 32", "next_free_sgpr 48", "accum_offset 16", "user_sgpr_kernarg_segment_ptr 1",
        "system_sgpr_workgroup_id_x 1", "system_vgpr_workitem_id 0", "group_segment_fixed_size 1024",
    ]  # fmt: skip
    variable = ".data\n.globl table\n.type table,@object\n.size table,16\ntable:\n.long 1, 2, 3, 4\n"
    note = metadata(_ARGUMENTS).replace(".group_segment_fixed_size: 0", ".group_segment_fixed_size: 1024")
    return link("gfx942", kernel_source(_TWO_VALUES, descriptor=descriptor) + variable + note)


def test_both_forms_of_arguments(buffer: ctypes.c_void_p) -> None:
    rng = random.SystemRandom()
    module, kernel = function(two_values())
    a, b = ctypes.c_uint32(rng.getrandbits(31)), ctypes.c_uint64(rng.getrandbits(31))
    address = ctypes.c_void_p(buffer.value)
    call("hipModuleLaunchKernel", kernel, 1, 1, 1, 64, 1, 1, 0, None, pointers(address, a, b), None)
    assert words(buffer, 64) == [a.value + b.value] * 64
    block = ctypes.create_string_buffer(
        (buffer.value or 0).to_bytes(8, "little") + bytes([5, 0, 0, 0]) + bytes(4) + bytes([9]) + bytes(7)
    )
    length = ctypes.c_size_t(24)
    extra = (ctypes.c_void_p * 5)(2, ctypes.addressof(length), 1, ctypes.addressof(block), 3)  # any order
    call("hipModuleLaunchKernel", kernel, 1, 1, 1, 64, 1, 1, 0, None, None, extra)
    assert words(buffer, 64) == [14] * 64
    assert (
        code("hipModuleLaunchKernel", kernel, 1, 1, 1, 64, 1, 1, 0, None, pointers(address, a, b), extra)
        == INVALID_VALUE
    )
    call("hipModuleUnload", module)


class LaunchConfig(ctypes.Structure):
    """`HIP_LAUNCH_CONFIG`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("lds", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    )  # fmt: skip


@pytest.mark.parametrize("form", ["drv", "cooperative", "library"])
def test_other_launches(form: str, buffer: ctypes.c_void_p) -> None:
    module, kernel = function(code_object("gfx942", ADD_ONE))
    address = ctypes.c_void_p(buffer.value)
    if form == "drv":
        attribute = (ctypes.c_uint * 18)(2, 0, 1)  # id 2: cooperative
        config = LaunchConfig((2, 1, 1), (64, 1, 1), 0, None, ctypes.addressof(attribute), 1)
        call("hipDrvLaunchKernelEx", ctypes.byref(config), kernel, pointers(address), None)
        attribute[0] = 99
        assert (
            code("hipDrvLaunchKernelEx", ctypes.byref(config), kernel, pointers(address), None)
            == NOT_SUPPORTED
        )
    elif form == "cooperative":
        call("hipModuleLaunchCooperativeKernel", kernel, 2, 1, 1, 64, 1, 1, 0, None, pointers(address))
        # 128 registers: 4 waves on each of 4 SIMDs of 304 units.
        too_many = 4 * 4 * 304 + 1
        assert (
            code(
                "hipModuleLaunchCooperativeKernel",
                kernel,
                too_many,
                1,
                1,
                64,
                1,
                1,
                0,
                None,
                pointers(address),
            )
            == 720
        )
    else:
        loaded = ctypes.c_void_p()
        call(
            "hipLibraryLoadData",
            ctypes.byref(loaded),
            code_object("gfx942", ADD_ONE),
            None,
            None,
            0,
            None,
            None,
            0,
        )
        assert number("hipLibraryGetKernelCount", loaded, kind=ctypes.c_uint) == 1
        other, name = handle("hipLibraryGetKernel", loaded, b"kernel"), ctypes.c_char_p()
        call("hipKernelGetName", ctypes.byref(name), other)
        assert name.value == b"kernel"
        assert launch(other, address, grid=2) == SUCCESS
        call("hipLibraryUnload", loaded)
        assert launch(other, address) == 98
    assert words(buffer, 129) == [1] * 128 + [0]
    call("hipModuleUnload", module)


def test_modules_and_what_is_in_them() -> None:
    module, kernel = function(two_values())
    assert handle("hipModuleGetFunction", module, b"kernel").value == kernel.value
    out, length = ctypes.c_void_p(), ctypes.c_size_t()
    assert code("hipModuleGetFunction", ctypes.byref(out), module, b"no_such") == NOT_FOUND
    assert code("hipModuleGetFunction", ctypes.byref(out), ctypes.c_void_p(0x88), b"kernel") == INVALID_HANDLE
    call("hipModuleGetGlobal", ctypes.byref(out), ctypes.byref(length), module, b"table")
    assert length.value == 16 and words(out, 4) == [1, 2, 3, 4]
    assert code("hipModuleGetGlobal", ctypes.byref(out), None, module, b"no_such") == NOT_FOUND
    assert number("hipModuleGetFunctionCount", module, kind=ctypes.c_uint) == 1
    call("hipModuleUnload", module)
    assert (
        code("hipModuleUnload", module)
        == code("hipModuleGetFunction", ctypes.byref(out), module, b"kernel")
        == INVALID_HANDLE
    )
    assert code("hipFuncGetAttribute", ctypes.byref(ctypes.c_int()), 0, kernel) == 98


def test_module_from_a_file_and_from_a_bundle(tmp_path: Path, buffer: ctypes.c_void_p) -> None:
    image = bundle([
        ("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx950", code_object("gfx950", ADD_ONE)),
        ("hipv4-amdgcn-amd-amdhsa--gfx942", code_object("gfx942", ADD_ONE)),
    ])  # fmt: skip
    (tmp_path / "a.hipfb").write_bytes(image)
    for module in (
        handle("hipModuleLoad", str(tmp_path / "a.hipfb").encode()),
        handle("hipModuleLoadDataEx", image, 0, None, None),
    ):
        assert launch(handle("hipModuleGetFunction", module, b"kernel"), buffer) == SUCCESS
        call("hipModuleUnload", module)
    assert words(buffer, 64) == [2] * 64
    out = ctypes.c_void_p()
    assert code("hipModuleLoad", ctypes.byref(out), str(tmp_path / "none").encode()) == 301
    assert (
        code(
            "hipModuleLoadData",
            ctypes.byref(out),
            bundle([("hipv4-amdgcn-amd-amdhsa--gfx950", code_object("gfx950", ADD_ONE))]),
        )
        == 209
    )


def test_function_attributes_and_occupancy() -> None:
    module, kernel = function(two_values())
    got = [number("hipFuncGetAttribute", which, kernel) for which in (0, 1, 3, 8)]
    assert got == [1024, 1024, 0, 65536 - 1024]
    assert number("hipFuncGetAttribute", 4, kernel) > 0
    assert code("hipFuncGetAttribute", ctypes.byref(ctypes.c_int()), 77, kernel) == INVALID_VALUE
    call("hipFuncSetAttribute", kernel, 8, 4096)
    assert number("hipFuncGetAttribute", 8, kernel) == 4096
    assert code("hipFuncSetAttribute", kernel, 8, 65536) == INVALID_VALUE
    structure = (ctypes.c_uint64 * 8)()
    call("hipFuncGetAttributes", structure, kernel)
    assert (
        structure[6] == 1024 and structure[3] == 1024 << 32 | 4096
    )  # static LDS; largest block and dynamic LDS
    blocks = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
    # 32 registers: 8 waves on each of 4 SIMDs; 1 KiB static LDS; at most 16 groups with a barrier.
    assert [number(blocks, kernel, block, size(0)) for block in (64, 128, 1024)] == [32, 16, 2]
    assert [number(blocks, kernel, 64, size(lds)) for lds in (1024, 31 * 1024, 64 * 1024)] == [32, 2, 0]
    grid, best = ctypes.c_int(), ctypes.c_int()
    call(
        "hipModuleOccupancyMaxPotentialBlockSize", ctypes.byref(grid), ctypes.byref(best), kernel, size(0), 0
    )
    assert best.value == 1024 and grid.value == 2 * 304
    assert code(blocks, ctypes.byref(best), kernel, 0, size(0)) == INVALID_VALUE
    call("hipModuleUnload", module)


class FatBinary(ctypes.Structure):
    """What the compiler puts around a bundle."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("binary", ctypes.c_void_p),
        ("unused", ctypes.c_void_p),
    )


def test_registered_kernels_and_variables(buffer: ctypes.c_void_p) -> None:
    """What hipcc's startup code does; host stubs are any addresses."""
    lib = library()
    getattr(lib, "__hipRegisterFatBinary").restype = ctypes.c_void_p
    lib.hipLaunchKernel.argtypes = (
        ctypes.c_void_p,
        Dim3,
        Dim3,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    image = ctypes.create_string_buffer(bundle([("hipv4-amdgcn-amd-amdhsa--gfx942", two_values())]))
    wrapper = FatBinary(0x48495046, 1, ctypes.addressof(image), None)
    stub, host_table = ctypes.create_string_buffer(8), ctypes.create_string_buffer(16)
    binary = ctypes.c_void_p(getattr(lib, "__hipRegisterFatBinary")(ctypes.byref(wrapper)))
    getattr(lib, "__hipRegisterFunction")(binary, stub, None, b"kernel", -1, None, None, None, None, None)
    getattr(lib, "__hipRegisterVar")(binary, host_table, None, b"table", 0, size(16), 0, 0)
    address, a, b = ctypes.c_void_p(buffer.value), ctypes.c_uint32(3), ctypes.c_uint64(4)
    stub_address = ctypes.c_void_p(ctypes.addressof(stub))
    call(
        "hipLaunchKernel", stub_address, Dim3(1, 1, 1), Dim3(64, 1, 1), pointers(address, a, b), size(0), None
    )
    assert words(buffer, 64) == [7] * 64
    assert words(handle("hipGetSymbolAddress", host_table), 4) == [1, 2, 3, 4]
    assert number("hipGetSymbolSize", host_table, kind=ctypes.c_size_t) == 16
    call("hipMemcpyToSymbol", host_table, dwords([8, 9]), size(8), size(4), TO_DEVICE)
    back = ctypes.create_string_buffer(16)
    call("hipMemcpyFromSymbol", back, host_table, size(16), size(0), FROM_DEVICE)
    assert back.raw == dwords([1, 8, 9, 4])
    assert code("hipMemcpyToSymbol", host_table, back, size(16), size(4), TO_DEVICE) == INVALID_VALUE
    assert code("hipGetSymbolAddress", ctypes.byref(address), stub) == 13
    assert code("hipGetFuncBySymbol", ctypes.byref(address), host_table) == 98
    getattr(lib, "__hipUnregisterFatBinary")(binary)
    assert code("hipLaunchKernel", stub_address, Dim3(1, 1, 1), Dim3(64, 1, 1), None, size(0), None) == 98


def test_call_configurations_are_a_stack() -> None:
    lib = library()
    push, pop = getattr(lib, "__hipPushCallConfiguration"), getattr(lib, "__hipPopCallConfiguration")
    push.argtypes = (Dim3, Dim3, ctypes.c_size_t, ctypes.c_void_p)
    grid, block, lds, stream = Dim3(), Dim3(), ctypes.c_size_t(), ctypes.c_void_p()
    out = [ctypes.byref(value) for value in (grid, block, lds, stream)]
    for turn in (1, 2):
        assert push(Dim3(turn, 2, 3), Dim3(64, 1, turn), 100 * turn, None) == SUCCESS
    for turn in (2, 1):
        assert pop(*out) == SUCCESS
        assert (grid.x, grid.y, grid.z, block.x, block.z, lds.value) == (turn, 2, 3, 64, turn, 100 * turn)
    assert pop(*out) == 52
