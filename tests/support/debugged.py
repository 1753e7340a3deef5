"""A debugged test program, its kernels, and a client's requests."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.dap_client import Adapter, DapClient
from support.emulator import library_path
from support.hip_source import hip_object

KERNELS = """
#line 200 "debugged.hip"
__device__ inline __attribute__((always_inline)) u32 mixed(u32 value, u32 with) {
  u32 more = value * 2654435761u;
  return more ^ with;
}
extern "C" __global__ void kernel(u32* data, u32 with) {
  __shared__ volatile u32 shared[256];
  u32 item = __builtin_amdgcn_workitem_id_x(), group = __builtin_amdgcn_workgroup_id_x();
  shared[item] = item * 3 + with;
  __builtin_amdgcn_s_barrier();
  u32 found = shared[item];
  u32 result = mixed(data[group * 128 + item], found);
  data[group * 128 + item] = result;
}
extern "C" __global__ void beyond(u32* data, u32 with) {
  u32 item = __builtin_amdgcn_workitem_id_x();
  data[item + with] = item;
}
extern "C" __global__ void unwritten(u32* data, u32 with) {
  __shared__ volatile u32 shared[256];
  u32 item = __builtin_amdgcn_workitem_id_x();
  if (with == 1) shared[item] = item;
  data[item] = shared[item];
}
extern "C" __global__ void endless(u32* data, u32 with) {
  while (__hip_atomic_load(data, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) != with) __builtin_amdgcn_s_sleep(1);
}
"""
FILE = "/somewhere/else/debugged.hip"
WITH = 77


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("debugged") / "kernels.co"
    path.write_bytes(hip_object("gfx942", KERNELS, "-gline-tables-only"))
    return path


def words(image: Path, kernel: str = "kernel", groups: int = 3, number: int = WITH) -> list[str]:
    program = Path(__file__).resolve().parents[1] / "emulator" / "debug_program.py"
    return [
        sys.executable,
        str(program),
        str(library_path()),
        str(image),
        kernel,
        str(groups),
        "128",
        str(number),
    ]


def source(line: int, condition: str = "") -> dict[str, object]:
    return {
        "source": {"path": "debugged.hip"},
        "breakpoints": [{"line": line} | ({"condition": condition} if condition else {})],
    }


def place(client: DapClient, thread: int) -> tuple[int, int]:
    """The workgroup and the wave of a thread."""
    (name,) = [one["name"] for one in client.ask("threads")["threads"] if one["id"] == thread]
    match = re.fullmatch(r"kernel workgroup \((\d), 0, 0\) wave (\d), device 0.*", name)
    assert match, name
    return int(match[1]), int(match[2])


def finish(adapter: Adapter) -> str:
    """Let it run to its end; what the program printed."""
    adapter.client.event("terminated")
    adapter.client.ask("disconnect")
    assert adapter.process.wait(30) == 0
    assert adapter.process.stdout
    return adapter.process.stdout.read().decode()
