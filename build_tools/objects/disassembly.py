"""The instructions of a code object, by the emulator's decoder: it knows the targets that an installed LLVM may not know."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.elf import ElfError, ElfFile
from build_tools.errors import CodeObjectError

#: The emulator that ``python -m build_tools develop`` leaves in the checkout.
LIBRARY: Final = (
    Path(__file__).resolve().parents[2] / "src" / "aiter_prebuilt_emulator" / "lib" / "libamdhip64.so"
)
#: Targets that the decoder knows.
_TARGETS: Final = {"gfx942": 942, "gfx950": 950}
_DWORD: Final = 4
#: The longest instruction, in dwords.
_LONGEST: Final = 5


def available(target: str) -> bool:
    """Can code objects of this target be disassembled here?"""
    return target in _TARGETS and LIBRARY.is_file()


def disassembly(path: Path, target: str) -> str:
    """Return the text of all instructions, a line each: address, dwords, words.

    Raises:
        CodeObjectError: the file is no code object.
    """
    try:
        elf = ElfFile(path.read_bytes())
        section, labels = elf.section_of_name[".text"], elf.symbols()
        holding = (
            each for each in elf.segments if each.executable and 0 <= section.offset - each.offset < each.size
        )
        segment = next(holding)
    except (OSError, KeyError, StopIteration, ElfError) as error:
        raise CodeObjectError(
            f"disassemble {path}", f"it is no code object: {error!r}", "Build it again"
        ) from error
    code = elf.data[section.offset : section.offset + section.size]
    start = segment.address + section.offset - segment.offset
    names: dict[int, list[str]] = {}
    for name, address in sorted(labels.items()):
        names.setdefault(address, []).append(name)
    return "".join(_lines(bytes(code), start, names, _TARGETS[target]))


def _lines(code: bytes, start: int, names: dict[int, list[str]], target: int) -> Iterator[str]:
    at = 0
    while at + _DWORD <= len(code):
        for name in names.get(start + at, ()):
            yield f"{name}:\n"
        text, size = _decoded(target, code[at : at + _LONGEST * _DWORD], start + at)
        piece = code[at : at + size * _DWORD]
        words = " ".join(
            f"{int.from_bytes(piece[place : place + 4], 'little'):08x}" for place in range(0, len(piece), 4)
        )
        yield f"  {start + at:08x}  {words:<27}  {text}\n"
        at += size * _DWORD


def _decoded(target: int, code: bytes, address: int) -> tuple[str, int]:
    """Decode one instruction.

    Returns:
        Its text, and its dwords: 1 for an unknown one.
    """
    library = _library()
    count = len(code) // _DWORD
    words = (ctypes.c_uint32 * count).from_buffer_copy(code[: count * _DWORD])
    size = ctypes.c_uint32()
    pointer = library.apb_emulator_disassemble(
        target, words, ctypes.c_size_t(count), ctypes.c_uint32(address & 0xFFFFFFFF), ctypes.byref(size)
    )
    text = ctypes.string_at(pointer).decode()
    library.apb_emulator_free(pointer)
    return text, size.value or 1


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    library.apb_emulator_disassemble.restype = ctypes.c_void_p
    library.apb_emulator_free.argtypes = [ctypes.c_void_p]
    return library
