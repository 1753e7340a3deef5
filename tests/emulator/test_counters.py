"""What the counters say of kernels whose instructions and bytes are known."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.assembly import code_object
from support.counted import Launch, counters
from support.coverage import patched
from support.emulator import bundles, library_path
from support.hip_process import program
from support.instructions import assemble
from support.matrix_assembly import matrix_instructions

TARGETS = ("gfx942", "gfx950")
CATEGORIES = (
    "salu", "valu", "mfma", "smem", "vmem_load", "vmem_store", "atomic", "lds", "branch", "wait", "other",
)  # fmt: skip
BYTES = ("global_read_bytes", "global_written_bytes", "lds_read_bytes", "lds_written_bytes")

#: `{n}` turns of a loop, and every category at least once.
_EVERY_CATEGORY = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_movk_i32 s6, {n}
  s_waitcnt lgkmcnt(0)
.Lloop:
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32_e32 v2, 1, v2
  v_max_u32_e32 v2, v2, v0
  global_store_dword v1, v2, s[4:5] offset:2048
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lloop
  v_mov_b32_e32 v3, 0
  ds_write_b32 v1, v2
  s_barrier
  ds_read_b32 v4, v1
  global_atomic_add v3, v3, s[4:5]
  buffer_wbl2 sc1
  v_mfma_f32_4x4x1_16b_f32 a[0:3], v2, v3, a[0:3]
  s_branch .Lend
.Lend:
  s_nop 0
  s_endpgm
"""


