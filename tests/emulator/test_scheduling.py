"""Workgroups over host threads: barriers, spinning on each other, limits, faults, forks."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support.hip_process import (
    INVALID_CONFIGURATION,
    INVALID_VALUE,
    SUCCESS,
    Launch,
    launch,
    launches,
    program,
)
from support.linked import PLAIN, kernel_source, link, metadata

_BUFFER = [(0, 8, "global_buffer")]
LAUNCH_TIMEOUT = 702


def image(
    body: str, descriptor: tuple[str, ...] = PLAIN, target: str = "gfx942", lines: tuple[str, ...] = ()
) -> bytes:
    return link(target, kernel_source(body, descriptor=descriptor) + metadata(_BUFFER, lines=lines))


_NOTHING = "s_endpgm"

#: Each wave adds up what the others left in LDS, in rounds separated by barriers; two waves leave before.
_BARRIER = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshrrev_b32_e32 v1, 6, v0
    v_readfirstlane_b32 s6, v1
    s_cmp_lt_u32 s6, 2
    s_cbranch_scc1 .Lout
    v_lshlrev_b32_e32 v2, 2, v0
    v_mov_b32_e32 v3, v0
    s_mov_b32 s7, 5
.Lround:
    ds_write_b32 v2, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_xor_b32_e32 v4, 0x200, v2
    ds_read_b32 v5, v4
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_add_u32_e32 v3, v3, v5
    s_sub_u32 s7, s7, 1
    s_cmp_lg_u32 s7, 0
    s_cbranch_scc1 .Lround
    global_store_dword v2, v3, s[4:5]
.Lout:
    s_endpgm
"""


def test_barriers_wait_for_the_waves_that_are_left() -> None:
    # 16 waves, 2 and 3 exchange with 0 and 1 bits of the number apart: partners are item ^ 128; waves 0 and 1 have left.
    kernel = image(_BARRIER, (*PLAIN, "group_segment_fixed_size 4096"))
    answer, log = launch(Launch(kernel, [("buffer", bytes(4096))], block=(1024, 1, 1)))
    assert answer.status == SUCCESS, log
    # After each round both partners hold the sum, so five rounds give 16 times the first.
    expected = [16 * (i + (i ^ 128)) for i in range(1024)]
    assert answer.words()[256:] == expected[256:]
    assert answer.words()[:128] == [0] * 128


#: Four waves read a tile of LDS in 12 loads and wave 0 writes over it 60 instructions later, with no barrier in between:
#: AITER's attention for gfx950 does this, and on the card the waves of a workgroup keep step.
_IN_STEP = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    v_and_b32_e32 v2, 0xfc, v1
    v_mov_b32_e32 v3, 7
    ds_write_b32 v1, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_mov_b32_e32 v4, 0
    .rept 12
    ds_read_b32 v5, v2
    s_waitcnt lgkmcnt(0)
    v_add_u32_e32 v4, v4, v5
    .endr
    .rept 60
    v_mov_b32_e32 v6, 0
    .endr
    ds_write_b32 v2, v6
    global_store_dword v1, v4, s[4:5]
    s_endpgm
"""


def test_waves_of_a_workgroup_keep_step() -> None:
    kernel = image(_IN_STEP, (*PLAIN, "group_segment_fixed_size 1024"))
    answer, log = launch(Launch(kernel, [("buffer", bytes(1024))], block=(256, 1, 1)))
    assert answer.status == SUCCESS, log
    assert answer.words() == [12 * 7] * 256


#: Workgroup i waits until workgroup i + 1 has stored its mark; the last one starts the chain. {pause}: s_sleep or nothing.
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


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("pause", ["s_sleep 1", "s_nop 0"])
def test_workgroups_may_wait_for_later_ones(pause: str, threads: str) -> None:
    count = random.randint(20, 60)
    kernel = image(_CHAIN.format(last=count - 1, pause=pause))
    answer, log = launch(
        Launch(kernel, [("buffer", bytes(4 * count))], grid=(count, 1, 1), block=(1, 1, 1)), threads=threads
    )
    assert answer.status == SUCCESS and answer.words() == [1] * count, log


def test_atomics_of_all_workgroups_add_up() -> None:
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v2, 1
    s_waitcnt lgkmcnt(0)
    global_atomic_add v1, v2, s[4:5]
    s_endpgm
    """
    answer, log = launch(
        Launch(image(body), [("buffer", bytes(4))], grid=(7, 11, 3), block=(150, 1, 1)), threads="4"
    )
    assert answer.status == SUCCESS and answer.words() == [7 * 11 * 3 * 150], log


def test_an_endless_loop_is_stopped() -> None:
    kernel = image(".Lagain: s_branch .Lagain")
    answer, log = launch(Launch(kernel, [("buffer", bytes(4))], grid=(9, 1, 1)), limit="100000")
    assert answer.status == LAUNCH_TIMEOUT
    lines = [line for line in log.splitlines() if "instruction limit" in line]
    assert (
        len(lines) == 1
        and "kernel" in lines[0]
        and "100000 instructions" in lines[0]
        and "workgroup (" in lines[0]
    )


