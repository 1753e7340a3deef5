"""Single instructions for tests: assembled in one batch by the hermetic clang, run as one wave of the embedded device."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from support.emulator import library

ROOT = Path(__file__).resolve().parents[2]
LANES = 64
REGISTERS = 512
VCC, M0, EXEC = 106, 124, 126
DEFAULT_MODE = 0xF0 | 1 << 8 | 1 << 9
"""Nearest even, all denormals, DX10_CLAMP and IEEE: what a kernel descriptor of HIP sets."""

Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Assembled:
    """``words`` is empty where the target's assembler refused the line; ``error`` says why."""

    words: tuple[int, ...]
    error: str = ""


def assemble(target: str, lines: Sequence[str]) -> list[Assembled]:
    """Every line on its own, in one or two starts of clang: lines that it refuses are left out in the second."""
    from build_tools.tools import toolchain
    from build_tools.tools.clang import ASSEMBLY_FLAGS

    clang = toolchain.find("hermetic", ROOT).clang
    errors: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "x.s", Path(folder) / "x.o"
        argv = [
            *clang.driver,
            *ASSEMBLY_FLAGS,
            f"-mcpu={target}",
            "-x",
            "assembler",
            "-c",
            str(source),
            "-o",
            str(result),
        ]
        for _ in range(2):
            source.write_text(_source(lines, errors))
            run = subprocess.run(argv, env=dict(clang.env), capture_output=True, text=True, check=False)
            if run.returncode == 0:
                return _split(result.read_bytes(), len(lines), errors)
            for number, text in re.findall(r"x\.s:(\d+):\d+: error: (.*)", run.stderr):
                errors.setdefault(int(number) - 1, text)
    raise AssertionError(f"clang: {run.stderr[:2000]}")


def _source(lines: Sequence[str], errors: dict[int, str]) -> str:
    """One line per instruction with a label before it, then the labels' distances as data behind a marker."""
    body = [f"L{i}:" if i in errors else f"L{i}: {line}" for i, line in enumerate(lines)]
    table = [f".long L{i} - L0" for i in range(len(lines))]
    return "\n".join([*body, f"E: .long E - L0, {len(lines)}", *table, '.ascii "apb-end-of-table"']) + "\n"


def _split(image: bytes, count: int, errors: dict[int, str]) -> list[Assembled]:
    end = image.index(b"apb-end-of-table")
    offsets = np.frombuffer(image, np.uint32, count, end - 4 * count)
    size, stored = np.frombuffer(image, np.uint32, 2, end - 4 * count - 8)
    assert stored == count
    start = end - 4 * count - 8 - int(size)
    words = np.frombuffer(image, np.uint32, int(size) // 4, start)
    ends = [*offsets[1:], size]
    return [
        Assembled((), errors[i]) if i in errors else Assembled(tuple(int(w) for w in words[a // 4 : b // 4]))
        for i, (a, b) in enumerate(zip(offsets, ends, strict=True))
    ]


def disassemble(target: str, words: Sequence[int], address: int = 0) -> tuple[str, int]:
    """Text and size in dwords (0: unknown) of the instruction at the start of ``words``."""
    lib = library()
    lib.apb_emulator_disassemble.restype = ctypes.c_void_p
    lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
    code, size = (ctypes.c_uint32 * len(words))(*words), ctypes.c_uint32()
    length = ctypes.c_size_t(len(words))
    pointer = lib.apb_emulator_disassemble(
        int(target[3:]), code, length, ctypes.c_uint32(address), ctypes.byref(size)
    )
    text = ctypes.string_at(pointer).decode()
    lib.apb_emulator_free(pointer)
    return text, size.value


class _State(ctypes.Structure):
    _fields_ = (
        ("vector", ctypes.c_uint32 * (REGISTERS * LANES)),
        ("scalar", ctypes.c_uint32 * 128),
        ("scc", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("pc", ctypes.c_uint32),
        ("lds_bytes", ctypes.c_uint32),
        ("lds", ctypes.c_void_p),
    )


@dataclass(slots=True)
class Wave:
    """``vector``: (512, 64) uint32, ``scalar``: (128,) uint32, ``lds``: bytes as uint8."""

    vector: Rows
    scalar: Rows
    scc: int = 0
    mode: int = DEFAULT_MODE
    pc: int = 0
    lds: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))

    def copy(self) -> Wave:
        return Wave(self.vector.copy(), self.scalar.copy(), self.scc, self.mode, self.pc, self.lds.copy())

    def pair(self, index: int) -> int:
        return int(self.scalar[index]) | int(self.scalar[index + 1]) << 32

    def set_pair(self, index: int, value: int) -> None:
        self.scalar[index], self.scalar[index + 1] = value & 0xFFFFFFFF, value >> 32


class WaveFaultError(Exception):
    """The library stopped the wave; the text is its message."""


_STATE = _State()
_VECTOR = np.frombuffer(_STATE.vector, np.uint32).reshape(REGISTERS, LANES)
_SCALAR = np.frombuffer(_STATE.scalar, np.uint32)


def run(target: str, words: Sequence[int], wave: Wave, limit: int = 1000) -> Wave:
    """The state after ``words`` ran on ``wave``, which stays as it is.

    Raises:
        WaveFaultError: an unknown instruction, an illegal address, ...
    """
    code = (ctypes.c_uint32 * len(words))(*words)
    _VECTOR[:], _SCALAR[:] = wave.vector, wave.scalar
    _STATE.scc, _STATE.mode, _STATE.pc = wave.scc, wave.mode, wave.pc
    lds = wave.lds.copy()
    _STATE.lds_bytes, _STATE.lds = lds.size, lds.ctypes.data if lds.size else None
    message = ctypes.c_char_p()
    status = library().apb_emulator_run_wave(
        int(target.removeprefix("gfx")),
        code,
        ctypes.c_size_t(len(words)),
        ctypes.byref(_STATE),
        ctypes.c_uint64(limit),
        ctypes.byref(message),
    )
    if status:
        raise WaveFaultError(f"{status}: {(message.value or b'').decode()}")
    return Wave(_VECTOR.copy(), _SCALAR.copy(), int(_STATE.scc), int(_STATE.mode), int(_STATE.pc), lds)
