"""Tables of the emulator's decoder, from AMD's machine-readable ISA data as the PyPI package ``tinygrad`` carries it.

    python -m csrc.emulator.generate.isa_tables OUT

writes ``OUT/opcodes.h`` (``Opcode``, ``Encoding``, ``Format`` and their names) and ``OUT/tables.inc`` (bit positions of every
field, and for every hardware opcode its operands), which ``csrc/emulator`` compiles. The same package gives the same bytes.
The package describes CDNA3 and CDNA4 as one ISA; what it lacks stands in
``isa_corrections.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from csrc.emulator.generate.isa_corrections import CORRECTIONS

# Bit positions are read from these classes of the package; the last ones are what a marker in src0 turns an encoding into.
CLASSES: Final = {
    "vop1": "VOP1", "vop2": "VOP2", "vopc": "VOPC", "vop3": "VOP3", "vop3sd": "VOP3SD", "vop3p": "VOP3P",
    "vop3p_mfma": "VOP3P_MFMA", "vop3px2": "VOP3PX2", "sop1": "SOP1", "sop2": "SOP2", "sopc": "SOPC", "sopk": "SOPK",
    "sopp": "SOPP", "smem": "SMEM", "ds": "DS", "flat": "FLAT", "global": "GLOBAL", "scratch": "SCRATCH",
    "mubuf": "MUBUF", "mtbuf": "MTBUF",
    "dpp": "VOP2_DPP16", "sdwa": "VOP2_SDWA", "sdwa_sdst": "VOPC_SDWA_SDST",
}  # fmt: skip
ENCODINGS: Final = tuple(CLASSES)[:-3]
#: Encodings that share the bits that say which encoding it is: the hardware opcode tells them apart.
SHARED: Final = {"vop3sd": "vop3", "vop3p_mfma": "vop3p"}

#: Operand fields in the order in which assembly names them, but for data that is stored, which follows its address.
ORDER: Final = (
    "vdst", "sdst", "ssrc0", "ssrc1", "src0", "vsrc1", "src1", "src2", "simm32", "sbase", "addr", "vaddr", "sdata", "vdata",
    "data", "data0", "data1", "saddr", "srsrc", "soffset", "scale_src0", "scale_src1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OperandRow:
    """``slot``: d0, d1, s0..s3, x0, x1 (scales). ``format``: FMT_* name. ``low``, ``width``: bits; width 0 is the literal."""

    slot: str
    low: int
    width: int
    format: str
    bits: int
    kind: str


@dataclass(frozen=True, slots=True)
class OpcodeRow:
    """One hardware opcode of one encoding. ``targets``: 1 gfx942, 2 gfx950, 3 both."""

    opcode: str
    encoding: str
    number: int
    targets: int
    operands: tuple[OperandRow, ...]


def opcode_name(name: str) -> str:
    """``V_ADD_F32`` of ``V_ADD_F32_E32``: the encoding says the rest."""
    return name.removesuffix("_E32").removesuffix("_E64")


def mnemonic(opcode: str) -> str:
    """Name an opcode as LLVM does: ``v_add_f32``."""
    return CORRECTIONS.mnemonics.get(opcode, opcode.lower())


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)


def _is_destination(encoding: str, opcode: str, name: str) -> bool:
    """Whether operand field ``name`` is written. A field that both is read and written counts as written."""
    if name == "sdst" and encoding == "sopk":
        return not opcode.startswith(("S_CMPK_", "S_SETREG_", "S_CBRANCH_I_FORK"))
    if name == "sdata":
        return "_LOAD_" in opcode or opcode in ("S_MEMTIME", "S_MEMREALTIME")
    if name == "vdata":
        return "_LOAD_" in opcode
    return name in ("vdst", "sdst")


def _operands(
    encoding: str, opcode: str, found_at: Mapping[str, Any], found: Mapping[str, tuple[str, int, str]]
) -> Iterator[OperandRow]:
    """Operands of one opcode in the order of the record's slots."""
    destinations = sources = scales = 0
    names = sorted(found, key=ORDER.index)
    if "MK_F" in opcode and "simm32" in names:  # v_fmamk and v_madmk name the literal before vsrc1
        names.remove("simm32")
        names.insert(names.index("vsrc1"), "simm32")
    for name in names:
        form, bits, kind = found[name]
        if name.startswith("scale_"):
            slot, scales = f"x{scales}", scales + 1
        elif _is_destination(encoding, opcode, name):
            slot, destinations = f"d{destinations}", destinations + 1
        else:
            slot, sources = f"s{sources}", sources + 1
        low, width = (
            (0, 0) if name == "simm32" else (found_at[name].lo, found_at[name].hi - found_at[name].lo + 1)
        )
        yield OperandRow(slot, low, width, form, bits, kind)


