"""The generated tables of the emulator's decoder: the same bytes each time, whole, and right where AMD's data is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("tinygrad")

from csrc.emulator.generate import isa_tables
from csrc.emulator.generate.isa_corrections import CORRECTIONS


@pytest.fixture(scope="module")
def table() -> list[isa_tables.OpcodeRow]:
    return isa_tables.rows()


def operand(row: isa_tables.OpcodeRow, slot: str) -> isa_tables.OperandRow:
    return next(one for one in row.operands if one.slot == slot)


def find(table: list[isa_tables.OpcodeRow], encoding: str, opcode: str) -> isa_tables.OpcodeRow:
    (row,) = (row for row in table if (row.encoding, row.opcode) == (encoding, opcode))
    return row


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert isa_tables.main([str(tmp_path / name)]) == 0
    for name in ("opcodes.h", "tables.inc"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_missing_folder_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert isa_tables.main([]) == 2
    assert "OUT" in capsys.readouterr().err


def test_every_opcode_has_one_enumerator_and_a_mnemonic(table: list[isa_tables.OpcodeRow]) -> None:
    header = isa_tables.opcodes_header(table)
    body = re.search(r"enum class Opcode [^{]*\{(.*?)Count,", header, re.DOTALL)
    assert body
    names = re.findall(r"\w+", body[1])
    assert names == sorted({row.opcode for row in table})
    mnemonics = re.search(r"kOpcodeMnemonics\[\] = \{(.*?)\};", header, re.DOTALL)
    assert mnemonics
    assert len(re.findall(r'"(\w+)"', mnemonics[1])) == len(names) > 1200
    assert not [name for name in names if name.endswith(("_E32", "_E64"))]


def test_a_hardware_opcode_means_one_thing(table: list[isa_tables.OpcodeRow]) -> None:
    places = [(isa_tables.SHARED.get(row.encoding, row.encoding), row.number) for row in table]
    assert len(set(places)) == len(places)


def test_operands_fill_slots_without_holes(table: list[isa_tables.OpcodeRow]) -> None:
    for row in table:
        slots = [one.slot for one in row.operands]
        assert len(set(slots)) == len(slots), row
        for kind in "dsx":
            numbers = sorted(int(slot[1]) for slot in slots if slot[0] == kind)
            assert numbers == list(range(len(numbers))), row


def test_known_encodings(table: list[isa_tables.OpcodeRow]) -> None:
    """From AMD's CDNA3 ISA document: opcode numbers, and where fields of VOP3, SMEM and MUBUF stand."""
    assert find(table, "vop2", "V_ADD_F32").number == 1
    assert find(table, "vop3", "V_FMA_F32").number == 459
    assert find(table, "smem", "S_LOAD_DWORDX4").number == 2
    third = operand(find(table, "vop3", "V_FMA_F32"), "s2")
    assert (third.low, third.width, third.format) == (50, 9, "FMT_NUM_F32")
    base = operand(find(table, "smem", "S_LOAD_DWORDX4"), "s0")
    assert (base.low, base.width, base.bits) == (0, 6, 64)
    stored = operand(find(table, "mubuf", "BUFFER_STORE_DWORDX4"), "s1")
    assert (stored.low, stored.width, stored.bits) == (40, 8, 128)
    result = operand(find(table, "vop3p_mfma", "V_MFMA_F32_32X32X8_F16"), "d0")
    assert result.bits == 16 * 32


def test_the_literal_stands_where_assembly_has_it(table: list[isa_tables.OpcodeRow]) -> None:
    assert operand(find(table, "vop2", "V_FMAMK_F32"), "s1").width == 0
    assert operand(find(table, "vop2", "V_FMAAK_F32"), "s2").width == 0


def test_registers_that_are_only_compared_are_sources(table: list[isa_tables.OpcodeRow]) -> None:
    for opcode in ("S_CMPK_EQ_I32", "S_SETREG_B32"):
        assert [one.slot for one in find(table, "sopk", opcode).operands] == ["s0"]
    assert [one.slot for one in find(table, "sopk", "S_ADDK_I32").operands] == ["d0"]


def test_every_correction_changes_something(table: list[isa_tables.OpcodeRow]) -> None:
    opcodes = {row.opcode for row in table}
    for pattern in (*CORRECTIONS.only_gfx942, *CORRECTIONS.only_gfx950):
        assert [
            name
            for name in opcodes
            if name == pattern or (pattern[-1] == "*" and name.startswith(pattern[:-1]))
        ]
    assert set(CORRECTIONS.mnemonics) <= opcodes
    places = {(row.encoding, row.opcode) for row in table}
    assert set(CORRECTIONS.added) <= places
    assert set(CORRECTIONS.operands) <= places
    assert not places & CORRECTIONS.removed


def test_targets(table: list[isa_tables.OpcodeRow]) -> None:
    assert find(table, "vop3p_mfma", "V_MFMA_F32_16X16X8_XF32").targets == 1
    assert find(table, "vop3", "V_BITOP3_B32").targets == 2
    assert find(table, "vop1", "V_MOV_B32").targets == 3


@pytest.mark.parametrize(
    ("encoding", "opcode", "category"),
    [
        ("vop2", "V_ADD_F32", "valu"), ("vop3p_mfma", "V_MFMA_F32_32X32X8_F16", "mfma"), ("sopp", "S_WAITCNT", "wait"),
        ("sop1", "S_SETPC_B64", "branch"), ("sopp", "S_CBRANCH_VCCZ", "branch"), ("smem", "S_LOAD_DWORD", "smem"),
        ("global", "GLOBAL_LOAD_DWORD", "vmem_load"), ("mubuf", "BUFFER_STORE_DWORD", "vmem_store"),
        ("flat", "FLAT_ATOMIC_ADD", "atomic"), ("ds", "DS_READ_B32", "lds"), ("mubuf", "BUFFER_INV", "other"),
        ("sop2", "S_ADD_U32", "salu"), ("vop3p_mfma", "V_ACCVGPR_READ", "valu"),
    ],
)  # fmt: skip
def test_categories(table: list[isa_tables.OpcodeRow], encoding: str, opcode: str, category: str) -> None:
    assert isa_tables.category(find(table, encoding, opcode)) == category
