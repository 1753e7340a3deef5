"""What a wave reads of itself and how it is told to read: hardware registers, modes, relative registers, lanes."""

from __future__ import annotations

import random

import pytest
from support.one_wave import ALL, EXEC, LANES, M0, MODE, run_wave

both = pytest.mark.parametrize("target", ["gfx942", "gfx950"])


@pytest.fixture
def rng() -> random.Random:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@both
def test_setreg_changes_fields_of_mode(target: str) -> None:
    """s_setreg writes exactly its field; s_getreg reads one."""
    source = """
        s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xd
        s_mov_b32 s0, 2
        s_setreg_b32 hwreg(HW_REG_MODE, 6, 2), s0
        s_getreg_b32 s1, hwreg(HW_REG_MODE, 0, 8)
        s_getreg_b32 s2, hwreg(HW_REG_MODE, 8, 2)
        s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1
        s_getreg_b32 s3, hwreg(HW_REG_MODE)
        s_endpgm"""
    result = run_wave(target, source)
    assert result.scalar[1:4] == [0xBD, 3, 0x8003BD], [hex(x) for x in result.scalar[:4]]
    assert result.mode == 0x8003BD


def test_rounding_mode_takes_effect() -> None:
    """After s_setreg the vector ALU rounds towards zero: 1 + 2^-24 + 2^-25 is 1 and not the next float."""
    one, small = 0x3F800000, 0x33C00000
    add = "v_add_f32_e32 v{0}, v2, v3\n"
    source = add.format(0) + "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3\n" + add.format(1) + "s_endpgm"
    result = run_wave("gfx942", source, vector={2: [one] * LANES, 3: [small] * LANES})
    assert (result.row(0)[0], result.row(1)[0]) == (0x3F800001, 0x3F800000)


@both
def test_status_and_identity_registers(target: str) -> None:
    """STATUS shows SCC, EXECZ and VCCZ; writes to it change nothing; registers without a value are an error."""
    source = """
        s_setreg_imm32_b32 hwreg(HW_REG_STATUS), 0
        s_getreg_b32 s0, hwreg(HW_REG_STATUS, 0, 1)
        s_getreg_b32 s1, hwreg(HW_REG_STATUS, 9, 2)
        s_getreg_b32 s2, hwreg(HW_REG_LDS_ALLOC, 12, 9)
        s_getreg_b32 s3, hwreg(HW_REG_XCC_ID)
        s_endpgm"""
    result = run_wave(target, source, scc=1, lds=1000)
    assert result.scalar[:3] == [1, 2, 2], result.message
    gone = run_wave(target, "s_getreg_b32 s0, hwreg(12)\ns_endpgm")
    assert gone.fault == 1 and "hardware register" in gone.message


@both
def test_special_sources(target: str) -> None:
    """Apertures have a zero low half and 4 GiB; scc, vccz and execz are 0 or 1."""
    source = """
        s_mov_b64 s[0:1], src_shared_base
        s_mov_b64 s[2:3], src_shared_limit
        s_mov_b64 s[4:5], src_private_base
        s_mov_b32 s6, src_scc
        s_mov_b32 s7, src_vccz
        s_mov_b32 s8, src_execz
        s_endpgm"""
    result = run_wave(target, source, scc=1, execute=0)
    assert result.scalar[0] == 0 and result.scalar[1] == result.scalar[3] != result.scalar[5]
    assert result.scalar[2] == 0xFFFFFFFF and result.scalar[4] == 0
    assert result.scalar[6:9] == [1, 1, 1]


@both
def test_saveexec_keeps_the_old_mask(target: str, rng: random.Random) -> None:
    """The old EXEC is saved even when the destination is the source."""
    mask, execute = rng.getrandbits(64), rng.getrandbits(64) | 1
    result = run_wave(
        target,
        "s_andn2_saveexec_b64 s[0:1], s[0:1]\ns_endpgm",
        scalar={0: mask, 1: mask >> 32},
        execute=execute,
    )
    assert (result.pair(0), result.pair(EXEC)) == (execute, mask & ~execute & ALL)
    assert result.scc == (mask & ~execute & ALL != 0)


def test_relative_moves() -> None:
    """s_movrels and s_movreld add M0 to a register number, and stop at s101."""
    values = {index: 1000 + index for index in range(20, 40)}
    source = "s_movrels_b32 s0, s20\ns_movrels_b64 s[2:3], s[22:23]\ns_movreld_b32 s30, s4\ns_endpgm"
    result = run_wave("gfx942", source, scalar={**values, 4: 5, M0: 6})
    assert (result.scalar[0], result.scalar[2:4], result.scalar[36]) == (1026, [1028, 1029], 5)
    far = run_wave("gfx942", source, scalar={M0: 90})
    assert far.fault == 9 and "past s101" in far.message


