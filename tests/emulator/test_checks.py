"""The checks of the embedded device: each fires on a kernel that does the wrong thing, and stays quiet on the right one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.checked import Outcome, launch

#: v1 = 4 * work item, s[4:5] = the buffer.
_START = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
"""
_STORE = """
    global_store_dword v1, v2, s[4:5]
    s_endpgm
"""


def faulted(outcome: Outcome, kind: str, *says: str) -> None:
    """The launch failed, and one log line names the kernel, the place and ``says``."""
    assert outcome.status != 0, outcome.log
    lines = [line for line in outcome.log.splitlines() if kind in line]
    assert len(lines) == 1, outcome.log
    for text in ("kernel", "code+0x", "workgroup (", "wave ", *says):
        assert text in lines[0], (text, lines[0])


def clean(outcome: Outcome) -> None:
    assert outcome.status == 0 and not outcome.log, outcome.log


# --- registers that are being loaded ------------------------------------------------------------------------

_HAZARDS = {
    "vector_load": ("global_load_dword v2, v1, s[4:5]", "vmcnt(0)", "v_add_u32_e32 v2, 1, v2", "v2 "),
    "overwritten": ("global_load_dword v2, v1, s[4:5]", "vmcnt(0)", "v_mov_b32_e32 v2, 1", "v2 "),
    "second_dword": ("global_load_dwordx2 v[2:3], v1, s[4:5]", "vmcnt(0)", "v_mov_b32_e32 v4, v3", "v3 "),
    "stored": ("global_load_dword v2, v1, s[4:5]", "vmcnt(0)", "global_store_dword v1, v2, s[4:5]", "v2 "),
    "accumulator": ("global_load_dword a2, v1, s[4:5]", "vmcnt(0)", "v_accvgpr_read_b32 v2, a2", "a2 "),
    "buffer": (
        "s_mov_b32 s6, 0x1000\ns_mov_b32 s7, 0x27000\nbuffer_load_dword v2, v1, s[4:7], 0 offen", "vmcnt(0)",
        "v_add_u32_e32 v2, 1, v2", "v2 ",
    ),
    "scalar_load": ("s_load_dword s8, s[4:5], 0x8", "lgkmcnt(0)", "v_mov_b32_e32 v2, s8", "s8 "),
    "lds": ("ds_write_b32 v1, v0\nds_read_b32 v2, v1", "lgkmcnt(0)", "v_add_u32_e32 v2, 1, v2", "v2 "),
    "atomic": (
        "v_mov_b32_e32 v3, 1\nglobal_atomic_add v2, v1, v3, s[4:5] sc0", "vmcnt(0)", "v_add_u32_e32 v2, 1, v2", "v2 ",
    ),
    "flat": (
        "v_mov_b32_e32 v4, s4\nv_mov_b32_e32 v5, s5\nflat_load_dword v2, v[4:5]", "vmcnt(0)",
        "v_add_u32_e32 v2, 1, v2", "v2 ",
    ),
    "flat_to_lds": (
        """ds_write_b32 v1, v0
        s_mov_b64 s[6:7], src_shared_base
        v_mov_b32_e32 v4, 0
        v_mov_b32_e32 v5, s7
        flat_load_dword v2, v[4:5]""",
        "lgkmcnt(0)", "v_add_u32_e32 v2, 1, v2", "v2 ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _HAZARDS)
def test_use_of_a_register_that_is_being_loaded(name: str, tmp_path: Path) -> None:
    """Without its s_waitcnt the use is a hazard that names the register and the load; with it, nothing."""
    load, wait, use, register = _HAZARDS[name]
    without = f"{_START}{load}\n{use}\n" + _STORE
    outcome = launch(tmp_path, "gfx942", without, checks="hazards", lds=4096)
    faulted(outcome, "missing s_waitcnt", register, f"s_waitcnt {wait}", "still being loaded")
    clean(
        launch(
            tmp_path,
            "gfx942",
            f"{_START}{load}\ns_waitcnt {wait}\n{use}\n" + _STORE,
            checks="hazards",
            lds=4096,
        )
    )
    clean(launch(tmp_path, "gfx942", without, checks="lds,races,alignment", lds=4096))


def test_counted_waits_free_the_oldest_first(tmp_path: Path) -> None:
    """vmcnt(1) of two loads frees the first one only; a store behind them counts too."""
    loads = "global_load_dword v2, v1, s[4:5]\nglobal_load_dword v3, v1, s[4:5] offset:64\n"
    store = "global_store_dword v1, v0, s[4:5] offset:1024\n"
    good = "v_add_u32_e32 v2, 1, v2\n"
    bad = "v_add_u32_e32 v2, v2, v3\n"
    clean(launch(tmp_path, "gfx950", f"{_START}{loads}s_waitcnt vmcnt(1)\n{good}{_STORE}"))
    faulted(
        launch(tmp_path, "gfx950", f"{_START}{loads}s_waitcnt vmcnt(1)\n{bad}{_STORE}"),
        "missing s_waitcnt",
        "v3 ",
    )
    clean(launch(tmp_path, "gfx950", f"{_START}{loads}{store}s_waitcnt vmcnt(1)\n{bad}{_STORE}"))
    faulted(
        launch(tmp_path, "gfx950", f"{_START}{loads}{store}s_waitcnt vmcnt(2)\n{bad}{_STORE}"),
        "missing s_waitcnt",
        "v3 ",
    )


def test_wide_vmcnt_uses_both_fields(tmp_path: Path) -> None:
    """vmcnt above 15 has its upper bits in [15:14] of the immediate."""
    loads = "".join(f"global_load_dword v{10 + n}, v1, s[4:5]\n" for n in range(20))
    for wait, kind in ((17, None), (18, "missing s_waitcnt")):
        body = f"{_START}{loads}s_waitcnt vmcnt({wait})\nv_mov_b32_e32 v2, v12\n{_STORE}"
        outcome = launch(tmp_path, "gfx942", body, checks="hazards")
        clean(outcome) if kind is None else faulted(outcome, kind, "v12 ", "vmcnt(17)")


def test_scalar_loads_come_in_any_order(tmp_path: Path) -> None:
    """lgkmcnt(1) of two scalar loads frees neither of them."""
    loads = "s_load_dword s8, s[4:5], 0x0\ns_load_dword s9, s[4:5], 0x4\n"
    body = "{0}{1}s_waitcnt lgkmcnt({2})\nv_mov_b32_e32 v2, s8\n{3}"
    faulted(launch(tmp_path, "gfx942", body.format(_START, loads, 1, _STORE)), "missing s_waitcnt", "s8 ")
    clean(launch(tmp_path, "gfx942", body.format(_START, loads, 0, _STORE)))


# --- LDS ----------------------------------------------------------------------------------------------------


def test_lds_that_nobody_wrote(tmp_path: Path) -> None:
    """Lanes 0..31 write; lane 32 is the first to read a byte that nobody wrote."""
    half = "s_mov_b64 exec, 0xffffffff\nds_write_b32 v1, v0\ns_mov_b64 exec, -1\n"
    read = "ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
    outcome = launch(tmp_path, "gfx942", f"{_START}{half}{read}{_STORE}", checks="lds", lds=256)
    faulted(outcome, "uninitialised LDS", "lane 32", "0x80", "ds_read_b32")
    clean(launch(tmp_path, "gfx942", f"{_START}ds_write_b32 v1, v0\n{read}{_STORE}", checks="lds", lds=256))


def test_lds_is_forgotten_between_workgroups(tmp_path: Path) -> None:
    """What workgroup 0 wrote is nobody's in workgroup 1."""
    body = f"""{_START}
        s_cmp_lg_u32 s2, 0
        s_cbranch_scc1 read
        ds_write_b32 v1, v0
    read:
        ds_read_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_endpgm
    """
    clean(launch(tmp_path, "gfx942", body, lds=256, grid=1))
    faulted(
        launch(tmp_path, "gfx942", body, lds=256, grid=2),
        "uninitialised LDS",
        "workgroup (1, 0, 0)",
        "lane 0",
    )


def test_lds_out_of_bounds_is_always_checked(tmp_path: Path) -> None:
    """Lane 48 of 64 is the first whose dword lies past 192 bytes."""
    outcome = launch(tmp_path, "gfx942", f"{_START}ds_write_b32 v1, v0\n{_STORE}", checks="none", lds=192)
    faulted(outcome, "LDS access out of bounds", "lane 48", "ds_write_b32")


#: Every work item writes its dword, then reads the one of the work item 64 further on (modulo the workgroup's 256 dwords).
_EXCHANGE = """
    v_add_u32_e32 v3, 256, v1
    v_and_b32_e32 v3, 0x3ff, v3
    ds_write_b32 v1, v0
    {}
    ds_read_b32 v2, v3
    s_waitcnt lgkmcnt(0)
"""


def test_lds_race_between_waves(tmp_path: Path) -> None:
    """A read of what another wave wrote since the last barrier is a race; behind a barrier it is not."""
    barrier = "s_waitcnt lgkmcnt(0)\ns_barrier"
    racing = launch(
        tmp_path, "gfx942", _START + _EXCHANGE.format("") + _STORE, checks="races", block=256, lds=1024
    )
    faulted(racing, "LDS race", "since the last barrier", "lane ")
    good = launch(tmp_path, "gfx942", _START + _EXCHANGE.format(barrier) + _STORE, block=256, lds=1024)
    clean(good)
    assert list(good.words[:256]) == [(item + 64) % 256 for item in range(256)]


def test_write_after_another_waves_read(tmp_path: Path) -> None:
    """The barrier before the next round of writes may not be left out."""
    barrier = "s_waitcnt lgkmcnt(0)\ns_barrier\n"
    again = "ds_write_b32 v1, v2\n"
    body = _START + _EXCHANGE.format(barrier)
    faulted(
        launch(tmp_path, "gfx950", body + again + _STORE, checks="races", block=256, lds=1024),
        "LDS race",
        "writes",
    )
    clean(launch(tmp_path, "gfx950", body + barrier + again + _STORE, block=256, lds=1024))


def test_bytes_of_one_dword_do_not_race(tmp_path: Path) -> None:
    """Four waves write one byte each of the same dwords: different bytes, no race. The same byte: a race."""
    own = "v_lshrrev_b32_e32 v4, 6, v0\nv_and_b32_e32 v3, 63, v0\nv_lshl_add_u32 v3, v3, 2, {}\nds_write_b8 v3, v0\n"
    clean(launch(tmp_path, "gfx942", _START + own.format("v4") + _STORE, checks="races", block=256, lds=256))
    body = _START + own.format("0") + _STORE
    faulted(launch(tmp_path, "gfx942", body, checks="races", block=256, lds=256), "LDS race", "ds_write_b8")


def test_waves_that_write_the_same_value_do_not_race(tmp_path: Path) -> None:
    """Four waves write the same to the same bytes and read it back, as replicated rows do. Different values are a race."""
    body = "v_and_b32_e32 v3, 63, v0\nv_lshlrev_b32_e32 v4, 2, v3\nds_write_b32 v4, {}\n"
    body += "ds_read_b32 v2, v4\ns_waitcnt lgkmcnt(0)\n"
    good = launch(tmp_path, "gfx942", _START + body.format("v3") + _STORE, block=256, lds=256)
    clean(good)
    assert list(good.words[:256]) == [item % 64 for item in range(256)]
    racing = launch(tmp_path, "gfx942", _START + body.format("v0") + _STORE, block=256, lds=256)
    faulted(racing, "LDS race", "ds_write_b32", "wave 1", "has written", "lane 0")


def test_atomics_do_not_race_with_each_other(tmp_path: Path) -> None:
    """All waves add to one dword: no race among them, but one with a plain write of another wave."""
    zero = "v_mov_b32_e32 v3, 0\nv_mov_b32_e32 v4, 1\nv_cmp_gt_u32_e32 vcc, 64, v0\n"
    zero += "s_and_saveexec_b64 s[8:9], vcc\nds_write_b32 v3, v3\ns_mov_b64 exec, s[8:9]\n"
    add = "ds_add_u32 v3, v4\n"
    barrier = "s_waitcnt lgkmcnt(0)\ns_barrier\n"
    read = "ds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)\n"
    body = _START + zero + barrier + add + barrier + read + _STORE
    good = launch(tmp_path, "gfx942", body, block=256, lds=64)
    clean(good)
    assert good.words[0] == 256
    faulted(
        launch(tmp_path, "gfx942", _START + zero + add + _STORE, checks="races", block=256, lds=64),
        "LDS race",
        "ds_add_u32",
    )


def test_lds_that_is_still_being_loaded_from_memory(tmp_path: Path) -> None:
    """A load straight to LDS is there after vmcnt(0) of its wave, not before."""
    load = "s_mov_b32 m0, 0\nglobal_load_lds_dword v1, s[4:5]\n"
    read = "{}ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
    outcome = launch(tmp_path, "gfx950", _START + load + read.format("") + _STORE, checks="hazards", lds=256)
    faulted(outcome, "missing s_waitcnt", "ds_read_b32", "loaded from memory", "vmcnt")
    good = launch(tmp_path, "gfx950", _START + load + read.format("s_waitcnt vmcnt(0)\n") + _STORE, lds=256)
    clean(good)
    assert list(good.words[:64]) == list(range(64))


# --- addresses ----------------------------------------------------------------------------------------------


def test_misaligned_address(tmp_path: Path) -> None:
    """Lane 5 loads from an odd address; without the check the hardware, and so the device, simply does it."""
    body = f"{_START}v_cmp_eq_u32_e32 vcc, 5, v0\nv_addc_co_u32_e32 v3, vcc, 0, v1, vcc\n"
    body += f"global_load_dword v2, v3, s[4:5]\ns_waitcnt vmcnt(0)\n{_STORE}"
    faulted(
        launch(tmp_path, "gfx942", body, checks="alignment"),
        "misaligned address",
        "lane 5",
        "global_load_dword",
    )
    loose = launch(tmp_path, "gfx942", body, checks="none")
    clean(loose)
    assert loose.words[4:7] == (4, 6 << 24, 6)


@pytest.mark.parametrize("checks", ["none", "all"])
def test_address_past_the_end(checks: str, tmp_path: Path) -> None:
    """Addresses are checked with every setting: lane 16 of 64 is the first outside a buffer of 64 bytes."""
    outcome = launch(
        tmp_path, "gfx942", f"{_START}global_load_dword v2, v1, s[4:5]\ns_endpgm\n", checks=checks, size=64
    )
    faulted(outcome, "illegal address", "lane 16", hex(outcome.address + 64), "global_load_dword")


def test_checks_name_workgroup_and_wave(tmp_path: Path) -> None:
    """Only wave 2 of workgroup 3 does wrong, and the message says so."""
    body = f"""{_START}
        v_readfirstlane_b32 s8, v0
        s_lshl_b32 s9, s2, 16
        s_or_b32 s8, s8, s9
        s_cmp_eq_u32 s8, 0x30080
        s_cbranch_scc0 done
        global_load_dword v2, v1, s[4:5]
        v_mov_b32_e32 v3, v2
    done:
        s_endpgm
    """
    outcome = launch(tmp_path, "gfx950", body, grid=5, block=256)
    faulted(outcome, "missing s_waitcnt", "workgroup (3, 0, 0)", "wave 2")
    assert re.search(r"code\+0x[0-9a-f]+ `v_mov_b32", outcome.log)
