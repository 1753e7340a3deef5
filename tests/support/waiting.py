"""Kernels that wait for what the host does later, and processes that launch one."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.assembly import code_object
from support.emulator import library_path
from support.hip import ADD_ONE, SUCCESS, call, code, function, handle, launch, size

NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_FAILURE = 719
NON_BLOCKING = 1

#: Waits until dword 0 of the buffer is 1, then counts dword 1. {pause}: between two looks.
_WAIT = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_mov_b32_e32 v3, 0
  v_mov_b32_e32 v4, 1
  s_waitcnt lgkmcnt(0)
wait:
  {pause}
  global_load_dword v1, v3, s[4:5] sc0 sc1
  s_waitcnt vmcnt(0)
  v_cmp_ne_u32_e32 vcc, 1, v1
  s_cbranch_vccnz wait
  s_mov_b64 exec, 1
  global_atomic_add v3, v4, s[4:5] offset:4
  {then}
  s_waitcnt vmcnt(0)
  s_endpgm
"""
FAULT = "v_mov_b32_e32 v6, 64\nv_mov_b32_e32 v7, 0\nglobal_load_dword v1, v[6:7], off"


def waiting(pause: str = "s_nop 0", then: str = "s_nop 0") -> bytes:
    return code_object("gfx942", _WAIT.format(pause=pause, then=then))


@dataclass
class Waiter:
    """A kernel that waits, its flag in pinned memory, and a kernel that adds one."""

    kernel: ctypes.c_void_p
    add: ctypes.c_void_p
    flag: ctypes.c_void_p

    def start(self, stream: ctypes.c_void_p | None, blocks: int = 1) -> None:
        assert launch(self.kernel, self.flag, grid=blocks, stream=stream) == SUCCESS

    def let_go(self) -> None:
        """A plain store of the host."""
        ctypes.c_uint32.from_address(self.flag.value or 0).value = 1

    @property
    def count(self) -> int:
        return ctypes.c_uint32.from_address((self.flag.value or 0) + 4).value


def words_now(data: ctypes.c_void_p) -> int:
    """The first dword, without asking the device."""
    return ctypes.c_uint32.from_address(data.value or 0).value


_PROGRAM = """
import ctypes, os, signal, sys, threading, time
lib = ctypes.CDLL(sys.argv[1])
module, function, stream, flag = (ctypes.c_void_p() for _ in range(4))
assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(sys.argv[2])) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
assert lib.hipStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
assert lib.hipHostMalloc(ctypes.byref(flag), ctypes.c_size_t(256), 0) == 0
ctypes.memset(flag, 0, 256)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(flag))
assert lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, parameters, None) == 0
assert lib.hipStreamQuery(stream) == 600
"""


def run(text: str, pause: str = "s_nop 0", **environment: str) -> tuple[int, str, float]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT_EMULATOR")}
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM + text, str(library_path()), waiting(pause).hex()],
        capture_output=True, text=True, check=False, timeout=100, env=kept | environment,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, time.monotonic() - start


@pytest.fixture
def waiter() -> Iterator[Waiter]:
    first, kernel = function(waiting())
    second, add = function(code_object("gfx942", ADD_ONE))
    flag = handle("hipHostMalloc", size(256), 0)
    ctypes.memset(flag, 0, 256)
    out = Waiter(kernel, add, flag)
    yield out
    out.let_go()
    call("hipDeviceSynchronize")
    for module in (first, second):
        call("hipModuleUnload", module)
    call("hipHostFree", flag)


@pytest.fixture
def stream() -> Iterator[ctypes.c_void_p]:
    out = handle("hipStreamCreateWithFlags", NON_BLOCKING)
    yield out
    code("hipStreamDestroy", out)
