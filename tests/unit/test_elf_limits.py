"""Code objects that are made to be read slowly, or to break a reader with words that are none of its own: a named error, in time
in proportion to the file."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest

from aiter_prebuilt import elf
from build_tools.errors import CodeObjectError
from build_tools.objects import codeobject

FILE = Path(__file__).resolve().parents[1] / "data" / "codeobjects" / "scale_gfx942.co"
MOST = 65535
NOTE, SYMTAB, STRTAB, PROGBITS = 7, 2, 3, 1


def image(sections: list[tuple[int, int, int, int, int]], body: bytes) -> bytes:
    """An AMDGPU ELF with these (name, kind, offset, size, link); offsets count from ``body``, in which the names are, too."""
    header = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 64, 3, 3, 224, 1, 0, 0, 64 + len(body), 0x54C, 64, 56, 0, 64, len(sections) + 1, 0,
    )  # fmt: skip
    rows = [(0, STRTAB, 0, len(body), 0), *sections]
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, 64 + at, size, link, 0, 0, 0)
        for name, kind, at, size, link in rows
    )
    return header + body + table


def note(payload: bytes, name: bytes = b"AMDGPU\0\0", kind: int = 32) -> bytes:
    return struct.pack("<III", 7, len(payload), kind) + name + payload + bytes(-len(payload) % 4)


def described(**changes: object) -> bytes:
    """A note with one kernel, some of whose facts are others."""
    kernel = {
        ".name": "k", ".symbol": "k.kd", ".kernarg_segment_size": 8, ".group_segment_fixed_size": 0,
        ".max_flat_workgroup_size": 64, ".wavefront_size": 64, ".args": [],
    }  # fmt: skip
    rows = kernel | {"." + key: value for key, value in changes.items()}
    return note(msgpack.packb({"amdhsa.kernels": [rows]}))


def plain(notes: bytes) -> bytes:
    return image([(0, NOTE, 1, len(notes), 0)], b"\0" + notes)


def test_the_plain_image_is_read() -> None:
    """So that the images below are refused for their own reason."""
    (kernel,) = elf.read(plain(described())).kernels
    assert kernel.symbol == "k"


MANY_NOTES = bytes(12) * 100_000
SLOW: dict[str, tuple[Callable[[], bytes], str]] = {
    "every section is the same notes": (
        lambda: image([(0, NOTE, 1, len(MANY_NOTES), 0)] * (MOST - 1), b"\0" + MANY_NOTES),
        "its sections overlap",
    ),
    "every section is the same symbols": (
        lambda: image([(0, SYMTAB, 0, 24 * 40_000, 0)] * (MOST - 1), bytes(24 * 40_000)),
        "its sections overlap",
    ),
    "every section has the whole file as its name": (
        lambda: image([(place % 1000, PROGBITS, 0, 1, 0) for place in range(MOST - 1)], b"x" * (1 << 22) + b"\0"),
        "its names overlap",
    ),
    "every symbol has the whole file as its name": (
        lambda: image(
            [(1 << 22, SYMTAB, (1 << 22) + 8, 24 * 60_000, 0)],
            b"x" * (1 << 22) + bytes(8) + b"".join(struct.pack("<I20x", place) for place in range(60_000)),
        ),
        "its names overlap",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SLOW)
def test_a_walk_is_no_longer_than_the_file(case: str) -> None:
    make, words = SLOW[case]
    data, start = make(), time.process_time()
    with pytest.raises(elf.ElfError, match=words):
        elf.read(data)
    with pytest.raises(CodeObjectError, match=words):
        codeobject.read(data)
    assert time.process_time() - start < 20, "hours, without a limit"


def test_most_sections_that_a_file_can_have() -> None:
    sections = [(0, PROGBITS, 0, 1, 0)] * (MOST - 2)
    body = b"\0" + described()
    start = time.process_time()
    assert elf.read(image([*sections, (0, NOTE, 1, len(body) - 1, 0)], body)).target == "gfx942"
    assert time.process_time() - start < 20


def test_a_cubin_with_as_many_kernels() -> None:
    """Two sections for each, found by their names."""
    names, sections = bytearray(b"\0"), []
    for place in range(MOST // 2 - 1):
        for name in (b".text.k%d" % place, b".nv.info.k%d" % place):
            sections.append((len(names), PROGBITS, 0, 0, 0))
            names += name + b"\0"
    data = bytearray(image(sections, bytes(names)))
    struct.pack_into("<H", data, 18, 190)
    start = time.process_time()
    assert len(elf.read(bytes(data)).kernels) == MOST // 2 - 1
    assert time.process_time() - start < 20


BROKEN = {
    "text that is not UTF-8": (note(b"\x81\xa3\xff\xfe\xfd\xc0"), "not UTF-8"),
    "a longer text": (note(b"\x81\xd9\x04\xff\xfe\xfd\xfc\xc0"), "not UTF-8"),
    "no map": (note(b"\x93\x01\x02\x03"), "is no map"),
    "lists in lists": (note(b"\x91" * 60_000), "breaks its own form"),
    "a number where a list is": (note(msgpack.packb({"amdhsa.kernels": 7})), "breaks its own form"),
    "a name that is a number": (described(name=7), "breaks its own form"),
    "a kind that is a number": (described(args=[{".offset": 0, ".size": 8, ".value_kind": 3}]), "breaks its own form"),
    "a size that is text": (described(group_segment_fixed_size="many"), "breaks its own form"),
    "a key that is a list": (note(b"\x81\x90\xc0"), "breaks its own form"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_metadata_that_is_broken(case: str) -> None:
    notes, words = BROKEN[case]
    with pytest.raises(elf.ElfError, match=words):
        elf.read(plain(notes))


def test_a_real_code_object_is_well_below_the_limits() -> None:
    assert elf.read(FILE.read_bytes()).kernels[0].symbol == "scale"
