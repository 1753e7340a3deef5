r"""The bundle format, version 2: one file with the code objects and the index of one target and profile.

    +0    header, 128 bytes:
          0  8s   magic "APBNDL\r\n" (a text-mode copy breaks it)
          8  u32  bundle format        12 u32  recipe version
          16 u64  file size
          24 u64  root offset          32 u64  root size       40 32s  SHA-256 of the root
          72 24s  zero                 96 32s  SHA-256 of bytes 0..96
    +128  root region, as it is: one ``Root`` record, its arrays and strings
          operator blocks, each one region that starts with an ``Operator`` record
          table: ``CodeObject`` records
          dictionaries
          frames of the code objects, in the order of the table

Little endian. The parts follow one another with no byte between. A region is records first, then arrays (each at a
multiple of 8 from the region's start), bytecode and text; ``contract.records`` gives every layout. Equal strings and
equal arrays of a region are there once.

How a part is stored: its bytes (``raw``: as many as when decoded, no dictionary), or a zstd frame (``zstd``) that
decodes to exactly the recorded size, with the whole content of one dictionary as its prefix, or with none. A
dictionary is any bytes, in practice some code objects of one source, or some operator blocks, one after the other; it
is stored in the same two ways and never needs another dictionary. So one code object costs at most two frames to
decode, and the second of a dictionary only its own. The root is always raw.

    part            where it is told                            at most, decoded   proved by
    root            header                                      the file           its hash in the header
    operator block  ``Root.operators``, a ``Stored``            64 MiB             hash of the stored bytes, in the root
    table           ``Root.table``, a ``Stored``                64 MiB             hash of the stored bytes, in the root
    dictionary      ``Root.dictionaries``, ``Stored`` records   16 MiB             hash of the stored bytes, in the root
    code object     the table: frame i begins where frame i-1   256 MiB            hash of the decoded bytes, in its entry
                    ends, the first at ``frames_offset``; the
                    last ends at ``frames_offset + frames_size``

All that a region names (arrays and text, each counted as often as it is named) is at most 16 MiB (``rules.MAX_WALK``).

The header carries its own hash, so a signature over the header covers all of the file. Opening touches the header, the
root and the table; a block or a code object is checked when it is first used: bounds, hash, decode, then every position
inside it, then its rules (``contract.rules``), and only then anything is read from it.

This module only turns bytes into records. It does not decompress: the caller hands a function in, so that it needs
nothing but the standard library. The writer is :mod:`.writer`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar, cast

from aiter_prebuilt.contract import header, version
from aiter_prebuilt.contract.header import FormatError, VersionError
from aiter_prebuilt.contract.records import (
    ENCODINGS,
    LAYOUT,
    NONE32,
    VENDORS,
    CodeObject,
    Entry,
    Format,
    Operator,
    Root,
    Stored,
    element_size,
    record_size,
    struct_format,
)
from aiter_prebuilt.contract.rules import MAX_WALK, check_operator

__all__ = ["SUFFIX", "Bundle", "FormatError", "VersionError", "check_operator"]

SUFFIX: Final = version.SUFFIX

#: (stored bytes, size when decoded, content of the dictionary or None) -> decoded bytes; raises what it likes.
Decoder = Callable[[bytes, int, "bytes | None"], bytes]
R = TypeVar("R")
_TEXTS: Final = frozenset({"str", "code"})


class Bundle:
    """A bundle over a buffer (usually a memory map). Opening checks header and root; the rest is checked when used."""

    def __init__(self, data: bytes | memoryview, decoder: Decoder | None = None) -> None:
        """Open a bundle's bytes.

        Raises FormatError (VersionError for another version) when header or root are wrong.
        """
        self._data = memoryview(data)
        self._decoder = decoder
        self._dictionaries: dict[int, bytes] = {}
        offset, size, digest = header.check(self._data)
        self._root_place = (offset, size)
        if offset < header.HEADER_SIZE or offset + size > len(self._data) or size < record_size(Root):
            raise FormatError(f"the root: {size} bytes at {offset} leave the file of {len(self._data)} bytes")
        region = self._data[offset : offset + size]
        if hashlib.sha256(region).digest() != digest:
            raise FormatError("the root is damaged: its SHA-256 is not the recorded one")
        self.root = decode(Root, region, "the root")
        if self.root.vendor >= len(VENDORS):
            raise FormatError("the root names an unknown vendor")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Operator names, sorted."""
        return tuple(ref.name for ref in self.root.operators)

    def operator(self, name: str) -> Operator:
        """Return the block of one operator, checked.

        Raises:
            KeyError: no such operator here.
            FormatError: the block is damaged or breaks a rule of the format.
        """
        for ref in self.root.operators:
            if ref.name == name:
                what = f"operator '{name}'"
                region = self._part(ref.stored, record_size(Operator), header.MAX_REGION, what)
                operator = decode(Operator, memoryview(region), what)
                try:
                    check_operator(operator, self.root.code_object_count)
                except FormatError as error:
                    raise FormatError(f"{what}: {error}") from None
                if operator.name != name:
                    raise FormatError(f"{what}: the block is that of '{operator.name}'")
                return operator
        raise KeyError(name)

    @cached_property
    def table(self) -> tuple[tuple[int, CodeObject], ...]:
        """(offset of its frame, record) of every code object.

        Raises:
            FormatError: the table is damaged, or its frames do not fill what the root says.
        """
        root, size = self.root, record_size(CodeObject)
        raw = self._part(root.table, root.code_object_count * size, header.MAX_REGION, "the table")
        if len(raw) != root.code_object_count * size:
            raise FormatError(f"the table has {len(raw)} bytes for {root.code_object_count} code objects")
        if root.frames_offset + root.frames_size > len(self._data):
            raise FormatError(f"the frames: {root.frames_size} bytes at {root.frames_offset} leave the file")
        rows, at = [], root.frames_offset
        for place in range(root.code_object_count):
            rows.append((at, _record(CodeObject, _Region(memoryview(raw)), place * size)))
            at += rows[-1][1].stored_size
        if at != root.frames_offset + root.frames_size:
            raise FormatError(
                f"the table's frames end at {at}, the root says {root.frames_offset + root.frames_size}"
            )
        return tuple(rows)

    def parts(self) -> Iterator[tuple[str, int, int]]:
        """(name, offset, size) of everything that the format gives a meaning, in the order of the file.

        Raises:
            FormatError: the table is damaged.
        """
        yield "header", 0, header.HEADER_SIZE
        yield "root", *self._root_place
        for ref in self.root.operators:
            yield f"block {ref.name}", ref.stored.offset, ref.stored.stored_size
        yield "table", self.root.table.offset, self.root.table.stored_size
        for index, stored in enumerate(self.root.dictionaries):
            yield f"dictionary {index}", stored.offset, stored.stored_size
        for index, (offset, record) in enumerate(self.table):
            yield f"frame {index}", offset, record.stored_size

    def code_object(self, entry: Entry) -> bytes:
        """Return the decoded code object of ``entry``, its SHA-256 checked.

        Raises:
            FormatError: the frame does not decode or decodes to other bytes.
        """
        what = f"code object {entry.code_object}"
        if entry.code_object >= len(self.table):
            raise FormatError(f"{what} leaves the table of {len(self.table)}")
        offset, record = self.table[entry.code_object]
        self._check(record, header.MAX_CODE_OBJECT, what)
        data = self._decoded(offset, record, what)
        if hashlib.sha256(data).digest() != entry.sha256:
            raise FormatError(f"{what} of {entry.name} is damaged: SHA-256 differs")
        return data

    def _part(self, stored: Stored, least: int, most: int, what: str) -> bytes:
        """Return the decoded bytes of a part that carries its own hash."""
        start, size = stored.offset, stored.stored_size
        if start < header.HEADER_SIZE or start + size > len(self._data) or stored.raw_size < least:
            raise FormatError(f"{what}: {size} bytes at {start} leave the file of {len(self._data)} bytes")
        self._check(stored, most, what)
        if hashlib.sha256(self._data[start : start + size]).digest() != stored.sha256:
            raise FormatError(f"{what} is damaged: its SHA-256 is not the recorded one")
        return self._decoded(start, stored, what)

    def _check(self, stored: Stored | CodeObject, most: int, what: str) -> None:
        if stored.raw_size > most:
            raise FormatError(f"{what} has {stored.raw_size} bytes, at most {most} are allowed")
        if stored.encoding >= len(ENCODINGS):
            raise FormatError(f"{what} has the unknown encoding {stored.encoding}")
        raw = ENCODINGS[stored.encoding] == "raw"
        if raw and (stored.stored_size != stored.raw_size or stored.dictionary != NONE32):
            raise FormatError(f"{what} is stored as it is, and says that it is decoded")
        if stored.dictionary != NONE32 and stored.dictionary >= len(self.root.dictionaries):
            raise FormatError(f"{what} names dictionary {stored.dictionary} of {len(self.root.dictionaries)}")

    def _decoded(self, start: int, stored: Stored | CodeObject, what: str) -> bytes:
        data = bytes(self._data[start : start + stored.stored_size])
        if ENCODINGS[stored.encoding] == "raw":
            return data
        dictionary = None if stored.dictionary == NONE32 else self._dictionary(stored.dictionary)
        if self._decoder is None:
            raise FormatError(f"{what} is a zstd frame and no decoder was given")
        try:
            return self._decoder(data, stored.raw_size, dictionary)
        except Exception as error:  # the decoder is the caller's; whatever it raises means the frame is bad
            raise FormatError(f"{what} does not decode: {error}") from error

    def _dictionary(self, index: int) -> bytes:
        if index not in self._dictionaries:
            stored, what = self.root.dictionaries[index], f"dictionary {index}"
            if stored.dictionary != NONE32:
                raise FormatError(f"{what} needs a dictionary itself")
            self._dictionaries[index] = self._part(stored, 0, header.MAX_DICTIONARY, what)
        return self._dictionaries[index]


