"""Memory and events that processes share: what both sides see, and what stays when one of them is done."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.hip import ADD_ONE, INVALID_CONFIGURATION, INVALID_HANDLE, INVALID_VALUE, SUCCESS
from support.hip_peer import HipPeer
from support.hip_process import program
from support.linked import PLAIN, kernel_source, link, metadata

INVALID_DEVICE_POINTER = 17
INVALID_CONTEXT = 201
ILLEGAL_ADDRESS = 700
DISABLE_TIMING, INTERPROCESS = 2, 4
#: hipPointer_attribute.
RANGE_START, RANGE_SIZE, DEVICE_ORDINAL, MEMORY_TYPE, IPC_CAPABLE = 11, 12, 9, 2, 10


def image(body: str, arguments: int = 1, target: str = "gfx942") -> bytes:
    rows = [(8 * i, 8, "global_buffer") for i in range(arguments)]
    return link(target, kernel_source(body, descriptor=PLAIN) + metadata(rows))


@pytest.fixture
def owner() -> Iterator[HipPeer]:
    with HipPeer() as peer:
        yield peer


@pytest.fixture
def guest() -> Iterator[HipPeer]:
    with HipPeer() as peer:
        yield peer


def address_of(*values: int) -> str:
    return b"".join(value.to_bytes(8, "little") for value in values).hex()


# --- what is shared ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 100, 4096, 10_004, 3 << 20])
def test_both_sides_see_the_same_bytes(owner: HipPeer, guest: HipPeer, size: int) -> None:
    before = random.randbytes(size)
    own = owner.memory(before)
    neighbour = owner.memory(before)
    there = guest.map(owner.export(own))
    assert guest.read(there, size) == owner.read(own, size) == before
    assert guest.ask("span", there + size - 1) == [SUCCESS, there, size]
    for writer, reader, to, other in ((guest, owner, there, own), (owner, guest, own, there)):
        after = random.randbytes(size)
        assert writer.ask("write", to, after.hex()) == SUCCESS
        assert reader.read(other, size) == after
    assert owner.read(neighbour, size) == before


def test_kernels_of_both_sides_work_on_it(owner: HipPeer, guest: HipPeer) -> None:
    count = 64 * 9
    own = owner.memory(bytes(4 * count))
    there = guest.map(owner.export(own))
    kernel = image(ADD_ONE).hex()
    for peer, address in ((owner, own), (guest, there), (owner, own)):
        function = peer.ask("load", kernel)
        assert peer.ask("launch", function, 9, 64, address_of(address))[0] == SUCCESS
    assert owner.read(own, 4 * count) == guest.read(there, 4 * count) == (3).to_bytes(4, "little") * count


def test_what_was_never_written_costs_no_memory(owner: HipPeer, guest: HipPeer) -> None:
    status, own = owner.ask("make", "hipMalloc", 4 << 30)
    assert status == SUCCESS and owner.ask("write", own + (3 << 30), b"last".hex()) == SUCCESS
    there = guest.map(owner.export(own))
    assert guest.read(there + (3 << 30), 4) == b"last" and guest.read(there, 4) == bytes(4)


def test_an_address_inside_names_itself(owner: HipPeer, guest: HipPeer) -> None:
    own = owner.memory(bytes(range(200)) * 50)
    inside = guest.map(owner.export(own + 4099))
    base = guest.map(owner.export(own))
    assert inside == base + 4099 and guest.read(inside, 100) == (bytes(range(200)) * 50)[4099:4199]


def test_what_the_interface_says_of_it(guest: HipPeer) -> None:
    with HipPeer("gfx942,gfx950") as owner:
        assert owner.ask("call", "hipSetDevice", 1) == SUCCESS
        for flags in range(4):
            status, own = owner.ask("make", "hipExtMallocWithFlags", 8192, flags)
            assert status == SUCCESS and owner.ask("attribute", IPC_CAPABLE, own) == [SUCCESS, 1]
            there = guest.map(owner.export(own))
            assert owner.ask("attribute", DEVICE_ORDINAL, own) == [SUCCESS, 1]
            for which, value in (
                (RANGE_START, there), (RANGE_SIZE, 8192), (DEVICE_ORDINAL, 0), (MEMORY_TYPE, 2), (IPC_CAPABLE, 0),
            ):  # fmt: skip
                assert guest.ask("attribute", which, there + 17) == [SUCCESS, value]


def test_it_belongs_to_the_device_that_opened_it(owner: HipPeer) -> None:
    handle = owner.export(owner.memory(bytes(8192)))
    with HipPeer("gfx942,gfx942") as guest:
        there = guest.map(handle)
        functions = []
        for device in range(2):
            assert guest.ask("call", "hipSetDevice", device) == SUCCESS
            functions.append(guest.ask("load", image(ADD_ONE).hex()))
        assert guest.map(handle) != there
        assert guest.ask("call", "hipDeviceEnablePeerAccess", 0, 0) == SUCCESS
        assert guest.ask("launch", functions[1], 1, 64, address_of(there))[0] == SUCCESS
        assert guest.ask("call", "hipDeviceDisablePeerAccess", 0) == SUCCESS
        assert guest.ask("launch", functions[1], 1, 64, address_of(there))[0] == ILLEGAL_ADDRESS
        assert "another process's memory" in guest.log() and "peer access is not enabled" in guest.log()


def test_it_counts_as_nothing_used(owner: HipPeer) -> None:
    handle = owner.export(owner.memory(bytes(1 << 20)))
    with HipPeer("gfx942:memory=1M") as guest:
        first = guest.map(handle)
        assert guest.ask("make", "hipMalloc", 1 << 20)[0] == SUCCESS
        assert guest.read(first, 4096) == bytes(4096)


# --- opened again, closed, freed -----------------------------------------------------------------------------


def test_opened_twice_it_is_closed_twice(owner: HipPeer, guest: HipPeer) -> None:
    own = owner.memory(b"once" * 2048)
    there = guest.map(owner.export(own))
    assert guest.map(owner.export(own)) == there
    function = guest.ask("load", image(ADD_ONE).hex())
    assert guest.ask("call", "hipFree", [there]) == INVALID_VALUE
    assert guest.ask("call", "hipIpcCloseMemHandle", [there]) == SUCCESS
    assert guest.ask("launch", function, 1, 64, address_of(there))[0] == SUCCESS
    assert guest.ask("call", "hipIpcCloseMemHandle", [there + 4]) == SUCCESS
    for address in (there, own, 0):
        expected = INVALID_HANDLE if address else INVALID_VALUE
        assert guest.ask("call", "hipIpcCloseMemHandle", [address]) == expected
    assert guest.ask("launch", function, 1, 64, address_of(there))[0] == ILLEGAL_ADDRESS
    assert "another process's memory" in guest.log() and ", closed" in guest.log()
    assert owner.read(own, 4) != b"once"


def test_closed_memory_is_private_when_it_is_used_again(owner: HipPeer) -> None:
    own = owner.memory(b"mine" * 4096)
    handle = owner.export(own)
    with HipPeer("gfx942:memory=1M") as guest:
        there = guest.map(handle)
        assert guest.ask("call", "hipIpcCloseMemHandle", [there]) == SUCCESS
        for _ in range(200):
            status, address = guest.ask("make", "hipMalloc", 16384)
            assert status == SUCCESS and guest.read(address, 16384) == bytes(16384)
            assert guest.ask("write", address, bytes([255] * 16384).hex()) == SUCCESS
            assert guest.ask("call", "hipFree", [address]) == SUCCESS
            if address == there:
                break
        else:
            raise AssertionError("the address was never used again")
    assert owner.read(own, 16384) == b"mine" * 4096


def test_freed_by_its_owner_it_stays_for_the_guest(guest: HipPeer) -> None:
    with HipPeer("gfx942:memory=1M") as owner:
        own = owner.memory(b"kept" * 4096)
        handle = owner.export(own)
        there = guest.map(handle)
        assert owner.ask("call", "hipFree", [own]) == SUCCESS
        assert guest.read(there, 16384) == b"kept" * 4096
        for _ in range(200):
            status, address = owner.ask("make", "hipMalloc", 16384)
            assert status == SUCCESS and owner.read(address, 16384) == bytes(16384)
            assert owner.ask("write", address, bytes([1] * 16384).hex()) == SUCCESS
            if address == own:
                break
            assert owner.ask("call", "hipFree", [address]) == SUCCESS
        else:
            raise AssertionError("the address was never used again")
        assert guest.read(there, 16384) == b"kept" * 4096
        assert guest.open(handle) == (INVALID_DEVICE_POINTER, 0)
        assert "hipErrorInvalidDevicePointer (17): the handle cannot be opened: " in guest.log()
        other = guest.map(owner.export(own))
        assert guest.read(other, 16384) == bytes([1] * 16384)


def test_an_owner_that_is_gone(guest: HipPeer) -> None:
    with HipPeer() as owner:
        opened, late = (owner.export(owner.memory(b"left" * 25)) for _ in range(2))
        there = guest.map(opened)
    assert guest.read(there, 100) == b"left" * 25
    assert guest.open(late) == (INVALID_DEVICE_POINTER, 0)
    assert "must run" in guest.log()


# --- forks ---------------------------------------------------------------------------------------------------

#: A child has its own copy of what was not shared, and the same of what was; it may free both.
_FORK = r"""
import ctypes, os, sys
lib = ctypes.CDLL(sys.argv[1])
class Handle(ctypes.Structure):
    _fields_ = (("raw", ctypes.c_char * 64),)
