"""One wave of the embedded device without a kernel: ``apb_emulator_run_wave`` of ``csrc/emulator/apb_emulator.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from support.assembly import assemble
from support.emulator import library

LANES = 64
ALL = (1 << 64) - 1
M0, VCC, EXEC = 124, 106, 126
#: Round to nearest even, all denormals kept, DX10_CLAMP, IEEE: what the loader gives a kernel that says nothing.
MODE = 0x3F0


class _State(ctypes.Structure):
    _fields_ = (
        ("vector", ctypes.c_uint32 * (512 * LANES)),
        ("scalar", ctypes.c_uint32 * 128),
        ("scc", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("pc", ctypes.c_uint32),
        ("lds_bytes", ctypes.c_uint32),
        ("lds", ctypes.c_void_p),
    )


@dataclass
class Result:
    """The wave's registers when it stopped. ``fault``: 0, or the number of a FaultKind with ``message``."""

    fault: int
    message: str
    scc: int
    mode: int
    pc: int
    scalar: list[int]
    lds: bytes = b""
    state: _State = field(default_factory=_State, repr=False)

    def pair(self, index: int) -> int:
        """A 64-bit scalar."""
        return self.scalar[index] | self.scalar[index + 1] << 32

    def row(self, index: int) -> list[int]:
        """All lanes of a vector register; 256 is a0."""
        return list(self.state.vector[index * LANES : (index + 1) * LANES])


def run_wave(
    target: str,
    source: str | Sequence[int],
    *,
    scalar: Mapping[int, int] | None = None,
    vector: Mapping[int, Sequence[int]] | None = None,
    execute: int = ALL,
    scc: int = 0,
    mode: int = MODE,
    lds: int | bytes = 0,
    limit: int = 100_000,
) -> Result:
    """Assembles and runs ``source``, or runs it when it is words.

    Registers that are not given are 0; ``lds`` is its size in bytes, all 0, or its contents.
    """
    words = assemble(target, source) if isinstance(source, str) else source
    code = (ctypes.c_uint32 * len(words))(*words)
    contents = bytes(lds) if isinstance(lds, int) else lds
    state = _State(scc=scc, mode=mode, lds_bytes=len(contents))
    shared = ctypes.create_string_buffer(contents, len(contents) + 1)
    state.lds = ctypes.cast(shared, ctypes.c_void_p)
    state.scalar[EXEC], state.scalar[EXEC + 1] = execute & 0xFFFFFFFF, execute >> 32
    for index, value in (scalar or {}).items():
        state.scalar[index] = value & 0xFFFFFFFF
    for index, row in (vector or {}).items():
        state.vector[index * LANES : (index + 1) * LANES] = row
    lib = library()
    function = lib.apb_emulator_run_wave
    function.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_State), ctypes.c_uint64,
        ctypes.POINTER(ctypes.c_void_p),
    )  # fmt: skip
    message = ctypes.c_void_p()
    fault = function(int(target[3:]), code, len(words), ctypes.byref(state), limit, ctypes.byref(message))
    text = ctypes.cast(message, ctypes.c_char_p).value or b"" if message.value else b""
    lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
    lib.apb_emulator_free(message)
    return Result(
        fault,
        text.decode(),
        state.scc,
        state.mode,
        state.pc,
        list(state.scalar),
        shared.raw[: len(contents)],
        state,
    )