def fields(encoding: str) -> dict[str, Any]:
    """Bit fields of an encoding's class by name."""
    from tinygrad.runtime.autogen.amd.cdna import ins

    return dict(getattr(ins, CLASSES[encoding])._fields)


def _encoding_of(encoding: str, operation: object) -> str:
    """Return the real encoding of an opcode of the package's class.

    Matrix instructions share VOP3P's opcodes.
    """
    if encoding != "vop3p":
        return encoding
    name = getattr(operation, "name", "")
    matrix = name.startswith(("V_MFMA_", "V_SMFMAC_", "V_ACCVGPR_")) and name != "V_MFMA_LD_SCALE_B32"
    return "vop3p_mfma" if matrix else "vop3p"


def rows() -> list[OpcodeRow]:
    """Every opcode of every encoding, in the order of encodings and numbers."""
    from tinygrad.runtime.autogen.amd.cdna import enum, operands

    result: list[OpcodeRow] = []
    for base in ENCODINGS:
        if base == "vop3p_mfma":
            continue  # comes with vop3p
        members = [(m.name, m.value, m) for m in getattr(enum, f"{CLASSES[base]}Op")]
        members += [
            (name, number, None) for (where, name), number in CORRECTIONS.added.items() if where == base
        ]
        for name, number, member in sorted(members, key=lambda member: int(member[1])):
            opcode = opcode_name(name)
            encoding = _encoding_of(base, member)
            if (encoding, opcode) in CORRECTIONS.removed:
                continue
            known = operands.OPERANDS.get(member, {}).items()
            found = {
                key: (form.name, bits, kind.name) for key, (form, bits, kind) in known if key != "simm16"
            }
            for key, value in CORRECTIONS.operands.get((encoding, opcode), {}).items():
                found.pop(key, None)
                if value is not None:
                    found[key] = value
            targets = 1 if _matches(opcode, CORRECTIONS.only_gfx942) else 3
            targets = 2 if _matches(opcode, CORRECTIONS.only_gfx950) else targets
            of = tuple(_operands(encoding, opcode, fields(encoding), found))
            result.append(OpcodeRow(opcode, encoding, number, targets, of))
    return result


def category(row: OpcodeRow) -> str:
    """Return the category under which the emulator counts an instruction.

    It is a ``Category`` of csrc/emulator/isa/instruction.h.
    """
    name = row.opcode
    if row.encoding.startswith("vop"):
        return "mfma" if ("MFMA_" in name and "LD_SCALE" not in name) or "SMFMAC" in name else "valu"
    if row.encoding in ("flat", "global", "scratch", "mubuf", "mtbuf"):
        kinds = {"_ATOMIC_": "atomic", "_LOAD_": "vmem_load", "_STORE_": "vmem_store"}
        return next((kind for word, kind in kinds.items() if word in name), "other")
    if name.startswith(("S_BRANCH", "S_CBRANCH", "S_SETPC", "S_SWAPPC", "S_CALL", "S_RFE")):
        return "branch"
    if row.encoding == "sopp":
        return "wait" if name in ("S_WAITCNT", "S_BARRIER") else "other"
    return {"smem": "smem", "ds": "lds"}.get(row.encoding, "salu")


def _wrapped(words: Iterable[str]) -> str:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 130:
            lines.append("")
        lines[-1] += f" {word}," if lines[-1] else f"{word},"
    return "".join(f"  {line}\n" for line in lines)


def _quoted(names: Iterable[str]) -> str:
    return _wrapped(f'"{name}"' for name in names)


def format_name(name: str) -> str:
    """``pk2_f16`` of ``FMT_NUM_PK2_F16``, ``rsrc`` of ``FMT_RSRC``."""
    return name.removeprefix("FMT_").removeprefix("NUM_").lower()


