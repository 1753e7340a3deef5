"""MessagePack as the runtime reads it: each form, the values at its ends, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from aiter_prebuilt.bundles.message import MessageError, read_message


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0), (b"\x7f", 127), (b"\xe0", -32), (b"\xff", -1),
        (b"\xc0", None), (b"\xc2", False), (b"\xc3", True),
        (b"\xca" + struct.pack(">f", 1.5), 1.5), (b"\xcb" + struct.pack(">d", -0.1), -0.1),
        (b"\xcc\xff", 255), (b"\xcd\xff\xfe", 65534), (b"\xce\xff\xff\xff\xfe", 2**32 - 2), (b"\xcf" + b"\xff" * 8, 2**64 - 1),
        (b"\xd0\x80", -128), (b"\xd1\x80\x01", -32767), (b"\xd2\x80\x00\x00\x01", -(2**31) + 1),
        (b"\xd3\x80" + bytes(7), -(2**63)),
        (b"\x80", {}), (b"\x81\xa1a\x01", {"a": 1}), (b"\x8f" + b"".join(b"\xa1%c\x02" % (97 + n) for n in range(15)),
                                                       {chr(97 + n): 2 for n in range(15)}),
        (b"\x90", []), (b"\x92\x01\xc0", [1, None]), (b"\x9f" + bytes(15), [0] * 15),
        (b"\xa0", ""), (b"\xa2\xc3\xa9", "é"), (b"\xaf" + b"x" * 15, "x" * 15), (b"\xb0" + b"x" * 16, "x" * 16),
        (b"\xbf" + b"x" * 31, "x" * 31),
        (b"\xc4\x01\xff", b"\xff"), (b"\xc5\x00\x02ab", b"ab"), (b"\xc6\x00\x00\x00\x01a", b"a"),
        (b"\xd9\x01a", "a"), (b"\xda\x00\x02ab", "ab"), (b"\xdb\x00\x00\x00\x03abc", "abc"),
        (b"\xdc\x00\x02\x01\x02", [1, 2]), (b"\xdd\x00\x00\x00\x01\x03", [3]),
        (b"\xde\x00\x01\xa1a\x90", {"a": []}), (b"\xdf\x00\x00\x00\x01\xa1b\xc2", {"b": False}),
        (b"\x07behind", 7),
    ],
)  # fmt: skip
def test_a_value(data: bytes, value: Any) -> None:
    found = read_message(data)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("tag", [0xC1, 0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)])
def test_tags_of_no_metadata(tag: int) -> None:
    with pytest.raises(MessageError, match=rf"^MessagePack tag 0x{tag:02x} is not used in AMDGPU metadata$"):
        read_message(bytes([tag]) + bytes(20))


@pytest.mark.parametrize(
    "data", [b"", b"\xcc", b"\xcd\x01", b"\xa2a", b"\x92\x01", b"\x81\xa1a", b"\xd9", b"\xc4\x02a"]
)
def test_an_early_end(data: bytes) -> None:
    with pytest.raises(
        MessageError, match=rf"^the metadata end in the middle of a value, at byte {len(data)}$"
    ):
        read_message(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x82\xa1a\x01\xa1a\x02", "a map with the key 'a', no text or there twice"),
        (b"\x81\x01\x02", "a map with the key 1, no text or there twice"),
        (b"\xa1\xff", r"the text b'\\xff', which is no UTF-8"),
    ],
)
def test_a_rule_that_is_broken(data: bytes, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        read_message(data)


@pytest.mark.parametrize("one", [b"\x91", b"\x81\xa1a"])
def test_how_deep_values_may_nest(one: bytes) -> None:
    read_message(one * 16 + b"\x00")
    with pytest.raises(MessageError, match=r"^the metadata nest deeper than 16$"):
        read_message(one * 17 + b"\x00")
    read_message(b"\x91" * 15 + b"\x81\xa1a\x00")
    with pytest.raises(MessageError, match="nest deeper"):
        read_message(b"\x91" * 16 + b"\x81\xa1a\x00")