def test_an_endless_barrier_loop_of_sleepers_is_stopped() -> None:
    kernel = image(".Lagain: s_sleep 1\ns_barrier\ns_branch .Lagain")
    answer, log = launch(Launch(kernel, [("buffer", bytes(4))], block=(256, 1, 1)), limit="5000")
    assert answer.status == LAUNCH_TIMEOUT and "instruction limit" in log


def test_one_fault_is_reported_once() -> None:
    body = "v_mov_b32_e32 v0, 0\nv_mov_b32_e32 v1, 0\nglobal_load_dword v2, v[0:1], off\ns_endpgm"
    answer, log = launch(
        Launch(image(body), [("buffer", bytes(4))], grid=(500, 1, 1), block=(256, 1, 1)), threads="4"
    )
    assert answer.status not in (SUCCESS, -1)
    lines = log.splitlines()
    assert sum("illegal address" in line for line in lines) == 1, log
    for text in ("kernel kernel", "code+0x8", "workgroup (", "wave ", "lane 0", "null pointer"):
        assert text in log


def test_trap() -> None:
    answer, log = launch(Launch(image("s_trap 2"), [("buffer", bytes(4))]))
    assert answer.status not in (SUCCESS, -1) and "trap" in log


def test_jump_out_of_the_code() -> None:
    body = "s_getpc_b64 s[4:5]\ns_add_u32 s4, s4, 0x100000\ns_setpc_b64 s[4:5]"
    answer, log = launch(Launch(image(body), [("buffer", bytes(4))]))
    assert answer.status not in (SUCCESS, -1) and "illegal jump" in log


@pytest.mark.parametrize(
    ("grid", "block", "lds", "target"),
    [
        ((0, 1, 1), (64, 1, 1), 0, "gfx942"),
        ((1, 1, 1), (0, 1, 1), 0, "gfx942"),
        ((1, 1, 1), (1025, 1, 1), 0, "gfx942"),
        ((1, 1, 1), (32, 33, 1), 0, "gfx942"),
        ((1, 70000, 1), (64, 1, 1), 0, "gfx942"),
        ((1, 1, 70000), (64, 1, 1), 0, "gfx942"),
        ((2**31, 1, 1), (1, 1, 1), 0, "gfx942"),
        ((2**26, 1, 1), (64, 1, 1), 0, "gfx942"),
        ((1, 1, 1), (64, 1, 1), 64 * 1024 + 4, "gfx942"),
        ((1, 1, 1), (64, 1, 1), 160 * 1024 + 4, "gfx950"),
    ],
)
def test_launches_that_cannot_be(
    grid: tuple[int, int, int], block: tuple[int, int, int], lds: int, target: str
) -> None:
    request = Launch(image(_NOTHING, target=target), [("buffer", bytes(4))], grid=grid, block=block, lds=lds)
    answer, log = launch(request, devices=target)
    assert answer.status in (INVALID_VALUE, INVALID_CONFIGURATION) and log


@pytest.mark.parametrize(("target", "lds"), [("gfx942", 64 * 1024), ("gfx950", 160 * 1024)])
def test_all_of_the_lds(target: str, lds: int) -> None:
    body = f"""
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v1, {lds - 4}
    v_mov_b32_e32 v2, 77
    ds_write_b32 v1, v2
    ds_read_b32 v3, v1
    v_mov_b32_e32 v4, 0
    s_waitcnt lgkmcnt(0)
    global_store_dword v4, v3, s[4:5]
    s_endpgm
    """
    answer, log = launch(Launch(image(body, target=target), [("buffer", bytes(4))], lds=lds), devices=target)
    assert answer.status == SUCCESS and answer.words() == [77], log


def test_block_limits_of_the_kernel() -> None:
    kernel = image(_NOTHING, lines=(".reqd_workgroup_size: [64, 2, 1]",))
    requests = [Launch(kernel, [("buffer", bytes(4))], block=block) for block in ((64, 2, 1), (128, 1, 1))]
    answers, log = launches(requests)
    assert [answer.status for answer in answers] == [SUCCESS, INVALID_CONFIGURATION] and "(64, 2, 1)" in log


#: argv: library, code object. A launch before and after fork(), in parent and child.
_FORK = r"""
import ctypes, os, sys
lib, image = ctypes.CDLL(sys.argv[1]), open(sys.argv[2], "rb").read()
def run():
    module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.hipModuleLoadData(ctypes.byref(module), image) == 0
    assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
    assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(4)) == 0
    assert lib.hipMemset(data, 0, ctypes.c_size_t(4)) == 0
    value = ctypes.c_void_p(data.value)
    params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
    dims = [ctypes.c_uint(n) for n in (300, 1, 1, 64, 1, 1, 0)]
    assert lib.hipModuleLaunchKernel(function, *dims, None, params, None) == 0
    assert lib.hipDeviceSynchronize() == 0
    out = ctypes.c_uint32()
    assert lib.hipMemcpy(ctypes.byref(out), data, ctypes.c_size_t(4), 2) == 0
    assert out.value == 300 * 64, out.value
assert lib.hipInit(0) == 0
run()
child = os.fork()
if child == 0:
    status = 1
    try:
        run()
        status = 0
    finally:
        os._exit(status)
run()
assert os.waitpid(child, 0)[1] == 0
"""

