"""HIP calls for tests in this process: checked calls, memory with contents, modules and launches. Plain ctypes."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from support.emulator import library

TO_DEVICE: Final = 1
FROM_DEVICE: Final = 2
ON_DEVICE: Final = 3
DEFAULT: Final = 4

#: hipError_t, the codes that tests look for.
SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
INVALID_CONFIGURATION: Final = 9
INVALID_DEVICE: Final = 101
INVALID_HANDLE: Final = 400
NOT_FOUND: Final = 500
NOT_SUPPORTED: Final = 801
CAPTURE_UNSUPPORTED: Final = 900
CAPTURE_INVALIDATED: Final = 901

#: Where the embedded device's sources are.
EMULATOR: Final = Path(__file__).resolve().parents[2] / "csrc" / "emulator"

#: Adds one to each dword of `data`, one work item each.
ADD_ONE: Final = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshl_add_u32 v1, s2, 6, v0
  v_lshlrev_b32_e32 v1, 2, v1
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32_e32 v2, 1, v2
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""

STREAM_LEGACY: Final = ctypes.c_void_p(1)
STREAM_PER_THREAD: Final = ctypes.c_void_p(2)


class Dim3(ctypes.Structure):
    """`dim3`."""

    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))


def exported_names() -> list[str]:
    """Names of HIP's interface that the library must export."""
    text = (EMULATOR / "exports.map").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"\b(?:__)?hip[A-Z]\w+(?=;)", text)))


def code(name: str, *arguments: Any) -> int:
    """The hipError_t of a call."""
    return int(getattr(library(), name)(*arguments))


def call(name: str, *arguments: Any) -> None:
    """A call that must succeed."""
    status = code(name, *arguments)
    assert status == SUCCESS, (name, status)


def handle(name: str, *arguments: Any) -> ctypes.c_void_p:
    """Return the handle that a call writes to its first argument."""
    out = ctypes.c_void_p()
    call(name, ctypes.byref(out), *arguments)
    return out


def number(name: str, *arguments: Any, kind: Any = ctypes.c_int) -> int:
    """The number that a call puts where its first argument points."""
    out = kind()
    call(name, ctypes.byref(out), *arguments)
    return int(out.value)


def size(value: int) -> ctypes.c_size_t:
    """A size_t argument: ctypes would pass an int."""
    return ctypes.c_size_t(value)


def upload(contents: bytes) -> ctypes.c_void_p:
    """Device memory with these bytes."""
    out = handle("hipMalloc", size(len(contents)))
    call("hipMemcpy", out, contents, size(len(contents)), TO_DEVICE)
    return out


def download(address: ctypes.c_void_p, count: int) -> bytes:
    """Bytes of device memory."""
    out = ctypes.create_string_buffer(count)
    call("hipMemcpy", out, address, size(count), FROM_DEVICE)
    return out.raw


def words(address: ctypes.c_void_p, count: int) -> list[int]:
    """Dwords of device memory."""
    data = download(address, 4 * count)
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def dwords(values: Sequence[int]) -> bytes:
    """The values as little-endian dwords."""
    return b"".join(value.to_bytes(4, "little") for value in values)


def offset(address: ctypes.c_void_p, count: int) -> ctypes.c_void_p:
    """`address + count`."""
    return ctypes.c_void_p((address.value or 0) + count)


def function(image: bytes, name: str = "kernel") -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """Module and function."""
    module = handle("hipModuleLoadData", image)
    return module, handle("hipModuleGetFunction", module, name.encode())


def pointers(*values: Any) -> Any:
    """`kernelParams`: the addresses of ctypes values, which the caller keeps alive."""
    return (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(value) for value in values])


def launch(
    kernel: ctypes.c_void_p,
    address: ctypes.c_void_p,
    *,
    grid: int = 1,
    block: int = 64,
    stream: ctypes.c_void_p | None = None,
) -> int:
    """Launches a kernel that takes one pointer."""
    return code("hipModuleLaunchKernel", kernel, grid, 1, 1, block, 1, 1, 0, stream, pointers(address), None)


def elsewhere(work: Callable[[], int]) -> int:
    """The answer of a call that is made on a thread of its own."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
