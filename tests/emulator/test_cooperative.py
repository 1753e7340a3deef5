"""Cooperative groups, as HIP's own compiler makes them: a grid, or the grids of several devices, that wait for themselves."""

from __future__ import annotations

import json
import random

import pytest
from support.hip_process import Launch, launch, program
from support.hip_source import hip_object

TOO_LARGE, ILLEGAL_ADDRESS, INVALID_DEVICE = 720, 700, 101

#: Each round every workgroup adds what its neighbour wrote in the round before, which is there only after a barrier of all.
#: data[0:2] says what kind of group it is; then `count` counters, twice.
_ROUNDS = """
extern "C" __device__ void __ockl_grid_sync(void);
extern "C" __device__ int __ockl_grid_is_valid(void);
extern "C" __device__ int __ockl_multi_grid_is_valid(void);
extern "C" __global__ void kernel(u32* data, u32 count, u32 rounds) {
  u32 me = __builtin_amdgcn_workgroup_id_x() + 3 * __builtin_amdgcn_workgroup_id_y(), item = __builtin_amdgcn_workitem_id_x();
  data[0] = __ockl_grid_is_valid(), data[1] = __ockl_multi_grid_is_valid();
  u32 *now = data + 2, *next = now + count;
  if (rounds == 0) return;
  if (item == 0) __hip_atomic_store(now + me, me + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  for (u32 r = 0; r < rounds; ++r) {
    __ockl_grid_sync();
    if (item == 0) {
      u32 sum = __hip_atomic_load(now + me, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) +
                __hip_atomic_load(now + (me + 1) % count, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
      __hip_atomic_store(next + me, sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
    u32* other = now;
    now = next, next = other;
  }
}
"""

#: argv: library, code object, rounds, grids and blocks as JSON. Launches one after the other; statuses and data.
_COOPERATIVE = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
image, rounds, shapes = bytes.fromhex(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
module, function, data, fits = (ctypes.c_void_p() for _ in range(4))
assert lib.hipModuleLoadData(ctypes.byref(module), image) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
answers = []
for (x, y), block, lds, cooperative in shapes:
    count, size = ctypes.c_uint32(x * y), ctypes.c_size_t(4 * (2 + 2 * x * y))
    assert lib.hipMalloc(ctypes.byref(data), size) == 0 and lib.hipMemset(data, 0, size) == 0
    values = (ctypes.c_void_p(data.value), count, ctypes.c_uint32(rounds if cooperative else 0))
    params = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
    dims = (function, x, y, 1, block, 1, 1, lds, None, params)
    status = lib.hipModuleLaunchCooperativeKernel(*dims) if cooperative else lib.hipModuleLaunchKernel(*dims, None)
    back = (ctypes.c_uint32 * (2 + 2 * x * y))()
    assert lib.hipMemcpy(back, data, size, 2) == 0
    number = ctypes.c_int()
    assert lib.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(number), function, block, ctypes.c_size_t(lds)) == 0
    answers.append([status, number.value, list(back)])
