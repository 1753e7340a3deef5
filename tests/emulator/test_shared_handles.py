"""Handles of memory of other processes: what none is given for, and what no handle makes the device believe."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator

import pytest
from support.hip import INVALID_VALUE, SUCCESS
from support.hip_peer import HipPeer

INVALID_DEVICE_POINTER = 17
INVALID_CONTEXT = 201


@pytest.fixture
def owner() -> Iterator[HipPeer]:
    with HipPeer() as peer:
        yield peer


@pytest.fixture
def guest() -> Iterator[HipPeer]:
    with HipPeer() as peer:
        yield peer


def test_what_cannot_be_shared(owner: HipPeer, guest: HipPeer) -> None:
    freed = owner.memory(bytes(64))
    assert owner.ask("call", "hipFree", [freed]) == SUCCESS
    host = owner.ask("make", "hipHostMalloc", 64, 0)[1]
    pool = owner.ask("make", "hipMallocAsync", 64, 0)[1]
    managed = owner.ask("make", "hipMallocManaged", 64, 1)[1]
    foreign = owner.map(guest.export(guest.memory(bytes(64))))
    for address in (freed, host, pool, managed, foreign, 4096):
        assert owner.ask("handle", "hipIpcGetMemHandle", address)[0] == INVALID_DEVICE_POINTER
    assert owner.ask("handle", "hipIpcGetMemHandle", 0)[0] == INVALID_VALUE


def test_what_cannot_be_opened(owner: HipPeer, guest: HipPeer) -> None:
    handle = owner.export(owner.memory(bytes(64)))
    assert owner.open(handle) == (INVALID_CONTEXT, 0)
    for flags in (0, 2, 3):
        assert guest.open(handle, flags) == (INVALID_VALUE, 0)
    for text in (bytes(64), bytes([255] * 64), random.randbytes(64)):
        assert guest.open(text.hex()) == (INVALID_VALUE, 0)


def test_every_byte_of_a_handle_counts(owner: HipPeer, guest: HipPeer) -> None:
    handle = bytes.fromhex(owner.export(owner.memory(bytes(8192))))
    for at in range(64):
        damaged = bytearray(handle)
        damaged[at] ^= 1 << random.randrange(8)
        assert guest.open(damaged.hex()) == (INVALID_VALUE, 0)
    assert guest.map(handle.hex())


def forged(handle: str, **fields: int | bytes) -> str:
    """The handle with other fields and a checksum that fits."""
    names = ("mark", "process", "descriptor", "key", "bytes", "offset", "unused")
    values = dict(zip(names, struct.unpack("<Qii16sQQQ", bytes.fromhex(handle)[:56]), strict=True)) | fields
    data = struct.pack("<Qii16sQQQ", *(values[name] for name in names))
    check = 0xCBF29CE484222325
    for byte in data:
        check = (check ^ byte) * 0x100000001B3 % 2**64
    return (data + struct.pack("<Q", check)).hex()


def test_a_forged_handle_is_believed_nothing(owner: HipPeer, guest: HipPeer) -> None:
    handle = owner.export(owner.memory(bytes(8192)))
    assert forged(handle) == handle
    lies: list[dict[str, int | bytes]] = [
        {"key": random.randbytes(16)}, {"process": 1}, {"process": os.getpid()}, {"process": 2**31 - 1}, {"process": 0},
        {"process": -1},
        {"bytes": 8193}, {"bytes": 4096}, {"bytes": 0}, {"bytes": 2**63}, {"bytes": 2**64 - 1}, {"bytes": 2**46},
        {"offset": 8192}, {"offset": 2**64 - 1}, {"descriptor": -1}, {"descriptor": 2**31 - 1},
        {"descriptor": 0}, {"descriptor": 1}, {"descriptor": 2},  # two pipes and a file
    ]  # fmt: skip
    for lie in lies:
        status, address = guest.open(forged(handle, **lie))
        assert status in (INVALID_VALUE, INVALID_DEVICE_POINTER) and address == 0, lie
    assert guest.map(handle)


#: F_SEAL_SEAL, SHRINK, GROW, WRITE.
_SEALS = {"none": 0, "may shrink": 1 | 4, "may grow": 1 | 2, "cannot be written": 1 | 2 | 4 | 8}


@pytest.mark.parametrize("seals", _SEALS.values(), ids=_SEALS)
def test_a_file_that_could_shrink_is_not_mapped(owner: HipPeer, guest: HipPeer, seals: int) -> None:
    """Right in name and size: an access behind its end would be a signal."""
    handle = owner.export(owner.memory(bytes(8192)))
    key = bytes.fromhex(handle)[16:32]
    first, second = struct.unpack("<QQ", key)
    name = f"aiter-prebuilt-memory-{first:016x}{second:016x}"
    descriptor = owner.ask("file", name, 8192, seals)
    assert guest.open(forged(handle, descriptor=descriptor)) == (INVALID_DEVICE_POINTER, 0)
    other = owner.ask("file", "another name", 8192, 1 | 2 | 4)
    assert guest.open(forged(handle, descriptor=other)) == (INVALID_DEVICE_POINTER, 0)
    short = owner.ask("file", name, 4096, 1 | 2 | 4)
    assert guest.open(forged(handle, descriptor=short)) == (INVALID_DEVICE_POINTER, 0)
