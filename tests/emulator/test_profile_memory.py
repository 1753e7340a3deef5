"""Lines that vector memory instructions touch, bytes by level, and what an occupancy is limited by."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.assembly import code_object
from support.counted import Launch, counters, profiled

TARGETS = ("gfx942", "gfx950")

_ACCESS = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  {address}
  s_waitcnt lgkmcnt(0)
  {what}
  s_waitcnt vmcnt(0)
  s_endpgm
"""
#: What, address in v1, bytes wanted, the different pieces of 64 and lines of 128 bytes, and the lines of each four lanes,
#: summed. The
#: buffer begins at a line.
_KNOWN = (
    ("global_load_dword v2, v1, s[4:5]", "v_lshlrev_b32_e32 v1, 2, v0", 256, 4, 2, 16),
    ("global_load_dword v2, v1, s[4:5] offset:4", "v_lshlrev_b32_e32 v1, 2, v0", 256, 5, 3, 18),
    ("global_load_dword v2, v1, s[4:5]", "v_lshlrev_b32_e32 v1, 6, v0", 256, 64, 32, 32),
    ("global_load_dword v2, v1, s[4:5]", "v_lshlrev_b32_e32 v1, 7, v0", 256, 64, 64, 64),
    ("global_load_dword v2, v1, s[4:5]", "v_mov_b32_e32 v1, 0", 256, 1, 1, 16),
    ("global_load_dword v2, v1, s[4:5] offset:-2", "v_mov_b32_e32 v1, 64", 256, 2, 1, 16),
    ("global_load_ubyte v2, v1, s[4:5]", "v_mov_b32_e32 v1, v0", 64, 1, 1, 16),
    ("global_load_dwordx4 v[4:7], v1, s[4:5]", "v_lshlrev_b32_e32 v1, 4, v0", 1024, 16, 8, 16),
    ("global_store_dwordx2 v1, v[4:5], s[4:5]", "v_lshlrev_b32_e32 v1, 3, v0", 512, 8, 4, 16),
    ("global_store_dword v1, v0, s[4:5]", "v_lshlrev_b32_e32 v1, 7, v0", 256, 64, 64, 64),
)


@pytest.mark.parametrize("target", TARGETS)
def test_lines_of_one_instruction(target: str, tmp_path: Path) -> None:
    launches = [
        Launch(code_object(target, _ACCESS.format(what=what, address=address)))
        for what, address, *_ in _KNOWN
    ]
    names = (
        "EMU_READ_BYTES_WANTED", "EMU_WRITE_BYTES_WANTED", "EMU_BYTES_TOUCHED", "EMU_LINES_TOUCHED",
        "TCP_TOTAL_CACHE_ACCESSES_sum",
        "TCP_TOTAL_ACCESSES", "TCP_TOTAL_READ", "TCP_TOTAL_WRITE", "SQ_INSTS_VMEM_RD", "SQ_INSTS_VMEM_WR",
        "EMU_COALESCING_PERCENT",
    )  # fmt: skip
    rows = profiled(target, tmp_path, launches, *names)
    for (what, address, wanted, pieces, lines, quads), found in zip(_KNOWN, rows, strict=True):
        read, written = (0, 1) if "store" in what else (1, 0)
        expected = [
            read * wanted,
            written * wanted,
            64 * pieces,
            lines,
            quads,
            64,
            64 * read,
            64 * written,
            read,
            written,
        ]
        values = list(found.values())
        assert values[:-1] == expected, (what, address)
        assert values[-1] == pytest.approx(100 * wanted / (64 * pieces), abs=1e-5)


#: Each work item copies one dword, 32 KiB further; s2 is the workgroup.
_COPY = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_lshl_b32 s6, s2, 10
  v_lshlrev_b32_e32 v1, 2, v0
  {where}
  v_add_u32_e32 v2, 0x8000, v1
  s_waitcnt lgkmcnt(0)
  global_load_dword v3, v1, s[4:5]
  s_waitcnt vmcnt(0)
  {back}
  global_store_dword v2, v3, s[4:5]
  s_endpgm
