"""Stream capture of the embedded device: what is recorded, what is refused, what breaks it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator

import pytest
from support.assembly import code_object
from support.hip import (
    ADD_ONE,
    CAPTURE_INVALIDATED,
    CAPTURE_UNSUPPORTED,
    DEFAULT,
    FROM_DEVICE,
    STREAM_PER_THREAD,
    SUCCESS,
    call,
    code,
    dwords,
    elsewhere,
    function,
    handle,
    launch,
    size,
    upload,
    words,
)  # fmt: skip
from support.hip_graphs import (
    ACTIVE,
    COPY_TYPE,
    GLOBAL,
    INVALIDATED,
    KERNEL_TYPE,
    NONE,
    RELAXED,
    SET_TYPE,
    THREAD_LOCAL,
    begin,
    end,
    end_code,
    nodes,
    run,
    state,
    types,
)

ILLEGAL_STATE, CAPTURE_MERGE, CAPTURE_UNMATCHED, CAPTURE_UNJOINED, CAPTURE_ISOLATION = 401, 902, 903, 904, 905
CAPTURE_IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = 906, 907, 908


@pytest.fixture
def stream() -> Iterator[ctypes.c_void_p]:
    out = handle("hipStreamCreateWithFlags", 1)
    yield out
    graph = ctypes.c_void_p()
    code("hipStreamEndCapture", out, ctypes.byref(graph))
    code("hipStreamDestroy", out)


@pytest.fixture
def other() -> Iterator[ctypes.c_void_p]:
    out = handle("hipStreamCreateWithFlags", 1)
    yield out
    code("hipStreamDestroy", out)


@pytest.fixture
def kernel() -> Iterator[ctypes.c_void_p]:
    module, out = function(code_object("gfx942", ADD_ONE))
    yield out
    call("hipModuleUnload", module)


@pytest.fixture
def data() -> Iterator[ctypes.c_void_p]:
    out = upload(dwords([10] * 64))
    yield out
    code("hipFree", out)


def test_capture_runs_nothing_and_replay_runs_all(
    kernel: ctypes.c_void_p, data: ctypes.c_void_p, stream: ctypes.c_void_p
) -> None:
    """The arguments are those of the call: the host's copies change before the graph runs."""
    elsewhere, out = upload(dwords([0] * 64)), ctypes.create_string_buffer(256)
    argument = ctypes.c_void_p(data.value)
    begin(stream)
    assert state(stream) == ACTIVE
    assert launch(kernel, argument, stream=stream) == SUCCESS
    assert launch(kernel, argument, stream=stream) == SUCCESS
    call("hipMemcpyAsync", out, data, size(256), FROM_DEVICE, stream)
    graph = end(stream)
    assert state(stream) == NONE
    argument.value = elsewhere.value
    assert words(data, 64) == [10] * 64 and out.raw == bytes(256)
    assert types(graph) == [KERNEL_TYPE, KERNEL_TYPE, COPY_TYPE]
    run(graph, 3)
    assert words(data, 64) == [16] * 64 and out.raw == dwords([16] * 64)
    assert words(elsewhere, 64) == [0] * 64
    call("hipGraphDestroy", graph)
    call("hipFree", elsewhere)


def test_fork_and_join(
    kernel: ctypes.c_void_p, data: ctypes.c_void_p, stream: ctypes.c_void_p, other: ctypes.c_void_p
) -> None:
    fork, join, second = handle("hipEventCreate"), handle("hipEventCreate"), upload(dwords([0] * 64))
    begin(stream)
    assert launch(kernel, data, stream=stream) == SUCCESS
    call("hipEventRecord", fork, stream)
    call("hipStreamWaitEvent", other, fork, 0)
    assert state(other) == ACTIVE
    call("hipMemcpyAsync", second, data, size(256), DEFAULT, other)
    assert launch(kernel, data, stream=stream) == SUCCESS
    call("hipEventRecord", join, other)
    call("hipStreamWaitEvent", stream, join, 0)
    call("hipMemsetAsync", data, 0, size(4), stream)
    graph = end(stream)
    assert state(other) == NONE
    assert types(graph) == [KERNEL_TYPE, COPY_TYPE, KERNEL_TYPE, SET_TYPE]
    first, copy, again, fill = (ctypes.c_void_p(node) for node in nodes(graph))
    assert (
        nodes(copy, "hipGraphNodeGetDependencies")
        == nodes(again, "hipGraphNodeGetDependencies")
        == [first.value]
    )
    assert sorted(nodes(fill, "hipGraphNodeGetDependencies")) == sorted([copy.value or 0, again.value or 0])
    assert nodes(graph, "hipGraphGetRootNodes") == [first.value]
    assert nodes(first, "hipGraphNodeGetDependentNodes") == [copy.value, again.value]
    assert code("hipEventQuery", fork) == CAPTURED_EVENT
    call("hipGraphDestroy", graph)
    for one in (fork, join):
        call("hipEventDestroy", one)
    call("hipFree", second)


