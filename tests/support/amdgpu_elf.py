"""Small AMDGPU code objects from a description, so that a file of vectors is text: ELF64, note, descriptors, symbols.

Shares nothing with the readers that it is for. The words of a description are those of ``tests/data/code_object_vectors.toml``.
The file is loaded as it lies: offset is address; the code, executable, lies 4096 bytes higher.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from support.message_writer import packed

_ENDPGM, _CODE_END = 0xBF810000, 0xBF9F0000
_CODE_SHIFT: Final = 4096
_BLOCK: Final = 256
_HEADERS: Final = 64 + 5 * 56
_DESCRIPTOR: Final = struct.Struct("<IIIIq20xIIIHHI")


@dataclass(slots=True)
class _Layout:
    """The file as it grows. ``sections``: (name, type, address, offset, size, link, entry size, align)."""

    data: bytearray = field(default_factory=lambda: bytearray(_HEADERS))
    sections: list[tuple[str, int, int, int, int, int, int, int]] = field(default_factory=list)

    def add(self, name: str, kind: int, contents: bytes, align: int, **more: int) -> int:
        """Append a section; its offset. ``more``: shift of the address, link, entry (size)."""
        self.data += bytes(-len(self.data) % align)
        at = len(self.data)
        self.data += contents
        address = 0 if more.get("shift") is None else at + more["shift"]
        self.sections.append(
            (name, kind, address, at, len(contents), more.get("link", 0), more.get("entry", 0), align)
        )
        return at


def write(about: Mapping[str, Any]) -> bytes:
    """The bytes of a code object. Everything has a default that is right; ``patches`` and ``cut`` damage the result."""
    file, kernels = about.get("file", {}), about["kernels"]
    layout = _Layout()
    align = file.get("note_align", 4)
    note = layout.add(".note", 7, _notes(about, align), align, shift=0)
    note_size = len(layout.data) - note
    blocks = [2 if kernel.get("descriptor", {}).get("preload") else 1 for kernel in kernels]
    # Sizes are known before addresses are: descriptors behind the tables, code behind them.
    names, strings = _strings([kernel["symbol"]["name"] for kernel in kernels])
    symbol_count = 1 + len(kernels)
    tables = -(-len(layout.data) // 8) * 8 + symbol_count * 24 + (4 + symbol_count) * 4 + len(strings)
    rodata = -(-tables // 64) * 64
    dynamic = rodata + 64 * len(kernels)
    text = -(-(dynamic + 5 * 16) // _BLOCK) * _BLOCK
    entries = [text + _CODE_SHIFT + _BLOCK * sum(blocks[:place]) for place in range(len(kernels))]
    table = {"dynamic": bytearray(24), "static": bytearray(24)}
    descriptors = b""
    for place, (kernel, name) in enumerate(zip(kernels, names, strict=True)):
        address = rodata + 64 * place
        descriptors += _descriptor(kernel, entries[place] - address)
        symbol = {"tables": ["dynamic", "static"], "section": 5, "value": address} | kernel["symbol"]
        row = struct.pack("<IBBHQQ", name, 0x11, 3, symbol["section"], symbol["value"], 64)
        for each in symbol["tables"]:
            table[each] += row
    count = len(table["dynamic"]) // 24
    symbols_at = layout.add(".dynsym", 11, bytes(table["dynamic"]), 8, shift=0, link=4, entry=24)
    # One bucket: it names the last symbol, the chain goes down to 0.
    hashes = struct.pack(f"<{3 + count}I", 1, count, count - 1, 0, *range(count - 1))
    hash_at = layout.add(".hash", 5, hashes, 4, shift=0, link=2)
    strings_at = layout.add(".dynstr", 3, strings, 1, shift=0)
    layout.data += bytes(rodata - len(layout.data))
    layout.add(".rodata", 1, descriptors, 64, shift=0)
    layout.data += bytes(dynamic - len(layout.data))
    tags = ((4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (0, 0))
    layout.add(
        ".dynamic", 6, b"".join(struct.pack("<QQ", *tag) for tag in tags), 8, shift=0, link=4, entry=16
    )
    loaded = len(layout.data)
    code = struct.pack("<64I", _ENDPGM, *[_CODE_END] * 63) * sum(blocks)
    layout.add(".text", 1, code, _BLOCK, shift=_CODE_SHIFT)
    segments = [
        (1, 4, 0, 0, loaded, 4096),
        (1, 5, text, text + _CODE_SHIFT, file.get("code_segment_size", len(code)), 4096),
        (2, 6, dynamic, dynamic, 5 * 16, 8),
        (4, 4, note, note, file.get("note_segment_size", note_size), align),
        (0x6474E551, 6, 0, 0, 0, 0),
    ]
    if not file.get("note_segment", True):
        del segments[3]
    if file.get("static_symbols", True):
        layout.add(".symtab", 2, bytes(table["static"]), 8, link=4, entry=24)
    _finish(layout, file, segments)
    return _damaged(bytes(layout.data), about)


def _strings(names: Sequence[str]) -> tuple[list[int], bytes]:
    strings, places = b"\0", []
    for name in names:
        places.append(len(strings))
        strings += name.encode() + b"\0"
    return places, strings


def _notes(about: Mapping[str, Any], align: int) -> bytes:
    out = b""
    for note in about.get("notes", [{}]):
        payload = bytes.fromhex(note["payload"]) if "payload" in note else _metadata(about, note)
        name = note.get("name", "AMDGPU\0").encode()
        out += struct.pack("<III", len(name), note.get("size", len(payload)), note.get("type", 32)) + name
        out += bytes(-len(out) % align) + payload
        out += bytes(-len(out) % align)
    return out + bytes.fromhex(about.get("behind_notes", ""))


def _metadata(about: Mapping[str, Any], note: Mapping[str, Any]) -> bytes:
    rows = [kernel["metadata"] for kernel in about["kernels"]]
    first, last = note.get("kernels", [0, len(rows)])
    document = (
        {
            "amdhsa.kernels": rows[first:last],
            "amdhsa.target": "amdgcn-amd-amdhsa--gfx942",
            "amdhsa.version": [1, 2],
        }
        | about.get("document", {})
        | note.get("document", {})
    )
    document = {key: value for key, value in document.items() if key not in about.get("without", ())}
    whole = packed(about.get("whole", document), about.get("encoding", {}))
    return whole[: len(whole) - about.get("message_cut", 0)] + bytes.fromhex(about.get("behind_message", ""))


def _descriptor(kernel: Mapping[str, Any], entry: int) -> bytes:
    d = kernel.get("descriptor", {})
    return _DESCRIPTOR.pack(
        d.get("lds", 0), d.get("scratch", 0), d.get("kernarg", 0), 0, entry + d.get("entry_shift", 0),
        d.get("rsrc3", 0), d.get("rsrc1", 0), d.get("rsrc2", 0), d.get("properties", 0), d.get("preload", 0), 0,
    )  # fmt: skip


def _finish(
    layout: _Layout, file: Mapping[str, Any], segments: Sequence[tuple[int, int, int, int, int, int]]
) -> None:
    """Section headers at the end, program headers and the file's header at the start."""
    names, strings = _strings([*(row[0] for row in layout.sections), ".shstrtab"])
    layout.add(".shstrtab", 3, strings, 1)
    layout.data += bytes(-len(layout.data) % 8)
    headers = len(layout.data)
    links = {".dynsym": ".dynstr", ".symtab": ".dynstr", ".dynamic": ".dynstr", ".hash": ".dynsym"}
    places = {row[0]: number for number, row in enumerate(layout.sections, 1)}
    layout.data += bytes(64)
    for (name, kind, address, at, size, _, entry, align), name_at in zip(layout.sections, names, strict=True):
        link = places[links[name]] if name in links else 0
        flags = 2 if address else 0
        layout.data += struct.pack(
            "<IIQQQQIIQQ", name_at, kind, flags, address, at, size, link, 1 if kind == 11 else 0, align, entry
        )
    count = len(layout.sections) + 1
    if not file.get("section_headers", True):
        headers = count = 0
    ident = b"\x7fELF" + bytes([2, 1, 1, file.get("os_abi", 64), file.get("abi_version", 3)]) + bytes(7)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, file.get("type", 3), file.get("machine", 224), 1, 0, 64, headers,
        file.get("flags", 0x54C), 64, 56, len(segments), 64, count, count - 1 if count else 0,
    )  # fmt: skip
    layout.data[:64] = header
    for place, (kind, flags, offset, address, size, align) in enumerate(segments):
        layout.data[64 + 56 * place : 120 + 56 * place] = struct.pack(
            "<IIQQQQQQ", kind, flags, offset, address, address, size, size, align
        )


def _damaged(data: bytes, about: Mapping[str, Any]) -> bytes:
    changed = bytearray(data)
    for patch in about.get("patches", ()):
        new = bytes.fromhex(patch["with"])
        changed[patch["at"] : patch["at"] + len(new)] = new
    return bytes(changed[: len(changed) - about.get("cut", 0)])
