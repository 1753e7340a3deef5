"""Writes a bundle: records to regions, regions and frames to a file. Specified in :mod:`aiter_prebuilt.contract.bundle`.

It does not compress: the caller hands stored code objects in, and a function that stores regions. The same arguments
give the same bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aiter_prebuilt.contract import header
from aiter_prebuilt.contract.records import (
    ENCODINGS,
    LAYOUT,
    NONE32,
    Operator,
    OperatorRef,
    Root,
    Stored,
    element_size,
    record_size,
    struct_format,
)


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes as they are stored, their size and hash when decoded, and the position of the dictionary that decodes them."""

    data: bytes
    raw_size: int
    sha256: bytes
    encoding: str
    dictionary: int | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """Frames, and the dictionaries that they name by position; dictionaries are frames without a dictionary."""

    frames: tuple[Frame, ...]
    dictionaries: tuple[Frame, ...] = ()


Pack = Callable[[list[bytes]], Packed]


def as_is(blobs: list[bytes]) -> Packed:
    """Store ``blobs`` uncompressed."""
    return Packed(tuple(Frame(blob, len(blob), hashlib.sha256(blob).digest(), "raw") for blob in blobs))


def encode(
    root: Root,
    operators: tuple[Operator, ...],
    frames: tuple[Frame, ...],
    dictionaries: tuple[Frame, ...] = (),
    pack: Pack = as_is,
) -> bytes:
    """Return the bundle's bytes.

    ``root`` gives the facts; places, sizes and counts are filled in here. Operators are sorted by name; ``frames`` (code objects)
    keep their order, entries name them by position. ``pack`` stores operator blocks, and is then asked for the table alone.
    """
    names = sorted(operators, key=lambda op: op.name)
    blocks = pack([Region().build(op) for op in names])
    shift = len(dictionaries)
    table = pack([_table(frames)])
    stored = [*blocks.frames, *table.frames]
    numbered = [
        *(_numbered(frame, shift) for frame in blocks.frames),
        *(_numbered(frame, shift + len(blocks.dictionaries)) for frame in table.frames),
    ]
    dictionaries = (*dictionaries, *blocks.dictionaries, *table.dictionaries)

    def finished(first: int) -> Root:
        places = _places([*stored, *dictionaries], first)
        located = [_stored(frame, at) for frame, at in zip([*numbered, *dictionaries], places, strict=False)]
        return replace(
            root,
            operators=tuple(OperatorRef(op.name, at) for op, at in zip(names, located, strict=False)),
            dictionaries=tuple(located[len(stored) :]),
            table=located[len(names)],
            frames_offset=places[-1],
            frames_size=sum(len(frame.data) for frame in frames),
            code_object_count=len(frames),
            entry_count=sum(len(op.entries) for op in operators),
        )

    size = len(Region().build(finished(0)))  # a root's size does not depend on the places in it
    root_bytes = Region().build(finished(header.HEADER_SIZE + size))
    body = b"".join(frame.data for frame in (*stored, *dictionaries, *frames))
    return header.pack(header.HEADER_SIZE + size + len(body), root_bytes) + root_bytes + body


def _table(frames: tuple[Frame, ...]) -> bytes:
    return b"".join(
        struct.pack("<IIII", len(frame.data), frame.raw_size, _number(frame), ENCODINGS.index(frame.encoding))
        for frame in frames
    )


def _number(frame: Frame) -> int:
    return NONE32 if frame.dictionary is None else frame.dictionary


def _numbered(frame: Frame, shift: int) -> Frame:
    return frame if frame.dictionary is None else replace(frame, dictionary=frame.dictionary + shift)


def _places(frames: list[Frame], first: int) -> list[int]:
    """Return the start of each frame, and the end of the last."""
    places = [first]
    for frame in frames:
        places.append(places[-1] + len(frame.data))
    return places


def _stored(frame: Frame, at: int) -> Stored:
    digest = hashlib.sha256(frame.data).digest()
    return Stored(
        at, len(frame.data), frame.raw_size, _number(frame), ENCODINGS.index(frame.encoding), digest
    )


class Region:
    """Bytes of one region: the first record at 0, arrays and text behind it, equal strings and equal arrays stored once
    (the variants of a kernel share their arguments and most of their conditions).
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._strings: dict[bytes, int] = {}
        self._arrays: dict[tuple[Any, ...], int] = {}

    def build(self, value: Any) -> bytes:
        """Return the region whose first record is ``value``."""
        self._bytes.extend(bytes(record_size(type(value))))
        self._place(value, 0)
        return bytes(self._bytes)

    def _place(self, value: Any, at: int) -> None:
        for name, fmt in LAYOUT[type(value)]:
            letters, size = struct_format(fmt)
            if isinstance(fmt, list):
                struct.pack_into("<II", self._bytes, at, *self._array(fmt[0], getattr(value, name)))
            elif isinstance(fmt, type):
                self._place(getattr(value, name), at)
            elif fmt in ("str", "code"):
                struct.pack_into("<II", self._bytes, at, *self._text(getattr(value, name)))
            elif name:
                struct.pack_into("<" + letters, self._bytes, at, getattr(value, name))
            at += size

    def _text(self, text: str | bytes) -> tuple[int, int]:
        data = text.encode() if isinstance(text, str) else text
        if not data:
            return 0, 0
        if data not in self._strings:
            self._strings[data] = len(self._bytes)
            self._bytes.extend(data)
        return self._strings[data], len(data)

    def _array(self, element: type[Any] | str, values: tuple[Any, ...]) -> tuple[int, int]:
        if not values:
            return 0, 0
        if (element, values) in self._arrays:
            return self._arrays[element, values], len(values)
        self._bytes.extend(bytes(-len(self._bytes) % 8))
        start, size = len(self._bytes), element_size(element)
        self._arrays[element, values] = start
        self._bytes.extend(bytes(size * len(values)))
        for index, value in enumerate(values):
            at = start + index * size
            if not isinstance(element, str):
                self._place(value, at)
            elif element == "str":
                struct.pack_into("<II", self._bytes, at, *self._text(value))
            else:
                struct.pack_into("<" + struct_format(element)[0], self._bytes, at, value)
        return start, len(values)
