"""Order around a kernel that waits: its stream, others, events, memory, graphs, captures."""

from __future__ import annotations

import ctypes
import threading
import time

from support.hip import (
    DEFAULT,
    FROM_DEVICE,
    STREAM_PER_THREAD,
    SUCCESS,
    call,
    code,
    dwords,
    handle,
    launch,
    size,
    upload,
    words,
)  # fmt: skip
from support.waiting import (
    NON_BLOCKING,
    NOT_READY,
    Waiter,
    stream,
    waiter,
    words_now,
)

__all__ = ["stream", "waiter"]

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def test_what_is_enqueued_behind_it_keeps_its_order(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    data, seen = upload(dwords([0] * 64)), []
    pinned = handle("hipHostMalloc", size(256), 0)
    look = HOST_FUNCTION(lambda _: seen.append((waiter.count, ctypes.string_at(pinned, 4))))
    back = CALLBACK(lambda _stream, status, data: seen.append((status, data)))
    waiter.start(stream)
    call("hipMemsetD32Async", data, 5, size(64), stream)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    call("hipMemcpyAsync", pinned, data, size(256), FROM_DEVICE, stream)
    call("hipLaunchHostFunc", stream, look, None)
    call("hipStreamAddCallback", stream, back, ctypes.c_void_p(7), 0)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    time.sleep(0.05)
    assert seen == []
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert seen == [(1, dwords([6])), (SUCCESS, 7)] and words(data, 64) == [7] * 64
    call("hipFree", data)
    call("hipHostFree", pinned)


def test_a_pageable_copy_and_a_synchronous_one_wait(waiter: Waiter) -> None:
    """They return when they are done, behind what their streams have."""
    blocking, data = handle("hipStreamCreate"), upload(dwords([0] * 64))
    for name, extra in (
        ("hipMemcpyAsync", (blocking,)),
        ("hipMemcpyWithStream", (blocking,)),
        ("hipMemcpy", ()),
    ):
        out = ctypes.create_string_buffer(256)
        ctypes.memset(waiter.flag, 0, 8)
        waiter.start(blocking)
        assert launch(waiter.add, data, stream=blocking) == SUCCESS
        before = words_now(data)
        threading.Timer(0.1, waiter.let_go).start()
        call(name, out, data, size(256), DEFAULT, *extra)
        assert out.raw[:4] == dwords([before + 1])
    call("hipFree", data)
    call("hipStreamDestroy", blocking)


def test_events_order_streams(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    """hipStreamWaitEvent waits for the record of its time, hipEventElapsedTime for both."""
    other, done, first = (
        handle("hipStreamCreateWithFlags", NON_BLOCKING),
        handle("hipEventCreate"),
        handle("hipEventCreate"),
    )
    data, out = upload(dwords([0] * 64)), ctypes.c_float(-1)
    call("hipEventRecord", first, stream)
    waiter.start(stream)
    call("hipEventRecord", done, stream)
    call("hipStreamWaitEvent", other, done, 0)
    assert launch(waiter.add, data, stream=other) == SUCCESS
    assert code("hipEventElapsedTime", ctypes.byref(out), first, done) == NOT_READY
    time.sleep(0.03)
    assert words_now(data) == 0 and code("hipStreamQuery", other) == NOT_READY
    call("hipEventRecord", done, STREAM_PER_THREAD)  # stands for something else now
    assert code("hipEventQuery", done) == SUCCESS and code("hipStreamQuery", other) == NOT_READY
    waiter.let_go()
    call("hipStreamSynchronize", other)
    assert words_now(data) == 1
    call("hipEventRecord", done, stream)
    call("hipEventSynchronize", done)
    call("hipEventElapsedTime", ctypes.byref(out), first, done)
    assert out.value >= 30
    call("hipFree", data)
    for one in (first, done):
        call("hipEventDestroy", one)
    call("hipStreamDestroy", other)


def test_the_legacy_stream_waits_for_blocking_streams_alone(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    blocking, data = handle("hipStreamCreate"), upload(dwords([0] * 64))
    waiter.start(blocking)
    assert launch(waiter.add, data, stream=None) == SUCCESS  # behind it
    assert launch(waiter.add, data, stream=STREAM_PER_THREAD) == SUCCESS  # behind that
    assert [code("hipStreamQuery", one) for one in (None, STREAM_PER_THREAD)] == [NOT_READY] * 2
    assert words_now(data) == 0
    assert launch(waiter.add, data, stream=stream) == SUCCESS  # beside them
    assert code("hipStreamQuery", stream) == SUCCESS and words_now(data) == 1
    waiter.let_go()
    call("hipStreamSynchronize", None)
    call("hipStreamSynchronize", STREAM_PER_THREAD)
    assert words(data, 64) == [3] * 64
    call("hipFree", data)
    call("hipStreamDestroy", blocking)


def test_memory_is_freed_in_the_stream_s_order(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    data = handle("hipMallocAsync", size(256), stream)
    waiter.start(stream)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    call("hipFreeAsync", data, stream)
    offset = ctypes.c_size_t()
    base = ctypes.c_void_p()
    assert code("hipMemGetAddressRange", ctypes.byref(base), ctypes.byref(offset), data) == SUCCESS
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert code("hipMemGetAddressRange", ctypes.byref(base), ctypes.byref(offset), data) != SUCCESS


def test_free_waits(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    data = upload(dwords([0] * 64))
    waiter.start(stream)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    threading.Timer(0.1, waiter.let_go).start()
    call("hipFree", data)
    assert waiter.count == 1
    assert code("hipStreamQuery", stream) == SUCCESS


def instantiated(stream: ctypes.c_void_p) -> ctypes.c_void_p:
    graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
    call("hipStreamEndCapture", stream, ctypes.byref(graph))
    call("hipGraphInstantiate", ctypes.byref(ready), graph, None, None, size(0))
    call("hipGraphDestroy", graph)
    return ready


def test_a_graph_goes_on_in_the_background(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    """Left at its second node, launched again behind that, and destroyed while it runs."""
    data = upload(dwords([0] * 64))
    call("hipStreamBeginCapture", stream, 0)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    waiter.start(stream)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    ready = instantiated(stream)
    for _ in range(2):
        call("hipGraphLaunch", ready, stream)
    call("hipGraphExecDestroy", ready)
    assert code("hipStreamQuery", stream) == NOT_READY and words_now(data) == 1
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert waiter.count == 2 and words(data, 64) == [4] * 64
    call("hipFree", data)


def test_branches_of_a_graph_run_side_by_side(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    """The one that was captured first waits for what the other one stores."""
    other, fork, join = (
        handle("hipStreamCreateWithFlags", NON_BLOCKING),
        handle("hipEventCreate"),
        handle("hipEventCreate"),
    )
    flag = upload(dwords([0, 0]))
    call("hipStreamBeginCapture", stream, 0)
    call("hipEventRecord", fork, stream)
    call("hipStreamWaitEvent", other, fork, 0)
    assert launch(waiter.kernel, flag, stream=stream) == SUCCESS
    call("hipMemsetD32Async", flag, 1, size(1), other)
    call("hipEventRecord", join, other)
    call("hipStreamWaitEvent", stream, join, 0)
    ready = instantiated(stream)
    call("hipGraphLaunch", ready, stream)
    call("hipStreamSynchronize", stream)
    assert words(flag, 2) == [1, 1]
    call("hipGraphExecDestroy", ready)
    call("hipFree", flag)
    for one in (fork, join):
        call("hipEventDestroy", one)
    call("hipStreamDestroy", other)


def test_a_capture_beside_it(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    """What is outstanding does not get into a capture, and a captured launch does not wait."""
    data = upload(dwords([0] * 64))
    waiter.start(stream)
    call("hipStreamBeginCapture", stream, 2)
    assert launch(waiter.add, data, stream=stream) == SUCCESS
    ready = instantiated(stream)
    call("hipGraphLaunch", ready, stream)
    assert words_now(data) == 0
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert words(data, 64) == [1] * 64
    call("hipGraphExecDestroy", ready)
    call("hipFree", data)
