"""An ELF64 file: header, sections, symbols, segments and notes, read so that a broken file costs no more than its size.

What a linker wrote lies apart: headers that name the same bytes again and again, or a name that is all of a string table, would
make a walk over a few megabytes take hours. So what is walked is counted, and refused when it is more than there can be. The
emulator's loader counts alike (``csrc/emulator/machine/load/elf.cpp``; ``tests/unit/test_elf_limits.py`` compares the numbers).
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

STRTAB, NOTE = 3, 7
_SYMTAB, _NOBITS, _DYNSYM = 2, 8, 11
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
#: A symbol's name may be the end of another's, so names may add up to more than their tables: to this many times the file.
SHARING: Final = 4
#: Notes of metadata in a code object: one for each linked file.
MOST_NOTES: Final = 16
#: What assemblers call the bytes between two arguments, which they list as arguments of their own; nothing reads those.
PADDING: Final = re.compile(r"_*(pad|padding|p)[0-9]*")
_SYMBOL_SIZE, _PROGRAM_HEADER_SIZE = 24, 56


class ElfError(ValueError):
    """Bytes that are not the ELF they should be."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section header: kind (SHT), place in the file, and the section that it names.

    ``offset`` and ``size`` are inside the file, unless it has no bytes there.
    """

    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a program header.

    ``offset`` and ``size`` are inside the file.
    """

    kind: int
    executable: bool
    address: int
    align: int
    offset: int
    size: int


class ElfFile:
    """A 64-bit little-endian ELF; nothing is read that is not there, and nothing before it is asked for.

    Raises:
        ElfError: the part that is asked for leaves the file, or is more than the file can have. All that reads raises it.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < 64 or data[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if data[4] != 2 or data[5] != 1:
            raise ElfError("not a 64-bit little-endian ELF")
        self.os_abi, self.abi_version = data[7], data[8]
        self.kind, self.machine = struct.unpack_from("<HH", data, 16)
        self.flags: int = struct.unpack_from("<I", data, 48)[0]
        self._text_left = SHARING * len(data)
        self._bytes_left = {"sections": len(data), "note segments": len(data)}

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """Unpack a ``struct`` format at an offset."""
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise ElfError(f"the file ends before byte {at + struct.calcsize(form)}")
        return struct.unpack_from(form, self.data, at)

    def text(self, at: int) -> str:
        """Return the text from byte ``at`` to its zero."""
        end = self.data.find(b"\0", at, at + self._text_left + 1)
        if end < 0 and at + self._text_left < len(self.data):
            raise ElfError("its names overlap: together they are longer than any file's")
        if at > len(self.data) or end < 0:
            raise ElfError("a name leaves the file")
        self._text_left -= end - at
        return self.data[at:end].decode("utf-8", "replace")

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All section headers."""
        (table,) = self.unpack("<Q", 40)
        entry_size, count, names_index = self.unpack("<HHH", 58)
        rows = []
        for place in range(count):
            name, kind, _, _, offset, size, link, *_ = self.unpack("<IIQQQQIIQQ", table + place * entry_size)
            if kind != _NOBITS and offset + size > len(self.data):
                raise ElfError(f"section {place} leaves the file")
            rows.append((name, kind, offset, size, link))
        if not rows or names_index >= len(rows):
            raise ElfError("it has no section headers, or none that names the others")
        base = rows[names_index][2]
        return tuple(
            Section(self.text(base + name), kind, offset, size, link)
            for name, kind, offset, size, link in rows
        )

    @cached_property
    def section_of_name(self) -> dict[str, Section]:
        """The first section of each name."""
        return {section.name: section for section in reversed(self.sections)}

    def walk(self, section: Section) -> range:
        """Count a section's bytes and return their range.

        They are about to be walked, each once.
        """
        self._count("sections", section.size)
        return range(section.offset, section.offset + section.size)

    def _count(self, what: str, size: int) -> None:
        self._bytes_left[what] -= size
        if self._bytes_left[what] < 0:
            raise ElfError(f"its {what} overlap: together they are larger than the file")

    def symbols(self) -> dict[str, int]:
        """Map defined symbols to addresses.

        The dynamic table wins.
        """
        found: dict[str, int] = {}
        for kind in (_DYNSYM, _SYMTAB):
            for section in self.sections:
                if section.kind != kind or section.link >= len(self.sections):
                    continue
                base, bytes_ = self.sections[section.link].offset, self.walk(section)
                for at in range(bytes_.start, bytes_.stop - _SYMBOL_SIZE + 1, _SYMBOL_SIZE):
                    name, _, _, place, value = self.unpack("<IBBHQ", at)
                    text = self.text(base + name) if name else ""
                    if text and place:
                        found.setdefault(text, value)
        return found

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """List the loaded segments, the dynamic table and the notes."""
        (table,) = self.unpack("<Q", 32)
        size, count = self.unpack("<HH", 54)
        if count and size != _PROGRAM_HEADER_SIZE:
            raise ElfError("program headers of a size that ELF64 does not have")
        segments, spans = [], []
        for place in range(count):
            kind, flags, offset, address, _, length, memory, align = self.unpack(
                "<IIQQQQQQ", table + place * size
            )
            if kind not in (_PT_LOAD, _PT_DYNAMIC, _PT_NOTE):
                continue
            if offset + length > len(self.data):
                raise ElfError(f"segment {place} leaves the file")
            segments.append(Segment(kind, bool(flags & 1), address, align, offset, length))
            if kind == _PT_LOAD and (length or memory):
                spans.append((address, address + max(length, memory)))
        spans.sort()
        if any(before[1] > after[0] for before, after in pairwise(spans)):
            raise ElfError("its loadable segments overlap")
        return tuple(segments)

    def notes(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Name, type and payload of each note of the note segments."""
        for segment in self.segments:
            if segment.kind == _PT_NOTE:
                self._count("note segments", segment.size)
                data = self.data[segment.offset : segment.offset + segment.size]
                yield from _notes(data, 8 if segment.align == 8 else 4)

    @cached_property
    def _loaded(self) -> tuple[tuple[Segment, ...], tuple[int, ...]]:
        """List the loaded segments by address, with their addresses.

        Every kernel is looked up here.
        """
        found = [segment for segment in self.segments if segment.kind == _PT_LOAD and segment.size]
        found.sort(key=lambda segment: segment.address)
        return tuple(found), tuple(segment.address for segment in found)

    def loaded(self, address: int, size: int, code: bool = False) -> bytes | None:
        """Bytes of the file that are loaded at an address, only from an executable segment if ``code``."""
        segments, addresses = self._loaded
        place = bisect_right(addresses, address) - 1
        if place < 0:
            return None
        segment = segments[place]
        at = address - segment.address
        if at + size > segment.size or (code and not segment.executable):
            return None
        return self.data[segment.offset + at : segment.offset + at + size]


def _notes(data: bytes, align: int) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the notes of one segment, padded to ``align`` bytes.

    Zeros may stand behind the last.
    """
    at = 0
    while len(data) - at >= 12:
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + name_size
        start += -(start - at) % align
        if start + size > len(data):
            raise ElfError(f"the note at byte {at} of its segment is not all there")
        yield data[at + 12 : at + 12 + name_size], kind, data[start : start + size]
        at = start + size + -size % align
    if any(data[at:]):
        raise ElfError(f"the note at byte {at} of its segment has no header")
