"""The levels of ``AITER_PREBUILT_EMULATOR_CHECKS``: what ends a launch, what is said, counted and passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.assembly import code_object
from support.hip_process import SUCCESS, Answer, Launch, launch, launches, program

ILLEGAL_ADDRESS, TRAP, LAUNCH_FAILURE = 700, 710, 719

#: v1 = 4 * work item, v0 = work item, s[4:5] = the buffer.
_START = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
"""


def run(
    body: str, size: int = 1024, *, target: str = "gfx942", lds: int = 0, **environment: str
) -> tuple[Answer, str]:
    """One wave with a buffer of zeros."""
    request = Launch(code_object(target, _START + body + "\ns_endpgm", lds), [("buffer", bytes(size))])
    return launch(request, devices=target, **environment)


def said(log: str, *texts: str) -> None:
    """One line, which names the kernel, the place and ``texts``."""
    (line,) = log.splitlines()
    for text in ("found: kernel kernel: ", "at code+0x", "workgroup (0, 0, 0)", *texts):
        assert text in line, line


#: All lanes write 7 + work item to LDS, half of them beyond its end; then all read back.
_BEYOND = """
    v_add_u32_e32 v2, 7, v0
    {write}
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v4, -1
    {read}
    s_waitcnt vmcnt(0) lgkmcnt(0)
    global_store_dword v1, v4, s[4:5]
"""
_LDS = {
    "plain": ("ds_write_b32 v3, v2", "ds_read_b32 v4, v3"),
    "exchange": ("ds_write_b32 v3, v2", "ds_wrxchg_rtn_b32 v4, v3, v2"),
    "flat": (
        "s_mov_b64 s[6:7], src_shared_base\nv_mov_b32_e32 v6, v3\nv_mov_b32_e32 v7, s7\nflat_store_dword v[6:7], v2",
        "flat_load_dword v4, v[6:7]",
    ),
}


@pytest.mark.parametrize("form", _LDS)
@pytest.mark.parametrize(("target", "granule"), [("gfx942", 512), ("gfx950", 1280)])
def test_lds_beyond_the_allocation(form: str, target: str, granule: int) -> None:
    """A card gives it out in pieces; beyond them writes are dropped and reads give 0."""
    write, read = _LDS[form]
    at = f"v_add_u32_e32 v3, {granule - 128}, v1\n"
    body = at + _BEYOND.format(write=write, read=read)
    answer, log = run(body, target=target, lds=100)
    assert answer.status == LAUNCH_FAILURE and "outside the workgroup's 100 bytes of LDS" in log
    for level in ("permissive", "continue", "permissive,none"):
        answer, log = run(body, target=target, lds=100, checks=level)
        assert answer.status == SUCCESS, log
        assert answer.words()[:64] == [7 + n for n in range(32)] + [0] * 32
        assert len(log.splitlines()) == 2 and log.count("LDS access out of bounds") == 2
        assert f"outside the workgroup's {granule} bytes" in log and "lane 32" in log


#: Two values of each lane to LDS and back, one of them 512 bytes further.
_HALVES = """
    v_lshlrev_b32_e32 v3, {shift}, v0
    v_add_u32_e32 v2, 7, v0
    v_add_u32_e32 v4, 1000, v0
    v_mov_b32_e32 v5, v2
    v_mov_b32_e32 v6, v4
    {write}
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v8, -1
    v_mov_b32_e32 v9, -1
    v_mov_b32_e32 v10, -1
    v_mov_b32_e32 v11, -1
    {read}
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v8, s[4:5]
    global_store_dword v1, {second}, s[4:5] offset:256
"""


@pytest.mark.parametrize(("bits", "second"), [(32, "v9"), (64, "v10")])
def test_two_addresses_are_looked_at_apart(bits: int, second: str) -> None:
    """ds_write2 and ds_read2: the first address is inside for all lanes, the second one for none, then the other way round."""
    data = "v2, v4" if bits == 32 else "v[2:3], v[4:5]"
    end = "v[8:9]" if bits == 32 else "v[8:11]"
    beyond = {32: 2, 64: 1}[bits]  # 512 bytes, which a card gives out at once
    for offsets, inside in ((f"offset1:{beyond}", 0), (f"offset0:{beyond}", 1)):
        body = _HALVES.format(
            shift={32: 2, 64: 3}[bits],
            write=f"ds_write2st64_b{bits} v3, {data} {offsets}",
            read=f"ds_read2st64_b{bits} {end}, v3 {offsets}",
            second=second,
        )
        assert run(body, lds=512)[0].status == LAUNCH_FAILURE
        answer, log = run(body, lds=512, checks="permissive")
        assert answer.status == SUCCESS, log
        words = answer.words()
        halves = words[:64], words[64:128]
        assert halves[inside] == [(7, 1000)[inside] + n for n in range(64)]
        assert halves[1 - inside] == [0] * 64
        assert len(log.splitlines()) == 2 and log.count("LDS access out of bounds") == 2


def test_accumulation_registers_are_cleared_too() -> None:
    body = """
        v_mov_b32_e32 v3, 0x10000
        v_accvgpr_write_b32 a2, v1
        v_accvgpr_write_b32 a3, v1
        ds_read_b64 a[2:3], v3
        s_waitcnt lgkmcnt(0)
        v_accvgpr_read_b32 v4, a2
        v_accvgpr_read_b32 v5, a3
        v_or_b32_e32 v4, v4, v5
        global_store_dword v1, v4, s[4:5]
    """
    answer, log = run(body, lds=64, checks="permissive")
    assert answer.status == SUCCESS and answer.words()[:64] == [0] * 64
    said(log, "read of 8 bytes at LDS address 65536")


