"""The few functions of AMD's ``amdsmi`` that vLLM and SGLang ask which GPUs there are: the emulator's.

AMD's package needs the driver of a card. This folder is on the path of an engine on the emulator, and of nothing else.
"""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Any, Final

#: PCI device ids of what the emulator is.
_IDS: Final = {"gfx942": "0x74a1", "gfx950": "0x75a3"}
_GIB: Final = 1 << 30


class AmdSmiException(Exception):  # noqa: N818 - amdsmi's name
    """amdsmi's error. Nothing here raises it."""


class AmdSmiMemoryType(IntEnum):
    """Kinds of memory."""

    VRAM = 0


def _devices() -> list[str]:
    return (os.environ.get("AITER_PREBUILT_EMULATOR") or "gfx942").split(",")


def amdsmi_init(*_: Any) -> None:
    """Do nothing: there is no driver to open."""


def amdsmi_shut_down() -> None:
    """Do nothing."""


def amdsmi_get_processor_handles() -> list[int]:
    """Return the ordinal of each device."""
    return list(range(len(_devices())))


def amdsmi_get_gpu_asic_info(handle: int) -> dict[str, Any]:
    """Return the target and the PCI device id."""
    target = _devices()[handle].partition(":")[0]
    return {"target_graphics_version": target, "device_id": _IDS[target], "market_name": f"emulated {target}"}


def amdsmi_get_gpu_device_uuid(handle: int) -> str:
    """Return a number of its own for each device."""
    return f"00000000-0000-0000-0000-{handle:012d}"


def amdsmi_get_gpu_memory_total(handle: int, kind: AmdSmiMemoryType) -> int:
    """Return the bytes of a device's memory: ``memory=8G`` of its description, else 16 GiB."""
    del kind
    told = dict(each.partition("=")[::2] for each in _devices()[handle].split(":")[1:])
    return int(told.get("memory", "16G").upper().rstrip("GIB")) * _GIB


def amdsmi_topo_get_link_type(first: int, second: int) -> dict[str, int]:
    """Return XGMI, one hop."""
    del first, second
    return {"hops": 1, "type": 2}


def amdsmi_topo_get_numa_node_number(handle: int) -> int:
    """Return the only node."""
    del handle
    return 0
