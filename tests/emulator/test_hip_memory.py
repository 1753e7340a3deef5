"""The C API of the embedded device: memory, pools, copies, fills."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Iterator

import pytest
from support.hip import (
    DEFAULT,
    FROM_DEVICE,
    INVALID_VALUE,
    NOT_FOUND,
    ON_DEVICE,
    OUT_OF_MEMORY,
    TO_DEVICE,
    call,
    code,
    download,
    dwords,
    handle,
    offset,
    size,
    upload,
    words,
)  # fmt: skip


@pytest.fixture
def rng() -> random.Random:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def buffer() -> Iterator[ctypes.c_void_p]:
    """4096 bytes of device memory, zeros."""
    out = upload(bytes(4096))
    yield out
    code("hipFree", out)


# --- memory -------------------------------------------------------------------------------------------------


def test_allocation_and_free(buffer: ctypes.c_void_p) -> None:
    assert (buffer.value or 1) % 256 == 0
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    before, large = free.value, handle("hipMalloc", size(1 << 20))
    call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    assert before - free.value >= 1 << 20 and total.value >= before
    call("hipFree", large)
    assert code("hipFree", large) == INVALID_VALUE
    assert code("hipFree", offset(buffer, 256)) == INVALID_VALUE
    out = ctypes.c_void_p(1)
    assert code("hipMalloc", ctypes.byref(out), size(1 << 60)) == OUT_OF_MEMORY and not out.value
    call("hipMalloc", ctypes.byref(out), size(0))
    assert not out.value
    call("hipFree", None)


#: Kind of memory: hipMemoryType.
UNREGISTERED, HOST, DEVICE, MANAGED = 0, 1, 2, 3


class PointerAttributes(ctypes.Structure):
    """`hipPointerAttribute_t`."""

    _fields_ = (
        ("type", ctypes.c_int), ("device", ctypes.c_int), ("device_pointer", ctypes.c_void_p), ("host_pointer", ctypes.c_void_p),
        ("managed", ctypes.c_int), ("flags", ctypes.c_uint),
    )  # fmt: skip


def test_what_a_pointer_is() -> None:
    own = ctypes.create_string_buffer(64)
    registered = ctypes.c_void_p(ctypes.addressof(own))
    kinds = {
        DEVICE: handle("hipMalloc", size(64)), HOST: handle("hipHostMalloc", size(64), 0),
        MANAGED: handle("hipMallocManaged", size(64), 1),
    }  # fmt: skip
    out = PointerAttributes()
    for kind, address in kinds.items():
        call("hipPointerGetAttributes", ctypes.byref(out), offset(address, 16))
        assert (out.type, out.device, out.managed) == (kind, 0, int(kind == MANAGED))
        assert out.device_pointer == offset(address, 16).value
        assert (out.host_pointer is None) == (kind == DEVICE)
        base, length = ctypes.c_void_p(), ctypes.c_size_t()
        call("hipMemGetAddressRange", ctypes.byref(base), ctypes.byref(length), offset(address, 63))
        assert (base.value, length.value) == (address.value, 64)
    call("hipPointerGetAttributes", ctypes.byref(out), registered)
    assert out.type == UNREGISTERED
    assert code("hipPointerGetAttribute", ctypes.byref(ctypes.c_void_p()), 3, registered) == INVALID_VALUE
    call("hipHostRegister", registered, size(64), 0)
    assert code("hipHostRegister", registered, size(8), 0) == 712
    call("hipPointerGetAttributes", ctypes.byref(out), registered)
    assert out.type == HOST
    assert handle("hipHostGetDevicePointer", registered, 0).value == registered.value
    call("hipHostUnregister", registered)
    assert code("hipHostUnregister", registered) == 713
    assert code("hipFree", kinds[HOST]) == code("hipHostFree", kinds[DEVICE]) == INVALID_VALUE
    for kind, address in kinds.items():
        call("hipHostFree" if kind == HOST else "hipFree", address)
    assert code("hipMemGetAddressRange", None, None, kinds[DEVICE]) == NOT_FOUND


def test_only_memory_that_can_be_written_is_registered() -> None:
    """A kernel's access to anything else would end the process."""
    page, none, readable, writable = 4096, 0, 1, 3
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    private_anonymous = 0x22
    pages = libc.mmap(None, size(2 * page), writable, private_anonymous, -1, size(0))
    first, second = ctypes.c_void_p(pages), ctypes.c_void_p(pages + page)
    for protection in (none, readable):
        assert libc.mprotect(second, size(page), protection) == 0
        assert code("hipHostRegister", second, size(8), 0) == INVALID_VALUE
        assert code("hipHostRegister", first, size(page + 1), 0) == INVALID_VALUE
    call("hipHostRegister", first, size(page), 0)
    call("hipHostUnregister", first)
    assert libc.munmap(first, size(2 * page)) == 0
    assert code("hipHostRegister", first, size(8), 0) == INVALID_VALUE


