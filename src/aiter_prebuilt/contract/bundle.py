r"""The bundle format, version 1: one file with the code objects and the index of one target and profile.

    +0    header, 128 bytes:
          0  8s   magic "APBNDL\r\n" (a text-mode copy breaks it)
          8  u32  bundle format        12 u32  recipe version
          16 u64  file size
          24 u64  root offset          32 u64  root size       40 32s  SHA-256 of the root
          72 24s  zero                 96 32s  SHA-256 of bytes 0..96
    +128  root region: one ``Root`` record, its arrays and strings
          operator blocks, each one region that starts with an ``Operator`` record
          code object table: ``CodeObject`` records
          frames

Little endian. Every region and frame starts at a multiple of 64; bytes between them are zero. A region is
records first, then arrays (each at a multiple of 8), bytecode and text; ``contract.records`` gives every layout.

What proves what: the header carries its own hash and the root's; the root carries the hash of each operator
block; an entry in the block carries the hash of its code object. So a signature over the header covers all of
it, opening touches the header and the root only, and each part is checked when it is first used. The code
object table needs no hash: a wrong record there gives bytes whose hash is wrong.

A frame is the code object itself (``raw``) or a zstd frame whose dictionary is the raw content of another code
object, its reference (``zstd``; no dictionary when it has none). References have no reference themselves.

This module only turns bytes into records and back. It does not compress: the caller hands frames in, and a
function to decode them out, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from aiter_prebuilt.contract import expression, version
from aiter_prebuilt.contract.records import (
    DIM_BIND,
    ENCODINGS,
    LAYOUT,
    NONE8,
    NONE32,
    CodeObject,
    Entry,
    Operator,
    OperatorRef,
    Root,
    element_size,
    record_size,
    struct_format,
)

MAGIC: Final = b"APBNDL\r\n"
HEADER_SIZE: Final = 128
HEADER: Final = struct.Struct("<8sIIQQQ32s24s32s")
ALIGN: Final = 64
SUFFIX: Final = ".apb"
#: Refused before anything is allocated: no code object comes near it.
MAX_CODE_OBJECT: Final = 256 * 1024 * 1024

Decoder = Callable[[bytes, int, "bytes | None"], bytes]
R = TypeVar("R")


class FormatError(ValueError):
    """A bundle that is not what it says it is; the text says which bytes and why."""


class VersionError(FormatError):
    """A bundle of a format or recipe version that this code does not read."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One code object to store: its encoded bytes, its size and hash when decoded, its reference's position."""

    data: bytes
    raw_size: int
    sha256: bytes
    encoding: str
    reference: int | None = None


# ---- encoding --------------------------------------------------------------------------------------------------