def enumerator(name: str) -> str:
    """``Pk2F16`` of ``pk2_f16``: enumerators and constants are named as in the rest of the C++ (.clang-tidy)."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def opcodes_header(table: list[OpcodeRow]) -> str:
    """``opcodes.h``: what everything else of the emulator sees."""
    from tinygrad.runtime.autogen.amd.common import Fmt

    opcodes = sorted({row.opcode for row in table})
    formats = [format_name(member.name) for member in Fmt]
    assert len(set(formats)) == len(formats)
    mnemonics = [mnemonic(name) for name in opcodes]
    aliases = (f"{new.upper()} = {old}" for old, new in CORRECTIONS.mnemonics.items())
    return (
        "// Written by csrc/emulator/generate/isa_tables.py from the PyPI package tinygrad; changes are lost.\n#pragma once\n\n"
        "#include <cstdint>\n\nnamespace apb::emu {\n\n"
        f"enum class Opcode : std::uint16_t {{\n{_wrapped(opcodes)}  Count,\n"
        f"  // LLVM's names of the same\n{_wrapped(aliases)}}};\n\n"
        f"enum class Encoding : std::uint8_t {{\n{_wrapped(map(enumerator, ENCODINGS))}}};\n\n"
        f"enum class Format : std::uint8_t {{\n{_wrapped(map(enumerator, formats))}}};\n\n"
        f"inline constexpr const char* kOpcodeMnemonics[] = {{\n{_quoted(mnemonics)}}};\n"
        f"inline constexpr const char* kEncodingNames[] = {{\n{_quoted(ENCODINGS)}}};\n"
        f"inline constexpr const char* kFormatNames[] = {{\n{_quoted(formats)}}};\n\n"
        "}  // namespace apb::emu\n"
    )


def _field_lines() -> Iterator[str]:
    """One namespace of bit positions per encoding; ``kPattern`` are the bits that say which encoding it is."""
    for encoding in CLASSES:
        yield f"namespace {'global_memory' if encoding == 'global' else encoding} {{\n"
        mask = value = 0
        for name, bits in fields(encoding).items():
            if type(bits).__name__ == "FixedBitField":
                mask |= bits.mask << bits.lo
                value |= bits.default << bits.lo
            else:
                yield f"inline constexpr Field k{enumerator(name)}{{{bits.lo}, {bits.hi - bits.lo + 1}}};\n"
        shift = (
            64 if encoding == "vop3px2" else 0
        )  # its pattern stands in the second half; the first is the scale's prefix
        if encoding in ENCODINGS:
            yield f"inline constexpr Pattern kPattern{{0x{mask >> shift:08x}, 0x{value >> shift:08x}}};\n"
        yield "}\n"


def operand_type(kind: str) -> str:
    """``SrcVgpr`` of ``OPR_SRC_VGPR``."""
    return enumerator(kind.removeprefix("OPR_").lower())


def tables_include(table: list[OpcodeRow]) -> str:
    """``tables.inc``: included once, by csrc/emulator/isa/tables.h, which defines the structures."""
    kinds = sorted({operand.kind for row in table for operand in row.operands})
    sequences: dict[tuple[OperandRow, ...], int] = {}
    operands: list[str] = []
    for row in table:
        if row.operands not in sequences:
            sequences[row.operands] = len(operands)
            operands += [
                f"{{Slot::{enumerator(o.slot)}, {o.low}, {o.width}, Format::{enumerator(format_name(o.format))}, "
                f"{-(-o.bits // 32)}, OperandType::{operand_type(o.kind)}}}"
                for o in row.operands
            ]
    body = [
        f"{{Opcode::{row.opcode}, Encoding::{enumerator(row.encoding)}, Category::{enumerator(category(row))}, {row.targets}, "
        f"{len(row.operands)}, {sequences[row.operands]}, {row.number}}}"
        for row in table
    ]
    text = "// Written by csrc/emulator/generate/isa_tables.py from the PyPI package tinygrad; changes are lost.\n"
    text += f"enum class OperandType : std::uint8_t {{\n{_wrapped(map(operand_type, kinds))}}};\n"
    text += _TYPES + "".join(_field_lines())
    text += (
        "inline constexpr OperandRow kOperandRows[] = {\n"
        + "".join(f"  {line},\n" for line in operands)
        + "};\n"
    )
    text += (
        "inline constexpr OpcodeRow kOpcodeRows[] = {\n" + "".join(f"  {line},\n" for line in body) + "};\n"
    )
    for base in (encoding for encoding in ENCODINGS if encoding not in SHARED):
        of = {row.number: i for i, row in enumerate(table) if SHARED.get(row.encoding, row.encoding) == base}
        size = 1 << _op_width(base)
        text += f"inline constexpr std::uint16_t kRows{enumerator(base)}[{size}] = {{\n"
        text += _wrapped(str(of.get(number, 65535)) for number in range(size)) + "};\n"
    return text


_TYPES: Final = """\
struct OperandRow {
  Slot slot;
  std::uint8_t low, width;  // bits; width 0: the literal
  Format format;
  std::uint8_t dwords;
  OperandType type;
};
struct OpcodeRow {
  Opcode opcode;
  Encoding encoding;
  Category category;
  std::uint8_t targets;     // 1 gfx942, 2 gfx950
  std::uint8_t operands;
  std::uint16_t first;      // in kOperandRows
  std::uint16_t number;     // the hardware's
};
"""


def _op_width(encoding: str) -> int:
    op = fields(encoding)["op"]
    return int(op.hi - op.lo + 1)


def main(arguments: list[str]) -> int:
    """Write both files into the folder that the only argument names."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m csrc.emulator.generate.isa_tables OUT\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    table = rows()
    for name, text in (("opcodes.h", opcodes_header(table)), ("tables.inc", tables_include(table))):
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