def test_pools() -> None:
    pool, made = handle("hipDeviceGetDefaultMemPool", 0), ctypes.c_void_p()
    used, used_current, used_high = ctypes.c_uint64(), 7, 8
    call("hipMemPoolGetAttribute", pool, used_current, ctypes.byref(used))
    before = used.value
    first, second = handle("hipMallocAsync", size(1000), None), handle("hipMallocAsync", size(24), None)
    call("hipMemPoolGetAttribute", pool, used_current, ctypes.byref(used))
    assert used.value - before == 1024
    call("hipFreeAsync", first, None)
    call("hipFree", second)
    call("hipMemPoolGetAttribute", pool, used_current, ctypes.byref(used))
    assert used.value == before
    call("hipMemPoolGetAttribute", pool, used_high, ctypes.byref(used))
    assert used.value >= before + 1024
    assert code("hipFreeAsync", first, None) == INVALID_VALUE
    wanted = (ctypes.c_uint64 * 11)(1, 1, 0, 4096)  # pinned, not shared; on device 0; at most 4096 bytes
    call("hipMemPoolCreate", ctypes.byref(made), wanted)
    inside = handle("hipMallocFromPoolAsync", size(4096), made, None)
    assert (
        code("hipMallocFromPoolAsync", ctypes.byref(ctypes.c_void_p()), size(1), made, None) == OUT_OF_MEMORY
    )
    call("hipDeviceSetMemPool", 0, made)
    call("hipMemPoolTrimTo", made, size(0))
    call("hipMemPoolDestroy", made)
    assert handle("hipDeviceGetMemPool", 0).value == pool.value
    assert code("hipMemPoolDestroy", pool) == code("hipMemPoolDestroy", made) == INVALID_VALUE
    call("hipFreeAsync", inside, None)


def test_allocation_from_many_threads() -> None:
    def work() -> None:
        for turn in range(50):
            one = upload(dwords([turn] * 16))
            assert words(one, 16) == [turn] * 16
            call("hipFree", one)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


# --- copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hipMemcpy", "hipMemcpyAsync", "hipMemcpyWithStream", "hipMemcpy_spt"])
@pytest.mark.parametrize("default", [False, True])
def test_copies_in_every_direction(
    name: str, default: bool, rng: random.Random, buffer: ctypes.c_void_p
) -> None:
    data, back, second = (
        rng.randbytes(4096),
        ctypes.create_string_buffer(4096),
        handle("hipMalloc", size(4096)),
    )
    tail = (None,) if name.endswith(("Async", "Stream")) else ()
    for to, source, kind in (
        (buffer, data, TO_DEVICE),
        (second, buffer, ON_DEVICE),
        (back, second, FROM_DEVICE),
    ):
        call(name, to, source, size(4096), DEFAULT if default else kind, *tail)
    assert back.raw == data
    call("hipFree", second)


def test_rows_with_pitches(rng: random.Random, buffer: ctypes.c_void_p) -> None:
    height, width = rng.randrange(1, 9), rng.randrange(1, 60)
    source_pitch, pitch = width + rng.randrange(9), width + rng.randrange(9)
    source = rng.randbytes(height * source_pitch)
    call("hipMemcpy2D", buffer, size(pitch), source, size(source_pitch), size(width), size(height), TO_DEVICE)
    got = download(buffer, 4096)
    expected = bytearray(4096)
    for row in range(height):
        expected[row * pitch : row * pitch + width] = source[row * source_pitch : row * source_pitch + width]
    assert got == bytes(expected)
    if height > 1:
        narrow = (size(width - 1), source, size(source_pitch), size(width), size(height), TO_DEVICE)
        assert code("hipMemcpy2D", buffer, *narrow) == 12
    rows, out = handle_pitch(width, height)
    assert out >= width and out % 256 == 0
    call("hipMemcpy2D", rows, size(out), source, size(source_pitch), size(width), size(height), DEFAULT)
    assert download(rows, width) == source[:width]
    call("hipFree", rows)


