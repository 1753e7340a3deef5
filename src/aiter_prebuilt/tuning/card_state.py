"""Read the state of a card that is measured: its clock, who else uses it, throttling, partitions.

NVIDIA: NVML. AMD: the kernel driver's files below ``/sys``. What neither says is not known, and nothing is said of it. Nothing is
ever set.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiter_prebuilt.tuning.card import Card

_NVML: Final = "libnvidia-ml.so.1"
_SM_CLOCK: Final = 1
#: Bits of NVML's clock event reasons that slow a card down.
_REASONS: Final = {
    0x4: "the power cap", 0x8: "a hardware slowdown", 0x20: "the temperature", 0x40: "the temperature",
    0x80: "the power brake",
}  # fmt: skip
_PCI: Final = Path("/sys/bus/pci/devices")
#: Files of a partition -> the usual word in them.
_PARTITIONS: Final = {"current_compute_partition": "SPX", "current_memory_partition": "NPS1"}
#: Percent of a card that others must use before it counts as shared.
_BUSY: Final = 5


@dataclass(frozen=True, slots=True)
class State:
    """``clock_mhz``: of the compute units, now; None where nobody says it. ``notes``: what makes times worth less."""

    clock_mhz: int | None = None
    notes: tuple[str, ...] = ()


def state_of(card: Card) -> State:
    """Read the state of a card. The embedded device has none."""
    if card.embedded or not card.bus:
        return State()
    try:
        return _nvidia(card.bus) if card.nvidia else amd_state(_PCI / card.bus)
    except (OSError, ValueError, AttributeError):
        return State()


def amd_state(folder: Path) -> State:
    """Read the state of an AMD card from the folder of its PCI device."""
    notes = []
    for name, usual in _PARTITIONS.items():
        found = _text(folder / name)
        if found and found != usual:
            notes.append(f"the card is in partition mode {found}")
    busy = _text(folder / "gpu_busy_percent")
    if busy.isdecimal() and int(busy) > _BUSY:
        notes.append(f"the card was busy to {busy} % before anything was timed: others use it")
    return State(_current_clock(_text(folder / "pp_dpm_sclk")), tuple(notes))


def _current_clock(levels: str) -> int | None:
    """Find the level that has the star: ``1: 2100Mhz *``."""
    for line in levels.splitlines():
        if line.rstrip().endswith("*"):
            digits = line.partition(":")[2].lower().partition("mhz")[0].strip()
            return int(digits) if digits.isdecimal() else None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _nvidia(bus: str) -> State:
    """Ask NVML.

    Raises:
        OSError: NVML is not there.
    """
    library = ctypes.CDLL(_NVML)
    if library.nvmlInit_v2():
        return State()
    try:
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(handle)):
            return State()
        clock = _number(lambda out: library.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, out))
        return State(clock, tuple(_nvidia_notes(library, handle)))
    finally:
        library.nvmlShutdown()


def _nvidia_notes(library: ctypes.CDLL, handle: ctypes.c_void_p) -> list[str]:
    notes = []
    reasons = ctypes.c_ulonglong()
    if not library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)):
        slow = dict.fromkeys(text for bit, text in _REASONS.items() if reasons.value & bit)
        if slow:
            notes.append(f"the card is throttled by {' and '.join(slow)}")
    mode, pending = ctypes.c_uint(), ctypes.c_uint()
    if not library.nvmlDeviceGetMigMode(handle, ctypes.byref(mode), ctypes.byref(pending)) and mode.value:
        notes.append("the card is in partition mode MIG")
    others = _other_processes(library, handle)
    if others:
        notes.append(f"the card is shared: {others} other processes compute on it")
    return notes


class _Process(ctypes.Structure):
    """``nvmlProcessInfo_v2_t``, which the third version of the call fills."""

    _fields_ = (
        ("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint),
    )  # fmt: skip


def _other_processes(library: ctypes.CDLL, handle: ctypes.c_void_p) -> int:
    count = ctypes.c_uint(64)
    rows = (_Process * count.value)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), rows):
        return 0
    return len({row.pid for row in rows[: count.value]} - {os.getpid(), 0})


def _number(ask: Callable[[object], int]) -> int | None:
    found = ctypes.c_uint()
    return None if ask(ctypes.byref(found)) else found.value