def decode(record: type[R], region: memoryview, what: str) -> R:
    """Decode the record at the start of ``region``.

    All that it reaches is decoded, too, bounds checked.

    Raises:
        FormatError: a position leaves the region, or text is not UTF-8; ``what`` says of which region.
    """
    try:
        return cast(R, _record(record, _Region(region), 0))
    except FormatError as error:
        raise FormatError(f"{what}: {error}") from None


class _Region:
    """The bytes of a region, and how much of what they name may still be read."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._left = MAX_WALK

    def spend(self, size: int) -> None:
        """Before ``size`` bytes are read."""
        self._left -= size
        if self._left < 0:
            raise FormatError(
                f"more than {MAX_WALK} bytes of arrays and text to read, counted as often as they are named"
            )


class _Field(NamedTuple):
    """A field of a record: its name, its format, its place among the unpacked numbers, and its offset in bytes."""

    name: str
    format: Format
    place: int
    offset: int


def _layout(record: type[Any]) -> tuple[Callable[[memoryview, int], tuple[Any, ...]], tuple[_Field, ...]]:
    """Return what unpacks all numbers of a record at once, and its fields.

    Bundles have 100,000 records of a few bytes each: to interpret the format of every field anew is most of the time.
    """
    letters, fields, place, offset = "<", [], 0, 0
    for name, fmt in LAYOUT[record]:
        mine, size = struct_format(fmt)
        nested = isinstance(fmt, type)
        if nested or name:
            fields.append(_Field(name, fmt, place, offset))
        letters += f"{size}x" if nested else mine
        place += len(struct.unpack(f"<{mine}", bytes(size))) if not nested else 0
        offset += size
    return struct.Struct(letters).unpack_from, tuple(fields)


_LAYOUTS: Final = {record: _layout(record) for record in LAYOUT}
_SIZES: Final = {record: record_size(record) for record in LAYOUT}


def _record(record: type[Any], region: _Region, at: int) -> Any:
    unpack, fields = _LAYOUTS[record]
    numbers = unpack(region.data, at)
    values: dict[str, Any] = {}
    for name, fmt, place, offset in fields:
        if isinstance(fmt, list):
            values[name] = _array(fmt[0], region, numbers[place], numbers[place + 1])
        elif isinstance(fmt, type):
            values[name] = _record(fmt, region, at + offset)
        elif fmt in _TEXTS:
            raw = _slice(region, numbers[place], numbers[place + 1])
            values[name] = raw if fmt == "code" else _utf8(raw, numbers[place])
        else:
            values[name] = numbers[place]
    return record(**values)


def _array(element: type[Any] | str, region: _Region, start: int, count: int) -> tuple[Any, ...]:
    data = region.data
    size = element_size(element) if isinstance(element, str) else _SIZES[element]
    if count and (start % 8 or start + count * size > len(data)):
        raise FormatError(
            f"an array of {count} x {size} bytes at {start} leaves its region of {len(data)} bytes"
        )
    region.spend(count * size)
    places = range(start, start + count * size, size)
    if not isinstance(element, str):
        return tuple(_record(element, region, at) for at in places)
    if element == "str":
        texts = (struct.unpack_from("<II", data, at) for at in places)
        return tuple(_utf8(_slice(region, *text), text[0]) for text in texts)
    return struct.unpack_from(f"<{count}{struct_format(element)[0]}", data, start) if count else ()


def _slice(region: _Region, start: int, length: int) -> bytes:
    data = region.data
    if length and start + length > len(data):
        raise FormatError(f"text of {length} bytes at {start} leaves its region of {len(data)} bytes")
    region.spend(length)
    return bytes(data[start : start + length])


def _utf8(raw: bytes, at: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise FormatError(f"text at {at} is not UTF-8") from None