def handle_pitch(width: int, height: int) -> tuple[ctypes.c_void_p, int]:
    rows, pitch = ctypes.c_void_p(), ctypes.c_size_t()
    call("hipMallocPitch", ctypes.byref(rows), ctypes.byref(pitch), size(width), size(height))
    return rows, pitch.value


def test_box(rng: random.Random, buffer: ctypes.c_void_p) -> None:
    """hipMemcpy3DParms: array, position, {pointer, pitch, width, height} of source and destination, extent, direction."""
    source, base = rng.randbytes(4 * 5 * 16), ctypes.create_string_buffer(320)
    base.raw = source
    sizes = [ctypes.addressof(base), 16, 16, 5]
    params = (ctypes.c_uint64 * 20)(
        0, 2, 1, 0, *sizes, 0, 0, 0, 0, buffer.value or 0, 8, 8, 3, 8, 3, 4, TO_DEVICE,
    )  # fmt: skip
    call("hipMemcpy3D", params)
    expected = b"".join(source[z * 80 + (y + 1) * 16 + 2 :][:8] for z in range(4) for y in range(3))
    assert download(buffer, 96) == expected


@pytest.mark.parametrize("count", [4097, 1 << 40, (1 << 64) - 1])
def test_copies_past_the_end(count: int, buffer: ctypes.c_void_p) -> None:
    other = handle("hipMalloc", size(4096))
    assert code("hipMemcpy", buffer, other, size(count), ON_DEVICE) == INVALID_VALUE
    assert code("hipMemset", buffer, 0, size(count)) == INVALID_VALUE
    assert code("hipMemcpy", offset(buffer, 4000), other, size(97), ON_DEVICE) == INVALID_VALUE
    call("hipMemcpy", offset(buffer, 4000), other, size(96), ON_DEVICE)
    call("hipFree", other)


def test_copies_from_and_to_nowhere(buffer: ctypes.c_void_p) -> None:
    """Null, unmapped, freed, and host memory where the direction says device: all are answers."""
    freed = upload(bytes(64))
    call("hipFree", freed)
    host = ctypes.create_string_buffer(64)
    for bad in (None, ctypes.c_void_p(0x10), ctypes.c_void_p((1 << 47) - 4096), freed):
        assert code("hipMemcpy", buffer, bad, size(64), ON_DEVICE) == INVALID_VALUE
        assert code("hipMemcpy", bad, buffer, size(64), ON_DEVICE) == INVALID_VALUE
        if bad is not freed:
            assert code("hipMemcpy", bad, buffer, size(64), FROM_DEVICE) == INVALID_VALUE
            assert code("hipMemcpy", buffer, bad, size(64), TO_DEVICE) == INVALID_VALUE
    assert code("hipMemcpy", host, buffer, size(64), TO_DEVICE) == INVALID_VALUE
    assert code("hipMemcpy", buffer, host, size(64), FROM_DEVICE) == INVALID_VALUE
    assert code("hipMemcpy", buffer, host, size(64), 5) == 21
    call("hipMemcpy", None, None, size(0), DEFAULT)


def test_fills(rng: random.Random, buffer: ctypes.c_void_p) -> None:
    value = rng.getrandbits(32)
    call("hipMemsetD32", buffer, ctypes.c_int(value - (1 << 32) if value >> 31 else value), size(8))
    call("hipMemsetD16Async", offset(buffer, 32), ctypes.c_ushort(value & 0xFFFF), size(8), None)
    call("hipMemsetD8", offset(buffer, 48), ctypes.c_ubyte(value & 0xFF), size(8))
    call("hipMemset", offset(buffer, 56), value & 0xFF, size(4))
    call("hipMemset2D", offset(buffer, 64), size(16), 0xAB, size(3), size(4))
    call("hipMemsetD2D32", offset(buffer, 256), size(32), ctypes.c_uint(value), size(2), size(2))
    raw, pair = download(buffer, 512), value.to_bytes(4, "little")
    assert (
        raw[:32] == pair * 8
        and raw[32:48] == pair[:2] * 8
        and raw[48:60] == pair[:1] * 12
        and raw[60:64] == bytes(4)
    )
    assert raw[64:128] == (b"\xab" * 3 + bytes(13)) * 4
    assert raw[256:320] == (pair * 2 + bytes(24)) * 2
