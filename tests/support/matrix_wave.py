"""Matrix instructions on one wave: assembled in one go per target, run on register files held by numpy."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import numpy.typing as npt

from support.assembly import assemble
from support.emulator import library
from support.one_wave import EXEC, MODE, _State

Words = npt.NDArray[np.uint32]


@cache
def _program(target: str, sources: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """The words of every source. A marker stands between them: no instruction tested here holds it."""
    marker = "s_nop 0xabc"
    words = assemble(target, f"\n{marker}\n".join(sources))
    value = assemble(target, marker)[0]
    found: list[list[int]] = [[]]
    for word in words:
        if word == value:
            found.append([])
        else:
            found[-1].append(word)
    assert len(found) == len(sources)
    return {source: tuple(part) for source, part in zip(sources, found, strict=True)}


class Batch:
    """Instructions of one target that are assembled together."""

    def __init__(self, target: str, sources: tuple[str, ...]) -> None:
        self.target = target
        self.sources = sources

    def run(
        self,
        source: str,
        registers: dict[int, Words],
        *,
        execute: int = (1 << 64) - 1,
        mode: int = MODE,
        scalar: dict[int, int] | None = None,
    ) -> Words:
        """All 512 x 64 vector registers afterwards. ``registers``: rows from the given number (256: a0)."""
        words = _program(self.target, self.sources)[source]
        state = _State(scc=0, mode=mode, lds_bytes=0)
        file = np.frombuffer(state.vector, np.uint32).reshape(512, 64)
        file[:] = 0xDEADBEEF
        for first, rows in registers.items():
            file[first : first + len(rows)] = rows
        state.scalar[EXEC], state.scalar[EXEC + 1] = execute & 0xFFFFFFFF, execute >> 32
        for index, value in (scalar or {}).items():
            state.scalar[index] = value
        code = (ctypes.c_uint32 * len(words))(*words)
        message = ctypes.c_void_p()
        lib = library()
        function = lib.apb_emulator_run_wave
        function.argtypes = (
            ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_State), ctypes.c_uint64,
            ctypes.POINTER(ctypes.c_void_p),
        )  # fmt: skip
        fault = function(
            int(self.target[3:]), code, len(words), ctypes.byref(state), 1000, ctypes.byref(message)
        )
        text = ctypes.cast(message, ctypes.c_char_p).value if message.value else b""
        lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
        lib.apb_emulator_free(message)
        assert fault == 0, (source, text)
        return np.array(file, np.uint32)
