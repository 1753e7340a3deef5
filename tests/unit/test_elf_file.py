"""The walk over an ELF file: what it reads, and where exactly the file ends for it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aiter_prebuilt.contract import elf
from aiter_prebuilt.contract.elf import ElfError, ElfFile, Section, Segment

LOAD, DYNAMIC, NOTES = 1, 2, 4
PROGBITS, SYMTAB, STRTAB, NOBITS, DYNSYM = 1, 2, 3, 8, 11
Row = tuple[int, int, int, int, int]
Program = tuple[int, int, int, int, int, int, int]


def image(
    body: bytes,
    sections: Sequence[Row] = (),
    segments: Sequence[Program] = (),
    names: int = 0,
    entry: int = 56,
) -> bytes:
    """An ELF: header, tables, then ``body``. ``sections``: (name, kind, offset, size, link); ``segments``: (kind, flags, offset,
    address, size, memory, align); offsets count from the end of the tables."""
    programs, rows = 64, 64 + 56 * len(segments)
    start = rows + 64 * len(sections)
    header = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 64, 3, 3, 224, 1, 0, programs, rows, 0x12345678, 64, entry, len(segments), 64, len(sections), names,
    )  # fmt: skip
    tables = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, start + at, address, 77, size, memory, align)
        for kind, flags, at, address, size, memory, align in segments
    )
    tables += b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 9, 9, start + at, size, link, 9, 9, 9)
        for name, kind, at, size, link in sections
    )
    return header + tables + body


def test_the_header() -> None:
    assert (elf.STRTAB, elf.NOTE) == (STRTAB, 7)
    file = ElfFile(image(b""))
    assert (file.os_abi, file.abi_version, file.kind, file.machine, file.flags) == (64, 3, 3, 224, 0x12345678)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [(0, 0x7E, "not an ELF file"), (3, 0, "not an ELF file"), (4, 1, "not a 64-bit"), (5, 2, "not a 64-bit"), (6, 7, "")],
)  # fmt: skip
def test_what_is_another_file(at: int, value: int, words: str) -> None:
    data = bytearray(image(b""))
    data[at] = value
    if not words:
        assert ElfFile(bytes(data)).kind == 3
        return
    with pytest.raises(ElfError, match=words):
        ElfFile(bytes(data))


def test_a_header_is_64_bytes() -> None:
    assert ElfFile(image(b"")[:64]).machine == 224
    with pytest.raises(ElfError, match=r"^not an ELF file$"):
        ElfFile(image(b"")[:63])


def test_bytes_beyond_the_file() -> None:
    file = ElfFile(image(b"\1\2\3\4"))
    assert file.unpack("<I", 64) == (0x04030201,) and file.unpack("<HH", 64) == (0x0201, 0x0403)
    for at in (65, 68, 1 << 40):
        with pytest.raises(ElfError, match=rf"^the file ends before byte {at + 4}$"):
            file.unpack("<I", at)
    with pytest.raises(ElfError, match="ends before byte 3"):
        file.unpack("<I", -1)


def test_texts() -> None:
    data = image(b"abc\0de\0f")
    file = ElfFile(data)
    assert [file.text(64 + at) for at in (0, 1, 3, 4, 6)] == ["abc", "bc", "", "de", ""]
    assert ElfFile(image(b"\xff\0")).text(64) == "�"
    for at in (7, 8, 9, 1 << 40):
        with pytest.raises(ElfError, match=r"^a name leaves the file$"):
            ElfFile(data).text(64 + at)


@pytest.mark.parametrize(("size", "whole"), [(15, True), (16, False)])
def test_names_that_overlap_are_counted(size: int, whole: bool) -> None:
    """Up to four times the file: 80 bytes, texts of 15 fit 21 times, then 5 more bytes."""
    file = ElfFile(image(b"x" * 15 + b"\0"))
    for _ in range(21):
        assert file.text(64) == "x" * 15
    assert file.text(64 + 10) == "x" * 5
    if whole:
        assert file.text(64 + 15) == ""
    else:
        with pytest.raises(ElfError, match=r"^its names overlap: together they are longer than any file's$"):
            file.text(64 + 14)


def test_sections() -> None:
    names = b"\0.names\0.bss\0"
    data = image(
        names + b"1234", [(1, STRTAB, 0, 13, 7), (8, NOBITS, 5, 1 << 40, 0), (1, PROGBITS, 13, 4, 2)]
    )
    file, start = ElfFile(data), 64 + 3 * 64
    assert file.sections == (
        Section(".names", STRTAB, start, 13, 7),
        Section(".bss", NOBITS, start + 5, 1 << 40, 0),
        Section(".names", PROGBITS, start + 13, 4, 2),
    )
    assert file.section_of_name == {".names": file.sections[0], ".bss": file.sections[1]}
    assert file.walk(file.sections[2]) == range(start + 13, start + 17)
    with pytest.raises(ElfError, match=r"^section 2 leaves the file$"):
        _ = ElfFile(data[:-1]).sections


@pytest.mark.parametrize(("count", "names"), [(0, 0), (1, 1), (2, 2), (1, 65535)])
def test_a_table_of_sections_names_itself(count: int, names: int) -> None:
    with pytest.raises(ElfError, match=r"^it has no section headers, or none that names the others$"):
        _ = ElfFile(image(b"\0", [(0, STRTAB, 0, 1, 0)] * count, names=names)).sections


def test_the_names_are_in_the_section_that_is_said() -> None:
    file = ElfFile(image(b"\0a\0", [(0, PROGBITS, 0, 1, 0), (0, STRTAB, 1, 2, 0)], names=1))
    assert [section.name for section in file.sections] == ["a", "a"]


def test_bytes_are_walked_once() -> None:
    file = ElfFile(image(b"\0", [(0, STRTAB, 0, 1, 0)]))
    section = replace(file.sections[0], size=len(file.data))
    file.walk(section)
    with pytest.raises(ElfError, match=r"^its sections overlap: together they are larger than the file$"):
        file.walk(file.sections[0])


def _symbols(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("<IBBHQQ", name, 1, 2, place, value, 3) for name, place, value in rows)


def test_symbols() -> None:
    """The dynamic table wins; what is not defined or has no name is none; half a symbol at the end is none."""
    strings = b"\0one\0two\0"
    static = _symbols((0, 1, 5), (1, 1, 10), (5, 2, 20), (3, 0, 30), (8, 1, 40)) + bytes(23)
    dynamic = _symbols((1, 7, 11))
    rows = [
        (0, STRTAB, 0, 9, 0),
        (0, SYMTAB, 9, len(static), 0),
        (0, DYNSYM, 9 + len(static), 24, 0),
        (0, SYMTAB, 9, 24 * 3, 4),  # its names are in a section that there is not
        (0, PROGBITS, 9, 24 * 3, 0),
    ]
    rows[3] = (*rows[3][:4], len(rows))
    assert ElfFile(image(strings + static + dynamic, rows)).symbols() == {"one": 11, "two": 20}
    twice = _symbols((1, 1, 10), (1, 1, 12))
    assert ElfFile(image(strings + twice, [rows[0], (0, SYMTAB, 9, 48, 0)])).symbols() == {"one": 10}


def test_names_of_symbols_lie_in_the_section_that_theirs_links_to() -> None:
    body = b"\0\0one\0" + _symbols((1, 1, 10))
    rows = [(0, STRTAB, 0, 1, 0), (0, SYMTAB, 6, 24, 2), (0, STRTAB, 1, 5, 0)]
    assert ElfFile(image(body, rows)).symbols() == {"one": 10}


def test_segments() -> None:
    rows = [
        (LOAD, 4, 0, 0x1000, 8, 8, 4096),
        (LOAD, 5, 0, 0x1008, 4, 16, 16),
        (DYNAMIC, 6, 0, 0, 4, 4, 8),
        (NOTES, 4, 2, 0, 6, 6, 4),
        (3, 1, 1 << 40, 0, 1 << 40, 0, 0),
        (LOAD, 1, 0, 0x1004, 0, 0, 1),  # of nothing: it overlaps nothing
        (LOAD, 1, 0, 0x1018, 0, 1, 1),
    ]
    data = image(bytes(8), (), rows)
    start = 64 + 56 * len(rows)
    assert ElfFile(data).segments == (
        Segment(LOAD, False, 0x1000, 4096, start, 8),
        Segment(LOAD, True, 0x1008, 16, start, 4),
        Segment(DYNAMIC, False, 0, 8, start, 4),
        Segment(NOTES, False, 0, 4, start + 2, 6),
        Segment(LOAD, True, 0x1004, 1, start, 0),
        Segment(LOAD, True, 0x1018, 1, start, 0),
    )
    with pytest.raises(ElfError, match=r"^segment 0 leaves the file$"):
        _ = ElfFile(data[:-1]).segments
    overlapping = [*rows[:-1], (LOAD, 1, 0, 0x1017, 0, 1, 1)]
    with pytest.raises(ElfError, match=r"^its loadable segments overlap$"):
        _ = ElfFile(image(bytes(8), (), overlapping)).segments


def test_program_headers_have_one_size() -> None:
    assert ElfFile(image(b"", entry=0)).segments == ()
    for entry in (55, 57):
        with pytest.raises(ElfError, match=r"^program headers of a size that ELF64 does not have$"):
            _ = ElfFile(image(b"", (), [(LOAD, 4, 0, 0, 0, 0, 1)], entry=entry)).segments


def test_what_is_loaded() -> None:
    rows = [(LOAD, 5, 4, 0x2000, 4, 8, 1), (LOAD, 4, 0, 0x1000, 4, 4, 1), (LOAD, 4, 0, 0x1800, 0, 8, 1)]
    file = ElfFile(image(b"abcdefgh", (), rows))
    assert (
        file.loaded(0x1000, 4) == b"abcd"
        and file.loaded(0x1001, 3) == b"bcd"
        and file.loaded(0x1003, 1) == b"d"
    )
    assert file.loaded(0x2000, 4) == file.loaded(0x2000, 4, code=True) == b"efgh"
    assert file.loaded(0x2002, 1, code=True) == b"g"
    for address, size in (
        (0xFFF, 1),
        (0, 1),
        (0x1000, 5),
        (0x1004, 1),
        (0x1800, 1),
        (0x2001, 4),
        (0x2004, 1),
    ):
        assert file.loaded(address, size) is None, (address, size)
    assert file.loaded(0x1000, 1, code=True) is None


def _note(name: bytes, kind: int, payload: bytes, align: int) -> bytes:
    out = struct.pack("<III", len(name), len(payload), kind) + name
    out += bytes(-len(out) % align) + payload
    return out + bytes(-len(out) % align)


@pytest.mark.parametrize(("align", "padded"), [(4, 4), (8, 8), (0, 4), (16, 4), (1, 4)])
def test_notes(align: int, padded: int) -> None:
    rows = [(b"AMD\0", 32, b"12345"), (b"other\0\0", 7, b""), (b"", 1, b"123456789")]
    body = b"".join(_note(*row, padded) for row in rows)
    for behind in (b"", bytes(4), bytes(11), bytes(4) + bytes(4)):
        data = image(body + behind, (), [(NOTES, 4, 0, 0, len(body + behind), 0, align)])
        assert list(ElfFile(data).notes()) == [(name, kind, payload) for name, kind, payload in rows]
    data = image(body + b"\0\0\1", (), [(NOTES, 4, 0, 0, len(body) + 3, 0, align)])
    with pytest.raises(ElfError, match=rf"^the note at byte {len(body)} of its segment has no header$"):
        list(ElfFile(data).notes())


def test_a_note_that_is_cut_off() -> None:
    body = _note(b"AMD\0", 32, b"1234", 4) + struct.pack("<III", 0, 5, 1) + b"12345"
    assert len(list(ElfFile(image(body, (), [(NOTES, 4, 0, 0, len(body), 0, 4)])).notes())) == 2
    with pytest.raises(ElfError, match=r"^the note at byte 20 of its segment is not all there$"):
        list(ElfFile(image(body, (), [(NOTES, 4, 0, 0, len(body) - 1, 0, 4)])).notes())


def test_note_segments_are_read_once() -> None:
    data = image(bytes(200), (), [(NOTES, 4, 0, 0, 0, 0, 4), (NOTES, 4, 0, 0, 12, 0, 4)])
    assert [kind for _, kind, _ in ElfFile(data).notes()] == [0]
    rows = [(NOTES, 4, 0, 0, 4 * 47, 0, 4)] * 2  # the file has 64 + 2 * 56 + 200 bytes
    assert len(list(ElfFile(image(bytes(200), (), rows)).notes())) == 30
    rows = [(NOTES, 4, 0, 0, 189, 0, 4), *rows[1:]]
    with pytest.raises(
        ElfError, match=r"^its note segments overlap: together they are larger than the file$"
    ):
        list(ElfFile(image(bytes(200), (), rows)).notes())
