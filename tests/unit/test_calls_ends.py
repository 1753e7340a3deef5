"""Streams of calls and tables of tuned rows: what comes back, and each way in which they can be damaged."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zlib
from typing import Any

import pytest

from aiter_prebuilt.contract import calls, header, tuned_grammar, version
from aiter_prebuilt.contract.calls import Array, Call, CallsError, ElementType, Want
from aiter_prebuilt.contract.header import FormatError, VersionError

CALL = Call(
    "op", "label", {"x": Array("u8", (2, 2), (3, 1), 1, b"abcdef"), "o": Array("u8", (2,), (1,), 0, None),
                    "t": ElementType("bf16"), "n": None, "l": [1, 2.5, "a", True]},
    (Want("o", "u8", (2,), b"gh", b"ij", b"\0\1", False), Want("r", "u8", (0,), b"", b"", None, True)), 7, "formula",
)  # fmt: skip


def test_calls_come_back() -> None:
    data = calls.pack(CALL)
    head, body = struct.unpack_from("<IQ", data)
    assert body == 12 and len(data) == 12 + head + body and data[12 + head :] == b"abcdefghij\0\1"
    assert list(calls.read(io.BytesIO(data * 2))) == [CALL, CALL] and list(calls.read(io.BytesIO(b""))) == []


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "span"),
    [
        ((2, 2), (3, 1), 1, 6),
        ((2, 0), (9, 1), 3, 3),
        ((), (), 2, 3),
        ((4,), (0,), 0, 1),
        ((2, 3), (1, 2), 0, 6),
    ],
)
def test_elements_of_an_allocation(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, span: int
) -> None:
    assert Array("u8", shape, strides, offset, None).span == span


def stream(data: bytes, words: str) -> None:
    with pytest.raises(CallsError) as refused:
        list(calls.read(io.BytesIO(data)))
    assert str(refused.value) == words


def test_a_stream_that_is_cut() -> None:
    data = calls.pack(CALL)
    head, body = struct.unpack_from("<IQ", data)
    for size in (1, 11):
        stream(data[:size], "it ends inside a record's lengths")
    for size in (12, 12 + head - 1, 12 + head, len(data) - 1):
        stream(data[:size], f"it ends inside a record of {head} and {body} bytes")


def test_what_a_record_may_claim() -> None:
    most, longest = 1 << 20, 1 << 34
    stream(struct.pack("<IQ", most + 1, 0), f"a record claims {most + 1} and 0 bytes")
    stream(struct.pack("<IQ", 0, longest + 1), f"a record claims 0 and {longest + 1} bytes")
    stream(struct.pack("<IQ", most, 0), f"it ends inside a record of {most} and 0 bytes")
    assert (most, longest) == (calls.MAX_HEAD, calls.MAX_BODY)


def _inflate(frame: bytes, size: int, dictionary: bytes | None) -> bytes:
    """Stands for zstd: it, too, says ValueError for what is no frame of this size."""
    assert dictionary is None
    try:
        data = zlib.decompress(frame)
    except zlib.error as error:
        raise ValueError("no frame") from error
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes")
    return data


def test_a_packed_stream() -> None:
    data = calls.packed(calls.pack(CALL) * 2, zlib.compress)
    assert list(calls.read(io.BytesIO(data), _inflate)) == [CALL, CALL]
    assert list(calls.read(io.BytesIO(calls.pack(CALL)), _inflate)) == [CALL], "one that is not packed"
    assert list(calls.read(io.BytesIO(calls.packed(b"", zlib.compress)), _inflate)) == []
    assert list(calls.read(io.BytesIO(b""), _inflate)) == []
    assert calls.PACKED > calls.MAX_HEAD
    stream(
        data, f"a record claims {calls.PACKED} and {2 * len(calls.pack(CALL))} bytes"
    )  # with nothing to unpack it


def test_a_packed_stream_that_is_damaged() -> None:
    def damaged(data: bytes, words: str) -> None:
        with pytest.raises(CallsError) as refused:
            list(calls.read(io.BytesIO(data), _inflate))
        assert str(refused.value) == words

    record = calls.pack(CALL)
    data = calls.packed(record, zlib.compress)
    for size in (4, 11):
        damaged(data[:size], "it ends inside its length")
    damaged(data[:2], "it ends inside a record's lengths")
    for size in (12, len(data) - 1):
        damaged(data[:size], "its frame cannot be read: no frame")
    said = struct.pack("<IQ", calls.PACKED, len(record) + 1)
    damaged(said + data[12:], f"its frame cannot be read: {len(record)} bytes")
    most = 1 << 28
    damaged(struct.pack("<IQ", calls.PACKED, most + 1) + data[12:], f"it claims {most + 1} bytes")
    damaged(
        struct.pack("<IQ", calls.PACKED, most) + data[12:], f"its frame cannot be read: {len(record)} bytes"
    )
    head, body = struct.unpack_from("<IQ", record)
    cut = calls.packed(record[:-1], zlib.compress)
    damaged(cut, f"it ends inside a record of {head} and {body} bytes")
    twice = calls.packed(data, zlib.compress)
    damaged(twice, f"a record claims {calls.PACKED} and {len(record)} bytes")


def _changed(change: Any) -> tuple[bytes, bytes]:
    data = calls.pack(CALL)
    size, _ = struct.unpack_from("<IQ", data)
    table = json.loads(data[12 : 12 + size])
    change(table)
    return json.dumps(table).encode(), data[12 + size :]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.update(operator=["silu"]), "operator, label or reference is no text"),
        (lambda table: table.update(label=3), "operator, label or reference is no text"),
        (lambda t: t.update(edition=1), "edition 1 is not 2"), (lambda t: t.update(edition=3), "edition 3 is not 2"),
        (lambda t: t["wants"][0].update(low=[0, 13]), "bytes 0 to 13 are outside a body of 12"),
        (lambda t: t["wants"][0].update(low=[-1, 3]), "bytes -1 to 2 are outside a body of 12"),
        (lambda t: t["wants"][0].update(low=[3, -1]), "bytes 3 to 2 are outside a body of 12"),
        (lambda t: t["wants"][0].update(low=None), "a wanted tensor has no values"),
        (lambda t: t["wants"][0].update(high=None), "a wanted tensor has no values"),
        (lambda t: t["wants"][0].pop("kept"), "a record cannot be read: KeyError: 'kept'"),
        (lambda t: t["arguments"].update(n=3), "a record cannot be read: TypeError: "),
        (lambda t: t.update(arguments=3), "a record cannot be read: AttributeError: "),
        (lambda t: t["wants"][0].update(low=[1]), "a record cannot be read: ValueError: "),
    ],
)  # fmt: skip
def test_a_record_that_is_none(change: Any, words: str) -> None:
    with pytest.raises(CallsError) as refused:
        calls.unpack(*_changed(change))
    assert str(refused.value).startswith(words)


def test_bytes_up_to_the_end_of_a_body() -> None:
    found = calls.unpack(*_changed(lambda t: t["wants"][0].update(low=[0, 12], high=[12, 0])))
    assert found.wants[0].low == b"abcdefghij\0\1" and found.wants[0].high == b""
    with pytest.raises(CallsError, match=r"^a record cannot be read: RecursionError: "):
        calls.unpack(b"[" * 100_000, b"")


def test_the_header_of_a_bundle() -> None:
    data = header.pack(200, b"root") + bytes(72)
    assert header.check(memoryview(data))[:2] == (128, 4)
    assert (header.HEADER_SIZE, header.HASHED, header.MAX_REGION) == (128, 96, 1 << 26)
    assert (header.MAX_DICTIONARY, header.MAX_CODE_OBJECT) == (1 << 24, 1 << 28)
    for size, words in (
        (127, "127 bytes are too few for a bundle's header of 128"),
        (199, "the file has 199 bytes, its header says 200"),
    ):
        with pytest.raises(FormatError, match=words):
            header.check(memoryview(data[:size]))


@pytest.mark.parametrize(
    ("at", "words", "kind"),
    [
        (0, "the first bytes are not those of a bundle", FormatError), (8, "it has bundle format", VersionError),
        (12, "it has bundle format", VersionError), (72, "bytes 72 to 95 of the header are not zero", FormatError),
        (95, "bytes 72 to 95", FormatError), (16, "its header says", FormatError),
    ],
)  # fmt: skip
def test_a_header_of_something_else(at: int, words: str, kind: type[Exception]) -> None:
    data = bytearray(header.pack(128, b""))
    data[at] ^= 1
    if at:
        with pytest.raises(FormatError, match="the header is damaged: its SHA-256 is not the recorded one"):
            header.check(memoryview(bytes(data)))
    data[96:128] = hashlib.sha256(data[:96]).digest()
    with pytest.raises(kind, match=words) as refused:
        header.check(memoryview(bytes(data)))
    assert type(refused.value) is kind
    assert version.BUNDLE_FORMAT > 0 and version.RECIPE > 0


HEAD = "target,cus,M,kernel,variant,types,us\n"


def problems(text: str) -> list[tuple[int, int, str]]:
    return [(each.line, each.column, each.text) for each in tuned_grammar.read(text).problems]


def test_a_table() -> None:
    text = (
        "# note\n\n target , cus,N , M,kernel,variant,types,source\n"
        'gfx942,304,0,"7" ,k,"v,""w""",bf16,"a, b"\n#x\n'
        "sm_90,132,1,9223372036854775807,k,v,f16,\n"
    )
    found = tuned_grammar.read("\ufeff" + text)
    assert found.problems == () and found.line == 3 and found.symbols == (("N", 15), ("M", 19))
    first, second = found.rows
    assert (first.line, first.target, first.cus, first.values, first.kernel, first.variant, first.types) == (
        4, "gfx942", 304, (0, 7), "k", 'v,"w"', "bf16",
    )  # fmt: skip
    assert first.columns == {
        "target": 1,
        "cus": 8,
        "N": 12,
        "M": 14,
        "kernel": 19,
        "variant": 21,
        "types": 31,
        "source": 36,
    }
    assert first.place == "line 4, column 1" and second.line == 6 and second.values == (1, 2**63 - 1)


