"""Scalar loads, stores and atomics: addresses, descriptors, bounds."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator

import pytest
from support.emulator import library
from support.one_wave import run_wave

both = pytest.mark.parametrize("target", ["gfx942", "gfx950"])


@pytest.fixture
def rng() -> random.Random:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def memory() -> Iterator[ctypes.c_void_p]:
    """256 bytes of device memory, freed afterwards."""
    lib = library()
    address = ctypes.c_void_p()
    assert lib.hipMalloc(ctypes.byref(address), ctypes.c_size_t(256)) == 0
    yield address
    lib.hipFree(address)


def fill(address: ctypes.c_void_p, words: list[int]) -> None:
    ctypes.memmove(address, (ctypes.c_uint32 * len(words))(*words), 4 * len(words))


def words_at(address: ctypes.c_void_p, count: int) -> list[int]:
    return list((ctypes.c_uint32 * count).from_address(address.value or 0))


@both
def test_scalar_loads(target: str, memory: ctypes.c_void_p, rng: random.Random) -> None:
    """s_load adds a register and a signed offset and drops the two low bits of the address."""
    values = [rng.getrandbits(32) for _ in range(64)]
    fill(memory, values)
    base = (memory.value or 0) + 64
    source = """
        s_load_dwordx4 s[4:7], s[0:1], 0x10
        s_load_dword s8, s[0:1], s2 offset:0x3
        s_load_dword s9, s[0:1], s2
        s_load_dwordx2 s[10:11], s[0:1], -0x10
        s_load_dwordx16 s[16:31], s[0:1], 0x0
        s_endpgm"""
    result = run_wave(target, source, scalar={0: base, 1: base >> 32, 2: 8})
    assert result.fault == 0, result.message
    assert result.scalar[4:8] == values[20:24] and result.scalar[8:10] == [values[18]] * 2
    assert result.scalar[10:12] == values[12:14] and result.scalar[16:32] == values[16:32]


@both
def test_scalar_buffer_bounds(target: str, memory: ctypes.c_void_p, rng: random.Random) -> None:
    """Dwords outside the descriptor's range read 0; with a stride the range is records times stride."""
    values = [rng.getrandbits(32) | 1 for _ in range(64)]
    fill(memory, values)
    base = memory.value or 0
    source = "s_buffer_load_dwordx4 s[8:11], s[0:3], 0x14\ns_buffer_load_dword s12, s[4:7], 0x1c\n"
    source += "s_buffer_load_dword s13, s[4:7], 0x20\ns_endpgm"
    high = base >> 32
    result = run_wave(
        target, source, scalar={0: base, 1: high, 2: 28, 3: 0, 4: base, 5: high | 8 << 16, 6: 4, 13: 5}
    )
    assert result.fault == 0, result.message
    assert result.scalar[8:14] == [*values[5:7], 0, 0, values[7], 0]


@both
def test_scalar_stores_and_atomics(target: str, memory: ctypes.c_void_p) -> None:
    """s_store writes dwords; s_atomic returns the old value with glc, and s_atomic_dec wraps as AMD says."""
    fill(memory, [10, 20, 0, 5, 7, 0])
    base = memory.value or 0
    source = """
        s_store_dwordx2 s[4:5], s[0:1], 0x0
        s_atomic_add s6, s[0:1], 0x0 glc
        s_atomic_dec s7, s[0:1], 0x8 glc
        s_atomic_inc s8, s[0:1], 0xc
        s_atomic_cmpswap_x2 s[12:15], s[0:1], 0x10 glc
        s_endpgm"""
    registers = {0: base, 1: base >> 32, 4: 111, 5: 222, 6: 9, 7: 33, 8: 5, 12: 1, 13: 2, 14: 7, 15: 0}
    result = run_wave(target, source, scalar=registers)
    assert result.fault == 0, result.message
    assert words_at(memory, 6) == [120, 222, 33, 0, 1, 2]
    assert (result.scalar[6], result.scalar[7], result.scalar[8], result.scalar[12:16]) == (
        111,
        0,
        5,
        [7, 0, 7, 0],
    )


def test_scalar_load_outside_memory(memory: ctypes.c_void_p) -> None:
    """A load past an allocation is an error with the address, the instruction and the allocation."""
    address = (memory.value or 0) + 248
    result = run_wave(
        "gfx942",
        "s_nop 0\ns_load_dwordx4 s[4:7], s[0:1], 0x0\ns_endpgm",
        scalar={0: address, 1: address >> 32},
    )
    assert result.fault == 2 and hex(address) in result.message and "s_load_dwordx4" in result.message
    assert "code+0x4" in result.message
    null = run_wave("gfx942", "s_load_dword s4, s[0:1], 0x0\ns_endpgm")
    assert null.fault == 2 and "0x0" in null.message


@both
def test_clocks_go_forward(target: str) -> None:
    """Both clocks are 64-bit counters that do not go back."""
    source = "s_memtime s[0:1]\ns_memrealtime s[2:3]\ns_memtime s[4:5]\ns_memrealtime s[6:7]\ns_endpgm"
    result = run_wave(target, source)
    assert 0 < result.pair(0) <= result.pair(4) and 0 < result.pair(2) <= result.pair(6)
