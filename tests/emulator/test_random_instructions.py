"""Any instruction that decodes, with any registers, ends or is a fault with words: it never takes the process with it."""

from __future__ import annotations

import os
import random

import pytest
from support.hip_process import program

SEED = int(os.environ.get("AITER_PREBUILT_TEST_SEED") or random.randrange(2**31))

#: argv: library, seed, count. Programs of random decodable instructions with random registers; some pointers are alive.
_PROGRAMS = r"""
import ctypes, random, sys
lib, rng, count = ctypes.CDLL(sys.argv[1]), random.Random(int(sys.argv[2])), int(sys.argv[3])
class State(ctypes.Structure):
    _fields_ = [("vector", ctypes.c_uint32 * (512 * 64)), ("scalar", ctypes.c_uint32 * 128), ("scc", ctypes.c_uint32),
                ("mode", ctypes.c_uint32), ("pc", ctypes.c_uint32), ("lds_bytes", ctypes.c_uint32), ("lds", ctypes.c_void_p)]
lib.apb_emulator_disassemble.restype = ctypes.c_void_p
lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
run = lib.apb_emulator_run_wave
run.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
data = ctypes.c_void_p()
assert lib.hipInit(0) == 0 and lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(65536)) == 0
first_bytes = [0xd1, 0xd2, 0xd3, 0xd8, 0xdc, 0xe0, 0xe8, 0xc0, 0xb0, 0x80, 0xbe, 0xbf, 0x7e, 0x7c, 0x00]
def instruction(target):
    while True:
        word = rng.getrandbits(32)
        if rng.random() < 0.9:
            word = rng.choice(first_bytes) << 24 | word & 0x03ffffff
        code, size = (ctypes.c_uint32 * 4)(word, *(rng.getrandbits(32) for _ in range(3))), ctypes.c_uint32()
        text = lib.apb_emulator_disassemble(target, code, ctypes.c_size_t(4), 0, ctypes.byref(size))
        lib.apb_emulator_free(text)
        if size.value:
            return list(code)[:size.value]
def value():
    return rng.choice((0, 1, 0xffffffff, rng.getrandbits(8), rng.getrandbits(32)))
state, lds, faults = State(lds_bytes=4096), ctypes.create_string_buffer(4096), 0
state.lds = ctypes.addressof(lds)
for _ in range(count):
    target = rng.choice((942, 950))
    words = [word for _ in range(rng.randint(1, 6)) for word in instruction(target)]
    for i in range(128):
        state.scalar[i] = value()
    for i in range(0, 100, 4):
        state.scalar[i], state.scalar[i + 1] = (data.value + 4096) & 0xffffffff, data.value >> 32
    for _ in range(64):
        state.vector[rng.randrange(512 * 64)] = value()
    state.scalar[126], state.scalar[127] = rng.choice((0xffffffff, rng.getrandbits(32))), rng.choice((0xffffffff, 0))
    state.mode, state.pc, state.scc = rng.choice((0x3f0, rng.getrandbits(32))), 0, rng.getrandbits(1)
    message = ctypes.c_void_p()
    if run(target, (ctypes.c_uint32 * len(words))(*words), len(words), ctypes.byref(state), 100, ctypes.byref(message)):
        faults += 1
        assert message.value and len(ctypes.string_at(message.value)) > 10
        lib.apb_emulator_free(message)
print(faults)
"""


@pytest.mark.parametrize("checks", ["none", "all"])
def test_random_instructions(checks: str) -> None:
    count = 3000
    out, _ = program(_PROGRAMS, str(SEED), str(count), checks=checks)
    assert 100 < int(out) < count - 100, SEED
