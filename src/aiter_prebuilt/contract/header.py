"""The header of a bundle, the limits of its parts, and the two errors of its readers. Specified in :mod:`.bundle`."""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from aiter_prebuilt.contract import version

MAGIC: Final = b"APBNDL\r\n"
HEADER_SIZE: Final = 128
HEADER: Final = struct.Struct("<8sIIQQQ32s24s32s")
#: Bytes that the header's own hash covers: all before the hash.
HASHED: Final = 96
#: Refused before anything is allocated: no part comes near it. Bytes when decoded.
MAX_REGION: Final = 64 * 1024 * 1024
MAX_DICTIONARY: Final = 16 * 1024 * 1024
MAX_CODE_OBJECT: Final = 256 * 1024 * 1024


class FormatError(ValueError):
    """A bundle that is not what it says it is; the text says which bytes and why."""


class VersionError(FormatError):
    """A bundle of a format or recipe version that this code does not read."""


def pack(file_size: int, root: bytes) -> bytes:
    """Pack the header of a file with its root right behind it."""
    digest = hashlib.sha256(root).digest()
    facts = (MAGIC, version.BUNDLE_FORMAT, version.RECIPE, file_size, HEADER_SIZE, len(root), digest)
    draft = HEADER.pack(*facts, bytes(24), bytes(32))[:HASHED]
    return draft + hashlib.sha256(draft).digest()


def check(data: memoryview) -> tuple[int, int, bytes]:
    """(offset, size, SHA-256) of the root of the file ``data``.

    Raises:
        FormatError: no header, a damaged one, or one of a file of another size.
        VersionError: another bundle format or recipe version.
    """
    if len(data) < HEADER_SIZE:
        raise FormatError(f"{len(data)} bytes are too few for a bundle's header of {HEADER_SIZE}")
    magic, fmt, recipe, file_size, offset, size, root_digest, zero, digest = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FormatError("the first bytes are not those of a bundle")
    if hashlib.sha256(data[:HASHED]).digest() != digest:
        raise FormatError("the header is damaged: its SHA-256 is not the recorded one")
    if (fmt, recipe) != (version.BUNDLE_FORMAT, version.RECIPE):
        raise VersionError(
            f"it has bundle format {fmt} and recipe version {recipe}, "
            f"this runtime reads {version.BUNDLE_FORMAT} and {version.RECIPE}"
        )
    if any(zero):
        raise FormatError("bytes 72 to 95 of the header are not zero")
    if file_size != len(data):
        raise FormatError(f"the file has {len(data)} bytes, its header says {file_size}: it was cut or grew")
    return offset, size, root_digest