_COUNT = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v2, 1
    s_waitcnt lgkmcnt(0)
    global_atomic_add v1, v2, s[4:5]
    s_endpgm
"""


def test_a_forked_child_launches(tmp_path: Path) -> None:
    path = tmp_path / "kernel.co"
    path.write_bytes(image(_COUNT))
    program(_FORK, str(path), threads="4")


_THREADS = (
    _FORK[: _FORK.index("child = ")]
    + r"""
import threading
failed = []
def many():
    try:
        assert lib.hipSetDevice(0) == 0
        for _ in range(20):
            run()
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=many) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
"""
)


def test_many_host_threads_launch_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kernel.co"
    path.write_bytes(image(_COUNT))
    program(_THREADS, str(path), threads="3")


#: argv: library, code object. 3 blocks of 64 and one of 10 in x, 2 in y; a block writes hidden arguments and its lanes.
_TAIL = r"""
import ctypes, json, sys
lib, image = ctypes.CDLL(sys.argv[1]), open(sys.argv[2], "rb").read()
module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert lib.hipModuleLoadData(ctypes.byref(module), image) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(128)) == 0
value = ctypes.c_void_p(data.value)
params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
dims = [ctypes.c_uint(n) for n in (3 * 64 + 10, 2, 1, 64, 1, 1)]
assert lib.hipExtModuleLaunchKernel(function, *dims, ctypes.c_size_t(0), None, params, None, None, None, 0) == 0
out = (ctypes.c_uint32 * 32)()
assert lib.hipMemcpy(out, data, ctypes.c_size_t(128), 2) == 0
print(json.dumps(list(out)))
"""

_TAIL_KERNEL = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_load_dwordx2 s[8:9], s[0:1], 0x8
    s_bcnt1_i32_b64 s12, exec
    s_lshl_b32 s13, s3, 2
    s_add_u32 s13, s13, s2
    s_lshl_b32 s13, s13, 4
    v_mov_b32_e32 v1, s13
    v_mov_b32_e32 v2, s12
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v3, s8
    v_mov_b32_e32 v4, s9
    v_mov_b32_e32 v5, 0
    global_store_dwordx4 v1, v[2:5], s[4:5]
    s_endpgm
"""


def test_a_grid_that_is_no_multiple_of_the_block(tmp_path: Path) -> None:
    arguments = [
        (0, 8, "global_buffer"),
        (8, 4, "hidden_block_count_x"),
        (12, 2, "hidden_group_size_x"),
        (14, 2, "hidden_remainder_x"),
    ]
    path = tmp_path / "kernel.co"
    source = kernel_source(_TAIL_KERNEL, descriptor=(*PLAIN, "system_sgpr_workgroup_id_y 1"))
    path.write_bytes(link("gfx942", source + metadata(arguments)))
    found = json.loads(program(_TAIL, str(path))[0])
    # The count leaves the partial block out: it is the remainder.
    assert found == [
        word for _ in range(2) for lanes in (64, 64, 64, 10) for word in (lanes, 3, 64 | 10 << 16, 0)
    ]


def test_counters(tmp_path: Path) -> None:
    path, file = tmp_path / "kernel.co", tmp_path / "counters.json"
    path.write_bytes(image(_COUNT))
    source = _FORK[: _FORK.index("child = ")] + "run()\n"
    program(source, str(path), counters=str(file))
    document = json.loads(file.read_text())
    assert document["version"] == 2 and len(document["launches"]) == 2
    (kernel,) = document["kernels"]
    assert kernel["kernel"] == "kernel" and kernel["launches"] == 2 and kernel["waves"] == 600
    assert kernel["target"] == "gfx942" and document["launches"][0]["grid"] == [300, 1, 1]
    counts = kernel["instructions"]
    assert counts["smem"] == counts["atomic"] == counts["wait"] == 600 and counts["valu"] == 1200
    assert counts["total"] == 6 * 600
    assert kernel["global_read_bytes"] == kernel["global_written_bytes"] == 2 * 300 * 64 * 4


def test_trace_prints_every_instruction() -> None:
    answer, log = launch(Launch(image(_COUNT), [("buffer", bytes(4))]), log="trace")
    assert answer.status == SUCCESS
    assert [
        name in log
        for name in ("s_load_dwordx2 s[4:5]", "v_mov_b32_e32 v2, 1", "global_atomic_add", "s_endpgm")
    ] == [True] * 4


_TWICE = """
import ctypes, os, sys
for _ in range(2):
    lib = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL | os.RTLD_NOW)
    assert lib.hipInit(0) == 0
"""


def test_library_opened_local_twice() -> None:
    program(_TWICE)
