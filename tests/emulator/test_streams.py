"""Streams and events of the embedded device: order, handles, times."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.assembly import code_object
from support.hip import (
    ADD_ONE,
    DEFAULT,
    FROM_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    STREAM_LEGACY,
    STREAM_PER_THREAD,
    SUCCESS,
    TO_DEVICE,
    call,
    code,
    dwords,
    function,
    handle,
    launch,
    number,
    size,
    upload,
    words,
)  # fmt: skip

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NON_BLOCKING = 1
DISABLE_TIMING = 2


@pytest.fixture
def stream() -> Iterator[ctypes.c_void_p]:
    out = handle("hipStreamCreate")
    yield out
    code("hipStreamDestroy", out)


@pytest.fixture
def kernel() -> Iterator[ctypes.c_void_p]:
    module, out = function(code_object("gfx942", ADD_ONE))
    yield out
    call("hipModuleUnload", module)


def event(flags: int = 0) -> ctypes.c_void_p:
    return handle("hipEventCreateWithFlags", flags)


def test_what_a_stream_says_of_itself() -> None:
    plain, other = handle("hipStreamCreate"), handle("hipStreamCreateWithPriority", NON_BLOCKING, -1)
    flags, priority, device, first, second = (
        ctypes.c_uint(), ctypes.c_int(), ctypes.c_int(-1), ctypes.c_ulonglong(), ctypes.c_ulonglong(),
    )  # fmt: skip
    call("hipStreamGetFlags", other, ctypes.byref(flags))
    call("hipStreamGetPriority", other, ctypes.byref(priority))
    call("hipStreamGetDevice", other, ctypes.byref(device))
    assert (flags.value, priority.value, device.value) == (NON_BLOCKING, -1, 0)
    call("hipStreamGetFlags", plain, ctypes.byref(flags))
    call("hipStreamGetPriority", plain, ctypes.byref(priority))
    assert (flags.value, priority.value) == (0, 0)
    call("hipStreamGetId", plain, ctypes.byref(first))
    call("hipStreamGetId", other, ctypes.byref(second))
    assert first.value != second.value
    for one in (plain, other):
        call("hipStreamDestroy", one)


def test_priority_is_clamped_to_the_range() -> None:
    least, greatest, got = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    call("hipDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    assert greatest.value < least.value
    for asked, expected in ((-100, greatest.value), (100, least.value)):
        one = handle("hipStreamCreateWithPriority", 0, asked)
        call("hipStreamGetPriority", one, ctypes.byref(got))
        assert got.value == expected
        call("hipStreamDestroy", one)


@pytest.mark.parametrize("name", ["hipStreamSynchronize", "hipStreamQuery", "hipStreamDestroy"])
def test_no_stream(name: str, stream: ctypes.c_void_p) -> None:
    """Any pointer, readable or not, and a stream that is gone."""
    thing = ctypes.create_string_buffer(4096)
    assert code(name, ctypes.c_void_p(ctypes.addressof(thing))) == INVALID_HANDLE
    assert code(name, ctypes.c_void_p(0xDEAD0000)) == INVALID_HANDLE
    call("hipStreamDestroy", stream)
    assert code(name, stream) == INVALID_HANDLE


def test_default_streams_cannot_be_destroyed() -> None:
    for one in (None, STREAM_LEGACY, STREAM_PER_THREAD):
        assert code("hipStreamDestroy", one) == INVALID_HANDLE


def test_flags_are_checked() -> None:
    out = ctypes.c_void_p()
    assert code("hipStreamCreateWithFlags", ctypes.byref(out), 2) == INVALID_VALUE
    assert code("hipStreamCreate", None) == INVALID_VALUE
    assert code("hipEventCreateWithFlags", ctypes.byref(out), 0x100) == INVALID_VALUE


@pytest.mark.parametrize("which", [None, STREAM_LEGACY, STREAM_PER_THREAD, "created"])
def test_work_happens_in_the_order_of_the_calls(
    which: Any, kernel: ctypes.c_void_p, stream: ctypes.c_void_p
) -> None:
    """Copy, kernel, host function that looks at the result, kernel, copy back."""
    on = stream if which == "created" else which
    data = upload(dwords([0] * 64))
    start, middle, end = dwords(range(64)), ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
    seen: list[bytes] = []
    look = HOST_FUNCTION(lambda _: seen.append(middle.raw))
    call("hipMemcpyAsync", data, start, size(256), TO_DEVICE, on)
    assert launch(kernel, data, stream=on) == SUCCESS
    call("hipMemcpyAsync", middle, data, size(256), FROM_DEVICE, on)
    call("hipLaunchHostFunc", on, look, None)
    assert launch(kernel, data, stream=on) == SUCCESS
    call("hipMemcpyAsync", end, data, size(256), DEFAULT, on)
    call("hipStreamSynchronize", on)
    assert seen == [dwords(range(1, 65))]
    assert end.raw == dwords(range(2, 66))
    call("hipFree", data)


def test_callback_gets_stream_status_and_data(stream: ctypes.c_void_p) -> None:
    got: list[tuple[int | None, int, int | None]] = []
    back = CALLBACK(lambda s, status, data: got.append((s, status, data)))
    call("hipStreamAddCallback", stream, back, ctypes.c_void_p(77), 0)
    call("hipStreamSynchronize", stream)
    assert got == [(stream.value, SUCCESS, 77)]
    assert code("hipStreamAddCallback", stream, back, None, 1) == INVALID_VALUE
    assert code("hipStreamAddCallback", stream, None, None, 0) == INVALID_VALUE
    assert code("hipLaunchHostFunc", stream, None, None) == INVALID_VALUE


def test_host_function_may_use_its_own_stream(stream: ctypes.c_void_p) -> None:
    data = upload(b"\0" * 16)
    codes: list[int] = []
    inner = HOST_FUNCTION(lambda _: codes.append(code("hipMemsetAsync", data, 7, size(16), stream)))
    call("hipLaunchHostFunc", stream, inner, None)
    assert codes == [SUCCESS] and words(data, 1) == [0x07070707]
    call("hipFree", data)


def test_times_between_events(stream: ctypes.c_void_p) -> None:
    """A lower bound only: sleeping takes at least its time."""
    first, last, milliseconds = event(), event(), ctypes.c_float(-1)
    nap = HOST_FUNCTION(lambda _: time.sleep(0.02))
    call("hipEventRecord", first, stream)
    call("hipLaunchHostFunc", stream, nap, None)
    call("hipEventRecord", last, stream)
    call("hipEventSynchronize", last)
    assert code("hipEventQuery", last) == SUCCESS
    call("hipEventElapsedTime", ctypes.byref(milliseconds), first, last)
    assert milliseconds.value >= 20
    call("hipEventElapsedTime", ctypes.byref(milliseconds), last, first)
    assert milliseconds.value <= -20
    call("hipEventElapsedTime", ctypes.byref(milliseconds), first, first)
    assert milliseconds.value == 0
    for one in (first, last):
        call("hipEventDestroy", one)
        assert code("hipEventDestroy", one) == INVALID_HANDLE
        assert code("hipEventRecord", one, stream) == INVALID_HANDLE


def test_events_without_a_time(stream: ctypes.c_void_p) -> None:
    never, untimed, good, out = event(), event(DISABLE_TIMING), event(), ctypes.c_float()
    call("hipEventRecord", untimed, stream)
    call("hipEventRecord", good, stream)
    assert code("hipEventElapsedTime", ctypes.byref(out), never, good) == INVALID_HANDLE
    assert code("hipEventElapsedTime", ctypes.byref(out), good, untimed) == INVALID_HANDLE
    assert code("hipEventElapsedTime", None, good, good) == INVALID_VALUE
    assert code("hipEventQuery", never) == SUCCESS
    for one in (never, untimed, good):
        call("hipEventDestroy", one)


def test_one_stream_waits_for_another(kernel: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    other, done, data = handle("hipStreamCreate"), event(), upload(dwords([5] * 64))
    assert launch(kernel, data, stream=stream) == SUCCESS
    call("hipEventRecord", done, stream)
    call("hipStreamWaitEvent", other, done, 0)
    assert launch(kernel, data, stream=other) == SUCCESS
    call("hipDeviceSynchronize")
    assert words(data, 64) == [7] * 64
    assert code("hipStreamWaitEvent", other, ctypes.c_void_p(123), 0) == INVALID_HANDLE
    assert code("hipStreamWaitEvent", other, done, 4) == INVALID_VALUE
    call("hipEventDestroy", done)
    call("hipStreamDestroy", other)
    call("hipFree", data)


def test_compute_unit_mask_reads_back() -> None:
    mask = (ctypes.c_uint32 * 2)(0x0F0F0F0F, 0x1)
    one = handle("hipExtStreamCreateWithCUMask", 2, mask)
    back = (ctypes.c_uint32 * 10)()
    call("hipExtStreamGetCUMask", one, 10, back)
    assert list(back) == [0x0F0F0F0F, 0x1] + [0] * 8
    call("hipStreamDestroy", one)
    assert code("hipExtStreamCreateWithCUMask", ctypes.byref(one), 0, None) == INVALID_VALUE


def test_streams_of_many_threads(kernel: ctypes.c_void_p) -> None:
    """Each thread has a stream, memory and its own hipStreamPerThread; all launch at once."""
    results: list[list[int]] = []
    ids: set[int] = set()

    def work() -> None:
        own, data, id_ = handle("hipStreamCreate"), upload(dwords([0] * 64)), ctypes.c_ulonglong()
        for turn in range(20):
            assert launch(kernel, data, stream=own if turn % 2 else STREAM_PER_THREAD) == SUCCESS
        call("hipStreamGetId", STREAM_PER_THREAD, ctypes.byref(id_))
        ids.add(id_.value)
        results.append(words(data, 64))
        call("hipStreamDestroy", own)
        call("hipFree", data)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert results == [[20] * 64] * 4
    assert len(ids) == 4


def test_events_around_a_launch(kernel: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    """hipExtModuleLaunchKernel: the grid in work items, a partial last workgroup, times of start and end."""
    first, last, out, data = event(), event(), ctypes.c_float(-1), upload(dwords([1] * 192))
    pointer = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    call(
        "hipExtModuleLaunchKernel", kernel, 150, 1, 1, 64, 1, 1, size(0), stream, pointer, None, first, last, 0,
    )  # fmt: skip
    call("hipEventElapsedTime", ctypes.byref(out), first, last)
    assert out.value > 0
    assert words(data, 192) == [2] * 150 + [1] * 42
    assert number("hipGetDevice") == 0
    for one in (first, last):
        call("hipEventDestroy", one)
    call("hipFree", data)
