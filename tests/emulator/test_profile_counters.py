"""Instructions, waves and the matrix pipe under rocprofv3's names, and the estimate of time."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from support.assembly import code_object
from support.counted import Launch, profiled
from support.coverage import patched
from support.instructions import assemble
from support.matrix_assembly import TARGETS, matrix_instructions

#: `{n}` turns of a loop.
_KERNEL = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dwordx16 s[16:31], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_movk_i32 s6, {n}
  s_waitcnt lgkmcnt(0)
.Lloop:
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_f32_e32 v3, v2, v2
  v_pk_fma_f32 v[4:5], v[2:3], v[2:3], v[2:3]
  v_exp_f32_e32 v6, v3
  v_add_u32_e32 v2, 1, v2
  v_cvt_f32_i32_e32 v7, v2
  v_mul_f64 v[4:5], v[4:5], v[4:5]
  global_store_dword v1, v2, s[4:5] offset:2048
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lloop
  ds_write_b32 v1, v2
  s_barrier
  ds_read_b32 v4, v1
  v_mov_b32_e32 v8, s4
  v_mov_b32_e32 v9, s5
  flat_load_dword v10, v[8:9]
  global_atomic_add v1, v2, s[4:5]
  global_atomic_add v11, v1, v2, s[4:5] sc0
  s_endpgm
"""


