"""Launches in a process of their own, and what the embedded device counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.hip_process import program

#: argv: library, a JSON file of [[[code object, grid, block], ...], ...]. Runs the launches of each group on one zeroed
#: buffer of 64 KiB and prints the counters of each group; they are reset before a group.
_RUN = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_counters.restype = ctypes.c_void_p
lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
def must(name, *arguments):
    status = getattr(lib, name)(*arguments)
    assert status == 0, (name, status)
data, functions, documents = ctypes.c_void_p(), {}, []
must("hipMalloc", ctypes.byref(data), ctypes.c_size_t(1 << 16))
must("hipMemset", data, 0, ctypes.c_size_t(1 << 16))
for group in json.load(open(sys.argv[2])):
    lib.apb_emulator_reset_counters()
    for path, grid, block in group:
        if path not in functions:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            must("hipModuleLoad", ctypes.byref(module), path.encode())
            must("hipModuleGetFunction", ctypes.byref(function), module, b"kernel")
            functions[path] = function
        params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
        must("hipModuleLaunchKernel", functions[path], grid, 1, 1, block, 1, 1, 0, None, params, None)
    must("hipDeviceSynchronize")
    text = lib.apb_emulator_counters()
    documents.append(json.loads(ctypes.string_at(text)))
    lib.apb_emulator_free(text)
print(json.dumps(documents))
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """A one-dimensional launch of ``kernel(data)``. ``grid``: workgroups; ``block``: work items."""

    image: bytes
    grid: int = 1
    block: int = 64


def counters(
    target: str, folder: Path, groups: Sequence[Sequence[Launch]], **environment: str
) -> list[dict[str, Any]]:
    """The counters of each group of launches, in one process. ``environment`` as in :mod:`support.hip_process`."""
    names: dict[bytes, str] = {}
    for launch in (launch for group in groups for launch in group):
        if launch.image not in names:
            names[launch.image] = str(folder / f"{len(names)}.co")
            Path(names[launch.image]).write_bytes(launch.image)
    request = folder / "launches.json"
    request.write_text(json.dumps([[[names[x.image], x.grid, x.block] for x in group] for group in groups]))
    found: list[dict[str, Any]] = json.loads(program(_RUN, str(request), devices=target, **environment)[0])
    assert len(found) == len(groups) and all(document["version"] == 2 for document in found)
    return found


def profiled(
    target: str, folder: Path, launches: Sequence[Launch], *names: str, **environment: str
) -> list[dict[str, float]]:
    """rocprofv3's counters of each launch."""
    documents = counters(target, folder, [launches], pmc=",".join(names), **environment)
    return [dispatch["counters"] for dispatch in documents[0]["pmc"]["dispatches"]]
