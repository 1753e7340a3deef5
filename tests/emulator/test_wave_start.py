"""What a wave finds in its registers and arguments at its first instruction (LLVM, AMDGPUUsage, initial execution state)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.hip_process import SUCCESS, Launch, launch
from support.linked import PLAIN, kernel_source, link, metadata

_BUFFER = [(0, 8, "global_buffer")]


def u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def words(
    body: str, descriptor: tuple[str, ...], count: int, target: str = "gfx942", **options: Any
) -> list[int]:
    """Runs a kernel of one buffer of ``count`` dwords, all ones before, and returns it."""
    image = link(target, kernel_source(body, descriptor=descriptor) + metadata(_BUFFER))
    request = Launch(image, [("buffer", b"\xff" * (4 * count))], **options)
    answer, log = launch(request, devices=target)
    assert answer.status == SUCCESS, log
    return answer.words()


#: Stores s[20:23] and v0 of lane 0 at data + 32 * workgroup number (all three dimensions, x fastest; counts in s[24:25]).
def _grid(ids: tuple[str, str, str], counts: tuple[int, int]) -> str:
    return f"""
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_mov_b32 s20, {ids[0]}
    s_mov_b32 s21, {ids[1]}
    s_mov_b32 s22, {ids[2]}
    s_mul_i32 s23, s22, {counts[1]}
    s_add_u32 s23, s23, s21
    s_mul_i32 s23, s23, {counts[0]}
    s_add_u32 s23, s23, s20
    s_lshl_b32 s24, s23, 4
    v_mov_b32_e32 v8, s24
    v_mov_b32_e32 v4, s20
    v_mov_b32_e32 v5, s21
    v_mov_b32_e32 v6, s22
    v_mov_b32_e32 v7, s23
    s_waitcnt lgkmcnt(0)
    global_store_dwordx4 v8, v[4:7], s[4:5]
    s_endpgm
    """


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_workgroup_numbers(target: str) -> None:
    x, y, z = (random.randint(1, 5) for _ in range(3))
    descriptor = (*PLAIN, "system_sgpr_workgroup_id_y 1", "system_sgpr_workgroup_id_z 1")
    found = words(
        _grid(("s2", "s3", "s4"), (x, y)).replace("s[4:5]", "s[6:7]"),
        descriptor,
        4 * x * y * z,
        target,
        grid=(x, y, z),
    )
    places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    assert [tuple(found[i : i + 4]) for i in range(0, len(found), 4)] == [
        (i, j, k, i + x * (j + y * k)) for i, j, k in places
    ]


def test_only_enabled_workgroup_numbers_take_registers() -> None:
    plain = tuple(line for line in PLAIN if "workgroup_id_x" not in line)
    descriptor = (
        *plain,
        "system_sgpr_workgroup_id_x 0",
        "system_sgpr_workgroup_id_y 1",
        "system_sgpr_workgroup_id_z 1",
    )
    found = words(_grid(("0", "s2", "s3"), (1, 2)), descriptor, 4 * 6, grid=(1, 2, 3))
    assert found[1::4] == [0, 1] * 3 and found[2::4] == [0, 0, 1, 1, 2, 2]


_ITEMS = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v3, v0
    v_mbcnt_lo_u32_b32 v1, -1, 0
    v_mbcnt_hi_u32_b32 v1, -1, v1
    v_bfe_u32 v4, v3, 10, 10
    v_bfe_u32 v5, v3, 20, 10
    v_and_b32_e32 v6, 0x3ff, v3
    v_mul_u32_u24_e32 v5, {y}, v5
    v_add_u32_e32 v5, v5, v4
    v_mul_u32_u24_e32 v5, {x}, v5
    v_add_u32_e32 v5, v5, v6
    v_lshlrev_b32_e32 v5, 2, v5
    s_waitcnt lgkmcnt(0)
    global_store_dword v5, v3, s[4:5]
    s_endpgm
"""


def test_packed_work_items() -> None:
    x, y, z = random.choice([(5, 3, 7), (64, 1, 2), (1, 33, 4), (1024, 1, 1), (3, 5, 60)])
    descriptor = (*PLAIN[:-1], "system_vgpr_workitem_id 2")
    found = words(_ITEMS.format(x=x, y=y), descriptor, x * y * z + 4, block=(x, y, z))
    expected = [i | j << 10 | k << 20 for k in range(z) for j in range(y) for i in range(x)]
    # Lanes beyond the last work item are off: nothing is written behind.
    assert found == expected + [0xFFFFFFFF] * 4