@pytest.mark.parametrize("target", TARGETS)
def test_instructions_and_waves(target: str, tmp_path: Path) -> None:
    n, grid, block = random.randint(1, 20), random.randint(1, 9), random.randint(1, 256)
    launch = Launch(code_object(target, _KERNEL.format(n=n), lds=1024), grid, block)
    waves, tail = grid * -(-block // 64), block % 64
    partial = grid if tail else 0
    per_wave = {
        "SQ_WAVES": 1, "SQ_INSTS": 14 + 12 * n, "SQ_INSTS_VALU": 3 + 6 * n, "SQ_INSTS_VALU_ADD_F32": n,
        "SQ_INSTS_VALU_FMA_F32": n,
        "SQ_INSTS_VALU_TRANS_F32": n, "SQ_INSTS_VALU_MUL_F64": n, "SQ_INSTS_VALU_CVT": n,
        "SQ_INSTS_VALU_INT32": n, "SQ_INSTS_SENDMSG": 1,
        "SQ_INSTS_VALU_ADD_F16": 0, "SQ_INSTS_SALU": 1 + 2 * n, "SQ_INSTS_SMEM": 2, "SQC_DCACHE_REQ_READ_2": 1,
        "SQC_DCACHE_REQ_READ_16": 1, "SQ_INSTS_BRANCH": n, "SQ_INSTS_LDS": 2, "SQ_INSTS_FLAT": 3 + 2 * n,
        "SQ_INSTS_VMEM": 3 + 2 * n,
        "SQ_INSTS_VMEM_RD": 2 + n, "SQ_INSTS_VMEM_WR": 1 + n, "TA_FLAT_ATOMIC_WAVEFRONTS": 2, "TA_BUFFER_WAVEFRONTS": 0,
        "SQ_INSTS_MFMA": 0, "SQ_INSTS_GDS": 0,
    }  # fmt: skip
    if target == "gfx950":
        per_wave |= {
            "SQ_INSTS_FLAT_FLATSEG": 1,
            "SQ_INSTS_LDS_LOAD": 1,
            "SQ_INSTS_LDS_STORE": 1,
            "SQ_INSTS_LDS_ATOMIC": 0,
        }
    whole = {"SQ_ITEMS": grid * block, "SQ_WAVES_EQ_64": waves - partial, "SQ_WAVES_LT_64": partial}
    whole |= {f"SQ_WAVES_LT_{bound}": partial if tail < bound else 0 for bound in (48, 32, 16)}
    (found,) = profiled(target, tmp_path, [launch], *per_wave, *whole, "VALUUtilization")
    busy = found.pop("VALUUtilization")
    assert found == {name: waves * count for name, count in per_wave.items()} | whole
    assert busy == pytest.approx(100 * grid * block / (64 * waves), abs=1e-5)


_KINDS = ("F16", "BF16", "F32", "F64", "I8", "F8", "XF32", "F6F4")


def _kind(text: str) -> str:
    name = text.split()[0]
    if "f8f6f4" in name:
        return "F8"  # without modifiers both operands are fp8
    last = re.sub(r"_(e64|1k)$", "", name).split("_")[-1]
    return "F8" if last in ("fp8", "bf8") else last.upper()


#: Cycles by AMD's matrix instruction calculator and ISA documents, four for each pass.
_CYCLES = {
    "v_mfma_f32_32x32x1_2b_f32": 64, "v_mfma_f32_16x16x4_f32": 32, "v_mfma_f32_4x4x1_16b_f32": 8, "v_mfma_f32_32x32x8_f16": 32,
    "v_mfma_f32_16x16x16_f16": 16, "v_mfma_f32_32x32x4_2b_f16": 64, "v_mfma_f32_4x4x4_16b_f16": 8,
    "v_mfma_f32_32x32x16_bf16": 32,
    "v_mfma_f32_16x16x32_bf16": 16, "v_mfma_i32_32x32x16_i8": 32, "v_mfma_i32_16x16x32_i8": 16, "v_mfma_f32_32x32x4_xf32": 32,
    "v_mfma_f32_16x16x32_fp8_fp8": 16, "v_mfma_f32_32x32x16_bf8_fp8": 32, "v_smfmac_f32_16x16x32_f16": 16,
    "v_mfma_f32_16x16x128_f8f6f4": 32, "v_mfma_f32_32x32x64_f8f6f4": 64,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_every_matrix_instruction(target: str, tmp_path: Path) -> None:
    lines = matrix_instructions(target)
    code = assemble(target, list(lines))
    kinds = [kind for kind in _KINDS if target == "gfx950" or kind not in ("XF32", "F6F4")]
    names = [f"SQ_INSTS_VALU_MFMA{infix}_{kind}" for kind in kinds for infix in ("", "_MOPS")]
    launches = [Launch(patched(target, item.words), 2, 128) for item in code]
    rows = profiled(
        target, tmp_path, launches, *names, "SQ_INSTS_MFMA", "SQ_INSTS_VALU", "SQ_VALU_MFMA_BUSY_CYCLES"
    )
    seen = set()
    for (text, flops), found in zip(lines.items(), rows, strict=True):
        kind, name = _kind(text), text.split()[0]
        assert found["SQ_INSTS_MFMA"] == found["SQ_INSTS_VALU"] == 4, text
        for other in kinds:
            expected = [4, 4 * flops // 512] if other == kind else [0, 0]
            assert [found[f"SQ_INSTS_VALU_MFMA{infix}_{other}"] for infix in ("", "_MOPS")] == expected, (
                text,
                other,
            )
        seen.add(kind)
        if name in _CYCLES:
            assert found["SQ_VALU_MFMA_BUSY_CYCLES"] == 4 * _CYCLES[name], text
    assert seen >= {"F16", "BF16", "F32", "F64", "I8", "F8"}


def test_four_bit_operands_have_a_counter_and_half_the_cycles(tmp_path: Path) -> None:
    """As published for an fp4 kernel on MI355X: every MFMA is one of SQ_INSTS_VALU_MFMA_F6F4 and has 32 busy cycles."""
    body = "v_mfma_f32_32x32x64_f8f6f4 a[0:15], v[0:3], v[16:19], a[0:15] cbsz:4 blgp:4\n s_endpgm"
    names = ("SQ_INSTS_MFMA", "SQ_INSTS_VALU_MFMA_F6F4", "SQ_INSTS_VALU_MFMA_F8", "SQ_VALU_MFMA_BUSY_CYCLES")
    (found,) = profiled("gfx950", tmp_path, [Launch(code_object("gfx950", body), 3, 64)], *names)
    assert list(found.values()) == [3, 3, 0, 3 * 32]


_WAITS = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_u32_e32 vcc, 64, v0
  s_cbranch_vccz .Lothers
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
.Lothers:
  s_barrier
  v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
  v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
  s_endpgm
"""
_TIMES = (
    "EMU_WAIT_VMCNT_CYCLES", "EMU_WAIT_LGKMCNT_CYCLES", "EMU_WAIT_BARRIER_CYCLES", "EMU_WAIT_MFMA_CYCLES", "SQ_WAIT_ANY",
    "GRBM_GUI_ACTIVE", "MfmaUtil", "OccupancyPercent", "MeanOccupancyPerCU", "SQ_WAVE_CYCLES", "CU_NUM", "SIMD_NUM",
    "SQ_VALU_MFMA_BUSY_CYCLES",
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_waits_by_kind_and_shares_of_time(target: str, tmp_path: Path) -> None:
    """Wave 0 loads, three others wait for it at the barrier as long as it takes; the second MFMA waits 32 - 4 cycles."""
    (found,) = profiled(target, tmp_path, [Launch(code_object(target, _WAITS), 1, 256)], *_TIMES)
    alone, barrier = found["EMU_WAIT_VMCNT_CYCLES"], found["EMU_WAIT_BARRIER_CYCLES"]
    assert alone > 100 and barrier == 3 * (alone + 2 * 4)
    assert found["EMU_WAIT_MFMA_CYCLES"] == 4 * (32 - 4)
    kinds = ("VMCNT", "LGKMCNT", "BARRIER", "MFMA")
    assert 4 * found["SQ_WAIT_ANY"] == sum(found[f"EMU_WAIT_{kind}_CYCLES"] for kind in kinds)
    time, units = found["GRBM_GUI_ACTIVE"], found["CU_NUM"]
    assert found["MfmaUtil"] == pytest.approx(
        100 * found["SQ_VALU_MFMA_BUSY_CYCLES"] / (time * found["SIMD_NUM"]), abs=1e-5
    )
    assert found["MeanOccupancyPerCU"] == pytest.approx(
        4 * found["SQ_WAVE_CYCLES"] / (time * units), abs=1e-5
    )
    assert found["OccupancyPercent"] == pytest.approx(100 * found["MeanOccupancyPerCU"] / 32, abs=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_shares_stay_below_all_of_it(target: str, tmp_path: Path) -> None:
    """A device full of workgroups that do nothing but MFMA: the pipes are busy nearly all of the time, never more."""
    body = "v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]\n" * 100 + "s_endpgm"
    units = 304 if target == "gfx942" else 256
    (found,) = profiled(target, tmp_path, [Launch(code_object(target, body), 4 * units, 256)], *_TIMES)
    assert 95 < found["MfmaUtil"] <= 100
    assert 40 < found["OccupancyPercent"] <= 50  # 128 registers: 16 waves of 32
    (one,) = profiled(target, tmp_path, [Launch(code_object(target, body), 1, 256)], *_TIMES)
    assert one["MfmaUtil"] == pytest.approx(100 / units, rel=0.05)


def test_the_result_does_not_depend_on_threads(tmp_path: Path) -> None:
    image = code_object("gfx942", _KERNEL.format(n=5), lds=1024)
    names = (*_TIMES, "TCC_MISS", "TCC_HIT", "SQ_LDS_BANK_CONFLICT", "SQ_BUSY_CU_CYCLES")
    one, many = (
        profiled("gfx942", tmp_path, [Launch(image, 500, 200)], *names, threads=threads)
        for threads in ("1", "8")
    )
    assert one == many
