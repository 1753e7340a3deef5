"""One line of assembly per instruction form, with the registers that every test of it uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from csrc.emulator.generate.isa_corrections import CORRECTIONS
from csrc.emulator.generate.isa_tables import OperandRow, rows

SOURCES: Final = (0, 32, 64)
"""First vector registers of the three sources: 32, 32 and 32 apart, as much as the widest takes."""
DESTINATION: Final = 128
SCALARS: Final = (8, 24, 40)
SCALAR_DESTINATION: Final = 60
MASK: Final = 70
MASK_IN: Final = 72
VECTOR: Final = ("vop1", "vop2", "vopc", "vop3", "vop3sd", "vop3p")


@dataclass(frozen=True, slots=True)
class Operand:
    """``format``: the package's name; ``bits``: its size."""

    format: str
    bits: int

    @property
    def dwords(self) -> int:
        return -(-self.bits // 32)


@dataclass(frozen=True, slots=True)
class Form:
    """``encoding``: upper case, as the package's entries have it. ``mask``: where a lane mask is written:
    -1 none, else the SGPR number (106 VCC). ``mask_in``: the same for one that is read. ``literal``:
    value of the 32-bit constant, 0 for none.
    """

    mnemonic: str
    encoding: str
    line: str
    sources: tuple[Operand, ...]
    destination: Operand | None
    mask: int = -1
    mask_in: int = -1
    literal: int = 0
    extra: tuple[tuple[str, int], ...] = field(default=())
    note: str = ""


def register(letter: str, first: int, count: int) -> str:
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def _operand(row: OperandRow) -> Operand:
    return Operand(row.format, row.bits)


def name_of(opcode: str, encoding: str) -> str:
    name = CORRECTIONS.mnemonics.get(opcode, opcode.lower())
    return name + {"vop1": "_e32", "vop2": "_e32", "vopc": "_e32", "vop3": "_e64"}.get(encoding, "")


READS_VCC: Final = ("V_CNDMASK_B32", "V_ADDC_CO_U32", "V_SUBB_CO_U32", "V_SUBBREV_CO_U32")
WRITES_VCC: Final = ("V_ADD_CO_U32", "V_SUB_CO_U32", "V_SUBREV_CO_U32", *READS_VCC[1:])
#: Instructions on the wave and not on lanes: tested in test_instructions_lanes.
WAVE_LEVEL: Final = (
    "V_READFIRSTLANE_B32", "V_READLANE_B32", "V_WRITELANE_B32", "V_PERMLANE16_SWAP_B32", "V_PERMLANE32_SWAP_B32",
    "V_SWAP_B32", "V_NOP", "V_CLREXCP",
)  # fmt: skip
LITERAL: Final = {
    "V_FMAMK_F32": 0x3FA00001,
    "V_FMAAK_F32": 0xC0490FDB,
    "V_MADMK_F16": 0x3D01,
    "V_MADAK_F16": 0xC248,
}


@cache
def vector_forms() -> tuple[Form, ...]:
    """Every VALU form but those of whole waves and matrix instructions. The assembler says which exist on a target."""
    found = []
    for row in rows():
        if row.encoding not in VECTOR or row.opcode in WAVE_LEVEL or row.opcode.startswith("V_MFMA_LD_SCALE"):
            continue
        found.append(_vector_form(row.opcode, row.encoding, row.operands))
    return tuple(found)


def _vector_form(opcode: str, encoding: str, operands: tuple[OperandRow, ...]) -> Form:
    slots = {row.slot: row for row in operands}
    sources = [_operand(slots[s]) for s in ("s0", "s1", "s2") if s in slots and slots[s].width]
    masked = opcode in READS_VCC or opcode.startswith("V_DIV_FMAS")
    explicit = masked and encoding in ("vop3", "vop3sd") and not opcode.startswith("V_DIV_FMAS")
    if explicit and len(sources) == 3:
        sources.pop()  # the lane mask
    compares = "_CMP" in opcode
    d0 = None if compares else _operand(slots["d0"])
    mask = 106 if encoding == "vopc" or (encoding == "vop2" and opcode in WRITES_VCC) else -1
    if encoding == "vop3sd" or (encoding == "vop3" and compares):
        mask = 106 if opcode.startswith("V_DIV_SCALE") else MASK
    names = [register("v", SOURCES[i], one.dwords) for i, one in enumerate(sources)]
    if opcode in LITERAL:
        names.insert(1 if "MK_" in opcode else 2, hex(LITERAL[opcode]))
    if d0 is not None:
        names.insert(0, register("v", DESTINATION, d0.dwords))
    if mask >= 0:
        names.insert(0 if d0 is None else 1, "vcc" if mask == 106 else register("s", mask, 2))
    if explicit:
        names.append(register("s", MASK_IN, 2))
    elif masked and encoding == "vop2":
        names.append("vcc")
    line = f"{name_of(opcode, encoding)} {', '.join(names)}"
    if opcode.startswith("V_BITOP3"):
        line += " bitop3:0xca"
    extra = (("TRUTH_TABLE", 0xCA),) if opcode.startswith("V_BITOP3") else ()
    return Form(
        opcode, encoding.upper(), line, tuple(sources), d0, mask,
        (MASK_IN if explicit else 106) if masked else -1, LITERAL.get(opcode, 0), extra,
    )  # fmt: skip
