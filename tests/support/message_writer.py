"""A MessagePack writer that can write what no library does: wider forms than needed, keys twice, bytes that are no value."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

_INTEGERS: Final = {
    "u8": (0xCC, ">B"), "u16": (0xCD, ">H"), "u32": (0xCE, ">I"), "u64": (0xCF, ">Q"),
    "i8": (0xD0, ">b"), "i16": (0xD1, ">h"), "i32": (0xD2, ">i"), "i64": (0xD3, ">q"),
}  # fmt: skip
_TEXTS: Final = {"str8": (0xD9, ">B"), "str16": (0xDA, ">H"), "str32": (0xDB, ">I")}
_LISTS: Final = {"array16": (0xDC, ">H"), "array32": (0xDD, ">I")}
_MAPS: Final = {"map16": (0xDE, ">H"), "map32": (0xDF, ">I")}


def packed(value: Any, forms: Mapping[str, str]) -> bytes:
    """A document. ``forms``: {"integer": "u64", "text": "str8", "list": "array16", "map": "map16"}, each optional: the shortest.

    A map with one of these keys stands for something else: ``$raw`` (hexadecimal bytes, put there as they are),
    ``$pairs`` (a map as a list of pairs), ``$nested`` (so many lists around nothing).
    """
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _integer(value, forms.get("integer"))
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return _head(len(text), forms.get("text"), _TEXTS, 0xA0, 32) + text
    if isinstance(value, list):
        return _head(len(value), forms.get("list"), _LISTS, 0x90, 16) + _all(value, forms)
    if "$raw" in value:
        return bytes.fromhex(value["$raw"])
    if "$nested" in value:
        return b"\x91" * int(value["$nested"]) + b"\xc0"
    pairs = value["$pairs"] if "$pairs" in value else list(value.items())
    return _head(len(pairs), forms.get("map"), _MAPS, 0x80, 16) + b"".join(
        _all(pair, forms) for pair in pairs
    )


def _all(values: Sequence[Any], forms: Mapping[str, str]) -> bytes:
    return b"".join(packed(value, forms) for value in values)


def _integer(value: int, form: str | None) -> bytes:
    if form is None:
        if -32 <= value <= 127:
            return struct.pack(">b", value)
        form = next(name for name in _INTEGERS if _fits(value, _INTEGERS[name][1]))
    tag, code = _INTEGERS[form]
    return bytes([tag]) + struct.pack(code, value)


def _fits(value: int, code: str) -> bool:
    try:
        struct.pack(code, value)
    except struct.error:
        return False
    return True


def _head(
    count: int, form: str | None, forms: Mapping[str, tuple[int, str]], short: int, limit: int
) -> bytes:
    if form is None and count < limit:
        return bytes([short | count])
    tag, code = forms[form] if form else next(row for row in forms.values() if _fits(count, row[1]))
    return bytes([tag]) + struct.pack(code, count)
