"""The timing model: kernels made by hand whose conflicts, bytes and cycles can be counted on paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.assembly import code_object
from support.hip_process import SUCCESS, Answer, Launch, launches

TARGETS = ("gfx942", "gfx950")

#: v1: the lane's byte address in LDS, v2 to v5: data.
_LDS = """
  v_mul_u32_u24_e32 v1, {stride}, v0
  v_mov_b32_e32 v2, v0
  v_mov_b32_e32 v3, v0
  v_mov_b32_e32 v4, v0
  v_mov_b32_e32 v5, v0
  {access}
  s_waitcnt lgkmcnt(0)
  s_endpgm
"""


def timed(
    target: str, folder: Path, requests: list[Launch], **environment: str
) -> tuple[list[dict[str, Any]], list[Answer]]:
    """What the model says of each launch, and what the launches answered."""
    file = folder / "timing.json"
    answers, log = launches(requests, devices=target, timing=str(file), **environment)
    assert all(answer.status == SUCCESS for answer in answers), log
    document = json.loads(file.read_text())
    assert document["version"] == 1 and document["launches_dropped"] == 0
    assert len(document["launches"]) == len(requests)
    return document["launches"], answers


def kernel(target: str, text: str, *, groups: int = 1, items: int = 64, lds: int = 0) -> Launch:
    """A launch of ``kernel(data)`` on 64 KiB of zeros."""
    image = code_object(target, text, lds=lds)
    return Launch(image, [("buffer", bytes(1 << 16))], grid=(groups, 1, 1), block=(items, 1, 1))


def only(launch: dict[str, Any]) -> dict[str, Any]:
    """The one class of its workgroups."""
    (found,) = launch["classes"]
    assert found["whole"]
    return dict(found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("access", "stride", "cycles", "conflicts"),
    [
        ("ds_read_b32 v6, v1", 4, 2, 0),  # 32 lanes, 32 banks, twice
        ("ds_read_b32 v6, v1", 0, 2, 0),  # everybody the same dword
        ("ds_read_b32 v6, v1", 8, 4, 2),  # every other bank
        ("ds_read_b32 v6, v1", 128, 64, 62),  # one bank
        ("ds_write_b32 v1, v2", 64, 32, 30),  # two banks
        ("ds_write_b64 v1, v[2:3]", 8, 4, 0),
        ("ds_write_b128 v1, v[2:5]", 16, 8, 0),
        ("ds_write_b128 v1, v[2:5]", 128, 64, 56),
        ("ds_add_u32 v1, v2", 0, 64, 62),  # atomics on one dword: one after the other
    ],
)
def test_bank_conflicts(
    target: str, access: str, stride: int, cycles: int, conflicts: int, tmp_path: Path
) -> None:
    text = _LDS.format(stride=stride, access=access)
    (launch,), _ = timed(target, tmp_path, [kernel(target, text, lds=16384)])
    found = only(launch)
    assert (found["lds_cycles"], found["lds_conflict_cycles"]) == (cycles, conflicts)


@pytest.mark.parametrize(("target", "straight", "rows"), [("gfx942", 8, 8 * 8), ("gfx950", 4, 4 * 8)])
def test_wide_reads(target: str, straight: int, rows: int, tmp_path: Path) -> None:
    """16 bytes a lane: 8 lanes at once from 32 banks, or 16 from 64; rows of as many bytes as all banks conflict wholly."""
    bank_bytes = 128 if target == "gfx942" else 256
    texts = [_LDS.format(stride=stride, access="ds_read_b128 v[8:11], v1") for stride in (16, bank_bytes)]
    both, _ = timed(target, tmp_path, [kernel(target, text, lds=32768) for text in texts])
    assert [only(each)["lds_cycles"] for each in both] == [straight, rows * (2 if target == "gfx950" else 1)]


@pytest.mark.parametrize("target", TARGETS)
def test_loads_straight_to_lds_take_both_paths(target: str, tmp_path: Path) -> None:
    head = "  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  v_lshlrev_b32_e32 v1, 2, v0\n  s_mov_b32 m0, 0\n  s_waitcnt lgkmcnt(0)\n"
    load, end = "  global_load_{}dword {}v1, s[4:5]\n", "  s_waitcnt vmcnt(0)\n  s_endpgm\n"
    texts = [head + load.format("lds_", "") + end, head + load.format("", "v2, ") + end]
    both, _ = timed(target, tmp_path, [kernel(target, text, lds=1024) for text in texts])
    direct, plain = map(only, both)
    assert direct["memory_cycles"] == plain["memory_cycles"] == 4
    assert (direct["lds_cycles"], plain["lds_cycles"]) == (2, 0)


@pytest.mark.parametrize("target", TARGETS)
def test_memory_lines(target: str, tmp_path: Path) -> None:
    """64 bytes a cycle, lines of 128; what was loaded before is in the L1; a lane of each line takes a cycle for each."""
    head = "  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  v_mul_u32_u24_e32 v1, {}, v0\n  s_waitcnt lgkmcnt(0)\n"
    load, end = "  global_load_dword{} {}, v1, s[4:5]\n  s_waitcnt vmcnt(0)\n", "  s_endpgm\n"
    texts = [
        head.format(4) + load.format("", "v2") + end,
        head.format(16) + load.format("x4", "v[4:7]") + end,
        head.format(256) + load.format("", "v2") + end,
        head.format(4) + 2 * load.format("", "v2") + end,
    ]
    found, _ = timed(target, tmp_path, [kernel(target, text) for text in texts])
    classes = list(map(only, found))
    assert [each["memory_cycles"] for each in classes] == [4, 16, 64, 8]
    assert [each["missed_bytes"] for each in classes] == [256, 1024, 8192, 256]
    assert [each["bytes"] for each in classes] == [256, 1024, 256, 512]
    assert classes[3]["cycles"] - classes[0]["cycles"] < classes[0]["cycles"], "the second load is near"


#: Matrix instructions of 4 and of 8 passes, each on the sum of the one before.
_MATRIX = {
    "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], a[0:3]": 16,
    "v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]": 32,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("instruction", list(_MATRIX))
def test_matrix_instructions_in_a_row(target: str, instruction: str, tmp_path: Path) -> None:
    counts = (8, 9, 64, 500)
    texts = [
        f"  s_movk_i32 s6, 1\n{f'  {instruction}{chr(10)}' * count}  s_nop 7\n  s_endpgm\n"
        for count in counts
    ]
    found, _ = timed(target, tmp_path, [kernel(target, text) for text in texts])
    cycles = [only(each)["cycles"] for each in found]
    assert [only(each)["matrix_cycles"] for each in found] == [
        count * _MATRIX[instruction] for count in counts
    ]
    assert [b - cycles[0] for b in cycles[1:]] == [
        (count - counts[0]) * _MATRIX[instruction] for count in counts[1:]
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_cycles_grow_with_k(target: str, tmp_path: Path) -> None:
    """A loop as of a product: load, wait, multiply. Each turn takes the same time."""
    text = (
        "  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  v_lshlrev_b32_e32 v1, 4, v0\n  s_movk_i32 s6, {}\n  s_waitcnt lgkmcnt(0)\n"
        ".Lloop:\n  global_load_dwordx4 v[4:7], v1, s[4:5]\n  s_waitcnt vmcnt(0)\n"
        "  v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], a[0:15]\n  s_sub_u32 s6, s6, 1\n  s_cmp_lg_u32 s6, 0\n"
        "  s_cbranch_scc1 .Lloop\n  s_endpgm\n"
    )
    found, _ = timed(target, tmp_path, [kernel(target, text.format(k)) for k in (2, 3, 4, 40)])
    cycles = [only(each)["cycles"] for each in found]
    turn = cycles[2] - cycles[1]
    assert turn > 120 and cycles[3] - cycles[2] == 36 * turn and cycles[1] > cycles[0]


#: Reads both clocks, executes what is between, reads them again; lane 0 stores the four values.
_CLOCKS = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_mov_b32_e32 v1, 0
  s_waitcnt lgkmcnt(0)
  s_memtime s[8:9]
  s_memrealtime s[10:11]
  s_waitcnt lgkmcnt(0)
  {between}
  s_memtime s[12:13]
  s_memrealtime s[14:15]
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v2, s8
  v_mov_b32_e32 v3, s12
  v_mov_b32_e32 v4, s10
  v_mov_b32_e32 v5, s14
  global_store_dwordx4 v1, v[2:5], s[4:5]
  s_endpgm
"""


