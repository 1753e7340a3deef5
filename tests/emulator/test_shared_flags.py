"""Kernels that wait for stores of another process or another device: they end, and leave the processor to each other."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from support.hip import SUCCESS
from support.hip_peer import HipPeer
from support.hip_process import program
from support.linked import PLAIN, kernel_source, link, metadata

LAUNCH_TIMEOUT = 702

#: Workgroup i of rank 0 stores 1, 3, 5.. to dword i of `theirs` and waits for one more in its own; rank 1 answers it.
_PING_PONG = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    s_load_dwordx2 s[8:9], s[0:1], 0x10
    v_mov_b32_e32 v0, s2
    v_lshlrev_b32_e32 v0, 2, v0
    s_mov_b32 s10, 1
    s_waitcnt lgkmcnt(0)
.Lround:
    s_add_u32 s11, s10, 1
    s_cmp_eq_u32 s9, 0
    s_cbranch_scc0 .Lsecond
    v_mov_b32_e32 v2, s10
    global_store_dword v0, v2, s[6:7] sc0 sc1
.Lanswer:
    {pause}
    global_load_dword v1, v0, s[4:5] sc0 sc1
    s_waitcnt vmcnt(0)
    v_cmp_ne_u32_e32 vcc, s11, v1
    s_cbranch_vccnz .Lanswer
    s_branch .Lnext
.Lsecond:
    {pause}
    {look}
    s_waitcnt vmcnt(0)
    v_cmp_ne_u32_e32 vcc, s10, v1
    s_cbranch_vccnz .Lsecond
    v_mov_b32_e32 v2, s11
    global_store_dword v0, v2, s[6:7] sc0 sc1
.Lnext:
    s_add_u32 s10, s10, 2
    s_sub_u32 s8, s8, 1
    s_cmp_lg_u32 s8, 0
    s_cbranch_scc1 .Lround
    s_endpgm
"""

#: Of an all-reduce: lane i tells rank i that this one is there, in its dword `rank`, and waits until rank i has told the same.
#: Arguments: addresses of all ranks' flags, this rank's flags, rank, count, rounds. Of 256 work items the first ones do this;
#: each round adds one.
_MEETING = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    s_load_dwordx4 s[8:11], s[0:1], 0x10
    v_lshlrev_b32_e32 v1, 3, v0
    v_lshlrev_b32_e32 v6, 2, v0
    v_mov_b32_e32 v4, 0
    s_waitcnt lgkmcnt(0)
    s_lshl_b32 s12, s8, 2
    v_cmp_gt_u32_e32 vcc, s9, v0
    s_mov_b64 s[14:15], vcc
.Lround:
    v_add_u32_e32 v4, 1, v4
    s_mov_b64 s[16:17], exec
    s_and_b64 exec, exec, s[14:15]
    s_cbranch_execz .Ltold
    global_load_dwordx2 v[2:3], v1, s[4:5]
    s_waitcnt vmcnt(0)
    v_add_co_u32_e32 v2, vcc, s12, v2
    v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
    flat_store_dword v[2:3], v4 sc0 sc1
.Lwait:
    global_load_dword v5, v6, s[6:7] sc0 sc1
    s_waitcnt vmcnt(0)
    v_cmp_gt_u32_e32 vcc, v4, v5
    s_cbranch_vccnz .Lwait
.Ltold:
    s_mov_b64 exec, s[16:17]
    s_barrier
    s_sub_u32 s10, s10, 1
    s_cmp_lg_u32 s10, 0
    s_cbranch_scc1 .Lround
    s_endpgm
"""


#: How the second rank looks at its flag.
_LOAD = "global_load_dword v1, v0, s[4:5] sc0 sc1"
_ADD_NOTHING = "v_mov_b32_e32 v3, 0\nglobal_atomic_add v1, v0, v3, s[4:5] sc0 sc1"


def ping_pong(pause: str = "s_nop 0", target: str = "gfx942", look: str = _LOAD) -> bytes:
    rows = [(0, 8, "global_buffer"), (8, 8, "global_buffer"), (16, 4, "by_value"), (20, 4, "by_value")]
    return link(
        target, kernel_source(_PING_PONG.format(pause=pause, look=look), descriptor=PLAIN) + metadata(rows)
    )


def arguments(mine: int, theirs: int, *numbers: int) -> str:
    """Two addresses and dwords, as a packed block."""
    block = mine.to_bytes(8, "little") + theirs.to_bytes(8, "little")
    return (block + b"".join(number.to_bytes(4, "little") for number in numbers)).hex()


@pytest.mark.parametrize("pause", ["s_nop 0", "s_sleep 1"])
@pytest.mark.parametrize(("groups", "rounds", "threads"), [(1, 300, "1"), (40, 10, "1"), (9, 20, "3")])
def test_flags_between_two_processes(pause: str, groups: int, rounds: int, threads: str) -> None:
    with HipPeer(threads=threads) as first, HipPeer("gfx950", threads=threads) as second:
        flags = [peer.memory(bytes(4 * groups)) for peer in (first, second)]
        theirs = [
            first.map(second.export(flags[1])),
            second.map(first.export(flags[0])),
        ]
        for rank, (peer, target) in enumerate(((first, "gfx942"), (second, "gfx950"))):
            function = peer.ask("load", ping_pong(pause, target).hex())
            peer.tell("launch", function, groups, 1, arguments(flags[rank], theirs[rank], rounds, rank))
        assert first.answer()[0] == second.answer()[0] == SUCCESS, first.log() + second.log()
        assert first.read(flags[0], 4 * groups) == (2 * rounds).to_bytes(4, "little") * groups
        assert second.read(flags[1], 4 * groups) == (2 * rounds - 1).to_bytes(4, "little") * groups


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_meeting_of_processes(count: int) -> None:
    """What an all-reduce begins and ends with."""
    rows = [
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        *((16 + 4 * i, 4, "by_value") for i in range(4)),
    ]
    kernel = link("gfx942", kernel_source(_MEETING, descriptor=PLAIN) + metadata(rows)).hex()
    rounds = 5
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(HipPeer(threads="1")) for _ in range(count)]
        flags = [peer.memory(bytes(4096)) for peer in peers]
        handles = [peer.export(address) for peer, address in zip(peers, flags, strict=True)]
        for rank, peer in enumerate(peers):
            addresses = [
                flags[rank] if other == rank else peer.map(handle) for other, handle in enumerate(handles)
            ]
            table = peer.memory(b"".join(address.to_bytes(8, "little") for address in addresses))
            function = peer.ask("load", kernel)
            block = arguments(table, flags[rank], rank, count, rounds, 0)
            peer.tell("launch", function, 1, 256, block)
        for peer in peers:
            assert peer.answer()[0] == SUCCESS, peer.log()
        for peer, address in zip(peers, flags, strict=True):
            assert peer.read(address, 4 * count) == rounds.to_bytes(4, "little") * count


#: argv: library, code objects. A thread for each device; each has its flag on its own device and reaches the other's.
_DEVICES = r"""
import ctypes, sys, threading
lib, images, rounds, groups = ctypes.CDLL(sys.argv[1]), sys.argv[2:], 100, 5
flags, codes = [], [-1, -1]
def must(status):
    assert status == 0, status