def test_unjoined_stream(
    kernel: ctypes.c_void_p, data: ctypes.c_void_p, stream: ctypes.c_void_p, other: ctypes.c_void_p
) -> None:
    fork = handle("hipEventCreate")
    begin(stream)
    assert launch(kernel, data, stream=stream) == SUCCESS
    call("hipEventRecord", fork, stream)
    call("hipStreamWaitEvent", other, fork, 0)
    assert launch(kernel, data, stream=other) == SUCCESS
    assert end_code(stream) == CAPTURE_UNJOINED
    assert (state(stream), state(other)) == (NONE, NONE)
    call("hipEventDestroy", fork)


def test_ending_on_the_wrong_stream_or_thread(
    data: ctypes.c_void_p, stream: ctypes.c_void_p, other: ctypes.c_void_p
) -> None:
    assert end_code_of(other) == ILLEGAL_STATE
    begin(stream)
    assert code("hipStreamBeginCapture", stream, GLOBAL) == ILLEGAL_STATE
    assert elsewhere(lambda: end_code_of(stream)) == WRONG_THREAD
    fork = handle("hipEventCreate")
    call("hipEventRecord", fork, stream)
    call("hipStreamWaitEvent", other, fork, 0)
    assert end_code_of(other) == CAPTURE_UNMATCHED
    assert end_code(stream) == CAPTURE_INVALIDATED
    call("hipEventDestroy", fork)


def end_code_of(stream: ctypes.c_void_p) -> int:
    return code("hipStreamEndCapture", stream, ctypes.byref(ctypes.c_void_p()))