@pytest.mark.parametrize("target", TARGETS)
def test_instructions_by_category(target: str, tmp_path: Path) -> None:
    n, grid, block = random.randint(1, 40), random.randint(1, 9), random.randint(1, 256)
    image = code_object(target, _EVERY_CATEGORY.format(n=n), lds=1024)
    (found,) = counters(target, tmp_path, [[Launch(image, grid, block)]])
    waves = grid * -(-block // 64)
    per_wave = {
        "smem": 1, "valu": 2 + 2 * n, "salu": 1 + 2 * n, "wait": 2 + n, "vmem_load": n, "vmem_store": n, "branch": n + 1,
        "lds": 2, "atomic": 1, "mfma": 1, "other": 3,
    }  # fmt: skip
    (launch,) = found["launches"]
    assert launch["grid"] == [grid, 1, 1] and launch["block"] == [block, 1, 1] and launch["waves"] == waves
    assert {name: launch["instructions"][name] for name in CATEGORIES} == {
        name: waves * count for name, count in per_wave.items()
    }
    assert launch["instructions"]["total"] == waves * sum(per_wave.values())
    items = grid * block  # the last wave's EXEC has only those lanes that there are
    assert [launch[name] for name in BYTES] == [
        items * 4 * (n + 1),
        items * 4 * (n + 1),
        items * 4,
        items * 4,
    ]
    assert launch["mfma_flops"] == waves * 2 * 4 * 4 * 1 * 16  # whatever EXEC says


#: Instruction, bytes per active lane: read and written in global memory, read and written in LDS. v1: byte offset of the
#: lane, 16 apart; v[2:3] its global address; s[8:11] a buffer of 64 KiB; LDS of 4 KiB.
_ACCESSES = (
    ("global_load_ubyte v10, v1, s[4:5]", 1, 0, 0, 0),
    ("global_load_short_d16_hi v10, v1, s[4:5]", 2, 0, 0, 0),
    ("global_load_dword v10, v[2:3], off", 4, 0, 0, 0),
    ("global_load_dwordx2 v[10:11], v1, s[4:5]", 8, 0, 0, 0),
    ("global_load_dwordx3 v[10:12], v1, s[4:5]", 12, 0, 0, 0),
    ("global_load_dwordx4 a[10:13], v1, s[4:5]", 16, 0, 0, 0),
    ("global_store_byte v1, v10, s[4:5]", 0, 1, 0, 0),
    ("global_store_short v1, v10, s[4:5]", 0, 2, 0, 0),
    ("global_store_dwordx3 v1, v[10:12], s[4:5]", 0, 12, 0, 0),
    ("global_store_dwordx4 v[2:3], v[10:13], off", 0, 16, 0, 0),
    ("flat_load_dwordx2 v[10:11], v[2:3]", 8, 0, 0, 0),
    ("flat_store_dword v[2:3], v10", 0, 4, 0, 0),
    ("buffer_load_dwordx4 v[10:13], v1, s[8:11], 0 offen", 16, 0, 0, 0),
    ("buffer_store_dwordx2 v[10:11], v1, s[8:11], 0 offen", 0, 8, 0, 0),
    ("buffer_load_dword v1, s[8:11], 0 offen lds", 4, 0, 0, 4),
    ("global_load_lds_dword v1, s[4:5]", 4, 0, 0, 4),
    ("global_atomic_add_f32 v1, v10, s[4:5]", 4, 4, 0, 0),
    ("global_atomic_cmpswap_x2 v[14:15], v1, v[10:13], s[4:5] sc0", 8, 8, 0, 0),
    ("global_atomic_pk_add_bf16 v1, v10, s[4:5]", 4, 4, 0, 0),
    ("buffer_atomic_add v10, v1, s[8:11], 0 offen", 4, 4, 0, 0),
    ("ds_write_b64 v1, v[10:11]", 0, 0, 0, 8),
    ("ds_write2_b32 v1, v10, v11 offset1:1", 0, 0, 0, 8),
    ("ds_read_u16 v10, v1", 0, 0, 2, 0),
    ("ds_read_b128 v[10:13], v1", 0, 0, 16, 0),
    ("ds_read2st64_b64 v[10:13], v1 offset1:1", 0, 0, 16, 0),
    ("ds_add_u32 v1, v10", 0, 0, 4, 4),
    ("ds_add_rtn_f64 v[10:11], v1, v[12:13]", 0, 0, 8, 8),
    ("ds_bpermute_b32 v10, v1, v0", 0, 0, 0, 0),
    ("s_load_dwordx8 s[16:23], s[4:5], 0x0", 0, 0, 0, 0),
)
_ACCESS = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 4, v0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v3, s5
  v_add_co_u32_e32 v2, vcc, s4, v1
  v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
  s_mov_b64 s[8:9], s[4:5]
  s_mov_b32 s10, 0x10000
  s_mov_b32 s11, 0x20000
  s_mov_b32 m0, 0
  s_mov_b32 exec_lo, {low:#x}
  s_mov_b32 exec_hi, {high:#x}
  {what}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_endpgm
"""


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_of_active_lanes(target: str, tmp_path: Path) -> None:
    masks = [random.getrandbits(64) for _ in _ACCESSES]
    masks[0], masks[6], masks[-9] = (1 << 64) - 1, 0, 1 << 63
    groups = [
        [
            Launch(
                code_object(
                    target,
                    _ACCESS.format(what=what, low=mask & 0xFFFFFFFF, high=mask >> 32),
                    lds=4096,
                )
            )
        ]
        for (what, *_), mask in zip(_ACCESSES, masks, strict=True)
    ]
    found = counters(target, tmp_path, groups)
    for (what, *per_lane), mask, document in zip(_ACCESSES, masks, found, strict=True):
        (launch,) = document["launches"]
        expected = [mask.bit_count() * count for count in per_lane]
        assert [launch[name] for name in BYTES] == expected, (what, hex(mask))
        assert launch["mfma_flops"] == 0


#: With a buffer of 100 bytes: six lanes 16 apart are inside, of the seventh 4 bytes.
_CUT = (
    ("buffer_load_dwordx4 v[10:13], v1, s[8:11], 0 offen", 100, 0, 0, 0),
    ("buffer_load_ubyte v10, v1, s[8:11], 0 offen", 7, 0, 0, 0),
    ("buffer_store_dwordx2 v[10:11], v1, s[8:11], 0 offen", 0, 52, 0, 0),
    ("buffer_store_dword v10, v1, s[8:11], 0 offen", 0, 28, 0, 0),
    ("buffer_atomic_add v10, v1, s[8:11], 0 offen", 28, 28, 0, 0),
    ("tbuffer_load_format_x v10, v1, s[8:11], 0 format:[BUF_DATA_FORMAT_32, BUF_NUM_FORMAT_UINT] offen", 28, 0, 0, 0),
    ("tbuffer_store_format_x v10, v1, s[8:11], 0 format:[BUF_DATA_FORMAT_32, BUF_NUM_FORMAT_UINT] offen", 0, 28, 0, 0),
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_outside_a_buffer_are_not_moved(target: str, tmp_path: Path) -> None:
    body = _ACCESS.replace("0x10000", "100")
    groups = [
        [Launch(code_object(target, body.format(what=what, low=0xFFFFFFFF, high=0xFFFFFFFF)))]
        for what, *_ in _CUT
    ]
    for (what, *expected), document in zip(_CUT, counters(target, tmp_path, groups), strict=True):
        assert [document["launches"][0][name] for name in BYTES] == expected, what


@pytest.mark.parametrize("target", TARGETS)
def test_flops_of_every_matrix_instruction(target: str, tmp_path: Path) -> None:
    lines = matrix_instructions(target)
    assert len(lines) > 40
    code = assemble(target, list(lines))
    grid, block = random.randint(1, 3), random.randint(1, 200)
    groups = [[Launch(patched(target, item.words), grid, block)] for item in code]
    waves = grid * -(-block // 64)
    for (text, flops), item, document in zip(
        lines.items(), code, counters(target, tmp_path, groups), strict=True
    ):
        assert item.words, (text, item.error)
        (launch,) = document["launches"]
        assert launch["instructions"]["mfma"] == waves, text
        assert launch["mfma_flops"] == waves * flops, text


def test_the_file_is_written_without_a_launch(tmp_path: Path) -> None:
    file = tmp_path / "counters.json"
    program("import ctypes, sys; ctypes.CDLL(sys.argv[1]).hipInit(0)", counters=str(file))
    assert json.loads(file.read_text(encoding="utf-8"))["kernels"] == []


def test_records_of_launches_and_kernels_and_reset(tmp_path: Path) -> None:
    """One record per launch in their order, one per kernel with the sums; a reset forgets both."""
    image = code_object("gfx950", _EVERY_CATEGORY.format(n=3), lds=1024)
    launches = [Launch(image, grid, block) for grid, block in ((1, 64), (5, 128), (2, 65))]
    document, after, empty = counters("gfx950", tmp_path, [launches, launches[:1], []])
    assert [(x["grid"][0], x["block"][0], x["waves"]) for x in document["launches"]] == [
        (1, 64, 1),
        (5, 128, 10),
        (2, 65, 4),
    ]
    (kernel,) = document["kernels"]
    assert kernel["kernel"] == "kernel" and kernel["target"] == "gfx950" and kernel["device"] == 0
    assert kernel["launches"] == 3 and kernel["waves"] == 15
    for name in (*BYTES, "mfma_flops"):
        assert kernel[name] == sum(x[name] for x in document["launches"]) > 0
    for name in CATEGORIES:
        total = sum(x["instructions"][name] for x in document["launches"])
        assert kernel["instructions"][name] == total > 0
    assert kernel["seconds"] >= max(x["seconds"] for x in document["launches"]) >= 0
    assert after["kernels"][0]["launches"] == len(after["launches"]) == 1
    assert after["launches"][0]["instructions"] == document["launches"][0]["instructions"]
    assert empty["kernels"] == empty["launches"] == [] and empty["launches_dropped"] == 0


def test_only_the_last_launches_are_kept(tmp_path: Path) -> None:
    count = 1024 + random.randint(1, 50)
    image = code_object("gfx942", "s_endpgm")
    many = [Launch(image, 1 + i) for i in range(count)]
    document, after = counters("gfx942", tmp_path, [many, many[:2]])
    assert len(document["launches"]) == 1024 and document["launches_dropped"] == count - 1024
    assert document["launches"][-1]["grid"] == [count, 1, 1]
    (kernel,) = document["kernels"]
    assert kernel["launches"] == count and kernel["instructions"]["total"] == count * (count + 1) // 2
    assert len(after["launches"]) == 2 and after["launches_dropped"] == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_matrix_product_that_we_ship(target: str) -> None:
    """Whole tiles: exactly 2 M N K operations, every result of two bytes written once, every operand read at least once."""
    root = Path(__file__).resolve().parents[2]
    m, n, k = (random.choice((128, 256)) for _ in range(3))
    settings = {
        "PYTHONPATH": str(root / "src"),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": target,
        "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, bundles(target, "ck-free"))),
    }
    words = [
        "gemm_a16w16",
        f"M={m}",
        f"N={n}",
        f"K={k}",
        "bias=none",
        "--repeat",
        "1",
        "--counters",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt", "bench", *words],
        env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    launches = json.loads(done.stdout)["counters"]["launches"]
    products = [launch for launch in launches if launch["mfma_flops"]]
    assert products
    assert {launch["mfma_flops"] for launch in products} == {2 * m * n * k}, (m, n, k)
    assert {launch["global_written_bytes"] for launch in products} == {2 * m * n}, (m, n, k)
    assert all(launch["global_read_bytes"] >= 2 * k * (m + n) for launch in products)
