"""The emulator's own C entry points (``csrc/emulator/apb_emulator.h``) as Python functions."""

from __future__ import annotations

import ctypes
import json
from functools import cache
from typing import Any

from aiter_prebuilt_emulator import library


class UnreadableCodeObjectError(ValueError):
    """The file is no AMD code object for a target of the emulator; the text says what it is."""


@cache
def opened() -> ctypes.CDLL:
    """Return the library in this process.

    The environment (see the README) is read at its first HIP call.
    """
    handle = ctypes.CDLL(library())
    for name in (
        "apb_emulator_coverage",
        "apb_emulator_counters",
        "apb_emulator_pmc",
        "apb_emulator_trace_problem",
    ):
        getattr(handle, name).restype = ctypes.c_void_p
    handle.apb_emulator_coverage.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    handle.apb_emulator_trace_problem.argtypes = [ctypes.c_char_p]
    handle.apb_emulator_free.argtypes = [ctypes.c_void_p]
    handle.apb_emulator_free.restype = None
    handle.apb_emulator_reset_counters.restype = None
    return handle


def _document(pointer: int | None) -> dict[str, Any]:
    if not pointer:
        raise MemoryError
    try:
        found: dict[str, Any] = json.loads(ctypes.string_at(pointer))
    finally:
        opened().apb_emulator_free(pointer)
    return found


def coverage(image: bytes) -> dict[str, Any]:
    """List the instructions that a code object uses.

    ``{"target": ..., "instructions": [{mnemonic, count, decoded, executable}]}``.

    Raises:
        UnreadableCodeObjectError: with the loader's words.
    """
    found = _document(opened().apb_emulator_coverage(image, len(image)))
    if "error" in found:
        raise UnreadableCodeObjectError(found["error"])
    return found


def counters() -> dict[str, Any]:
    """Instructions by class, MFMA FLOPs and bytes, per kernel and for the last launches, since the last reset; ``findings``: what
    was passed over, by place, with how often.
    """
    return _document(opened().apb_emulator_counters())


def pmc() -> dict[str, Any]:
    """rocprofv3's counters that the device has (``counters``: name, exactness, targets, meaning), and those that it lacks
    (``absent``: how the names begin, reason).
    """
    return _document(opened().apb_emulator_pmc())


def reset_counters() -> None:
    """Forget what was counted."""
    opened().apb_emulator_reset_counters()


def trace_problem(text: str) -> str:
    """Find the problem of a trace filter; empty when it has none.

    The filter is the value of ``AITER_PREBUILT_EMULATOR_TRACE``.
    """
    pointer = opened().apb_emulator_trace_problem(text.encode())
    if not pointer:
        raise MemoryError
    try:
        return ctypes.string_at(pointer).decode(errors="replace")
    finally:
        opened().apb_emulator_free(pointer)