class _Region:
    """Bytes of one region: the first record at 0, arrays and text behind it, equal strings and equal arrays stored once
    (the variants of a kernel share their arguments and most of their conditions).
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._strings: dict[bytes, int] = {}
        self._arrays: dict[tuple[Any, ...], int] = {}

    def build(self, value: Any) -> bytes:
        self._bytes.extend(bytes(record_size(type(value))))
        self._place(value, 0)
        return bytes(self._bytes)

    def _place(self, value: Any, at: int) -> None:
        for name, fmt in LAYOUT[type(value)]:
            letters, size = struct_format(fmt)
            if isinstance(fmt, list):
                struct.pack_into("<II", self._bytes, at, *self._array(fmt[0], getattr(value, name)))
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


def encode(root: Root, operators: tuple[Operator, ...], frames: tuple[Frame, ...]) -> bytes:
    """The bundle's bytes. ``root`` gives the facts; its operator references, table position and counts are
    filled in here. Operators are sorted by name; frames keep their order (entries name them by position).
    The same arguments give the same bytes.
    """
    blocks = [(op.name, _Region().build(op)) for op in sorted(operators, key=lambda op: op.name)]
    draft = _Region().build(_finish(root, blocks, operators, frames, 0, 0))
    first_block = _up(HEADER_SIZE + len(draft))
    table_at = first_block + sum(_up(len(data)) for _, data in blocks)
    root_bytes = _Region().build(_finish(root, blocks, operators, frames, first_block, table_at))
    out = bytearray(HEADER_SIZE) + root_bytes
    for _, data in blocks:
        out.extend(bytes(-len(out) % ALIGN))
        out.extend(data)
    out.extend(bytes(-len(out) % ALIGN))
    _append_frames(out, frames)
    _write_header(out, root_bytes)
    return bytes(out)


def _finish(
    root: Root,
    blocks: list[tuple[str, bytes]],
    operators: tuple[Operator, ...],
    frames: tuple[Frame, ...],
    first_block: int,
    table_at: int,
) -> Root:
    refs, at = [], first_block
    for name, data in blocks:
        refs.append(OperatorRef(name, at, len(data), hashlib.sha256(data).digest()))
        at += _up(len(data))
    return Root(
        target=root.target,
        profile=root.profile,
        distribution=root.distribution,
        version=root.version,
        provenance=root.provenance,
        vendor=root.vendor,
        wave=root.wave,
        lds_bytes=root.lds_bytes,
        fp8=root.fp8,
        operators=tuple(refs),
        code_object_offset=table_at,
        code_object_count=len(frames),
        entry_count=sum(len(op.entries) for op in operators),
    )


def _append_frames(out: bytearray, frames: tuple[Frame, ...]) -> None:
    at = _up(len(out) + len(frames) * record_size(CodeObject))
    positions = []
    for frame in frames:
        positions.append(at)
        at = _up(at + len(frame.data))
    for frame, position in zip(frames, positions, strict=True):
        reference = NONE32 if frame.reference is None else frame.reference
        encoding = ENCODINGS.index(frame.encoding)
        out += struct.pack("<QIIII", position, len(frame.data), frame.raw_size, reference, encoding)
    for frame in frames:
        out.extend(bytes(-len(out) % ALIGN))
        out.extend(frame.data)
    out.extend(bytes(-len(out) % ALIGN))


def _write_header(out: bytearray, root_bytes: bytes) -> None:
    digest = hashlib.sha256(root_bytes).digest()
    head = (
        MAGIC,
        version.BUNDLE_FORMAT,
        version.RECIPE,
        len(out),
        HEADER_SIZE,
        len(root_bytes),
        digest,
        bytes(24),
    )
    draft = HEADER.pack(*head, bytes(32))[:96]
    out[:HEADER_SIZE] = draft + hashlib.sha256(draft).digest()


def _up(size: int) -> int:
    return size + -size % ALIGN


# ---- decoding --------------------------------------------------------------------------------------------------


def _decode(record: type[R], data: memoryview, at: int) -> R:
    values: dict[str, Any] = {}
    for name, fmt in LAYOUT[record]:
        letters, size = struct_format(fmt)
        if isinstance(fmt, list):
            values[name] = _decode_array(fmt[0], data, *struct.unpack_from("<II", data, at))
        elif fmt in ("str", "code"):
            raw = _slice(data, *struct.unpack_from("<II", data, at))
            values[name] = _utf8(raw) if fmt == "str" else raw
        elif name:
            values[name] = struct.unpack_from("<" + letters, data, at)[0]
        at += size
    return record(**values)


def _decode_array(element: type[Any] | str, data: memoryview, start: int, count: int) -> tuple[Any, ...]:
    size = element_size(element)
    if count and (start % 8 or start + count * size > len(data)):
        raise FormatError(
            f"an array of {count} x {size} bytes at {start} leaves its region of {len(data)} bytes"
        )
    places = range(start, start + count * size, size)
    if not isinstance(element, str):
        return tuple(_decode(element, data, at) for at in places)
    if element == "str":
        return tuple(_utf8(_slice(data, *struct.unpack_from("<II", data, at))) for at in places)
    return struct.unpack_from(f"<{count}{struct_format(element)[0]}", data, start) if count else ()


def _slice(data: memoryview, start: int, length: int) -> bytes:
    if length and start + length > len(data):
        raise FormatError(f"text of {length} bytes at {start} leaves its region of {len(data)} bytes")
    return bytes(data[start : start + length])


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"text is not UTF-8: {error}") from None


class Bundle:
    """A bundle over a buffer (usually a memory map). Opening checks header and root; the rest is checked when used."""

    def __init__(self, data: bytes | memoryview, decoder: Decoder | None = None) -> None:
        """Raises FormatError (VersionError for another version) when header or root are not what they should be."""
        self._data = memoryview(data)
        self._decoder = decoder
        offset, size, digest = _check_header(self._data)
        self.root = cast(Root, self._region(Root, offset, size, digest, "the root"))

    def _region(self, record: type[Any], offset: int, size: int, digest: bytes, what: str) -> Any:
        if (
            offset % ALIGN
            or offset < HEADER_SIZE
            or offset + size > len(self._data)
            or size < record_size(record)
        ):
            raise FormatError(f"{what}: {size} bytes at {offset} leave the file of {len(self._data)} bytes")
        region = self._data[offset : offset + size]
        if hashlib.sha256(region).digest() != digest:
            raise FormatError(f"{what} is damaged: its SHA-256 is not the recorded one")
        return _decode(record, region, 0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Operator names, sorted."""
        return tuple(ref.name for ref in self.root.operators)

    def operator(self, name: str) -> Operator:
        """The block of one operator, checked.

        Raises:
            KeyError: no such operator here.
            FormatError: the block is damaged or breaks a rule of the format.
        """
        for ref in self.root.operators:
            if ref.name == name:
                what = f"operator {name!r}"
                operator = cast(Operator, self._region(Operator, ref.offset, ref.size, ref.sha256, what))
                check_operator(operator, self.root.code_object_count)
                return operator
        raise KeyError(name)

    def record(self, index: int) -> CodeObject:
        """The table record of code object ``index``, bounds checked."""
        at = self.root.code_object_offset + index * record_size(CodeObject)
        if not 0 <= index < self.root.code_object_count or at + record_size(CodeObject) > len(self._data):
            raise FormatError(f"code object {index} leaves the table of {self.root.code_object_count}")
        record = _decode(CodeObject, self._data, at)
        if record.offset + record.stored_size > len(self._data) or record.raw_size > MAX_CODE_OBJECT:
            raise FormatError(
                f"code object {index}: {record.stored_size} bytes at {record.offset} leave the file"
            )
        if record.encoding >= len(ENCODINGS):
            raise FormatError(f"code object {index} has the unknown encoding {record.encoding}")
        return record

    def parts(self) -> Iterator[tuple[int, int]]:
        """(offset, size) of everything that the format gives a meaning: header, root, blocks, table, frames.

        Raises:
            FormatError: a table record leaves the file.
        """
        yield 0, HEADER_SIZE
        yield struct.unpack_from("<QQ", self._data, 24)
        for ref in self.root.operators:
            yield ref.offset, ref.size
        yield self.root.code_object_offset, self.root.code_object_count * record_size(CodeObject)
        for index in range(self.root.code_object_count):
            record = self.record(index)
            yield record.offset, record.stored_size

    def code_object(self, entry: Entry) -> bytes:
        """The decoded code object of ``entry``, its SHA-256 checked.

        Raises:
            FormatError: the frame does not decode or decodes to other bytes.
        """
        data = self._decode_frame(entry.code_object, True)
        if hashlib.sha256(data).digest() != entry.sha256:
            raise FormatError(f"code object {entry.code_object} of {entry.name} is damaged: SHA-256 differs")
        return data

    def _decode_frame(self, index: int, may_refer: bool) -> bytes:
        record = self.record(index)
        stored = bytes(self._data[record.offset : record.offset + record.stored_size])
        if ENCODINGS[record.encoding] == "raw":
            return stored
        reference = None
        if record.reference != NONE32:
            if not may_refer:
                raise FormatError(f"code object {index} is a reference and has a reference itself")
            reference = self._decode_frame(record.reference, False)
        if self._decoder is None:
            raise FormatError(f"code object {index} is a zstd frame and no decoder was given")
        try:
            return self._decoder(stored, record.raw_size, reference)
        except Exception as error:  # the decoder is the caller's; whatever it raises means the frame is bad
            raise FormatError(f"code object {index} does not decode: {error}") from error