for device in range(2):
    pointer = ctypes.c_void_p()
    must(lib.hipSetDevice(device))
    must(lib.hipDeviceEnablePeerAccess(1 - device, 0))
    must(lib.hipExtMallocWithFlags(ctypes.byref(pointer), ctypes.c_size_t(4096), 3))
    must(lib.hipMemset(pointer, 0, ctypes.c_size_t(4096)))
    flags.append(pointer)
def run(device):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    must(lib.hipSetDevice(device))
    must(lib.hipModuleLoadData(ctypes.byref(module), open(images[device], "rb").read()))
    must(lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel"))
    values = flags[device], flags[1 - device], ctypes.c_uint(rounds), ctypes.c_uint(device)
    params = (ctypes.c_void_p * 4)(*[ctypes.addressof(value) for value in values])
    dims = [ctypes.c_uint(value) for value in (groups, 1, 1, 1, 1, 1, 0)]
    codes[device] = lib.hipModuleLaunchKernel(function, *dims, None, params, None)
threads = [threading.Thread(target=run, args=(device,)) for device in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert codes == [0, 0], codes
for device, last in ((0, 2 * rounds), (1, 2 * rounds - 1)):
    data = (ctypes.c_uint32 * groups)()
    must(lib.hipMemcpy(data, flags[device], ctypes.c_size_t(4 * groups), 2))
    assert list(data) == [last] * groups
"""


@pytest.mark.parametrize("threads", ["1", "4"])
def test_flags_between_two_devices(tmp_path: Path, threads: str) -> None:
    paths = []
    for target in ("gfx942", "gfx950"):
        paths.append(tmp_path / target)
        paths[-1].write_bytes(ping_pong(target=target))
    program(_DEVICES, *map(str, paths), devices="gfx942,gfx950", threads=threads)


@pytest.mark.parametrize("groups", [1, 7])
@pytest.mark.parametrize(
    ("pause", "look"), [("s_nop 0", _LOAD), ("s_sleep 1", _LOAD), ("s_nop 0", _ADD_NOTHING)]
)
def test_who_waits_leaves_the_processor_to_others(pause: str, look: str, groups: int) -> None:
    with HipPeer(threads="2") as owner, HipPeer() as guest:
        flags, sink = owner.memory(bytes(64)), owner.memory(bytes(64))
        there = guest.map(owner.export(flags))
        function = owner.ask("load", ping_pong(pause, look=look).hex())
        owner.tell("launch", function, groups, 1, arguments(flags, sink, 1, 1))
        time.sleep(1.5)
        assert guest.ask("write", there, ((1).to_bytes(4, "little") * 16).hex()) == SUCCESS
        status, seconds, left = owner.answer()
        # On a busy machine a spinning process gets little, too: what it leaves of itself tells them apart.
        assert status == SUCCESS and seconds < 0.75 and left > 100, (seconds, left)
        assert owner.read(sink, 4 * groups) == (2).to_bytes(4, "little") * groups


@pytest.mark.parametrize("pause", ["s_nop 0", "s_sleep 1"])
def test_a_wait_without_an_end_is_stopped(pause: str) -> None:
    """Time that it rests counts, too."""
    with HipPeer(limit="10000000") as peer:
        flags = peer.memory(bytes(64))
        function = peer.ask("load", ping_pong(pause).hex())
        begin = time.monotonic()
        status = peer.ask("launch", function, 3, 1, arguments(flags, flags + 32, 1, 1))[0]
        assert status == LAUNCH_TIMEOUT and "instruction limit" in peer.log()
        assert time.monotonic() - begin < 30