def memory():
    pointer = ctypes.c_void_p()
    assert lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(8192)) == 0
    return pointer
def fill(pointer, byte):
    assert lib.hipMemset(pointer, byte, ctypes.c_size_t(8192)) == 0
def has(pointer, byte):
    data = ctypes.create_string_buffer(8192)
    assert lib.hipMemcpy(data, pointer, ctypes.c_size_t(8192), 2) == 0
    assert set(data.raw) == {byte}, set(data.raw)
private, shared, handle, there = memory(), memory(), Handle(), ctypes.c_void_p()
fill(private, 1)
fill(shared, 2)
assert lib.hipIpcGetMemHandle(ctypes.byref(handle), shared) == 0
child = os.fork()
if child == 0:
    status = 1
    try:
        has(private, 1)
        has(shared, 2)
        assert lib.hipIpcOpenMemHandle(ctypes.byref(there), handle, 1) == 0
        has(there, 2)
        fill(private, 3)
        fill(there, 4)
        has(shared, 4)
        assert lib.hipFree(shared) == 0
        has(there, 4)
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
has(private, 1)
has(shared, 4)
for descriptor in range(3, 256):  # what a daemon does
    try:
        os.close(descriptor)
    except OSError:
        pass
assert lib.hipIpcGetMemHandle(ctypes.byref(handle), shared) == 2
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
assert lib.hipFree(shared) == 0
for descriptor in files:
    os.fstat(descriptor)
