"""Damage with good hashes: changes a part of a bundle and puts right every hash above it, so that a reader gets as far as
the damage. Used by the tests of damage and by the fuzzer."""

from __future__ import annotations

import hashlib
import random
import struct
from typing import Any

from aiter_prebuilt.contract import header, records, version
from aiter_prebuilt.contract.bundle import Bundle, Decoder

#: Numbers at which readers go wrong.
NUMBERS = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1)


def offset_of(record: type[Any], name: str) -> int:
    """Return the offset of a record's field.

    Bytes.
    """
    at = 0
    for key, fmt in records.LAYOUT[record]:
        if key == name:
            return at
        at += records.struct_format(fmt)[1]
    raise KeyError(name)


def stored_at(data: bytes | bytearray, part: str, index: int = 0) -> int:
    """Return the root's offset of a part's ``Stored``.

    The part is the "table", or "operators" or "dictionaries" ``index``.
    """
    root = struct.unpack_from("<Q", data, 24)[0]
    if part == "table":
        return int(root + offset_of(records.Root, "table"))
    (array,) = struct.unpack_from("<I", data, root + offset_of(records.Root, part))
    record: type[Any] = {"operators": records.OperatorRef, "dictionaries": records.Stored}[part]
    head = offset_of(records.OperatorRef, "stored") if part == "operators" else 0
    return int(root + array + index * records.record_size(record) + head)


def rehashed(
    data: bytes | bytearray, fmt: int = version.BUNDLE_FORMAT, recipe: int = version.RECIPE
) -> bytes:
    """``data`` with the root's hash and the header's right again."""
    changed = bytearray(data)
    start, size = struct.unpack_from("<QQ", changed, 24)
    changed[40:72] = hashlib.sha256(changed[start : start + size]).digest()
    struct.pack_into("<II", changed, 8, fmt, recipe)
    changed[header.HASHED : header.HEADER_SIZE] = hashlib.sha256(changed[: header.HASHED]).digest()
    return bytes(changed)


def reproved(data: bytes | bytearray, part: str, index: int = 0) -> bytes:
    """``data`` with the hash of one part right again, and those above it."""
    changed = bytearray(data)
    at = stored_at(changed, part, index)
    start, size = struct.unpack_from("<QI", changed, at)
    digest = at + offset_of(records.Stored, "sha256")
    changed[digest : digest + 32] = hashlib.sha256(changed[start : start + size]).digest()
    return rehashed(changed)


def scrambled(rng: random.Random, data: bytearray, start: int, size: int) -> None:
    """Change one to four places of ``data[start:start + size]``: a bit, a byte, a number, or bytes from elsewhere."""
    for _ in range(rng.choice((1, 1, 1, 2, 4)) if size else 0):
        at = start + rng.randrange(size)
        kind = rng.randrange(4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2 and size >= 4:
            at = start + rng.randrange(size // 4) * 4
            struct.pack_into("<I", data, at, rng.choice((*NUMBERS, size, size - 1, rng.randrange(2 * size))))
        else:
            length = min(rng.choice((1, 4, 8, 16, 40)), start + size - at)
            source = start + rng.randrange(size - length + 1)
            data[at : at + length] = data[source : source + length]


def damaged(rng: random.Random, data: bytes, decoder: Decoder) -> bytes:
    """One damaged bundle: a part scrambled under good hashes, or any bytes, or an end cut off."""
    bundle = Bundle(data, decoder)
    parts = list(bundle.parts())
    name, start, size = rng.choice(parts)
    changed = bytearray(data)
    if rng.random() < 0.1:
        scrambled(rng, changed, 0, len(changed))
        return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.3 else changed)
    scrambled(rng, changed, start, size)
    kind, _, rest = name.partition(" ")
    if kind == "block":
        return reproved(changed, "operators", bundle.names.index(rest))
    if kind == "dictionary":
        return reproved(changed, "dictionaries", int(rest))
    if kind == "table":
        return reproved(changed, "table")
    if kind == "root":
        return rehashed(changed)
    if kind == "header":  # places and sizes that lie under a good hash; magic and numbers stay
        changed[:16] = data[:16]
        changed[header.HASHED : header.HEADER_SIZE] = hashlib.sha256(changed[: header.HASHED]).digest()
    return bytes(changed)
