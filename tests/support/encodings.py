"""Random instructions of every opcode in the decoder's tables, as the assembler writes them (unused bits zero).

A sample is what is asked for, not what the target has: the assembler refuses modifiers that an opcode does not take.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from csrc.emulator.generate import isa_tables
from csrc.emulator.generate.isa_tables import OpcodeRow, OperandRow

INTEGERS = range(128, 209)  # the hardware's source numbers of 0..64 and -1..-16
FLOATS = range(240, 249)
LITERAL, SDWA, DPP = 255, 249, 250
SHORT = ("vop1", "vop2", "vopc")
CARRIES = (
    "V_CNDMASK_B32",
    "V_ADDC_CO_U32",
    "V_SUBB_CO_U32",
    "V_SUBBREV_CO_U32",
    "V_DIV_FMAS_F32",
    "V_DIV_FMAS_F64",
)
FP8_TO_F32 = ("V_CVT_F32_FP8", "V_CVT_F32_BF8", "V_CVT_PK_F32_FP8", "V_CVT_PK_F32_BF8")
DPP_CONTROLS = (
    *range(0x100),
    0x101,
    0x10F,
    0x111,
    0x11F,
    0x121,
    0x12F,
    0x130,
    0x134,
    0x138,
    0x13C,
    *range(0x140, 0x144),
    0x15A,
)
#: How many values the immediate of these has; all others have 16 bits.
IMMEDIATES = {
    "S_BARRIER": 1, "S_WAKEUP": 1, "S_ICACHE_INV": 1, "S_TTRACEDATA": 1, "S_ENDPGM_SAVED": 1, "S_SET_GPR_IDX_OFF": 1,
    "S_ENDPGM_ORDERED_PS_DONE": 1, "S_SET_GPR_IDX_MODE": 16,
}  # fmt: skip
_CACHE = ("sc0", "sc1", "nt", "acc")
FEATURES = {
    "vop1": ("literal", "sdwa", "dpp"), "vop2": ("literal", "sdwa", "dpp"), "vopc": ("literal", "sdwa"),
    "vop3": ("clamp", "omod", "neg", "abs", "opsel", "opsel_dst"), "vop3sd": ("clamp", "omod", "neg"),
    "vop3p": ("clamp", "neg", "neg_hi", "opsel", "opsel_hi"), "vop3p_mfma": ("cbsz", "abid", "blgp"), "vop3px2": ("cbsz", "blgp"),
    "sop1": ("literal",), "sop2": ("literal",), "sopc": ("literal",), "smem": ("register", "both", "glc"), "ds": ("acc", "gds"),
    "flat": _CACHE, "global": (*_CACHE, "saddr"), "scratch": (*_CACHE, "saddr"),
    "mubuf": (*_CACHE, "offen", "idxen", "both", "lds"), "mtbuf": (*_CACHE, "offen", "idxen", "both"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """``words`` of one instruction; ``what`` says which of its features were drawn: "plain", "sdwa", "clamp", ..."""

    row: OpcodeRow
    what: str
    words: tuple[int, ...]


class Word:
    """An instruction under construction: bits set by field name."""

    def __init__(self, encoding: str) -> None:
        self.fields = isa_tables.fields(encoding)
        self.value = 0
        self.literal: int | None = None
        for field in self.fields.values():
            if type(field).__name__ == "FixedBitField":
                self.value |= field.default << field.lo

    def set(self, name: str, value: int) -> None:
        self.put(self.fields[name].lo, self.fields[name].mask, value)

    def put(self, low: int, mask: int, value: int) -> None:
        self.value = self.value & ~(mask << low) | (value & mask) << low

    def variant(self, which: str, **values: int) -> None:
        """Fields of the second dword of SDWA or DPP."""
        for name, value in values.items():
            field = isa_tables.fields(which)[name]
            self.put(field.lo, field.mask, value)

    def words(self, count: int) -> tuple[int, ...]:
        words = tuple(self.value >> 32 * k & 0xFFFFFFFF for k in range(count))
        return words if self.literal is None else (*words, self.literal)


def dwords(operand: OperandRow) -> int:
    return -(-operand.bits // 32)


def is_float(operand: OperandRow) -> bool:
    return operand.format.rpartition("_")[2] in ("F16", "F32", "F64", "BF16")


class Generator:
    """Draws instructions from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def samples(self, row: OpcodeRow, count: int) -> Iterator[Sample]:
        """``count`` plain ones, and one of each modifier and variant that the encoding has."""
        for what in (
            *["plain"] * count,
            *(FEATURES.get(row.encoding, ()) if row.operands or row.encoding == "mubuf" else ()),
        ):
            yield Sample(row, what, self.draw(row, what))

    def draw(self, row: OpcodeRow, what: str) -> tuple[int, ...]:
        word = Word(row.encoding)
        if row.encoding == "vop3px2":
            word.set("x2encoding", 0xD3AC)
            word.put(75, 1, 1)  # the MFMA half says that it has scales
        word.set("op", row.number)
        self.operands(word, row, what)
        self.features(word, row, what)
        size = {"vop3px2": 4, **dict.fromkeys((*SHORT, "sop1", "sop2", "sopc", "sopk", "sopp"), 1)}.get(
            row.encoding, 2
        )
        return word.words(2 if what in ("sdwa", "dpp") else size)

    # Registers. Tuples of vector registers begin at an even number on gfx90a and later.
    def scalar(self, count: int) -> int:
        step = 1 if count == 1 else 2 if count == 2 else 4
        special = {1: [106, 107, 110, 124, 126, 127], 2: [106, 126]}.get(count, [])
        registers: list[int] = [*range(0, 101 - count, step), *special]
        return self.random.choice(registers)

    def vector(self, count: int) -> int:
        return self.random.randrange(256) if count == 1 else 2 * self.random.randrange((256 - count) // 2 + 1)

    def source(self, word: Word, row: OpcodeRow, operand: OperandRow, what: str, scalars: set[int]) -> int:
        kind, count = operand.kind.removeprefix("OPR_"), dwords(operand)
        if "ACCVGPR" in kind or kind in ("SRC_VGPR", "VGPR_OR_LDS") or operand.slot.startswith("x"):
            constant = kind.endswith("CONST") and self.random.random() < 0.3
            return self.random.choice(INTEGERS) if constant else 256 + self.vector(count)
        # The constant bus carries one scalar register per vector instruction, or its literal.
        full = row.encoding.startswith("vop") and bool(scalars)
        if (
            operand.width == 9
            and kind not in ("SSRC_LANESEL", "SSRC_NOLIT")
            and (full or self.random.random() < 0.4)
        ):
            return 256 + self.vector(count)
        if what == "literal" and kind in ("SRC", "SSRC", "SRC_NOLDS") and word.literal is None:
            word.literal = self.random.choice(
                (self.random.randrange(0x10000 if operand.bits == 16 else 1 << 32), 1, 64)
            )
            scalars.add(LITERAL)
            return LITERAL
        drawn = self.random.random()
        if drawn < 0.3 or full:
            return self.random.choice(INTEGERS)
        if drawn < 0.5 and is_float(operand):
            return self.random.choice(FLOATS)
        scalars.add(register := self.scalar(count))
        return register

    def operands(self, word: Word, row: OpcodeRow, what: str) -> None:
        scalars = {106} if row.opcode in CARRIES else set()  # they read a scalar mask anyway
        if any(not operand.width for operand in row.operands):
            scalars.add(LITERAL)
        for operand in row.operands:
            kind, count = operand.kind.removeprefix("OPR_"), dwords(operand)
            if not operand.width:
                word.literal = self.random.randrange(0x10000 if operand.bits == 16 else 1 << 32)
                continue
            if kind in ("VGPR", "VGPR_OR_ACCVGPR", "ACCVGPR"):
                drawn = self.vector(2 if "_GWS_" in row.opcode else count)
            elif kind in ("SDST", "SREG", "SREG_NOVCC"):
                size = {6: 2, 5: 4}.get(
                    operand.width, 1
                )  # addresses and resources count pairs and groups of four
                drawn = (
                    self.random.randrange(0, 100 // size, -(-count // size))
                    if size > 1
                    else self.scalar(count)
                )
            elif kind in ("SIMM4", "SIMM8"):
                drawn = self.random.randrange(16)
            elif kind != "SMEM_OFFSET":
                drawn = self.source(word, row, operand, what, scalars)
            else:
                continue
            word.put(operand.low, (1 << operand.width) - 1, drawn)

    def features(self, word: Word, row: OpcodeRow, what: str) -> None:
        pick = self.random.randrange
        if row.encoding in ("sopk", "sopp"):
            word.set("simm16", pick(IMMEDIATES.get(row.opcode, 1 << 16)))
        elif what == "sdwa":
            self.sdwa(word, row)
        elif what == "dpp":
            for operand in row.operands:
                if operand.slot == "s0":
                    word.put(operand.low, 511, DPP)
            control = self.random.choice(DPP_CONTROLS)
            word.variant(
                "dpp", vsrc0=pick(256), dpp=control, row_mask=pick(16), bank_mask=pick(16), bc=pick(2)
            )
        elif row.encoding in ("vop3", "vop3sd", "vop3p"):
            self.long_vector(word, row, what)
        elif row.encoding in ("vop3p_mfma", "vop3px2"):
            self.matrix(word, row, what)
        elif row.encoding in ("flat", "global", "scratch"):
            self.flat(word, row, what)
        elif row.encoding in ("mubuf", "mtbuf"):
            self.buffer(word, row, what)
        elif row.encoding == "smem":
            self.scalar_memory(word, row, what)
        elif row.encoding == "ds":
            self.local(word, row, what)

    def sdwa(self, word: Word, row: OpcodeRow) -> None:
        """Vector and scalar sources, all selections; the destination's only where there is one."""
        pick = self.random.randrange
        second = any(o.slot == "s1" for o in row.operands)
        for operand in row.operands:
            if operand.slot == "s0":
                word.put(operand.low, 511, SDWA)
        word.variant("sdwa", vsrc0=pick(256), src0_sel=pick(7), src1_sel=pick(7) if second else 0)
        if row.opcode not in CARRIES and pick(2):
            word.variant("sdwa", vsrc0=pick(100), s0=1)
        if row.encoding == "vopc":
            if pick(2):
                word.variant("sdwa_sdst", sdst=2 * pick(50), sd=1)
        elif row.opcode in FP8_TO_F32:
            word.variant("sdwa", dst_sel=6)
        else:
            word.variant("sdwa", dst_sel=pick(7), dst_unused=pick(3))

    def long_vector(self, word: Word, row: OpcodeRow, what: str) -> None:
        sources = [o for o in row.operands if o.slot.startswith("s")]
        every = (1 << len(sources)) - 1
        floats = sum(1 << k for k, o in enumerate(sources) if is_float(o))
        selects = row.opcode != "V_PK_FMAC_F16"  # LLVM reads op_sel of its long form and drops it
        name, value = {
            "clamp": ("clmp", 1), "omod": ("omod", self.random.randrange(1, 4)), "neg": ("neg", floats), "abs": ("abs", floats),
            "neg_hi": ("neg_hi", floats), "opsel": ("opsel", self.random.randrange(every + 1) if selects else 0),
            "opsel_dst": ("opsel", 8 if selects else 0),
        }.get(what, ("", 0))  # fmt: skip
        if name in word.fields:
            word.set(name, value)
        if row.encoding == "vop3p":
            mix = "_MIX" in row.opcode
            high = self.random.randrange(every + 1) if what == "opsel_hi" else 0 if mix else every
            high |= 0 if mix else 7 & ~every  # LLVM sets the bits of sources that are not there
            word.set("opsel_hi", high & 3)
            word.set("opsel_hi2", high >> 2)

    def matrix(self, word: Word, row: OpcodeRow, what: str) -> None:
        pick = self.random.randrange
        if "ACCVGPR" in row.opcode:  # LLVM sets the bits that VOP3P has for absent sources
            word.put(59, 3, 3)
            word.put(14, 1, 1)
            return
        word.set("acc", pick(4))
        word.set("acc_cd", pick(2))
        if what in ("cbsz", "blgp", "abid"):
            word.set(what, 1 + pick(3))
        if row.encoding == "vop3px2":
            word.set("opsel", pick(4))
            word.set("opsel_hi", pick(4))
        matrices = {o.slot: o for o in row.operands}
        if (
            word.value >> matrices["s2"].low & 256 and matrices["s2"].bits > 32
        ):  # no partial overlap with the result
            word.put(matrices["s2"].low, 511, 256 + (word.value >> matrices["d0"].low & 255))

    def scalar_memory(self, word: Word, row: OpcodeRow, what: str) -> None:
        word.set("glc", int(what == "glc"))
        if not any(o.kind == "OPR_SMEM_OFFSET" for o in row.operands):
            return
        if what == "register":  # without offset: the register's number stands in its place
            word.set("offset", self.random.randrange(100))
            return
        word.set("imm", 1)
        word.set("offset", self.random.randrange(1 << 19) - (0 if "BUFFER" in row.opcode else 1 << 18))
        if what == "both":
            word.set("soffset_en", 1)
            word.set("soffset", self.random.randrange(100))

    def local(self, word: Word, row: OpcodeRow, what: str) -> None:
        if row.opcode == "DS_NOP":
            return
        word.set("acc", int(what == "acc" and bool(row.operands)))
        word.set("gds", int(what == "gds" or "_GWS_" in row.opcode))
        word.set("offset0", self.random.randrange(256))
        word.set("offset1", self.random.randrange(256))

    def flat(self, word: Word, row: OpcodeRow, what: str) -> None:
        for name in _CACHE:
            word.set(
                name, int(what == name and (name != "acc" or any("ACCVGPR" in o.kind for o in row.operands)))
            )
        word.set("offset", self.random.randrange(1 << (12 if row.encoding == "flat" else 13)))
        if row.encoding != "flat":
            word.set("saddr", 2 * self.random.randrange(50) if what == "saddr" else 127)
        if row.encoding == "scratch" and self.random.randrange(2):
            word.set("sve", 1)
        elif row.encoding == "scratch":
            word.set("addr", 0)  # registers that nothing uses are written as 0
        if "_ATOMIC_" in row.opcode and what != "sc0":
            word.set("vdst", 0)

    def buffer(self, word: Word, row: OpcodeRow, what: str) -> None:
        for name in (*_CACHE, "lds", "offen", "idxen"):
            if name in word.fields and (row.operands or name in ("sc0", "sc1")):
                word.set(name, int(what == name or (what == "both" and name in ("offen", "idxen"))))
        if not row.operands:
            return
        word.set("offset", self.random.randrange(1 << 12))
        if what not in ("offen", "idxen"):
            word.set("vaddr", 2 * self.random.randrange(100) if what == "both" else 0)
        if what == "lds":
            word.set("vdata", 0)
        if row.encoding == "mtbuf":
            word.set("dfmt", self.random.randrange(16))
            word.set("nfmt", self.random.randrange(8))