def _check_header(data: memoryview) -> tuple[int, int, bytes]:
    if len(data) < HEADER_SIZE:
        raise FormatError(f"{len(data)} bytes are too few for a bundle's header of {HEADER_SIZE}")
    magic, fmt, recipe, file_size, root_offset, root_size, root_digest, _zero, digest = HEADER.unpack_from(
        data
    )
    if magic != MAGIC:
        raise FormatError("the first bytes are not those of a bundle")
    if hashlib.sha256(data[:96]).digest() != digest:
        raise FormatError("the header is damaged: its SHA-256 is not the recorded one")
    if fmt != version.BUNDLE_FORMAT:
        raise VersionError(f"bundle format {fmt}, this runtime reads {version.BUNDLE_FORMAT}")
    if recipe != version.RECIPE:
        raise VersionError(f"recipe version {recipe}, this runtime reads {version.RECIPE}")
    if file_size != len(data):
        raise FormatError(f"the file has {len(data)} bytes, its header says {file_size}: it was cut or grew")
    return root_offset, root_size, root_digest


def check_operator(operator: Operator, code_objects: int) -> None:
    """The rules of an operator block beyond its bytes: indices in range, bytecode well formed.

    Raises:
        FormatError: naming the record and the rule.
    """
    slots = len(operator.slots)
    where = f"operator {operator.name!r}"
    _require(operator.return_count <= len(operator.tensors), f"{where}: more returns than tensors")
    for tensor in operator.tensors:
        variable_ok = tensor.type_var == NONE8 or tensor.type_var < len(operator.type_variables)
        _require(variable_ok, f"{where}: tensor {tensor.name} has an unknown type variable")
        _require(
            max(tensor.address_slot, tensor.given_slot) < slots,
            f"{where}: tensor {tensor.name} has a slot out of range",
        )
        for dim in (*tensor.dims, *tensor.strides):
            _require(
                dim.kind != DIM_BIND or dim.slot < slots,
                f"{where}: a dim of {tensor.name} has a slot out of range",
            )
            _check_code(dim.code, slots, where)
    for entry in operator.entries:
        _require(
            entry.code_object < code_objects,
            f"{where}: entry {entry.name} names code object {entry.code_object}",
        )
    for recipe in operator.recipes:
        _require(recipe.kernel < len(operator.kernels), f"{where}: a recipe names kernel {recipe.kernel}")
        _require(
            len(recipe.types) == len(operator.type_variables),
            f"{where}: a recipe leaves a type variable open",
        )
        for code in (recipe.cost, recipe.workspace, *(condition.code for condition in recipe.conditions)):
            _check_code(code, slots, where)
        for step in recipe.steps:
            _require(step.entry < len(operator.entries), f"{where}: a step names entry {step.entry}")
            for code in (step.grid_x, step.grid_y, step.grid_z, step.lds, *(arg.code for arg in step.args)):
                _check_code(code, slots, where)
            for arg in step.args:
                _require(
                    arg.offset + arg.size <= step.kernarg_size,
                    f"{where}: a kernel argument leaves the kernarg buffer",
                )


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise FormatError(problem)


def _check_code(code: bytes, slots: int, where: str) -> None:
    if code:
        try:
            expression.check(code, slots)
        except expression.ExpressionError as error:
            raise FormatError(f"{where}: {error}") from None
