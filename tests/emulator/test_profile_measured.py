"""Counters of a kernel that AMD measured on MI300X and MI350: the copy of 2^20 doubles of ROCm Compute Profiler's samples
(`vecCopy`).

Its results lie in that project's tests (`tests/workloads/no_roof`, first dispatch). The kernel here has the same 20
instructions of a wave, as
Clang orders them; its arguments lie in two lines instead of one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.assembly import code_object
from support.counted import Launch, profiled
from support.hip_process import program

_ITEMS = 1 << 20
_COPY = """
  s_load_dwordx2 s[6:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  s_load_dword s3, s[6:7], -0x40
  s_load_dword s8, s[6:7], -0x3c
  s_load_dwordx2 s[4:5], s[6:7], -0x38
  s_waitcnt lgkmcnt(0)
  s_and_b32 s3, s3, 0xffff
  s_mul_i32 s2, s2, s3
  v_add_u32_e32 v0, s2, v0
  v_cmp_gt_i32_e32 vcc, s8, v0
  s_and_saveexec_b64 s[2:3], vcc
  s_cbranch_execz .Lend
  v_ashrrev_i32_e32 v1, 31, v0
  v_lshlrev_b64 v[0:1], 3, v[0:1]
  v_lshl_add_u64 v[2:3], s[6:7], 0, v[0:1]
  global_load_dwordx2 v[2:3], v[2:3], off
  v_lshl_add_u64 v[0:1], s[4:5], 0, v[0:1]
  s_waitcnt vmcnt(0)
  global_store_dwordx2 v[0:1], v[2:3], off
.Lend:
  s_endpgm
"""
#: argv: library, code object. The header before the data: work items of a block, elements, where to.
_RUN = """
import ctypes, json, struct, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_counters.restype = ctypes.c_void_p
def must(name, *arguments):
    assert getattr(lib, name)(*arguments) == 0, name
items, data = 1 << 20, ctypes.c_void_p()
must("hipMalloc", ctypes.byref(data), ctypes.c_size_t(4096 + 16 * items))
source = data.value + 4096
header = struct.pack("<iiQ", 256, items, source + 8 * items)
must("hipMemcpy", ctypes.c_void_p(source - 0x40), header, ctypes.c_size_t(16), 1)
module, function = ctypes.c_void_p(), ctypes.c_void_p()
must("hipModuleLoad", ctypes.byref(module), sys.argv[2].encode())
must("hipModuleGetFunction", ctypes.byref(function), module, b"kernel")
argument = ctypes.c_void_p(source)
params = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
must("hipModuleLaunchKernel", function, items // 256, 1, 1, 256, 1, 1, 0, None, params, None)
print(json.dumps(json.loads(ctypes.string_at(lib.apb_emulator_counters()))["pmc"]["dispatches"][0]["counters"]))
"""

#: The same on both cards.
_MEASURED = {
    "SQ_WAVES": 16384, "SQ_WAVES_EQ_64": 16384, "SQ_WAVES_LT_64": 0, "SQ_ITEMS": 1048576,
    "SQ_INSTS": 327680, "SQ_INSTS_VALU": 98304,
    "SQ_INSTS_VALU_INT32": 49152, "SQ_INSTS_VALU_INT64": 32768, "SQ_INSTS_VALU_ADD_F64": 0, "SQ_INSTS_VALU_CVT": 0,
    "SQ_INSTS_SALU": 49152, "SQ_INSTS_SMEM": 65536, "SQ_INSTS_SMEM_NORM": 131072, "SQ_INSTS_BRANCH": 16384,
    "SQ_INSTS_SENDMSG": 16384,
    "SQ_INSTS_VMEM": 32768, "SQ_INSTS_VMEM_RD": 16384, "SQ_INSTS_VMEM_WR": 16384, "SQ_INSTS_FLAT": 32768, "SQ_INSTS_LDS": 0,
    "SQ_INSTS_GDS": 0, "SQ_INSTS_MFMA": 0, "SQC_DCACHE_REQ_READ_1": 32768, "SQC_DCACHE_REQ_READ_2": 32768,
    "SQC_DCACHE_REQ_READ_4": 0,
    "SQC_DCACHE_ATOMIC": 0, "SQ_ACTIVE_INST_ANY": 278528, "SQ_ACTIVE_INST_VALU": 98304, "SQ_ACTIVE_INST_SCA": 114688,
    "SQ_ACTIVE_INST_FLAT": 32768, "SQ_ACTIVE_INST_VMEM": 0, "SQ_ACTIVE_INST_LDS": 0, "SQ_ACTIVE_INST_MISC": 32768,
    "SQ_THREAD_CYCLES_VALU": 6291456, "SQ_INST_CYCLES_SALU": 49152, "SQ_INST_CYCLES_SMEM": 65536,
    "SQ_INST_CYCLES_VMEM_RD": 16384,
    "SQ_INST_CYCLES_VMEM_WR": 16384, "SQ_LDS_BANK_CONFLICT": 0, "SQ_LDS_IDX_ACTIVE": 0, "SQ_VALU_MFMA_BUSY_CYCLES": 0,
    "TA_TOTAL_WAVEFRONTS_sum": 32768, "TA_FLAT_WAVEFRONTS_sum": 32768, "TA_FLAT_READ_WAVEFRONTS_sum": 16384,
    "TA_FLAT_WRITE_WAVEFRONTS_sum": 16384, "TA_FLAT_ATOMIC_WAVEFRONTS_sum": 0, "TA_BUFFER_WAVEFRONTS_sum": 0,
    "TD_LOAD_WAVEFRONT_sum": 32768, "TD_STORE_WAVEFRONT_sum": 16384, "TD_ATOMIC_WAVEFRONT_sum": 0,
    "TCP_TA_TCP_STATE_READ_sum": 32768,
    "TCP_TOTAL_ACCESSES_sum": 2097152, "TCP_TOTAL_READ_sum": 1048576, "TCP_TOTAL_WRITE_sum": 1048576,
    "TCP_TOTAL_CACHE_ACCESSES_sum": 524288, "TCP_TCC_READ_REQ_sum": 65536, "TCP_TCC_WRITE_REQ_sum": 131072,
    "TCP_TCC_ATOMIC_WITH_RET_REQ_sum": 0, "TCC_WRITE_sum": 131072, "TCC_ATOMIC_sum": 0, "TCC_EA0_WRREQ_sum": 131072,
    "TCC_EA0_WRREQ_64B_sum": 131072, "TCC_EA0_RDREQ_32B_sum": 0,
}  # fmt: skip
#: What L2 sees besides: instructions, translations and the command processor's. MI300X, MI350.
_NEARLY = {
    "TCC_READ_sum": (66406, 66936), "TCC_REQ_sum": (197469, 198002), "TCC_HIT_sum": (66160, 66864),
    "TCC_MISS_sum": (131309, 131138),
    "TCC_EA0_RDREQ_sum": (65768, 65640),
}  # fmt: skip


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_copy_that_was_measured(target: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.co"
    file.write_bytes(code_object(target, _COPY))
    names = [*_MEASURED, *_NEARLY, "VALUUtilization", *(["TCC_BUBBLE"] if target == "gfx942" else [])]
    found = json.loads(program(_RUN, str(file), devices=target, pmc=",".join(names))[0])
    assert {name: found[name] for name in _MEASURED} == _MEASURED
    for name, both in _NEARLY.items():
        assert found[name] == pytest.approx(both[target == "gfx950"], rel=0.02), name
    assert found["VALUUtilization"] == 100
    if target == "gfx942":
        assert found["TCC_BUBBLE"] == pytest.approx(65536, rel=0.001)


#: ROCm Compute Profiler's documentation, "Profiling by example", on MI200, whose LDS is gfx942's: work items read dwords that are
#: 32 dwords apart; a flat access into LDS, into memory, and an atomic into both.
_LDS = """
  v_lshlrev_b32_e32 v1, 7, v0
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  s_endpgm
"""
_FLAT = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_mov_b64 s[6:7], src_shared_base
  v_lshlrev_b32_e32 v2, 2, v0
  s_waitcnt lgkmcnt(0)
  {address}
  {what}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_endpgm
"""
_INTO_LDS = "v_mov_b32_e32 v3, s7"
_INTO_MEMORY = "v_mov_b32_e32 v3, s5\n v_add_u32_e32 v2, s4, v2"
_INTO_BOTH = """
  v_mov_b32_e32 v4, s5
  v_add_u32_e32 v5, s4, v2
  v_mov_b32_e32 v3, s7
  v_and_b32_e32 v6, 1, v0
  v_cmp_eq_u32_e32 vcc, 1, v6
  v_cndmask_b32_e32 v3, v3, v4, vcc
  v_cndmask_b32_e32 v2, v2, v5, vcc
"""


def test_index_accesses_and_conflicts_of_a_growing_block(tmp_path: Path) -> None:
    image = code_object("gfx942", _LDS, lds=65536)
    blocks = range(1, 65)
    launches = [Launch(image, 1, block) for block in blocks]
    rows = profiled("gfx942", tmp_path, launches, "SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT")
    for block, found in zip(blocks, rows, strict=True):
        conflicts = min(block, 32) - 1 + max(block - 32 - 1, 0)
        assert list(found.values()) == [2 + conflicts, conflicts], block


@pytest.mark.parametrize(
    ("address", "what", "expected"),
    [
        (_INTO_LDS, "flat_store_dword v[2:3], v0", {"SQ_INSTS_LDS": 1, "TA_FLAT_WRITE_WAVEFRONTS": 1}),
        (
            _INTO_MEMORY,
            "flat_load_dword v4, v[2:3]",
            {"SQ_INSTS_LDS": 0, "TA_FLAT_READ_WAVEFRONTS": 1, "TCP_TCC_READ_REQ": 1},
        ),
        (
            _INTO_BOTH,
            "flat_atomic_add v[2:3], v0",
            {"SQ_INSTS_LDS": 1, "TA_FLAT_ATOMIC_WAVEFRONTS": 1, "TCP_TCC_ATOMIC_WITHOUT_RET_REQ": 1},
        ),
    ],
)
def test_flat_instructions(address: str, what: str, expected: dict[str, int], tmp_path: Path) -> None:
    """The atomic has work items 0 and 1, one for each place; the others one work item."""
    block = 2 if "atomic" in what else 1
    image = code_object("gfx942", _FLAT.format(address=address, what=what), lds=1024)
    (found,) = profiled("gfx942", tmp_path, [Launch(image, 1, block)], *expected, "SQ_INSTS_FLAT")
    assert found == expected | {"SQ_INSTS_FLAT": 1}
