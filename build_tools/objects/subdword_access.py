"""Machine code of gfx9 with matrix instructions that reads or writes memory less than 4 bytes at a time.

The walk knows how long an instruction is, and of few of them what they are. A loop is what lies between a branch backwards and
where it goes, if it asks scc or vcc; of loops in each other the inner one counts.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from aiter_prebuilt.contract.elf import ElfError, ElfFile

#: Opcodes of less than 4 bytes, of global memory (FLAT) and of buffers (MUBUF) alike.
_NARROW: Final = {
    0x10: "load_ubyte", 0x11: "load_sbyte", 0x12: "load_ushort", 0x13: "load_sshort", 0x20: "load_ubyte_d16",
    0x21: "load_ubyte_d16_hi", 0x22: "load_sbyte_d16", 0x23: "load_sbyte_d16_hi", 0x24: "load_short_d16",
    0x25: "load_short_d16_hi", 0x18: "store_byte", 0x19: "store_byte_d16_hi", 0x1A: "store_short", 0x1B: "store_short_d16_hi",
}  # fmt: skip
#: Two bytes of such an instruction, and of a matrix instruction: most code has neither, and is not walked.
_PERHAPS: Final = (re.compile(rb"[\x40-\x4f\x60-\x6f\x80-\x97][\xdc\xe0]"), re.compile(rb"[\x80-\xff]\xd3"))
#: First six bits of the encodings of two words; all others have one, and perhaps a literal.
_LONG: Final = frozenset({0b110000, 0b110001, 0b110100, 0b110110, 0b110111, 0b111000, 0b111010, 0b111100})
#: Branches on scc and vcc: others go back for the order of blocks, too.
_CONDITIONS: Final = frozenset({4, 5, 6, 7})
#: How a note of the audit about it begins.
MARK: Final = "narrow: "
_FLAT, _BUFFER = 0b110111, 0b111000
_LITERAL, _SDWA, _DPP = 255, 249, 250
#: VOP3P: the matrix instructions, but for what moves their registers; those of 8 and fewer bits lie apart (gfx950).
_MATRIX: Final = frozenset({*range(0x40, 0x80), 0x2D, 0x2E} - {0x58, 0x59})


def narrow(data: bytes) -> tuple[Counter[str], Counter[str]]:
    """Of a code object: the loads in its loops of matrix instructions, and the stores of code that has any, that are narrow."""
    try:
        file = ElfFile(data)
        texts = [
            file.data[each.offset : each.offset + each.size] for each in file.sections if each.name == ".text"
        ]
    except ElfError:
        return Counter(), Counter()
    loads, stores = Counter[str](), Counter[str]()
    for text in texts:
        if not all(any(match.start() % 4 == 2 for match in words.finditer(text)) for words in _PERHAPS):
            continue
        found = list(_walked(struct.unpack(f"<{len(text) // 4}I", text[: len(text) // 4 * 4])))
        matrix = [at for at, what in found if what == "matrix"]
        inside = _loops(found, matrix)
        for at, what in found:
            if what.startswith("store") and matrix:
                stores[what] += 1
            elif what.startswith("load") and any(first <= at <= last for first, last in inside):
                loads[what] += 1
    return loads, stores


def _walked(words: Sequence[int]) -> Iterator[tuple[int, str]]:
    """(Place in words, what it is): ``matrix``, a name of :data:`_NARROW`, or ``back PLACE``."""
    at = 0
    while at < len(words):
        word = words[at]
        top = word >> 26
        if top in (_FLAT, _BUFFER):
            name = _NARROW.get(word >> 18 & 127)
            if name is not None and (top == _BUFFER or word >> 14 & 3 != 1):  # 1: scratch
                yield at, name
        elif word >> 23 == 0b110100111:
            if word >> 16 & 127 in _MATRIX:
                yield at, "matrix"
        elif word >> 23 == 0b101111111 and word >> 16 & 127 in _CONDITIONS and word & 0x8000:
            yield at, f"back {at + 1 + (word & 0xFFFF) - 0x10000}"
        at += _length(word)


def _length(word: int) -> int:
    if word >> 26 in _LONG:
        return 2
    if word >> 31 == 0:  # VOP1, VOP2, VOPC
        more = word & 511 in (_LITERAL, _SDWA, _DPP) or word >> 25 in (0x17, 0x18, 0x24, 0x25)
    elif word >> 23 in (0b101111101, 0b101111111):  # SOP1; SOPP has none
        more = word >> 23 == 0b101111101 and word & 255 == _LITERAL
    elif word >> 28 == 0b1011 and word >> 23 != 0b101111110:  # SOPK
        more = word >> 23 & 31 == 20
    else:  # SOP2, SOPC
        more = word >> 30 == 0b10 and _LITERAL in (word & 255, word >> 8 & 255)
    return 1 + more


def _loops(found: Sequence[tuple[int, str]], matrix: Sequence[int]) -> list[tuple[int, int]]:
    """Loops with matrix instructions that hold no other one."""
    all_ = {
        (int(what[5:]), at)
        for at, what in found
        if what.startswith("back") and any(int(what[5:]) <= each <= at for each in matrix)
    }
    return [
        (first, last)
        for first, last in all_
        if not any((first, last) != (a, b) and first <= a and b <= last for a, b in all_)
    ]


def said(data: bytes) -> Iterator[str]:
    """The same in words, a line each."""
    loads, stores = narrow(data)
    if loads:
        yield f"{MARK}its loop of matrix instructions reads less than 4 bytes at a time ({_counts(loads)})"
    if stores:
        yield f"{MARK}beside matrix instructions it stores less than 4 bytes at a time ({_counts(stores)})"


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
