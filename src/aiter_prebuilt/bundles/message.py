"""MessagePack with the standard library alone, as much of it as AMDGPU metadata use: a reader of documents that may be broken.

Extension types are in no metadata. Keys of maps are text and stand there once.
"""

from __future__ import annotations

import struct
from typing import Any, Final

_NUMBERS: Final = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZED: Final = {
    0xC4: (">B", "bin"), 0xC5: (">H", "bin"), 0xC6: (">I", "bin"),
    0xD9: (">B", "str"), 0xDA: (">H", "str"), 0xDB: (">I", "str"),
    0xDC: (">H", "list"), 0xDD: (">I", "list"), 0xDE: (">H", "map"), 0xDF: (">I", "map"),
}  # fmt: skip
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
#: Deeper than any metadata; Python's own limit is no error that a reader may end with.
_DEEPEST: Final = 16


class MessageError(ValueError):
    """Bytes that are no MessagePack document of the kinds that are read here."""


def read_message(data: bytes) -> Any:
    """Return the value at the start of ``data``.

    What follows it does not matter.

    Raises:
        MessageError: it ends early, or breaks a rule of this module.
    """
    return _Reader(data).value(0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        """Take the next bytes, all of them."""
        part = self.data[self.at : self.at + size]
        if len(part) != size:
            raise MessageError(f"the metadata end in the middle of a value, at byte {len(self.data)}")
        self.at += size
        return part

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise MessageError(f"the metadata nest deeper than {_DEEPEST}")
        tag = self.take(1)[0]
        if tag <= 0x7F:
            return tag
        if tag >= 0xE0:
            return tag - 256
        if tag <= 0x8F:
            return self.sized("map", tag & 0x0F, depth)
        if tag <= 0x9F:
            return self.sized("list", tag & 0x0F, depth)
        if tag <= 0xBF:
            return self.sized("str", tag & 0x1F, depth)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag in _NUMBERS:
            return self.number(_NUMBERS[tag])
        if tag in _SIZED:
            form, kind = _SIZED[tag]
            return self.sized(kind, self.number(form), depth)
        raise MessageError(f"MessagePack tag 0x{tag:02x} is not used in AMDGPU metadata")

    def sized(self, kind: str, count: int, depth: int) -> Any:
        if kind == "map":
            return self.map(count, depth)
        if kind == "list":
            return [self.value(depth + 1) for _ in range(count)]
        raw = self.take(count)
        try:
            return raw.decode() if kind == "str" else raw
        except UnicodeDecodeError:
            raise MessageError(f"the metadata have the text {raw!r}, which is no UTF-8") from None

    def map(self, count: int, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if not isinstance(key, str) or key in result:
                raise MessageError(f"the metadata have a map with the key {key!r}, no text or there twice")
            result[key] = self.value(depth + 1)
        return result
