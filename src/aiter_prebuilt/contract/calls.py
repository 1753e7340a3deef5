"""Calls with known answers: what proves an operator on a device. The build writes them, the runtime reads them.

A stream is a sequence of records, each complete in itself, so that it can be piped as it is made:

    u32 length of the head, u64 length of the body, little endian
    head    UTF-8 JSON: edition, operator, label, reference, arguments, wants, compute units
    body    the bytes that the head names, each as [start, length] counted from the body's first byte

A stream that is kept as a file may stand as one zstd frame: u32 PACKED where a length would be, u64 bytes of the stream, frame.

An argument of the Python function is a tensor (its whole allocation, offset and gaps included), an element type, or a JSON
value. What is wanted of a written or returned tensor is an interval for each element: ``low <= found <= high`` as values of its
type, NaN exactly where ``low`` is NaN. Who reads a stream needs no formula. Elements that a call must leave alone are ``kept``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

if TYPE_CHECKING:
    from aiter_prebuilt.contract.bundle import Decoder

EDITION: Final = 2
_LENGTHS: Final = struct.Struct("<IQ")
#: No head and no tensor that is ever written is longer; what claims to be is damaged.
MAX_HEAD: Final = 1 << 20
MAX_BODY: Final = 1 << 34
#: "zapb", which is beyond MAX_HEAD, hence the length of no head.
PACKED: Final = 0x6270617A
#: A packed stream is read as a whole.
MAX_PACKED: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor. ``data``: all bytes of the allocation, from ``offset`` elements before the first one to the last one; None when
    its contents are no input (it is poisoned before the call). ``strides`` count elements. ``slack``: bytes behind the last
    element that belong to the allocation, which a kernel may read and must not write.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    data: bytes | None
    slack: int = 0

    @property
    def span(self) -> int:
        """Elements of the allocation."""
        if 0 in self.shape:
            return self.offset
        return (
            self.offset
            + 1
            + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        )


@dataclass(frozen=True, slots=True)
class ElementType:
    """An argument that is an element type: torch.bfloat16 where there is torch, else its name."""

    name: str


Argument: TypeAlias = "Array | ElementType | int | float | str | bool | list[Any] | None"


@dataclass(frozen=True, slots=True)
class Want:
    """The expected content of a written argument or returned tensor.

    ``low``, ``high``: dense in the order of ``shape``, stored as ``dtype``. ``kept``: one byte an element, 1 where the call must
    not write; None when it writes all. ``returned``: a result of the function (its place among the results is that among the
    wants), and no argument.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: bytes
    high: bytes
    kept: bytes | None
    returned: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a Python function of the package. ``arguments`` by parameter name, in the signature's order;
    ``compute_units``: as if the device had so many (0: as many as it has), which moves the choice of a variant;
    ``reference``: names the state of the formula that the wants come from, empty when there is none to name.
    """

    operator: str
    label: str
    arguments: dict[str, Argument]
    wants: tuple[Want, ...]
    compute_units: int = 0
    reference: str = ""


class CallsError(ValueError):
    """A stream of calls is cut off, damaged, or of another edition."""


class _Body:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, data: bytes | None) -> list[int] | None:
        if data is None:
            return None
        place = [self.size, len(data)]
        self.parts.append(data)
        self.size += len(data)
        return place


def pack(call: Call) -> bytes:
    """One record."""
    body = _Body()
    head = {
        "edition": EDITION,
        "operator": call.operator,
        "label": call.label,
        "compute_units": call.compute_units,
        "reference": call.reference,
        "arguments": {name: _argument(value, body) for name, value in call.arguments.items()},
        "wants": [
            {
                "name": want.name, "dtype": want.dtype, "shape": want.shape, "returned": want.returned,
                "low": body.add(want.low), "high": body.add(want.high), "kept": body.add(want.kept),
            }
            for want in call.wants
        ],
    }  # fmt: skip
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join([_LENGTHS.pack(len(text), body.size), text, *body.parts])


def _argument(value: Argument, body: _Body) -> Any:
    if isinstance(value, Array):
        layout = {
            "dtype": value.dtype,
            "shape": value.shape,
            "strides": value.strides,
            "offset": value.offset,
        }
        behind = {"slack": value.slack} if value.slack else {}
        return {"tensor": {**layout, **behind, "data": body.add(value.data)}}
    if isinstance(value, ElementType):
        return {"type": value.name}
    return {"value": value}


def packed(records: bytes, compress: Callable[[bytes], bytes]) -> bytes:
    """Return a whole stream as one frame."""
    return _LENGTHS.pack(PACKED, len(records)) + compress(records)


def read(stream: BinaryIO, decompress: Decoder | None = None) -> Iterator[Call]:
    """Yield the calls of a stream, one at a time.

    With ``decompress``, of one that may be packed, too.

    Raises:
        CallsError: the stream ends inside a record, a record is not what :func:`pack` writes, or the frame is damaged.
    """
    first = stream.read(_LENGTHS.size)
    if decompress is not None and first[:4] == PACKED.to_bytes(4, "little"):
        yield from _records(BytesIO(_unpacked(first, stream, decompress)))
    else:
        yield from _records(stream, first)


def _unpacked(first: bytes, stream: BinaryIO, decompress: Decoder) -> bytes:
    if len(first) != _LENGTHS.size:
        raise CallsError("it ends inside its length")
    size = _LENGTHS.unpack(first)[1]
    if size > MAX_PACKED:
        raise CallsError(f"it claims {size} bytes")
    try:
        return decompress(stream.read(MAX_PACKED), size, None)
    except ValueError as error:
        raise CallsError(f"its frame cannot be read: {error}") from error


def _records(stream: BinaryIO, first: bytes | None = None) -> Iterator[Call]:
    lengths = stream.read(_LENGTHS.size) if first is None else first
    while lengths:
        if len(lengths) != _LENGTHS.size:
            raise CallsError("it ends inside a record's lengths")
        head, body = _LENGTHS.unpack(lengths)
        if head > MAX_HEAD or body > MAX_BODY:
            raise CallsError(f"a record claims {head} and {body} bytes")
        text, data = stream.read(head), stream.read(body)
        if len(text) != head or len(data) != body:
            raise CallsError(f"it ends inside a record of {head} and {body} bytes")
        yield unpack(text, data)
        lengths = stream.read(_LENGTHS.size)


def unpack(head: bytes, body: bytes) -> Call:
    """One record from its two parts.

    Raises:
        CallsError: it is not what :func:`pack` writes.
    """
    try:
        table = json.loads(head)
        if table["edition"] != EDITION:
            raise CallsError(f"edition {table['edition']!r} is not {EDITION}")
        arguments = {name: _value(row, body) for name, row in table["arguments"].items()}
        wants = tuple(
            Want(
                row["name"], row["dtype"], tuple(row["shape"]), _need(row["low"], body), _need(row["high"], body),
                _cut(row["kept"], body), row["returned"],
            )
            for row in table["wants"]
        )  # fmt: skip
        if not all(isinstance(table[name], str) for name in ("operator", "label", "reference")):
            raise CallsError("operator, label or reference is no text")
        return Call(
            table["operator"], table["label"], arguments, wants, table["compute_units"], table["reference"]
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, CallsError):
            raise
        raise CallsError(f"a record cannot be read: {type(error).__name__}: {error}") from error


def _value(row: dict[str, Any], body: bytes) -> Argument:
    if "tensor" in row:
        told = row["tensor"]
        data = _cut(told["data"], body)
        shape, strides = tuple(told["shape"]), tuple(told["strides"])
        return Array(told["dtype"], shape, strides, told["offset"], data, told.get("slack", 0))
    if "type" in row:
        return ElementType(row["type"])
    value: Argument = row["value"]
    return value


def _cut(place: list[int] | None, body: bytes) -> bytes | None:
    if place is None:
        return None
    start, size = place
    if not 0 <= start <= start + size <= len(body):
        raise CallsError(f"bytes {start} to {start + size} are outside a body of {len(body)}")
    return body[start : start + size]


def _need(place: list[int], body: bytes) -> bytes:
    data = _cut(place, body)
    if data is None:
        raise CallsError("a wanted tensor has no values")
    return data
