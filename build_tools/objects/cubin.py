"""Read the kernels of a cubin.

``codeobject.read`` calls it.

A ``.nv.info.<kernel>`` section is a row of records: format byte, attribute byte, then (format 4) a u16 length and that
many bytes, or (formats 1 to 3) two bytes of value. ``.nv.info`` without a suffix has the same records with a symbol
index in front.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Any, Final

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from aiter_prebuilt.contract.elf import ElfFile
from build_tools.errors import CodeObjectError
from build_tools.records import ArgFacts, CodeObjectFacts, KernelFacts

_WARP: Final = 32
_SIZED: Final = 4
# EIATTR_* numbers, as cuobjdump names them.
_MAX_THREADS: Final = 0x05
_PARAM_CBANK: Final = 0x0A
_REQNTID: Final = 0x10
_FRAME_SIZE: Final = 0x11
_KPARAM_INFO: Final = 0x17
_REGCOUNT: Final = 0x2F
_TEXT: Final = ".text."
_INFO: Final = ".nv.info"


def bounded(file: ElfFile) -> None:
    """Before ``read_cubin`` walks the file with a library that knows no limits.

    Raises:
        ElfError: symbols or info sections are more than the file can have, or leave it.
    """
    file.symbols()
    for section in file.sections:
        if section.name.startswith(_INFO):
            file.walk(section)


def read_cubin(elf: ELFFile, data: bytes) -> CodeObjectFacts:
    """Return the facts of a cubin.

    Raises:
        CodeObjectError: its info sections are cut off.
    """
    flags = elf.header["e_flags"]
    # Since CUDA 12.8 (ABI version 8) the SM number is in the second byte, before that in the first.
    number = (flags >> 8 if data[8] >= 8 else flags) & 0xFF
    table = next(
        (section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)), None
    )
    names = [symbol.name for symbol in table.iter_symbols()] if table is not None else []
    shared = _per_symbol(elf, names)
    kernels = [
        _kernel(elf, section.name.removeprefix(_TEXT), shared)
        for section in elf.iter_sections()
        if section.name.startswith(_TEXT)
        and elf.get_section_by_name(".nv.info." + section.name.removeprefix(_TEXT)) is not None
    ]
    return CodeObjectFacts(
        target=f"sm_{number}",
        vendor="nvidia",
        version=0,
        features=(),
        kernels=tuple(sorted(kernels, key=lambda kernel: kernel.symbol)),
        symbols=tuple(sorted(name for name in names if name)),
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _records(section: Any) -> Iterator[tuple[int, bytes]]:
    raw = section.data()
    at = 0
    while at + 4 <= len(raw):
        form, attribute, size = struct.unpack_from("<BBH", raw, at)
        at += 4
        if form != _SIZED:
            yield attribute, struct.pack("<H", size)
            continue
        if at + size > len(raw):
            raise CodeObjectError(
                "read a cubin", f"section {section.name} is cut off", "Compile or copy it again"
            )
        yield attribute, raw[at : at + size]
        at += size


def _per_symbol(elf: ELFFile, names: list[str]) -> dict[tuple[str, int], int]:
    """(kernel, attribute) to value, from the section that speaks about all kernels."""
    section = elf.get_section_by_name(".nv.info")
    result = {}
    for attribute, raw in _records(section) if section is not None else ():
        if len(raw) == 8:
            index, value = struct.unpack("<II", raw)
            if index < len(names):
                result[names[index], attribute] = value
    return result


def _kernel(elf: ELFFile, name: str, shared: dict[tuple[str, int], int]) -> KernelFacts:
    args = []
    threads = 0
    size = 0
    for attribute, raw in _records(elf.get_section_by_name(f".nv.info.{name}")):
        if attribute == _KPARAM_INFO:
            _index, _ordinal, offset, bits = struct.unpack("<IHHI", raw)
            args.append(ArgFacts(offset, bits >> 18, "by_value"))
        elif attribute in (_REQNTID, _MAX_THREADS):
            x, y, z = struct.unpack("<III", raw)
            threads = x * y * z
        elif attribute == _PARAM_CBANK:
            _index, _offset, size = struct.unpack("<IHH", raw)
    memory = elf.get_section_by_name(f".nv.shared.{name}")
    return KernelFacts(
        symbol=name,
        kernarg_size=size,
        kernarg_align=8,
        args=tuple(sorted(args)),
        hidden=(),
        lds_static=memory["sh_size"] if memory is not None else 0,
        max_threads=threads,
        wave=_WARP,
        sgprs=0,
        vgprs=shared.get((name, _REGCOUNT), 0),
        agprs=0,
        sgpr_spills=0,
        vgpr_spills=0,
        scratch=shared.get((name, _FRAME_SIZE), 0),
    )
