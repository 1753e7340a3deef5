"""A kernel that waits, and processes: children, ends, signals, events that processes share."""

from __future__ import annotations

import ctypes
import os

from support.hip import (
    SUCCESS,
    call,
    code,
    dwords,
    handle,
    launch,
    upload,
    words,
)  # fmt: skip
from support.hip_peer import HipPeer
from support.waiting import (
    NON_BLOCKING,
    NOT_READY,
    Waiter,
    run,
    stream,
    waiter,
    waiting,
)

__all__ = ["stream", "waiter"]


def test_a_child_has_nothing_outstanding(waiter: Waiter, stream: ctypes.c_void_p) -> None:
    data, done = upload(dwords([0] * 64)), handle("hipEventCreate")
    waiter.start(stream)
    call("hipEventRecord", done, stream)
    child = os.fork()
    if child == 0:
        answer = 1
        try:
            ready = [
                code("hipStreamQuery", stream),
                code("hipEventQuery", done),
                code("hipDeviceSynchronize"),
            ]
            worked = launch(waiter.add, data, stream=stream) == SUCCESS and words(data, 1) == [1]
            ctypes.memset(waiter.flag, 0, 8)
            own = upload(dwords([0, 0]))
            left = (
                launch(waiter.kernel, own, stream=stream) == SUCCESS
                and code("hipStreamQuery", stream) == NOT_READY
            )
            ctypes.c_uint32.from_address(own.value or 0).value = 1
            left = left and code("hipStreamSynchronize", stream) == SUCCESS and words(own, 2) == [1, 1]
            answer = 0 if ready == [SUCCESS] * 3 and worked and left else 2
        finally:
            os._exit(answer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert code("hipStreamQuery", stream) == NOT_READY
    waiter.let_go()
    call("hipStreamSynchronize", stream)
    assert waiter.count == 1 and code("hipEventQuery", done) == SUCCESS
    call("hipEventDestroy", done)
    call("hipFree", data)


def test_a_process_ends_with_work_outstanding() -> None:
    status, log, seconds = run("sys.exit(5)")
    assert status == 5 and seconds < 20 and "Traceback" not in log, log


def test_a_signal_ends_a_wait_for_it_and_the_kernel() -> None:
    text = """
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
assert lib.hipStreamSynchronize(stream) == 719 and time.monotonic() - start < 4 and len(seen) == 1
assert lib.hipStreamQuery(stream) == lib.hipDeviceSynchronize() == 0
print("ended")
"""
    status, log, _ = run(text)
    assert status == 0 and "ended" in log, log


def test_a_signal_that_nobody_waits_with_leaves_it_alone() -> None:
    """A server that stops its kernel by a store."""
    text = """
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
for _ in range(3):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)
assert len(seen) == 3 and lib.hipStreamQuery(stream) == 600
ctypes.c_uint32.from_address(flag.value).value = 1
assert lib.hipStreamSynchronize(stream) == 0
print("ended")
"""
    status, log, _ = run(text)
    assert status == 0 and "ended" in log, log


def test_the_limit_counts_a_wait_only_while_somebody_waits_for_it() -> None:
    text = """
time.sleep(2)
assert lib.hipStreamQuery(stream) == 600
assert lib.hipStreamSynchronize(stream) == 702
"""
    status, log, _ = run(text, AITER_PREBUILT_EMULATOR_LIMIT="20000000")
    assert status == 0 and "instruction limit" in log, log


def test_events_of_another_process() -> None:
    """Recorded behind a kernel that waits, shared before or after: not past for the other process before it is here."""
    flags = 2 | 4  # hipEventDisableTiming, hipEventInterprocess
    with HipPeer() as owner, HipPeer() as guest:
        function_ = owner.ask("load", waiting().hex())
        memory = owner.memory(bytes(64))
        early, late = (owner.ask("make", "hipEventCreateWithFlags", flags)[1] for _ in range(2))
        opened = guest.ask(
            "open", "hipIpcOpenEventHandle", owner.ask("handle", "hipIpcGetEventHandle", early)[1]
        )
        assert opened[0] == SUCCESS and guest.ask("call", "hipEventQuery", [opened[1]]) == SUCCESS
        assert owner.ask("start", function_, 1, 64, memory.to_bytes(8, "little").hex()) == SUCCESS
        for one in (early, late):
            assert owner.ask("call", "hipEventRecord", [one], [0]) == SUCCESS
        events = [opened[1]]
        events.append(
            guest.ask("open", "hipIpcOpenEventHandle", owner.ask("handle", "hipIpcGetEventHandle", late)[1])[
                1
            ]
        )
        assert [guest.ask("call", "hipEventQuery", [one]) for one in events] == [NOT_READY] * 2
        target = guest.memory(bytes(64))
        for one in events:
            assert guest.ask("call", "hipStreamWaitEvent", [0], [one], 0) == SUCCESS
        assert guest.ask("call", "hipMemsetAsync", [target], 1, [4], [0]) == SUCCESS
        assert guest.ask("call", "hipStreamQuery", [0]) == NOT_READY
        stream = owner.ask("make", "hipStreamCreateWithFlags", NON_BLOCKING)[1]
        assert owner.ask("call", "hipMemsetD32Async", [memory], 1, [1], [stream]) == SUCCESS
        for one in events:
            assert guest.ask("call", "hipEventSynchronize", [one]) == SUCCESS
            assert guest.ask("call", "hipEventQuery", [one]) == SUCCESS
        assert guest.read(target, 4) == bytes([1] * 4)


def test_a_process_that_is_gone_passes_its_events() -> None:
    with HipPeer() as owner, HipPeer() as guest:
        function_, memory = owner.ask("load", waiting().hex()), owner.memory(bytes(64))
        event = owner.ask("make", "hipEventCreateWithFlags", 6)[1]
        opened = guest.ask(
            "open", "hipIpcOpenEventHandle", owner.ask("handle", "hipIpcGetEventHandle", event)[1]
        )[1]
        owner.ask("start", function_, 1, 64, memory.to_bytes(8, "little").hex())
        owner.ask("call", "hipEventRecord", [event], [0])
        assert guest.ask("call", "hipEventQuery", [opened]) == NOT_READY
        owner.end()
        assert guest.ask("call", "hipEventSynchronize", [opened]) == SUCCESS


def test_a_stream_of_another_device_waits_for_an_event() -> None:
    text = """
event, other, memory = (ctypes.c_void_p() for _ in range(3))
assert lib.hipEventCreate(ctypes.byref(event)) == lib.hipEventRecord(event, stream) == 0
assert lib.hipSetDevice(1) == lib.hipStreamCreateWithFlags(ctypes.byref(other), 1) == 0
assert lib.hipHostMalloc(ctypes.byref(memory), ctypes.c_size_t(4), 0) == 0
ctypes.memset(memory, 0, 4)
assert lib.hipStreamWaitEvent(other, event, 0) == lib.hipMemsetAsync(memory, 1, ctypes.c_size_t(4), other) == 0
assert lib.hipStreamQuery(other) == 600 and lib.hipStreamQuery(None) == 0 and ctypes.string_at(memory, 1) == bytes(1)
ctypes.c_uint32.from_address(flag.value).value = 1
assert lib.hipDeviceSynchronize() == 0 and ctypes.string_at(memory, 1) == b"\\1"
print("ended")
"""
    status, log, _ = run(text, AITER_PREBUILT_EMULATOR="gfx942,gfx950")
    assert status == 0 and "ended" in log, log