def test_what_is_wrong_with_a_table() -> None:
    missing = [(1, 0, f"column {name!r} is missing") for name in tuned_grammar.REQUIRED]
    assert problems("") == [*missing, (1, 1, "a column has no name")]
    assert problems("target,cus,kernel,variant\n") == [(1, 0, "column 'types' is missing")]
    assert problems("target,cus,,M,kernel,variant,types,M\n") == [
        (1, 12, "a column has no name"), (1, 36, "column 'M' stands there twice"),
    ]  # fmt: skip
    row = "gfx942,304,1,k,v,bf16,\n"
    assert problems(HEAD + row) == []
    assert problems(HEAD + "gfx942,304,1,k,v,bf16\n") == [(2, 18, "6 cells, the header has 7")]
    assert problems(HEAD + "gfx942,304,1,k,v,bf16,,x\n") == [(2, 23, "8 cells, the header has 7")]
    for text in ("-1", "x", "", "1.0", "\u0663", "9223372036854775808"):
        assert problems(HEAD + f"gfx942,304,{text},k,v,bf16,\n") == [(2, 12, f"M is {text!r}, not a number")]
    assert problems(HEAD + ",x,1,,,,\n") == [
        (2, 2, "cus is 'x', not a number"), (2, 1, "target is empty"), (2, 6, "kernel is empty"), (2, 7, "variant is empty"),
        (2, 8, "types is empty"),
    ]  # fmt: skip
    again = "two rows for 304 compute units and {'M': 1}: line 2 says the same"
    found = tuned_grammar.read(HEAD + row + row + "gfx942,304,2,k,v,bf16,\n" + row)
    assert [(each.line, each.column, each.text) for each in found.problems] == [(3, 1, again), (5, 1, again)]
    assert [each.line for each in found.rows] == [2, 4]
    assert [each.place for each in found.problems] == ["line 3, column 1", "line 5, column 1"]
    assert tuned_grammar.Problem(3, 0, "", "").place == "line 3"


def test_a_table_that_is_written() -> None:
    text = tuned_grammar.write("op", ("M",), [("gfx942", "304", "1", "k", 'v,"w"', "bf16", "a b")])
    assert text == '# op\ntarget,cus,M,kernel,variant,types,source\ngfx942,304,1,k,"v,""w""",bf16,a b\n'
    assert tuned_grammar.read(text).rows[0].variant == 'v,"w"'