@pytest.mark.parametrize(("size", "reaches"), [(100, 512), (512, 512), (516, 1024)])
def test_allocations_end_at_their_512_bytes(size: int, reaches: int) -> None:
    """torch and HIP give memory out in such pieces, so that a card says nothing of what is between; exactly, when strict."""
    inside = f"v_mov_b32_e32 v2, {reaches - 4}\nglobal_load_dword v3, v2, s[4:5]\ns_waitcnt vmcnt(0)"
    beyond = inside.replace(f"{reaches - 4}", f"{reaches}")
    strict = [run(body, size)[0].status for body in (inside, beyond)]
    permissive = [run(body, size, checks="permissive")[0].status for body in (inside, beyond)]
    assert strict == [SUCCESS if size == reaches else ILLEGAL_ADDRESS, ILLEGAL_ADDRESS]
    assert permissive == [SUCCESS, ILLEGAL_ADDRESS]


def test_memory_that_is_not_there_is_passed_over() -> None:
    """Lanes 32 and up store and load beyond the buffer; a scalar load reads through a null pointer."""
    body = """
        v_lshlrev_b32_e32 v2, 5, v0
        v_mov_b32_e32 v3, 9
        global_store_dword v2, v3, s[4:5]
        global_load_dword v4, v2, s[4:5]
        s_waitcnt vmcnt(0)
        v_add_u32_e32 v4, 1, v4
        s_mov_b64 s[8:9], 0
        s_load_dwordx2 s[8:9], s[8:9], 0x40
        s_waitcnt lgkmcnt(0)
        s_or_b32 s8, s8, s9
        v_add_u32_e32 v4, s8, v4
        global_store_dword v1, v4, s[4:5]
    """
    assert run(body)[0].status == run(body, checks="permissive")[0].status == ILLEGAL_ADDRESS
    answer, log = run(body, checks="continue")
    assert answer.status == SUCCESS and answer.words()[:64] == [10] * 32 + [1] * 32
    lines = log.splitlines()
    assert len(lines) == 3 and all("found: kernel kernel: illegal address" in line for line in lines), log
    assert "lane 32" in lines[0] and "global_store_dword v2" in lines[0] and "lane 32" in lines[1]
    assert "s_load_dwordx2" in lines[2] and "null pointer" in lines[2]


def test_what_nobody_can_go_on_from_is_still_a_fault() -> None:
    for body, status in (("s_trap 2", TRAP), (".long 0xfc000000", LAUNCH_FAILURE)):
        assert run(body, checks="all,continue")[0].status == status


def test_findings_of_the_checks_are_said_at_every_level_but_strict() -> None:
    body = "global_load_dword v2, v1, s[4:5]\nv_add_u32_e32 v3, 1, v2\ns_waitcnt vmcnt(0)"
    for level in ("report", "permissive", "continue"):
        answer, log = run(body, checks=f"hazards,{level}")
        assert answer.status == SUCCESS
        said(log, "missing s_waitcnt")
    for level in ("hazards", "strict,hazards", "hazards,report,strict"):
        assert run(body, checks=level)[0].status == LAUNCH_FAILURE


def test_findings_are_counted(tmp_path: Path) -> None:
    """Per place: 64 lanes of three workgroups, though the log has one line."""
    file = tmp_path / "counters.json"
    body = _START + "v_mov_b32_e32 v2, 0x10000\nds_write_b32 v2, v1\ns_endpgm"
    request = Launch(code_object("gfx942", body, 64), [("buffer", bytes(4))], grid=(3, 1, 1))
    answers, log = launches([request, request], checks="permissive", counters=str(file))
    assert [answer.status for answer in answers] == [SUCCESS] * 2
    # A module of its own has code of its own: a place in each.
    found: list[dict[str, Any]] = json.loads(file.read_text())["findings"]
    assert len(log.splitlines()) == len(found) and sum(row["count"] for row in found) == 6 * 64
    for row in found:
        assert (
            row["kernel"] == "kernel" and row["finding"] == "LDS access out of bounds" and row["offset"] > 0
        )


def test_one_bad_kernel_does_not_end_the_process() -> None:
    """After a fault the device is reset; with ``continue`` there is none."""
    source = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
data, codes = ctypes.c_void_p(), []
assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(256)) == 0
params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
def go(text):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(text)) == 0
    assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
    return lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None)
bad, good = sys.argv[2:4]
codes += [go(bad), go(good), lib.hipDeviceReset(), go(good), go(bad), lib.hipDeviceReset(), go(good), lib.hipDeviceSynchronize()]
back = (ctypes.c_uint32 * 64)()
assert lib.hipMemcpy(back, data, ctypes.c_size_t(256), 2) == 0
print(json.dumps([codes, list(back)]))
"""
    bad = code_object("gfx942", _START + "global_store_dword v1, v0, s[4:5] offset:2048\ns_endpgm").hex()
    good = code_object("gfx942", _START + "global_store_dword v1, v0, s[4:5]\ns_endpgm").hex()
    codes, words = json.loads(program(source, bad, good)[0])
    assert codes == [700, 700, 0, 0, 700, 0, 0, 0] and words == list(range(64))
    codes, words = json.loads(program(source, bad, good, checks="continue")[0])
    assert codes == [0] * 8 and words == list(range(64))


@pytest.mark.parametrize("words", ["lenient", "report", "none,report", "all,permisive"])
def test_words_that_are_no_level(words: str) -> None:
    with pytest.raises(AssertionError, match=r"hipErrorInvalidValue.*AITER_PREBUILT_EMULATOR_CHECKS: found"):
        run("", checks=words)