@pytest.mark.parametrize(("target", "megahertz"), [("gfx942", 2100), ("gfx950", 2400)])
def test_clocks_are_the_models(target: str, megahertz: int, tmp_path: Path) -> None:
    slow = "v_exp_f32_e32 v6, v6\n"
    texts = [_CLOCKS.format(between=text) for text in ("", 10 * slow, 5000 * slow)]
    requests = [kernel(target, text) for text in texts]
    found, answers = timed(target, tmp_path, [*requests, requests[0]])
    words = [answer.words()[:4] for answer in answers]
    gone = [after - before for before, after, _, _ in words]
    assert [gone[1] - gone[0], gone[2] - gone[0]] == [160, 80000], "16 cycles each, whatever the host took"
    assert gone[3] == gone[0]
    for before, after, real_before, real_after in words:
        assert abs((real_after - real_before) - (after - before) * 100 // megahertz) <= 1
    begin = [before for before, _, _, _ in words]
    assert begin == sorted(begin), "a launch begins when the one before has ended"
    assert begin[3] - begin[2] == found[2]["cycles"]
    again = timed(target, tmp_path, [*requests, requests[0]])
    assert [answer.words()[:4] for answer in again[1]] == words and again[0] == found


@pytest.mark.parametrize("target", TARGETS)
def test_the_hosts_clock_without_the_model(target: str) -> None:
    (answer,), log = launches([kernel(target, _CLOCKS.format(between="s_nop 0"))], devices=target)
    assert answer.status == SUCCESS, log
    before, after, _, _ = answer.words()[:4]
    assert after != before and before > 1 << 16


@pytest.mark.parametrize("target", TARGETS)
def test_equal_workgroups_are_one_class(target: str, tmp_path: Path) -> None:
    """The last workgroup of three jumps over what the others do."""
    text = "  s_cmp_eq_u32 s2, 2\n  s_cbranch_scc1 .Lend\n  v_exp_f32_e32 v1, v1\n.Lend:\n  s_endpgm\n"
    launches_, _ = timed(target, tmp_path, [kernel(target, text, groups=n) for n in (2, 3, 900)])
    assert [[each["workgroups"] for each in launch["classes"]] for launch in launches_] == [
        [2],
        [2, 1],
        [899, 1],
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_workgroups_share_a_compute_unit(target: str, tmp_path: Path) -> None:
    """LDS serves one workgroup after the other: two resident ones take nearly twice as long, a SIMD of its own none longer."""
    lds = (
        "  v_lshlrev_b32_e32 v1, 7, v0\n"
        + 100 * "  ds_read_b32 v2, v1\n"
        + "  s_waitcnt lgkmcnt(0)\n  s_endpgm\n"
    )
    alu = 400 * "  v_exp_f32_e32 v1, v1\n" + "  s_endpgm\n"
    requests = [kernel(target, text, groups=n, lds=16384) for text in (lds, alu) for n in (1, 2)]
    found, _ = timed(target + ":cus=1", tmp_path, requests)
    assert [each["resident"] for each in found] == [1, 2, 1, 2]
    one, two, alone, beside = (only(each)["cycles"] for each in found)
    assert 1.8 * one < two <= 2 * one
    assert beside == alone


@pytest.mark.parametrize("target", TARGETS)
def test_barriers_and_waits_are_told_apart(target: str, tmp_path: Path) -> None:
    """The second wave works for longer: the first waits for it at the barrier."""
    text = (
        "  v_readfirstlane_b32 s6, v0\n  s_cmp_eq_u32 s6, 0\n  s_cbranch_scc1 .Lmeet\n"
        + 50 * "  v_exp_f32_e32 v1, v1\n"
        + ".Lmeet:\n  s_barrier\n  s_endpgm\n"
    )
    (launch,), _ = timed(target, tmp_path, [kernel(target, text, items=128)])
    found = only(launch)
    assert 50 * 16 - 16 - 8 <= found["wait_barrier"] <= 50 * 16 + 64
    assert found["wait_memory"] == found["wait_lds"] == 0


def test_only_a_sample_is_executed(tmp_path: Path) -> None:
    """Time is that of all workgroups, memory that of those that ran."""
    text = (
        "  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  v_mov_b32_e32 v1, 1\n  s_lshl_b32 s6, s2, 2\n  v_mov_b32_e32 v2, s6\n"
        "  s_waitcnt lgkmcnt(0)\n  global_store_dword v2, v1, s[4:5]\n  s_endpgm\n"
    )
    request = kernel("gfx942", text, groups=1000)
    (whole,), (all_words,) = timed("gfx942:cus=10", tmp_path, [request])
    (part,), (some,) = timed("gfx942:cus=10", tmp_path, [request], sample="3")
    assert sum(all_words.words()) == 1000 and sum(some.words()) == 3
    assert whole["cycles"] == part["cycles"] and part["classes"][0]["workgroups"] == 3


def test_a_sample_needs_the_model() -> None:
    with pytest.raises(
        AssertionError, match=r"SAMPLE: found '3', expected .* beside AITER_PREBUILT_EMULATOR_TIMING"
    ):
        launches([kernel("gfx942", "  s_endpgm\n")], devices="gfx942", sample="3")
