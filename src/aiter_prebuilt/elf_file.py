"""An ELF file with the standard library alone: its headers, sections, segments and symbols, and what is read out of one."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

_SHT_SYMTAB, _SHT_DYNSYM, _SHT_NOBITS = 2, 11, 8
_SYMBOL_SIZE: Final = 24


class ElfError(ValueError):
    """Bytes that are not the ELF they should be."""


@dataclass(frozen=True, slots=True)
class KernelImage:
    """One kernel; ``symbol`` is the name that a driver finds it by, ``args`` are (offset, size, kind) of its explicit arguments.

    Sizes in bytes.
    """

    symbol: str
    kernarg_size: int
    args: tuple[tuple[int, int, str], ...]
    lds_static: int
    max_threads: int
    wave: int


@dataclass(frozen=True, slots=True)
class Image:
    """One code object. ``target`` is ``gfx942`` and the like, or ``sm_90``."""

    machine: int
    target: str
    kernels: tuple[KernelImage, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A section header: kind (SHT), place in the file, and the section that it names."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the file that a program header names."""

    kind: int
    executable: bool
    address: int
    align: int
    data: bytes


class ElfFile:
    """A 64-bit little-endian ELF; nothing is read that is not there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < 64 or data[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if data[4] != 2 or data[5] != 1:
            raise ElfError("not a 64-bit little-endian ELF")
        self.os_abi, self.abi_version = data[7], data[8]
        self.kind = struct.unpack_from("<H", data, 16)[0]
        self.machine = struct.unpack_from("<H", data, 18)[0]
        self.flags = struct.unpack_from("<I", data, 48)[0]
        self.sections = self._sections()

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """What ``struct`` reads at an offset."""
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise ElfError(f"the file ends before byte {at + struct.calcsize(form)}")
        return struct.unpack_from(form, self.data, at)

    def _sections(self) -> tuple[Section, ...]:
        (table,) = self.unpack("<Q", 40)
        entry_size, count, names_index = self.unpack("<HHH", 58)
        rows = []
        for place in range(count):
            name, kind, _, _, offset, size, link, *_ = self.unpack("<IIQQQQIIQQ", table + place * entry_size)
            if kind != _SHT_NOBITS and offset + size > len(self.data):
                raise ElfError(f"section {place} leaves the file")
            rows.append((name, kind, offset, size, link))
        if not rows or names_index >= len(rows):
            raise ElfError("it has no section headers, or none that names the others")
        base = rows[names_index][2]
        return tuple(
            Section(self.text(base + name), kind, offset, size, link)
            for name, kind, offset, size, link in rows
        )

    def text(self, at: int) -> str:
        """The text up to its zero."""
        end = self.data.find(b"\0", at)
        if at > len(self.data) or end < 0:
            raise ElfError("a name leaves the file")
        return self.data[at:end].decode("utf-8", "replace")

    def section(self, name: str) -> Section | None:
        """The section of a name."""
        return next((section for section in self.sections if section.name == name), None)

    def symbols(self) -> dict[str, int]:
        """Defined symbols and their addresses; the dynamic table wins."""
        found: dict[str, int] = {}
        for kind in (_SHT_DYNSYM, _SHT_SYMTAB):
            for section in self.sections:
                if section.kind != kind or section.link >= len(self.sections):
                    continue
                base = self.sections[section.link].offset
                for at in range(
                    section.offset, section.offset + section.size - _SYMBOL_SIZE + 1, _SYMBOL_SIZE
                ):
                    name, _, _, place, value = self.unpack("<IBBHQ", at)
                    if place and name:
                        found.setdefault(self.text(base + name), value)
        return found

    def segments(self, *kinds: int) -> tuple[Segment, ...]:
        """What the program headers of these kinds name, all of it in the file."""
        (table,) = self.unpack("<Q", 32)
        size, count = self.unpack("<HH", 54)
        if count and size != 56:
            raise ElfError("program headers of a size that ELF64 does not have")
        segments = []
        for place in range(count):
            at = table + place * size
            kind, flags, offset, address, _, length, _, align = self.unpack("<IIQQQQQQ", at)
            if kind not in kinds:
                continue
            if offset + length > len(self.data):
                raise ElfError(f"segment {place} leaves the file")
            segments.append(
                Segment(kind, bool(flags & 1), address, align, self.data[offset : offset + length])
            )
        return tuple(segments)
