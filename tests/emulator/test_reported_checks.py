"""``AITER_PREBUILT_EMULATOR_CHECKS=...,report``: what checks find is said once per instruction, and the kernel goes on."""

from __future__ import annotations

import re
from pathlib import Path

from support.checked import Outcome, launch

#: v1 = 4 * work item, s[4:5] = the buffer, which holds 0, 1, 2, ... as u32.
_START = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
"""


def found(outcome: Outcome) -> list[str]:
    """The lines of the log, each a finding that names its kernel; the launch has come to its end."""
    assert outcome.status == 0, outcome.log
    lines = outcome.log.splitlines()
    assert all("found: kernel kernel: " in line and "workgroup (" in line for line in lines), outcome.log
    return lines


def test_every_missing_wait_is_said_and_the_results_are_there(tmp_path: Path) -> None:
    """Two places, in four workgroups: two lines. With the check alone the first of them ends the launch."""
    body = f"""{_START}
        global_load_dword v2, v1, s[4:5]
        v_add_u32_e32 v3, 1, v2
        v_add_u32_e32 v3, v3, v2
        ds_write_b32 v1, v3
        ds_read_b32 v4, v1
        v_mov_b32_e32 v5, v4
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v5, s[4:5] offset:1024
        s_endpgm
    """
    lines = found(launch(tmp_path, "gfx942", body, checks="all,report", lds=256, grid=4))
    assert len(lines) == 2 and all("missing s_waitcnt" in line for line in lines)
    assert "v_add_u32_e32 v3, 1, v2" in lines[0] and "1 instructions earlier" in lines[0]
    assert "v_mov_b32_e32 v5, v4" in lines[1] and "s_waitcnt lgkmcnt(0) first" in lines[1]
    outcome = launch(tmp_path, "gfx942", body, checks="report,hazards", lds=256)
    assert outcome.words[256 : 256 + 64] == tuple(2 * n + 1 for n in range(64))
    stopped = launch(tmp_path, "gfx942", body, lds=256)
    assert stopped.status != 0 and len(stopped.log.splitlines()) == 1


def test_how_long_ago_the_load_was(tmp_path: Path) -> None:
    """The distance in instructions of the wave, which says how likely a card is to show the mistake."""
    filler = "v_mov_b32_e32 v9, 0\n" * 40
    body = f"{_START}global_load_dword v2, v1, s[4:5]\n{filler}v_mov_b32_e32 v3, v2\ns_endpgm\n"
    (line,) = found(launch(tmp_path, "gfx950", body, checks="hazards,report"))
    assert re.search(r"code\+0x\w+, 41 instructions earlier; it takes s_waitcnt vmcnt\(0\) first", line)


def test_lds_and_races_go_on_too(tmp_path: Path) -> None:
    """Bytes that nobody wrote, then two waves that write different values to the same place."""
    body = f"""{_START}
        v_and_b32_e32 v2, 63, v0
        v_lshlrev_b32_e32 v2, 2, v2
        ds_read_b32 v3, v2
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_write_b32 v2, v0
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v3, v2
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v3, s[4:5]
        s_endpgm
    """
    lines = found(launch(tmp_path, "gfx942", body, checks="all,report", lds=256, block=128))
    assert sorted(re.findall(r": (read of uninitialised LDS|LDS race) at", "\n".join(lines))) == [
        "LDS race",
        "read of uninitialised LDS",
    ]


def test_what_a_card_refuses_is_still_a_fault(tmp_path: Path) -> None:
    """``report`` concerns the optional checks only."""
    body = f"{_START}global_load_dword v2, v1, s[4:5] offset:4092\ns_waitcnt vmcnt(0)\ns_endpgm\n"
    outcome = launch(tmp_path, "gfx942", body, checks="all,report")
    assert outcome.status == 700 and "illegal address" in outcome.log


def test_a_known_place_is_passed_over_and_no_other(tmp_path: Path) -> None:
    """By check, place and kernel: the second missing wait of the kernel, or the same place asked about otherwise, is a fault."""
    body = f"""{_START}
        global_load_dword v2, v1, s[4:5]
        v_add_u32_e32 v3, 1, v2
        global_load_dword v4, v1, s[4:5]
        v_add_u32_e32 v3, v3, v4
        s_waitcnt vmcnt(0)
        global_store_dword v1, v3, s[4:5] offset:1024
        s_endpgm
    """
    first, second = (
        re.search(r"at code\+(0x\w+) `", line)[1]  # type: ignore[index]
        for line in found(launch(tmp_path, "gfx942", body, checks="all,report"))
    )
    both = launch(tmp_path, "gfx942", body, known=f"hazards:{first}:kernel  hazards:{second}:kernel")
    assert both.status == 0 and not both.log
    assert both.words[256 : 256 + 64] == tuple(2 * n + 1 for n in range(64))
    assert launch(tmp_path, "gfx942", body, known=f"hazards:{first}-{second}:kernel").status == 0
    for known in (
        f"hazards:{first}:kernel",
        f"hazards:{first}-{int(second, 16) - 1:#x}:kernel",
        f"hazards:{second}:kernel hazards:{first}:other",
        f"races:{first}:kernel",
    ):
        outcome = launch(tmp_path, "gfx942", body, known=known)
        left = second if known.startswith(f"hazards:{first}") and "other" not in known else first
        assert outcome.status != 0 and f"code+{left} " in outcome.log, known
