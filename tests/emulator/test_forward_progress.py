"""Workgroups that wait for workgroups: all that the card holds at once get on, and no more than that."""

from __future__ import annotations

import time

import pytest
from support.hip_process import SUCCESS, Launch, launch
from support.linked import PLAIN, kernel_source, link, metadata

LAUNCH_TIMEOUT = 702


def image(body: str, descriptor: tuple[str, ...] = PLAIN) -> bytes:
    return link("gfx942", kernel_source(body, descriptor=descriptor) + metadata([(0, 8, "global_buffer")]))


#: Workgroup i waits until workgroup i + 1 has stored its mark; the last one starts the chain. {pause}: one of _BETWEEN.
_CHAIN = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v3, 0
    s_lshl_b32 s6, s2, 2
    s_waitcnt lgkmcnt(0)
    s_add_u32 s4, s4, s6
    s_addc_u32 s5, s5, 0
    s_cmp_eq_u32 s2, {last}
    s_cbranch_scc1 .Lset
.Lwait:
    {pause}
    global_load_dword v1, v3, s[4:5] offset:4 sc0 sc1
    s_waitcnt vmcnt(0)
    v_cmp_eq_u32_e32 vcc, 0, v1
    s_cbranch_vccnz .Lwait
.Lset:
    v_mov_b32_e32 v2, 1
    global_store_dword v3, v2, s[4:5] sc0 sc1
    s_endpgm
"""

#: What a loop that waits may do between its looks, so that its registers or its LDS never are as they were.
_BETWEEN = {
    "nothing": "s_nop 0",
    "sleep": "s_sleep 1",
    "count": "v_add_u32_e32 v9, 1, v9",
    "clock": "s_memtime s[8:9]\ns_waitcnt lgkmcnt(0)",
    "lds": "ds_write_b32 v3, v9",
    "barrier": "s_barrier",
}


@pytest.mark.parametrize("between", _BETWEEN)
def test_a_chain_of_all_that_a_card_holds(between: str) -> None:
    """Each waits for the next one, and the last one is started last; a slice for each in vain would take minutes."""
    count = 2000
    body = _CHAIN.format(last=count - 1, pause=_BETWEEN[between])
    kernel = image(body, (*PLAIN, "group_segment_fixed_size 64"))
    request = Launch(kernel, [("buffer", bytes(4 * count))], grid=(count, 1, 1), block=(128, 1, 1))
    start = time.monotonic()
    answer, log = launch(request)
    assert answer.status == SUCCESS and answer.words() == [1] * count, log
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("between", ["nothing", "count"])
def test_a_chain_longer_than_what_a_card_holds_hangs(between: str) -> None:
    """One compute unit holds 32 waves of these: the 33rd never starts, and the instruction limit ends it."""
    answers = []
    for count in (32, 33):
        body = _CHAIN.format(last=count - 1, pause=_BETWEEN[between])
        request = Launch(image(body), [("buffer", bytes(4 * count))], grid=(count, 1, 1), block=(64, 1, 1))
        answers.append(launch(request, devices="gfx942:cus=1", limit="1000000")[0].status)
    assert answers == [SUCCESS, LAUNCH_TIMEOUT]


#: Wave 1 stores its mark after a long computation without a store; wave 0 polls for it, with a counter.
_OWN_WAVE = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_readfirstlane_b32 s6, v0
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v2, 1
    s_mov_b32 s7, 0
    s_waitcnt lgkmcnt(0)
    s_cmp_lg_u32 s6, 0
    s_cbranch_scc1 .Lwork
.Lwait:
    s_add_u32 s7, s7, 1
    global_load_dword v1, v3, s[4:5] sc0 sc1
    s_waitcnt vmcnt(0)
    v_cmp_eq_u32_e32 vcc, 0, v1
    s_cbranch_vccnz .Lwait
    global_store_dword v3, v2, s[4:5] offset:4
    s_endpgm
.Lwork:
    s_add_u32 s7, s7, 1
    s_cmp_lg_u32 s7, 2000000
    s_cbranch_scc1 .Lwork
    global_store_dword v3, v2, s[4:5] sc0 sc1
    s_endpgm
"""


def test_who_waits_for_a_wave_of_its_own_workgroup_is_not_left_alone() -> None:
    start = time.monotonic()
    answer, log = launch(Launch(image(_OWN_WAVE), [("buffer", bytes(8))], block=(128, 1, 1)))
    assert answer.status == SUCCESS and answer.words() == [1, 1], log
    assert time.monotonic() - start < 20