def test_relaxed_capture_may_end_on_another_thread(data: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    begin(stream, RELAXED)
    call("hipMemsetAsync", data, 1, size(256), stream)
    assert elsewhere(lambda: end_code_of(stream)) == SUCCESS


def _unsafe(image: bytes) -> dict[str, Callable[[], int]]:
    out, host = ctypes.c_void_p(), ctypes.create_string_buffer(16)
    return {
        "hipMalloc": lambda: code("hipMalloc", ctypes.byref(out), size(16)),
        "hipFree": lambda: code("hipFree", ctypes.c_void_p(1 << 20)),
        "hipHostMalloc": lambda: code("hipHostMalloc", ctypes.byref(out), size(16), 0),
        "hipModuleLoadData": lambda: code("hipModuleLoadData", ctypes.byref(out), image),
        "hipHostRegister": lambda: code("hipHostRegister", host, size(16), 0),
    }


@pytest.mark.parametrize(
    "name", ["hipMalloc", "hipFree", "hipHostMalloc", "hipModuleLoadData", "hipHostRegister"]
)
def test_unsafe_calls_break_a_global_capture(
    name: str, data: ctypes.c_void_p, stream: ctypes.c_void_p
) -> None:
    """From this thread and from any other, unless it has said that it knows (relaxed)."""
    unsafe = _unsafe(code_object("gfx942", ADD_ONE))[name]
    begin(stream, GLOBAL)
    mode = ctypes.c_int(RELAXED)
    call("hipThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    assert mode.value == GLOBAL
    assert unsafe() != CAPTURE_UNSUPPORTED and state(stream) == ACTIVE
    call("hipThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    assert mode.value == RELAXED
    assert elsewhere(unsafe) == CAPTURE_UNSUPPORTED and state(stream) == INVALIDATED
    assert code("hipMemsetAsync", data, 0, size(4), stream) == CAPTURE_INVALIDATED
    assert end_code(stream) == CAPTURE_INVALIDATED


def test_thread_local_capture_minds_its_own_thread(stream: ctypes.c_void_p) -> None:
    unsafe = _unsafe(b"")["hipMalloc"]
    begin(stream, THREAD_LOCAL)
    assert elsewhere(unsafe) == SUCCESS and state(stream) == ACTIVE
    assert unsafe() == CAPTURE_UNSUPPORTED and state(stream) == INVALIDATED
    assert end_code(stream) == CAPTURE_INVALIDATED


def test_waiting_for_a_capturing_stream(stream: ctypes.c_void_p) -> None:
    for name, arguments in (
        ("hipStreamSynchronize", (stream,)),
        ("hipStreamQuery", (stream,)),
        ("hipDeviceSynchronize", ()),
    ):
        begin(stream)
        assert code(name, *arguments) == CAPTURE_UNSUPPORTED, name
        assert end_code(stream) == CAPTURE_INVALIDATED


def test_legacy_stream_beside_a_blocking_capture(data: ctypes.c_void_p) -> None:
    """It would wait for the blocking stream. One that does not block leaves it alone."""
    blocking, free = handle("hipStreamCreate"), handle("hipStreamCreateWithFlags", 1)
    assert code("hipStreamBeginCapture", None, RELAXED) == CAPTURE_UNSUPPORTED
    begin(free, RELAXED)
    call("hipMemset", data, 0, size(256))
    assert state(None) == NONE  # type: ignore[arg-type]
    end(free)
    begin(blocking, RELAXED)
    assert code("hipStreamIsCapturing", None, ctypes.byref(ctypes.c_int())) == CAPTURE_IMPLICIT
    assert state(blocking) == ACTIVE
    assert code("hipMemset", data, 0, size(256)) == CAPTURE_IMPLICIT
    assert state(blocking) == INVALIDATED
    assert end_code(blocking) == CAPTURE_INVALIDATED
    for one in (blocking, free):
        call("hipStreamDestroy", one)


def test_events_from_outside_and_two_captures(stream: ctypes.c_void_p, other: ctypes.c_void_p) -> None:
    outside, inside = handle("hipEventCreate"), handle("hipEventCreate")
    call("hipEventRecord", outside, other)
    begin(stream)
    assert code("hipStreamWaitEvent", stream, outside, 0) == CAPTURE_ISOLATION
    assert end_code(stream) == CAPTURE_INVALIDATED
    begin(stream, RELAXED)
    begin(other, RELAXED)
    call("hipEventRecord", inside, stream)
    assert code("hipStreamWaitEvent", other, inside, 0) == CAPTURE_MERGE
    assert (end_code(stream), end_code(other)) == (CAPTURE_INVALIDATED, CAPTURE_INVALIDATED)
    for one in (outside, inside):
        call("hipEventDestroy", one)


def test_capture_info(data: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    status, id_, graph, list_, count = (
        ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_void_p(), ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t(),
    )  # fmt: skip
    begin(stream)
    call("hipMemsetAsync", data, 0, size(4), stream)
    everything = (
        ctypes.byref(status),
        ctypes.byref(id_),
        ctypes.byref(graph),
        ctypes.byref(list_),
        ctypes.byref(count),
    )
    call("hipStreamGetCaptureInfo_v2", stream, *everything)
    assert status.value == ACTIVE and id_.value > 0 and count.value == 1
    assert nodes(graph) == [list_[0]]
    assert end(stream).value == graph.value


def test_a_capture_ends_with_its_stream(data: ctypes.c_void_p) -> None:
    """Destroyed, or its thread has ended: nobody can end the capture, and nobody is in its way."""
    one = handle("hipStreamCreate")
    begin(one)
    call("hipMemsetAsync", data, 0, size(4), one)
    call("hipStreamDestroy", one)
    call("hipFree", handle("hipMalloc", size(4)))
    assert elsewhere(lambda: code("hipStreamBeginCapture", STREAM_PER_THREAD, GLOBAL)) == SUCCESS
    out = ctypes.c_void_p()
    for _ in range(1000):  # the thread itself ends a little after join() returns
        if code("hipMalloc", ctypes.byref(out), size(4)) == SUCCESS:
            break
        time.sleep(0.01)
    call("hipFree", out)
    assert out.value
