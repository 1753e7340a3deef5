"""``torch.accelerator`` and memory that host and device share, on the emulator."""

from __future__ import annotations

import gc
import importlib
import json
from typing import Any

import torch

from aiter_prebuilt_emulator.torch_device import memory

told: dict[str, Any] = {}
accelerator = torch.accelerator
told["device"] = [
    str(accelerator.current_accelerator()),
    accelerator.device_count(),
    accelerator.current_device_index(),
]
with accelerator.device_index(1):
    told["inside"] = [accelerator.current_device_index(), str(torch.empty(1, device="cuda").device)]
with accelerator.device_index(None):
    told["unchanged"] = accelerator.current_device_index()
event, later = torch.Event(), torch.Event("cuda", enable_timing=True)
event.record()
later.record(torch.cuda.current_stream())
torch.cuda.current_stream().wait_event(event)
event.synchronize()
told["event"] = [
    event.query(),
    isinstance(torch.cuda.Event(True), torch.Event),
    isinstance(event, torch.cuda.Event),
    type(torch.Event("cpu")).__module__,
]
accelerator.empty_cache()
accelerator.empty_host_cache()
accelerator.synchronize()
before = accelerator.memory_allocated()
accelerator.reset_peak_memory_stats()
large = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
during = accelerator.memory_allocated()
del large
gc.collect()
accelerator.synchronize()
told["grew"] = during - before
told["after"] = accelerator.memory_allocated() - before
told["peak"] = accelerator.max_memory_allocated() - before
told["stats"] = accelerator.memory_stats()["allocated_bytes.all.peak"] - before
free, total = accelerator.get_memory_info()
told["info"] = total - free == accelerator.memory_allocated() and total == torch.cuda.mem_get_info()[1]
told["backend"] = torch.cuda.memory.get_allocator_backend()

host = torch.arange(8.0).pin_memory()
seen = memory.view_of_pinned(host[2:], 1)
seen.add_(1)
told["shared"] = [str(seen.device), str(host.device), host.tolist(), seen.is_pinned(), host.is_pinned()]
del host
gc.collect()
told["kept"] = [float(seen.sum()), str((seen * 2).device)]
del seen
gc.collect()
told["left"] = len(memory._UNIFIED)
try:
    memory.view_of_pinned(torch.ones(3), 0)
except ValueError as error:
    told["refused"] = str(error)

amdsmi: Any = importlib.import_module("amdsmi")  # what stands in for it beside an engine
told["smi"] = [
    [
        amdsmi.amdsmi_get_gpu_asic_info(each)["target_graphics_version"],
        amdsmi.amdsmi_get_gpu_memory_total(each, 0),
    ]
    for each in amdsmi.amdsmi_get_processor_handles()
]
print(json.dumps(told))