@both
def test_gpr_indexing(target: str) -> None:
    """s_set_gpr_idx_on adds M0[7:0] to the operands that M0[15:12] names, until it is switched off."""
    rows = {index: [100 * index + lane for lane in range(LANES)] for index in range(1, 20)}
    source = """
        s_set_gpr_idx_on s0, gpr_idx(SRC0)
        v_mov_b32_e32 v30, v3
        s_set_gpr_idx_mode gpr_idx(DST)
        v_mov_b32_e32 v31, v3
        s_set_gpr_idx_idx s1
        v_mov_b32_e32 v31, v4
        s_set_gpr_idx_off
        v_mov_b32_e32 v32, v5
        s_endpgm"""
    result = run_wave(target, source, scalar={0: 7, 1: 9, M0: 0xABCD0F00}, vector=rows)
    assert result.fault == 0, result.message
    assert [result.row(r)[3] for r in (30, 38, 40, 32)] == [1003, 303, 403, 503]
    assert result.scalar[M0] == 0xABCD8F09 and result.mode == MODE


@both
def test_gpr_indexing_of_accumulation_registers(target: str) -> None:
    """AccVGPR operands are indexed like VGPRs: AITER's MXFP4 GEMM reads its accumulators in a loop this way."""
    rows = {256 + index: [100 * index + lane for lane in range(LANES)] for index in range(1, 20)}
    source = """
        s_set_gpr_idx_on s0, gpr_idx(SRC0)
        v_accvgpr_read_b32 v30, a3
        v_accvgpr_read_b32 v31, a5
        s_set_gpr_idx_off
        v_accvgpr_read_b32 v32, a5
        s_endpgm"""
    result = run_wave(target, source, scalar={0: 7}, vector=rows)
    assert result.fault == 0, result.message
    assert [result.row(r)[3] for r in (30, 31, 32)] == [1003, 1203, 503]
    past = run_wave(
        target, "s_set_gpr_idx_on s0, gpr_idx(SRC0)\nv_accvgpr_read_b32 v0, a250\ns_endpgm", scalar={0: 6}
    )
    assert "illegal register" in past.message and "a256" in past.message


def test_gpr_indexing_past_the_file() -> None:
    """An index that leaves the vector registers is an error with the register's number."""
    result = run_wave(
        "gfx942", "s_set_gpr_idx_on s0, gpr_idx(SRC0)\nv_mov_b32_e32 v0, v250\ns_endpgm", scalar={0: 6}
    )
    assert "illegal register" in result.message and "v256" in result.message


@both
def test_skipping_vector_instructions(target: str) -> None:
    """s_setvskip takes one bit of a register; while it is set vector, LDS and memory instructions do nothing."""
    source = """
        s_setvskip s0, 4
        v_mov_b32_e32 v0, 1
        global_load_dword v0, v[2:3], off
        ds_write_b32 v1, v1
        s_mov_b32 s1, 5
        s_setvskip s0, 3
        v_mov_b32_e32 v4, 6
        s_endpgm"""
    result = run_wave(target, source, scalar={0: 1 << 4})
    assert (result.fault, result.row(0)[0], result.row(4)[0], result.scalar[1]) == (0, 0, 6, 5), (
        result.message
    )


@both
def test_lane_reads_ignore_exec(target: str, rng: random.Random) -> None:
    """v_readlane and v_writelane take any lane; v_readfirstlane the first that is on, or lane 0."""
    row = [rng.getrandbits(32) for _ in range(LANES)]
    source = """
        v_readlane_b32 s0, v0, 70
        v_readfirstlane_b32 s1, v0
        s_mov_b64 exec, 0
        v_readfirstlane_b32 s2, v0
        v_writelane_b32 v1, s4, 63
        s_endpgm""".replace("70", "s5")
    result = run_wave(target, source, scalar={4: 99, 5: 64 + 6}, vector={0: row}, execute=1 << 40 | 1 << 50)
    assert result.scalar[0:3] == [row[6], row[40], row[0]]
    assert result.row(1) == [0] * 63 + [99]


@pytest.mark.parametrize("width", [16, 32])
def test_permlane_swap(width: int, rng: random.Random) -> None:
    """Odd rows of the destination change places with even rows of the source."""
    first, second = ([rng.getrandbits(32) for _ in range(LANES)] for _ in range(2))
    result = run_wave("gfx950", f"v_permlane{width}_swap_b32 v0, v1\ns_endpgm", vector={0: first, 1: second})
    odd = [bool(lane & width) for lane in range(LANES)]
    assert result.row(0) == [second[lane - width] if odd[lane] else first[lane] for lane in range(LANES)]
    assert result.row(1) == [second[lane] if odd[lane] else first[lane + width] for lane in range(LANES)]


def test_accumulator_moves_and_swap(rng: random.Random) -> None:
    """AccVGPR moves and v_swap write active lanes only."""
    execute = rng.getrandbits(64)
    lanes = list(range(LANES))
    source = """
        v_accvgpr_write_b32 a3, v0
        v_accvgpr_mov_b32 a4, a3
        v_accvgpr_read_b32 v1, a4
        v_accvgpr_write_b32 a5, 7
        v_swap_b32 v2, v3
        s_endpgm"""
    result = run_wave(
        "gfx942", source, vector={0: [lane + 1 for lane in lanes], 2: [8] * 64, 3: [9] * 64}, execute=execute
    )
    on = [execute >> lane & 1 for lane in lanes]
    assert result.row(1) == result.row(256 + 3) == [(lane + 1) * on[lane] for lane in lanes]
    assert result.row(256 + 5) == [7 * bit for bit in on]
    assert result.row(2) == [9 if bit else 8 for bit in on] and result.row(3) == [
        8 if bit else 9 for bit in on
    ]