"""


def test_a_forked_child_has_its_own_of_what_is_not_shared() -> None:
    program(_FORK)


# --- events --------------------------------------------------------------------------------------------------


def test_events_of_another_process(owner: HipPeer, guest: HipPeer) -> None:
    def create(flags: int) -> list[int]:
        made: list[int] = owner.ask("make", "hipEventCreateWithFlags", flags)
        return made

    assert create(INTERPROCESS)[0] == INVALID_VALUE
    plain, event = create(DISABLE_TIMING)[1], create(INTERPROCESS | DISABLE_TIMING)[1]
    assert owner.ask("handle", "hipIpcGetEventHandle", plain)[0] == INVALID_CONFIGURATION
    status, handle = owner.ask("handle", "hipIpcGetEventHandle", event)
    assert status == SUCCESS and owner.ask("call", "hipEventRecord", [event], [0]) == SUCCESS
    status, there = guest.ask("open", "hipIpcOpenEventHandle", handle)
    assert status == SUCCESS
    assert guest.ask("call", "hipStreamWaitEvent", [0], [there], 0) == SUCCESS
    for name in ("hipEventQuery", "hipEventSynchronize", "hipEventDestroy"):
        assert guest.ask("call", name, [there]) == SUCCESS
    assert owner.ask("open", "hipIpcOpenEventHandle", handle)[0] == INVALID_CONTEXT
    memory = owner.export(owner.memory(bytes(64)))
    assert guest.ask("open", "hipIpcOpenEventHandle", memory)[0] == INVALID_VALUE
    assert guest.open(handle)[0] == INVALID_VALUE
    assert owner.ask("call", "hipEventDestroy", [event]) == SUCCESS
    assert guest.ask("open", "hipIpcOpenEventHandle", handle)[0] == INVALID_VALUE
