"""The few functions of AMD's ``amdsmi`` that vLLM asks which GPUs there are: the emulator's, as torch sees them.

AMD's package needs the driver of a card. This folder is on the path of an engine on the emulator, and of nothing else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import torch

#: PCI device ids of an MI300X and an MI355X, by target.
_IDS: Final = {"gfx942": "0x74a1", "gfx950": "0x75a3"}


class AmdSmiException(Exception):  # noqa: N818 - amdsmi's name
    """amdsmi's error. Nothing here raises it."""


class AmdSmiMemoryType(IntEnum):
    """Kinds of memory."""

    VRAM = 0


def amdsmi_init(*_: Any) -> None:
    """Do nothing: there is no driver to open."""


def amdsmi_shut_down() -> None:
    """Do nothing."""


def amdsmi_get_processor_handles() -> list[int]:
    """Return the ordinal of each device."""
    return list(range(torch.cuda.device_count()))


def amdsmi_get_gpu_asic_info(handle: int) -> dict[str, Any]:
    """Return the target, the PCI device id and the name."""
    target = torch.cuda.get_device_properties(handle).gcnArchName.partition(":")[0]
    return {
        "target_graphics_version": target,
        "device_id": _IDS[target],
        "market_name": torch.cuda.get_device_name(handle),
    }


def amdsmi_get_gpu_device_uuid(handle: int) -> str:
    """Return a number of its own for each device."""
    return f"00000000-0000-0000-0000-{handle:012d}"


def amdsmi_get_gpu_memory_total(handle: int, kind: AmdSmiMemoryType) -> int:
    """Return the bytes of a device's memory."""
    del kind
    return int(torch.cuda.get_device_properties(handle).total_memory)


def amdsmi_topo_get_link_type(first: int, second: int) -> dict[str, int]:
    """Return XGMI, one hop."""
    del first, second
    return {"hops": 1, "type": 2}


def amdsmi_topo_get_numa_node_number(handle: int) -> int:
    """Return the only node."""
    del handle
    return 0