def test_dimensions_that_are_not_asked_for_are_zero() -> None:
    found = words(_ITEMS.format(x=4, y=4), PLAIN, 16, block=(4, 4, 1))
    assert found == [0, 1, 2, 3] + [0xFFFFFFFF] * 12


_HIDDEN = [
    (0, 8, "global_buffer"), (8, 4, "hidden_block_count_x"), (12, 4, "hidden_block_count_y"), (16, 4, "hidden_block_count_z"),
    (20, 2, "hidden_group_size_x"), (22, 2, "hidden_group_size_y"), (24, 2, "hidden_group_size_z"), (26, 2, "hidden_remainder_x"),
    (28, 2, "hidden_remainder_y"), (30, 2, "hidden_remainder_z"), (48, 8, "hidden_global_offset_x"),
    (56, 8, "hidden_global_offset_y"), (64, 8, "hidden_global_offset_z"), (72, 2, "hidden_grid_dims"),
    (88, 8, "hidden_hostcall_buffer"), (104, 8, "hidden_heap_v1"), (128, 4, "hidden_dynamic_lds_size"),
    (200, 4, "hidden_private_base"), (204, 4, "hidden_shared_base"), (208, 8, "hidden_queue_ptr"),
]  # fmt: skip

#: Copies 256 bytes of kernel arguments to the buffer: each lane one dword.
_COPY = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    global_load_dword v2, v1, s[0:1]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    global_store_dword v1, v2, s[4:5]
    s_endpgm