print(json.dumps(answers))
"""


def expected(count: int, rounds: int) -> list[int]:
    now = [n + 1 for n in range(count)]
    for _ in range(rounds):
        now = [(now[n] + now[(n + 1) % count]) % 2**32 for n in range(count)]
    return now


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_grid_sync(target: str, threads: str) -> None:
    rounds = 2 * random.randint(1, 4)
    shapes = [((3, random.randint(1, 20)), block, 0, True) for block in (64, 256, 1024)]
    text = json.dumps([*shapes, ((3, 1), 64, 0, False)])
    out, _ = program(
        _COOPERATIVE, hip_object(target, _ROUNDS).hex(), str(rounds), text, threads=threads, devices=target
    )
    *grids, alone = json.loads(out)
    for ((x, y), *_), (status, _, words) in zip(shapes, grids, strict=True):
        assert status == 0 and words[:2] == [1, 0]
        assert words[2 : 2 + x * y] == expected(x * y, rounds)
    assert alone[0] == 0 and alone[2][:2] == [0, 0], "a plain launch is no grid that can wait"


@pytest.mark.parametrize(
    ("target", "lds", "each"), [("gfx942", 0, 32), ("gfx942", 20 << 10, 3), ("gfx950", 40 << 10, 4)]
)
def test_a_grid_that_cannot_be_resident(target: str, lds: int, each: int) -> None:
    """As many as occupancy says times compute units, and not one more."""
    fits = [(4 * each, 1), 64, lds, True]
    too_many = [(4 * each + 1, 1), 64, lds, True]
    text = json.dumps([fits, too_many, fits])
    out, log = program(
        _COOPERATIVE, hip_object(target, _ROUNDS).hex(), "2", text, devices=f"{target}:cus=4"
    )  # fmt: skip
    good, bad, again = json.loads(out)
    assert [good[0], bad[0], again[0]] == [0, TOO_LARGE, 0] and good[1] == bad[1] == each
    assert good[2][2 : 2 + 4 * each] == again[2][2 : 2 + 4 * each] == expected(4 * each, 2)
    assert f"{4 * each + 1} workgroups, {4 * each} fit on the device" in log


def test_grid_sync_in_a_plain_launch_is_a_fault() -> None:
    arguments = [
        ("buffer", bytes(64)),
        ("bytes", (1).to_bytes(4, "little")),
        ("bytes", (1).to_bytes(4, "little")),
    ]
    answer, log = launch(Launch(hip_object("gfx942", _ROUNDS), arguments))
    assert answer.status == ILLEGAL_ADDRESS and "null pointer" in log


_MULTI = """
extern "C" __device__ void __ockl_multi_grid_sync(void);
extern "C" __device__ int __ockl_multi_grid_is_valid(void);
extern "C" __device__ u32 __ockl_multi_grid_num_grids(void);
extern "C" __device__ u32 __ockl_multi_grid_grid_rank(void);
extern "C" __device__ u32 __ockl_multi_grid_size(void);
extern "C" __device__ u32 __ockl_multi_grid_thread_rank(void);
extern "C" __global__ void kernel(u32* mine, u32* all, u32 rounds) {
  u32 group = __builtin_amdgcn_workgroup_id_x(), item = __builtin_amdgcn_workitem_id_x();
  bool first = group == 0 && item == 0;
  if (item == 0) mine[6 + group] = __ockl_multi_grid_thread_rank();
  if (first) {
    mine[0] = __ockl_multi_grid_is_valid(), mine[1] = __ockl_multi_grid_num_grids();
    mine[2] = __ockl_multi_grid_grid_rank(), mine[3] = __ockl_multi_grid_size();
  }
  u32 sum = 0;
  for (u32 r = 0; r < rounds; ++r) {
    if (item == 0) __hip_atomic_fetch_add(all + r, group + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __ockl_multi_grid_sync();
    sum += __hip_atomic_load(all + r, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  if (first) mine[4] = sum;
}
"""

#: argv: library, code objects for both devices. Two grids of different sizes; then both on one device.
_BOTH = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
class Params(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p)] + [(f"n{i}", ctypes.c_uint) for i in range(7)]
    _fields_ += [("stream", ctypes.c_void_p), ("params", ctypes.c_void_p)]
all_ = ctypes.c_void_p()
assert lib.hipHostMalloc(ctypes.byref(all_), ctypes.c_size_t(64), 0) == 0
ctypes.memset(all_.value, 0, 64)
parts, keep, mine = (Params * 2)(), [], []
for device, groups, block in ((0, 5, 64), (1, 3, 128)):
    assert lib.hipSetDevice(device) == 0
    module, function, data, stream = (ctypes.c_void_p() for _ in range(4))
    assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(sys.argv[2 + device])) == 0
    assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
    assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(64)) == 0 and lib.hipMemset(data, 0, ctypes.c_size_t(64)) == 0
    assert lib.hipStreamCreate(ctypes.byref(stream)) == 0
    values = (ctypes.c_void_p(data.value), ctypes.c_void_p(all_.value), ctypes.c_uint32(4))
    params = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
    keep += [values, params]
    mine.append(data)
    parts[device] = Params(function.value, groups, 1, 1, block, 1, 1, 0, stream.value, ctypes.addressof(params))
status = [lib.hipModuleLaunchCooperativeKernelMultiDevice(parts, 2, 0)]
back = (ctypes.c_uint32 * 16)()
rows = []
for data in mine:
    assert lib.hipMemcpy(back, data, ctypes.c_size_t(64), 2) == 0
    rows.append(list(back))
parts[1] = parts[0]
status.append(lib.hipModuleLaunchCooperativeKernelMultiDevice(parts, 2, 0))
status.append(lib.hipModuleLaunchCooperativeKernelMultiDevice(parts, 0, 0))
print(json.dumps([status, rows]))
"""


@pytest.mark.parametrize("threads", ["1", "4"])
def test_grids_of_two_devices(threads: str) -> None:
    objects = [hip_object(target, _MULTI).hex() for target in ("gfx942", "gfx950")]
    out, _ = program(_BOTH, *objects, devices="gfx942,gfx950", threads=threads)
    status, (first, second) = json.loads(out)
    assert status == [0, INVALID_DEVICE, 1]
    items, total = 5 * 64 + 3 * 128, 4 * (sum(range(1, 6)) + sum(range(1, 4)))
    assert first[:5] == [1, 2, 0, items, total] and second[:5] == [1, 2, 1, items, total]
    assert first[6:11] == [64 * n for n in range(5)] and second[6:9] == [5 * 64 + 128 * n for n in range(3)]
