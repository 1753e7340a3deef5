"""The names of ``torch.cuda`` and its neighbours, for the emulator."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import driver, generators, graphs, memory, streams

HIP_VERSION: Final = "7.2.0"
#: Members of the properties -> numbers of HIP's attributes.
_ATTRIBUTES: Final = {
    "clock_rate": 5,
    "L2_cache_size": 19,
    "major": 23,
    "max_threads_per_multi_processor": 57,
    "minor": 61,
    "multi_processor_count": 63,
    "regs_per_multiprocessor": 72,
    "shared_memory_per_block": 74,
    "shared_memory_per_block_optin": 75,
    "shared_memory_per_multiprocessor": 74,
    "warp_size": 87,
}
_PROPERTIES_BYTES: Final = 8192  # more than the struct has


@cache
def device_count() -> int:
    """Count the devices."""
    return driver.device_count()


@cache
def get_device_properties(device: Any = None) -> SimpleNamespace:
    """Return HIP's properties of a device under torch's names."""
    ordinal = streams.index_of(device)
    buffer = ctypes.create_string_buffer(_PROPERTIES_BYTES)
    driver.call("hipGetDevicePropertiesR0600", buffer, ordinal)
    arch = re.search(rb"gfx\d+[a-z0-9:+-]*", buffer.raw)
    facts = {
        name: driver.number("hipDeviceGetAttribute", which, ordinal) for name, which in _ATTRIBUTES.items()
    }
    return SimpleNamespace(
        name=get_device_name(ordinal),
        gcnArchName=arch.group().decode() if arch else "",
        total_memory=mem_get_info(ordinal)[1],
        is_integrated=0,
        is_multi_gpu_board=0,
        uuid=f"embedded-{ordinal}",
        pci_bus_id=ordinal,
        pci_device_id=0,
        pci_domain_id=0,
        **facts,
    )


def get_device_name(device: Any = None) -> str:
    """HIP's name."""
    out = ctypes.create_string_buffer(256)
    driver.call("hipDeviceGetName", out, len(out), streams.index_of(device))
    return out.value.decode()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the architecture's numbers: (9, 4) of gfx942, (9, 5) of gfx950."""
    properties = get_device_properties(streams.index_of(device))
    return properties.major, properties.minor


def current_device() -> int:
    """Return the ordinal of this thread's device."""
    return memory.STATE.device


def set_device(device: Any) -> None:
    """Make it this thread's."""
    if device is not None and (not isinstance(device, int) or device >= 0):
        memory.select(streams.index_of(device))


def synchronize(device: Any = None) -> None:
    """Wait for all streams of the device."""
    with memory.current(streams.index_of(device)):
        driver.call("hipDeviceSynchronize")


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and all."""
    return memory.free_and_total(streams.index_of(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes in use."""
    free, total = mem_get_info(device)
    return total - free


def max_memory_allocated(device: Any = None) -> int:
    """Bytes that were in use at most, since the start or the last reset."""
    return max(memory.PEAKS.get(streams.index_of(device), 0), memory_allocated(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peak begin at what is in use now."""
    ordinal = streams.index_of(device)
    memory.PEAKS[ordinal] = memory_allocated(ordinal)


class device:  # noqa: N801 - torch's name
    """``with torch.cuda.device(ordinal)``."""

    def __init__(self, device: Any) -> None:
        self.idx = memory.STATE.device if device is None else streams.index_of(device)

    def __enter__(self) -> None:
        self._before = memory.STATE.device
        memory.select(self.idx)

    def __exit__(self, *_: object) -> None:
        memory.select(self._before)


class device_of(device):  # noqa: N801 - torch's name
    """Switch to a tensor's device."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(memory.ordinal_of(obj))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return those of torch's numbers that are known without a pool."""
    used, peak = memory_allocated(device), max_memory_allocated(device)
    return {
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": peak,
        "reserved_bytes.all.current": used,
        "reserved_bytes.all.peak": peak,
    }


def _summary(device: Any = None, abbreviated: bool = False) -> str:
    del abbreviated
    free, total = mem_get_info(device)
    return f"{get_device_name(device)}: {total - free} of {total} bytes in use; the emulator keeps no pools"


def _names() -> dict[str, Any]:
    return {
        "is_available": lambda: device_count() > 0,
        "device_count": device_count,
        "current_device": current_device,
        "set_device": set_device,
        "device": device,
        "device_of": device_of,
        "get_device_properties": get_device_properties,
        "get_device_name": get_device_name,
        "get_device_capability": get_device_capability,
        "get_arch_list": lambda: sorted({get_device_properties(i).gcnArchName.split(":")[0] for i in range(device_count())}),
        "synchronize": synchronize,
        "Stream": streams.Stream,
        "ExternalStream": streams.ExternalStream,
        "Event": streams.Event,
        "stream": streams.stream,
        "StreamContext": streams.stream,
        "set_stream": streams.set_stream,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "CUDAGraph": graphs.CUDAGraph,
        "graph": graphs.graph,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": graphs.captures,
        "is_initialized": lambda: True,
        "_initialized": True,  # checkpoint reads it, and keeps the states of generators where it holds
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_is_compiled": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": mem_get_info,
        "memory_allocated": memory_allocated,
        "memory_reserved": memory_allocated,
        "max_memory_allocated": max_memory_allocated,
        "max_memory_reserved": max_memory_allocated,
        "memory_stats": memory_stats,
        "memory_summary": _summary,
        "reset_peak_memory_stats": reset_peak_memory_stats,
        "reset_accumulated_memory_stats": lambda *_: None,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "can_device_access_peer": lambda first, second: streams.index_of(first) != streams.index_of(second),
        "utilization": lambda *_: 0,
        "get_allocator_backend": lambda: "native",
        "_device_count_nvml": device_count,
    }  # fmt: skip


def install() -> None:
    """In the place of what a CPU build has."""
    if driver.status("hipInit", 0) != driver.NO_DEVICE:  # every device may be hidden
        driver.call("hipInit", 0)
    for name, value in _names().items():
        setattr(torch.cuda, name, value)
        if hasattr(torch.cuda.memory, name):
            setattr(torch.cuda.memory, name, value)
    generators.install(device_count())
    torch.version.hip = HIP_VERSION
    native: Any = torch._C
    native._cuda_getCurrentRawStream = lambda ordinal: streams.current_stream(ordinal).cuda_stream