"""


def test_hidden_arguments() -> None:
    grid, block, lds = (
        (random.randint(1, 9), random.randint(1, 9), random.randint(2, 9)),
        (64, 3, 2),
        4 * random.randint(1, 900),
    )
    image = link("gfx942", kernel_source(_COPY) + metadata(_HIDDEN, kernarg=256))
    answer, log = launch(Launch(image, [("buffer", bytes(256))], grid=grid, block=block, lds=lds))
    assert answer.status == SUCCESS, log
    data = answer.buffers[0]
    assert data[8:20] == u32(*grid)
    assert data[20:32] == b"".join(value.to_bytes(2, "little") for value in (*block, 0, 0, 0))
    assert (
        data[48:72] == bytes(24)
        and data[88:96] == bytes(8)
        and data[104:112] == bytes(8)
        and data[208:216] == bytes(8)
    )
    assert data[72:74] == (3).to_bytes(2, "little")
    assert data[128:132] == u32(lds)
    private, shared = data[200:204], data[204:208]
    assert (
        private != shared
        and int.from_bytes(private, "little") >> 15
        and int.from_bytes(shared, "little") >> 15
    )


def test_one_dimension() -> None:
    image = link(
        "gfx942",
        kernel_source(_COPY) + metadata([(0, 8, "global_buffer"), (8, 2, "hidden_grid_dims")], kernarg=256),
    )
    answer, log = launch(Launch(image, [("buffer", bytes(256))], grid=(3, 1, 1)))
    assert answer.status == SUCCESS and answer.buffers[0][8:10] == b"\1\0", log


@pytest.mark.parametrize("packed", [False, True])
def test_explicit_arguments_at_their_offsets(packed: bool) -> None:
    values = [random.randbytes(1), random.randbytes(2), random.randbytes(4), random.randbytes(8)]
    layout = [
        (0, 8, "global_buffer"),
        (8, 1, "by_value"),
        (10, 2, "by_value"),
        (12, 4, "by_value"),
        (16, 8, "by_value"),
    ]
    image = link("gfx942", kernel_source(_COPY) + metadata(layout, kernarg=256))
    arguments = [("buffer", bytes(256)), *(("bytes", value) for value in values)]
    answer, log = launch(Launch(image, arguments, packed=packed))
    assert answer.status == SUCCESS, log
    for (offset, size, _), value in zip(layout[1:], values, strict=True):
        assert answer.buffers[0][offset : offset + size] == value


ILLEGAL_ADDRESS = 700


def test_arguments_too_short() -> None:
    """HIP takes them; the kernel reads what is not there."""
    image = link("gfx942", kernel_source(_COPY) + metadata([(0, 8, "global_buffer"), (8, 4, "by_value")]))
    answer, log = launch(Launch(image, [("buffer", bytes(256)), ("bytes", bytes(4))], packed=True, size=8))
    assert answer.status == ILLEGAL_ADDRESS and "illegal address" in log, log


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_preloaded_arguments(target: str) -> None:
    # The first 256 bytes are for firmware without preload: here they must not run.
    body = """
    s_trap 2
    .fill 63, 4, 0xbf800000
    v_mov_b32_e32 v2, s4
    v_mov_b32_e32 v3, s5
    v_mov_b32_e32 v4, s6
    v_mov_b32_e32 v1, 0
    global_store_dwordx3 v1, v[2:4], s[2:3]
    s_endpgm
    """
    descriptor = (*PLAIN, "user_sgpr_kernarg_preload_length 4", "user_sgpr_kernarg_preload_offset 0")
    arguments = [(0, 8, "global_buffer"), (8, 4, "by_value"), (12, 4, "by_value")]
    image = link(target, kernel_source(body, descriptor=descriptor) + metadata(arguments))
    values = (random.getrandbits(32), random.getrandbits(32))
    request = Launch(
        image, [("buffer", bytes(12)), *(("bytes", u32(value)) for value in values)], grid=(1, 1, 1)
    )
    answer, log = launch(request, devices=target)
    # s2, s3 the pointer, s4, s5 the values, then the workgroup's number.
    assert answer.status == SUCCESS and answer.words() == [*values, 0], log


def test_dispatch_packet() -> None:
    body = """
    s_load_dwordx2 s[4:5], s[2:3], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    v_and_b32_e32 v3, 15, v0
    v_lshlrev_b32_e32 v3, 2, v3
    global_load_dword v2, v3, s[0:1]
    v_cmp_gt_u32_e32 vcc, 16, v0
    s_waitcnt vmcnt(0) lgkmcnt(0)
    s_and_saveexec_b64 s[6:7], vcc
    global_store_dword v1, v2, s[4:5]
    s_endpgm
    """
    found = words(body, (*PLAIN, "user_sgpr_dispatch_ptr 1"), 16, grid=(3, 5, 1), block=(64, 2, 1), lds=100)
    data = u32(*found)
    assert data[0] == 2  # a kernel dispatch
    assert data[4:10] == (64).to_bytes(2, "little") + (2).to_bytes(2, "little") + (1).to_bytes(2, "little")
    assert found[3:6] == [3 * 64, 5 * 2, 1]
    assert found[7] == 100
    assert found[8] and found[10]  # kernel object and kernarg address


def test_mode_of_the_descriptor() -> None:
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_getreg_b32 s6, hwreg(HW_REG_MODE)
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v2, s6
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v2, s[4:5]
    s_endpgm
    """
    assert (
        words(body, PLAIN, 1)[0] & 0x8003FF == 0x3C0
    )  # f32 flushes denormals unless asked, f64 and f16 keep them
    fields = {
        name: random.randrange(4)
        for name in (
            "float_round_mode_32",
            "float_round_mode_16_64",
            "float_denorm_mode_32",
            "float_denorm_mode_16_64",
        )
    }
    flags = {name: random.randrange(2) for name in ("dx10_clamp", "ieee_mode", "fp16_overflow")}
    descriptor = (*PLAIN, *(f"{name} {value}" for name, value in (fields | flags).items()))
    expected = sum(value << 2 * i for i, value in enumerate(fields.values()))
    expected |= flags["dx10_clamp"] << 8 | flags["ieee_mode"] << 9 | flags["fp16_overflow"] << 23
    assert words(body, descriptor, 1)[0] & 0x8003FF == expected


def test_what_nobody_wrote_is_garbage_and_the_same_each_time() -> None:
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 4, v0
    v_mov_b32_e32 v4, v9
    v_accvgpr_read_b32 v5, a3
    ds_read_b32 v6, v1
    v_mov_b32_e32 v7, s40
    s_waitcnt lgkmcnt(0)
    global_store_dwordx4 v1, v[4:7], s[4:5]
    s_endpgm
    """
    found = words(body, (*PLAIN, "group_segment_fixed_size 1024"), 256)
    assert len(set(found)) == 1 and found[0] not in (0, 0xFFFFFFFF)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_scratch_is_each_lanes_own(target: str) -> None:
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    v_add_u32_e32 v2, 1000, v0
    scratch_store_dword off, v0, off offset:4
    scratch_store_dword off, v2, off offset:8
    s_barrier
    scratch_load_dword v3, off, off offset:4
    scratch_load_dword v4, off, off offset:8
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_lshl_add_u32 v3, v3, 16, v4
    global_store_dword v1, v3, s[4:5]
    s_endpgm
    """
    descriptor = (*PLAIN, "private_segment_fixed_size 16", "enable_private_segment 1")
    found = words(body, descriptor, 200, target, block=(200, 1, 1))
    assert found == [(i << 16) + i + 1000 for i in range(200)]
