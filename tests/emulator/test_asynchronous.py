"""Kernels that wait for what the host does later: their calls return, queries say so, and they end."""

from __future__ import annotations

import ctypes

import pytest
from support.assembly import code_object
from support.hip import (
    SUCCESS,
    TO_DEVICE,
    call,
    code,
    dwords,
    function,
    handle,
    launch,
    size,
    upload,
    words,
)  # fmt: skip
from support.waiting import (
    FAULT,
    ILLEGAL_ADDRESS,
    NON_BLOCKING,
    NOT_READY,
    Waiter,
    run,
    stream,
    waiter,
    waiting,
)

__all__ = ["stream", "waiter"]

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@pytest.mark.parametrize("blocks", [1, 40])
def test_a_later_store_of_the_host(waiter: Waiter, stream: ctypes.c_void_p, blocks: int) -> None:
    done = handle("hipEventCreate")
    waiter.start(stream, blocks)
    call("hipEventRecord", done, stream)
    assert code("hipStreamQuery", stream) == code("hipEventQuery", done) == NOT_READY
    assert waiter.count == 0
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert waiter.count == blocks
    assert code("hipStreamQuery", stream) == code("hipEventQuery", done) == SUCCESS
    call("hipEventDestroy", done)


@pytest.mark.parametrize("pause", ["s_sleep 1", "v_add_u32_e32 v9, 1, v9", "s_memtime s[8:9]", "s_barrier"])
def test_however_it_waits(waiter: Waiter, stream: ctypes.c_void_p, pause: str) -> None:
    module, kernel = function(waiting(pause))
    assert launch(kernel, waiter.flag, stream=stream) == SUCCESS
    assert code("hipStreamQuery", stream) == NOT_READY
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert waiter.count == 1
    call("hipModuleUnload", module)


def test_a_kernel_that_stores_while_it_waits() -> None:
    """A heartbeat: nobody can tell from outside that it waits, but it has run for long."""
    text = """
ctypes.c_uint32.from_address(flag.value).value = 1
assert lib.hipStreamSynchronize(stream) == 0
assert ctypes.c_uint32.from_address(flag.value + 8).value != 0
print("ended")
"""
    beat = "v_add_u32_e32 v9, 1, v9\nglobal_store_dword v3, v9, s[4:5] offset:8"
    status, log, _ = run(text, beat, AITER_PREBUILT_EMULATOR_PATIENCE="1")
    assert status == 0 and "ended" in log, log


def test_launches_that_block_when_hip_is_told_so() -> None:
    """HIP_LAUNCH_BLOCKING: the call itself ends with the instruction limit."""
    status, log, _ = run("", HIP_LAUNCH_BLOCKING="1", AITER_PREBUILT_EMULATOR_LIMIT="20000000")
    assert status == 1 and "hipModuleLaunchKernel: hipErrorLaunchTimeOut" in log, log


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "pageable"])
def test_a_later_copy_on_another_stream(waiter: Waiter, stream: ctypes.c_void_p, pinned: bool) -> None:
    """Device memory that hipMemcpyAsync writes."""
    other, flag = handle("hipStreamCreateWithFlags", NON_BLOCKING), upload(dwords([0, 0]))
    one = handle("hipHostMalloc", size(4), 0) if pinned else ctypes.create_string_buffer(4)
    ctypes.memmove(one, dwords([1]), 4)
    assert launch(waiter.kernel, flag, stream=stream) == SUCCESS
    assert code("hipStreamQuery", stream) == NOT_READY
    call("hipMemcpyAsync", flag, one, size(4), TO_DEVICE, other)
    call("hipStreamSynchronize", stream)
    assert words(flag, 2) == [1, 1]
    call("hipFree", flag)
    call("hipStreamDestroy", other)


def test_memory_that_is_allocated_while_it_waits(stream: ctypes.c_void_p) -> None:
    """A mailbox: the host stores an address there, of memory that was not when the kernel began."""
    text = """
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      v_mov_b32_e32 v3, 0
      v_mov_b32_e32 v4, 42
      s_waitcnt lgkmcnt(0)
    wait:
      global_load_dwordx2 v[6:7], v3, s[4:5] sc0 sc1
      s_waitcnt vmcnt(0)
      v_cmp_eq_u64_e32 vcc, 0, v[6:7]
      s_cbranch_vccnz wait
      global_store_dword v[6:7], v4, off
      s_endpgm
    """
    module, kernel = function(code_object("gfx942", text))
    box = handle("hipHostMalloc", size(256), 0)
    ctypes.memset(box, 0, 256)
    assert launch(kernel, box, stream=stream) == SUCCESS
    assert code("hipStreamQuery", stream) == NOT_READY
    later = upload(dwords([0]))
    ctypes.c_uint64.from_address(box.value or 0).value = later.value or 0
    call("hipStreamSynchronize", stream)
    assert words(later, 1) == [42]
    call("hipModuleUnload", module)
    call("hipFree", later)
    call("hipHostFree", box)


def test_a_stream_is_destroyed_with_work_on_it(waiter: Waiter) -> None:
    gone = handle("hipStreamCreate")
    waiter.start(gone)
    call("hipStreamDestroy", gone)
    waiter.let_go()
    call("hipDeviceSynchronize")
    assert waiter.count == 1


def test_a_fault_arrives_later_and_stays_until_a_reset(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    module, kernel = function(waiting(then=FAULT))
    data, seen = upload(dwords([0] * 64)), []
    back = CALLBACK(lambda _stream, status, _data: seen.append(status))
    assert launch(kernel, waiter.flag, stream=stream) == SUCCESS
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    call("hipStreamAddCallback", stream, back, None, 0)
    waiter.let_go()
    assert code("hipStreamSynchronize", stream) == ILLEGAL_ADDRESS
    assert launch(waiter.add, data, stream=stream) == ILLEGAL_ADDRESS
    call("hipDeviceReset")
    assert seen == [ILLEGAL_ADDRESS] and words(data, 1) == [0]
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    call("hipFree", data)
    call("hipModuleUnload", module)


def test_a_reset_ends_what_waits(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    data = upload(dwords([0] * 64))
    waiter.start(stream)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    call("hipDeviceReset")
    assert code("hipStreamSynchronize", stream) == SUCCESS
    assert (waiter.count, words(data, 1)) == (0, [0])
    call("hipFree", data)
