"""The sections of an ELF64 file, read so that a broken file costs no more than its size.

Sections of a file that a linker wrote are apart from each other. Headers that name the same bytes again and again, or a name
that is all of a string table, would make a walk over a few megabytes take hours, so what is walked is counted and refused when
it is more than there can be. The emulator's loader counts alike (``csrc/emulator/machine/elf.cpp``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

SYMTAB, NOTE, DYNSYM = 2, 7, 11
_NOBITS: Final = 8
#: A symbol's name may be the end of another's, so names may add up to more than their tables: to this many times the file.
SHARING: Final = 4
_SYMBOL: Final = 24


class ElfError(ValueError):
    """Bytes that are not the ELF they should be."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section header; ``offset`` and ``size`` are inside the file, unless it has no bytes there."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


class Sections:
    """The section headers of ``data``, which begins as an ELF64 header does."""

    def __init__(self, data: bytes) -> None:
        """Raises ElfError when a header or a name leaves the file."""
        self.data = data
        self._bytes_left = len(data)
        self._text_left = SHARING * len(data)
        self.all = self._read()

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """Numbers at byte ``at``."""
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise ElfError(f"the file ends before byte {at + struct.calcsize(form)}")
        return struct.unpack_from(form, self.data, at)

    def _read(self) -> tuple[Section, ...]:
        (table,) = self.unpack("<Q", 40)
        entry_size, count, names_index = self.unpack("<HHH", 58)
        rows = []
        for place in range(count):
            name, kind, _, _, offset, size, link = self.unpack("<IIQQQQI", table + place * entry_size)
            if kind != _NOBITS and offset + size > len(self.data):
                raise ElfError(f"section {place} leaves the file")
            rows.append((name, kind, offset, size, link))
        if not rows or names_index >= len(rows):
            raise ElfError("no section names")
        base = rows[names_index][2]
        return tuple(
            Section(self.text(base + name), kind, offset, size, link)
            for name, kind, offset, size, link in rows
        )

    def text(self, at: int) -> str:
        """The text from byte ``at`` to its zero."""
        end = self.data.find(b"\0", at, at + self._text_left + 1)
        if end < 0 and at + self._text_left < len(self.data):
            raise ElfError("its names overlap: together they are longer than any file's")
        if at > len(self.data) or end < 0:
            raise ElfError("a name leaves the file")
        self._text_left -= end - at
        return self.data[at:end].decode("utf-8", "replace")

    def walk(self, section: Section) -> range:
        """The bytes of a section, which are about to be walked, each once."""
        self._bytes_left -= section.size
        if self._bytes_left < 0:
            raise ElfError("its sections overlap: together they are larger than the file")
        return range(section.offset, section.offset + section.size)

    def symbols(self) -> Iterator[str]:
        """The names of all symbol tables."""
        for section in self.all:
            if section.kind in (SYMTAB, DYNSYM) and section.link < len(self.all):
                base, place = self.all[section.link].offset, self.walk(section)
                for at in range(place.start, place.stop - _SYMBOL + 1, _SYMBOL):
                    yield self.text(base + self.unpack("<I", at)[0])


def check(data: bytes) -> None:
    """Before another reader walks ``data``, which knows no such limit.

    Raises:
        ElfError: symbols or notes are more than the file can have, or leave it.
    """
    sections = Sections(data)
    for _ in sections.symbols():
        pass
    for section in sections.all:
        if section.kind == NOTE:
            sections.walk(section)