"""
_LEVELS = (
    "EMU_READ_BYTES_WANTED", "EMU_WORKGROUP_LINES_READ", "EMU_LAUNCH_LINES_READ", "EMU_HBM_READ_BYTES", "EMU_HBM_WRITE_BYTES",
    "EMU_WORKGROUP_64B_WRITTEN", "FetchSize", "WriteSize", "TCC_MISS", "TCC_HIT_sum", "TCP_TCC_READ_REQ", "TCP_TCC_WRITE_REQ",
    "SQC_TC_DATA_READ_REQ",
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_by_level(target: str, tmp_path: Path) -> None:
    """Every workgroup its own KiB: no level sees less than the one before. The arguments are one line for each XCD."""
    grid = random.randint(1, 30)
    copy = code_object(target, _COPY.format(where="v_add_u32_e32 v1, s6, v1", back=""))
    (found,) = profiled(target, tmp_path, [Launch(copy, grid, 256)], *_LEVELS)
    xcds = min(grid, 8)
    units = 38 if target == "gfx942" else 32  # of an XCD; two share a scalar cache
    scalars = len({(group % 8 * units + group // 8) // 2 for group in range(grid)})
    lines, misses = 8 * grid + xcds, 16 * grid + xcds
    assert found == {
        "EMU_READ_BYTES_WANTED": 1024 * grid, "EMU_WORKGROUP_LINES_READ": 8 * grid, "EMU_LAUNCH_LINES_READ": 8 * grid + 1,
        "EMU_HBM_READ_BYTES": 128 * (8 * grid + 1), "EMU_HBM_WRITE_BYTES": 1024 * grid, "EMU_WORKGROUP_64B_WRITTEN": 16 * grid,
        "FetchSize": lines / 8, "WriteSize": grid, "TCC_MISS": misses, "TCP_TCC_READ_REQ": 8 * grid,
        "TCP_TCC_WRITE_REQ": 16 * grid,
        "SQC_TC_DATA_READ_REQ": scalars, "TCC_HIT_sum": 8 * grid + 16 * grid + scalars - misses,
    }  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_what_workgroups_share(target: str, tmp_path: Path) -> None:
    """All read the same KiB and write it back over each other: memory sees it once, each XCD's L2 once, each workgroup once."""
    grid = random.randint(9, 40)
    copy = code_object(target, _COPY.format(where="", back=""))
    (found,) = profiled(target, tmp_path, [Launch(copy, grid, 256)], *_LEVELS)
    assert found["EMU_WORKGROUP_LINES_READ"] == 8 * grid and found["EMU_LAUNCH_LINES_READ"] == 8 + 1
    assert found["TCC_MISS"] == 8 * (8 + 1 + 8) and found["FetchSize"] == 9
    assert (found["EMU_HBM_WRITE_BYTES"], found["WriteSize"]) == (1024, 8)


def test_small_devices_have_fewer_xcds(tmp_path: Path) -> None:
    copy = code_object("gfx942", _COPY.format(where="", back=""))
    (found,) = profiled("gfx942:cus=80", tmp_path, [Launch(copy, 20, 256)], *_LEVELS, "CU_NUM", "SE_NUM")
    assert found["TCC_MISS"] == 4 * (8 + 1 + 8) and (found["CU_NUM"], found["SE_NUM"]) == (80, 16)


#: Descriptor and block, workgroups a compute unit holds, and why, on both targets.
_OCCUPANCY: tuple[tuple[dict[str, int], int, dict[str, tuple[int, str]]], ...] = (
    ({"vgprs": 64, "accum_offset": 64}, 64, {"gfx942": (32, "waves"), "gfx950": (32, "waves")}),
    ({"vgprs": 64, "accum_offset": 64}, 1024, {"gfx942": (2, "waves"), "gfx950": (2, "waves")}),
    ({"vgprs": 200, "accum_offset": 200}, 256, {"gfx942": (2, "vgprs"), "gfx950": (2, "vgprs")}),
    ({"vgprs": 200, "accum_offset": 64}, 256, {"gfx942": (2, "agprs"), "gfx950": (2, "agprs")}),
    ({"vgprs": 64, "accum_offset": 64, "lds": 20000}, 256, {"gfx942": (3, "lds"), "gfx950": (8, "waves")}),
    ({"vgprs": 64, "accum_offset": 64, "lds": 65536}, 256, {"gfx942": (1, "lds"), "gfx950": (2, "lds")}),
)


@pytest.mark.parametrize("target", TARGETS)
def test_occupancy_and_its_limiter(target: str, tmp_path: Path) -> None:
    launches = [
        Launch(code_object(target, "s_endpgm", **descriptor), 2, block) for descriptor, block, _ in _OCCUPANCY
    ]
    (document,) = counters(
        target, tmp_path, [launches], pmc="EMU_OCCUPANCY_WORKGROUPS,EMU_OCCUPANCY_BY_BARRIERS"
    )
    dispatches: list[dict[str, Any]] = document["pmc"]["dispatches"]
    for (descriptor, block, expected), launch, dispatch in zip(
        _OCCUPANCY, document["launches"], dispatches, strict=True
    ):
        workgroups, limiter = expected[target]
        found = launch["occupancy"]
        assert (found["workgroups"], found["limiter"]) == (workgroups, limiter), (descriptor, block)
        assert found["waves"] == workgroups * (block // 64)
        assert dispatch["occupancy_limiter"] == limiter
        assert dispatch["counters"]["EMU_OCCUPANCY_WORKGROUPS"] == workgroups
        assert dispatch["counters"]["EMU_OCCUPANCY_BY_BARRIERS"] == (16 if block > 64 else -1)
        assert found["by_barriers"] == (16 if block > 64 else None)
        limits = [found[name] for name in ("by_waves", "by_registers", "by_lds", "by_barriers")]
        assert workgroups == min(limit for limit in limits if limit is not None)
