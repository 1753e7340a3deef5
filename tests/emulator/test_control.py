"""Where a wave goes: branches, calls, forks, traps, hints, and jumps that lead nowhere."""

from __future__ import annotations

import random

import pytest
from support.one_wave import ALL, LANES, MODE, VCC, run_wave

both = pytest.mark.parametrize("target", ["gfx942", "gfx950"])


@pytest.fixture
def rng() -> random.Random:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@both
def test_loop_counts_down(target: str, rng: random.Random) -> None:
    """A backward branch on SCC runs the body as often as the counter says."""
    turns = rng.randrange(1, 50)
    source = f"""
        s_movk_i32 s0, {turns}
        s_mov_b32 s1, 0
    again:
        s_add_u32 s1, s1, 3
        s_sub_u32 s0, s0, 1
        s_cmp_lg_u32 s0, 0
        s_cbranch_scc1 again
        s_endpgm"""
    assert run_wave(target, source).scalar[1] == 3 * turns


@pytest.mark.parametrize(
    ("branch", "vcc", "execute", "scc", "taken"),
    [
        ("s_cbranch_vccz", 0, ALL, 0, True), ("s_cbranch_vccz", 1 << 40, ALL, 0, False),
        ("s_cbranch_vccnz", 1 << 63, ALL, 0, True), ("s_cbranch_vccnz", 0, ALL, 0, False),
        ("s_cbranch_execz", 0, 0, 0, True), ("s_cbranch_execz", 0, 1 << 33, 0, False),
        ("s_cbranch_execnz", 0, 1 << 63, 0, True), ("s_cbranch_execnz", 0, 0, 0, False),
        ("s_cbranch_scc0", 0, ALL, 0, True), ("s_cbranch_scc0", 0, ALL, 1, False),
        ("s_cbranch_scc1", 0, ALL, 1, True), ("s_cbranch_scc1", 0, ALL, 0, False),
        ("s_branch", 0, ALL, 0, True), ("s_cbranch_cdbguser", 0, ALL, 0, False),
    ],
)  # fmt: skip
def test_branch_conditions(branch: str, vcc: int, execute: int, scc: int, taken: bool) -> None:
    """Each conditional branch looks at all 64 bits of what it names."""
    source = f"{branch} there\ns_mov_b32 s0, 1\ns_endpgm\nthere:\ns_mov_b32 s0, 2\ns_endpgm"
    registers = {VCC: vcc, VCC + 1: vcc >> 32}
    result = run_wave("gfx942", source, scalar=registers, execute=execute, scc=scc)
    assert result.scalar[0] == (2 if taken else 1)


@both
def test_call_and_return(target: str) -> None:
    """s_call_b64 and s_swappc_b64 leave the address of the next instruction; s_setpc_b64 goes back to it."""
    source = """
        s_call_b64 s[4:5], one
        s_getpc_b64 s[8:9]
        s_add_u32 s8, s8, two-.
        s_addc_u32 s9, s9, 0
        s_swappc_b64 s[6:7], s[8:9]
        s_add_u32 s0, s0, 100
        s_endpgm
    one:
        s_add_u32 s0, s0, 1
        s_setpc_b64 s[4:5]
    two:
        s_add_u32 s0, s0, 10
        s_setpc_b64 s[6:7]"""
    result = run_wave(target, source)
    assert (result.fault, result.scalar[0]) == (0, 111), result.message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("s_mov_b64 s[0:1], 64\ns_setpc_b64 s[0:1]\ns_endpgm", "outside the code"),
        ("s_branch 0x1000\ns_endpgm", "outside the code"),
        ("s_branch -100\ns_endpgm", "outside the code"),
        ("s_branch 1\ns_mov_b32 s0, 0x12345678\ns_endpgm", "into the middle of"),
    ],
)
def test_jumps_that_lead_nowhere(source: str, says: str) -> None:
    """A program counter without an instruction stops the wave and names the place."""
    result = run_wave("gfx942", source)
    assert result.fault == 8 and "illegal jump" in result.message and says in result.message, result.message


def test_unknown_bytes_are_named() -> None:
    """Words that no encoding matches are an error with their value, never skipped."""
    result = run_wave("gfx950", "s_nop 0\n.long 0xffffffff\ns_endpgm")
    assert result.fault == 1 and "0xffffffff" in result.message and "code+0x4" in result.message, (
        result.message
    )


def test_instruction_of_the_other_target_is_refused() -> None:
    """v_permlane32_swap_b32 is gfx950's: on gfx942 its bytes are unknown."""
    source = ".long 0x7e00b501\ns_endpgm"  # v_permlane32_swap_b32_e32 v0, v1
    assert run_wave("gfx950", source).fault == 0
    assert run_wave("gfx942", source).fault == 1


@pytest.mark.parametrize("number", [0, 1, 2, 7, 255])
def test_trap_stops_with_its_number(number: int) -> None:
    """s_trap is a fault; 2, which abort() and assert() use, says so."""
    result = run_wave("gfx942", f"s_nop 0\ns_trap {number}\ns_endpgm")
    assert result.fault == 11 and f"s_trap {number}" in result.message and "code+0x4" in result.message
    assert ("assert" in result.message) == (number == 2)


def test_debug_trap_goes_on() -> None:
    """llvm.debugtrap (3) without a debugger is nothing."""
    assert run_wave("gfx942", "s_trap 3\ns_mov_b32 s0, 9\ns_endpgm").scalar[0] == 9


def test_endless_loop_meets_the_limit() -> None:
    """The instruction limit stops a wave that never ends."""
    result = run_wave("gfx950", "here:\ns_sleep 1\ns_branch here", limit=1000)
    assert result.fault == 10 and "1000" in result.message


@both
def test_hints_and_barrier_of_a_single_wave(target: str) -> None:
    """What only schedules has no effect on registers, and a lone wave passes its barrier."""
    source = """
        s_nop 7
        s_setprio 3
        s_sleep 2
        s_waitcnt vmcnt(0) lgkmcnt(0)
        s_barrier
        s_icache_inv
        s_incperflevel 1
        s_decperflevel 1
        s_ttracedata
        s_wakeup
        s_sendmsg sendmsg(MSG_INTERRUPT)
        s_sethalt 0
        s_dcache_inv
        s_dcache_wb
        s_mov_b32 s0, 77
        s_endpgm"""
    result = run_wave(target, source, scalar={4: 5}, scc=1)
    assert (result.fault, result.scalar[0], result.scalar[4], result.scc) == (0, 77, 5, 1), result.message


def test_fork_runs_both_sides(rng: random.Random) -> None:
    """s_cbranch_g_fork and s_cbranch_join run the smaller side first and join with the whole mask."""
    source = """
        s_getpc_b64 s[8:9]
        s_add_u32 s8, s8, side-.
        s_addc_u32 s9, s9, 0
        s_cbranch_g_fork s[10:11], s[8:9]
        v_mov_b32_e32 v0, 1
        s_add_u32 s20, s20, 1
        s_branch joined
    side:
        v_mov_b32_e32 v0, 2
        s_add_u32 s20, s20, 1
    joined:
        s_cbranch_join s21
        v_mov_b32_e32 v1, 3
        s_endpgm"""
    mask = rng.getrandbits(64) & ~1 | 2
    result = run_wave("gfx942", source, scalar={10: mask, 11: mask >> 32})
    assert (result.fault, result.scalar[20]) == (0, 2), result.message
    assert result.row(0) == [2 if mask >> lane & 1 else 1 for lane in range(LANES)]
    assert result.mode == MODE
