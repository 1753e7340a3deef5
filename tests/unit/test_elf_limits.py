"""Code objects that are made to be read slowly, or to break a reader with words that are none of its own: a named error, in time
in proportion to the file."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.amdgpu_elf import write
from support.message_writer import packed

from aiter_prebuilt.bundles import elf
from aiter_prebuilt.contract.elf import MOST_NOTES, SHARING, ElfError
from build_tools.errors import CodeObjectError
from build_tools.objects import codeobject

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "data" / "codeobjects" / "scale_gfx942.co"
MOST = 65535
AMDGPU, CUDA = 224, 190
NOTE, SYMTAB, STRTAB, PROGBITS = 7, 2, 3, 1
PT_LOAD, PT_NOTE = 1, 4
Sections = Sequence[tuple[int, int, int, int, int]]


def image(
    sections: Sections, body: bytes, segments: Sequence[tuple[int, int, int]] = (), machine: int = AMDGPU
) -> bytes:
    """An ELF with these sections (name, kind, offset, size, link) and segments (kind, offset, size); offsets count from ``body``,
    in which the names are, too."""
    headers = 64 + len(body)
    header = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 64, 3, 3, machine, 1, 0, headers + 64 * (len(sections) + 1), headers, 0x54C, 64, 56,
        len(segments), 64, len(sections) + 1, 0,
    )  # fmt: skip
    rows = [(0, STRTAB, 0, len(body), 0), *sections]
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, 64 + at, size, link, 0, 0, 0)
        for name, kind, at, size, link in rows
    )
    return header + body + table + b"".join(program_header(*segment) for segment in segments)


def program_header(kind: int, at: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, 4, 64 + at, 0, 0, size, size, 4)


def note(payload: bytes) -> bytes:
    return struct.pack("<III", 7, len(payload), 32) + b"AMDGPU\0\0" + payload + bytes(-len(payload) % 4)


def kernel(name: object = "k", descriptor: str = "k.kd", **changes: object) -> Mapping[str, Any]:
    """One kernel, some of whose facts are others."""
    metadata = {
        ".name": name, ".symbol": descriptor, ".kernarg_segment_size": 8, ".kernarg_segment_align": 8,
        ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 64,
        ".wavefront_size": 64, ".sgpr_count": 8, ".vgpr_count": 8, ".args": [],
    }  # fmt: skip
    return {
        "metadata": metadata | {"." + key: value for key, value in changes.items()},
        "symbol": {"name": descriptor},
    }


def plain(*kernels: Mapping[str, Any]) -> bytes:
    return write({"kernels": kernels})


def noted(payload: bytes) -> bytes:
    """A code object whose metadata are these bytes."""
    return write({"kernels": [], "notes": [{"payload": payload.hex()}]})


def test_the_plain_images_are_read() -> None:
    """So that the images below are refused for their own reason."""
    (found,) = elf.read(plain(kernel())).kernels
    assert found.symbol == "k"
    assert elf.read(noted(EMPTY)).kernels == ()
    assert elf.read(image([], b"\0" + note(EMPTY), [(PT_NOTE, 1, len(note(EMPTY)))])).kernels == ()


def loaded_again_and_again() -> bytes:
    """Every segment is all of the file."""
    data = bytearray(plain(kernel())) + bytes(1 << 22)
    struct.pack_into("<Q", data, 32, len(data))
    struct.pack_into("<H", data, 56, MOST)
    return bytes(data) + program_header(PT_LOAD, 0, len(data) - 64) * MOST


def infos(size: int) -> bytes:
    """A cubin in which the parameters of every kernel are the same bytes."""
    names, sections = bytearray(b"\0"), []
    for place in range(MOST // 2 - 1):
        for name in (b".text.k%d" % place, b".nv.info.k%d" % place):
            sections.append((len(names), PROGBITS, 0, size, 0))
            names += name + b"\0"
    return image(sections, bytes(names) + bytes(size), machine=CUDA)


EMPTY = packed({"amdhsa.version": [1, 2], "amdhsa.kernels": []}, {})
MANY_NOTES = bytes(12) * 100_000
SLOW: dict[str, tuple[Callable[[], bytes], str]] = {
    "every segment is the same notes": (
        lambda: image([], b"\0" + MANY_NOTES, [(PT_NOTE, 1, len(MANY_NOTES))] * MOST),
        "its note segments overlap",
    ),
    "every segment is loaded, all of the file": (loaded_again_and_again, "its loadable segments overlap"),
    "every section is the same symbols": (
        lambda: image([(0, SYMTAB, 0, 24 * 40_000, 0)] * (MOST - 1), bytes(24 * 40_000)),
        "its sections overlap",
    ),
    "every kernel of a cubin has the same parameters": (lambda: infos(1 << 20), "its sections overlap"),
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
    with pytest.raises(ElfError, match=words):
        elf.read(data)
    with pytest.raises(CodeObjectError, match=words):
        codeobject.read(data)
    assert time.process_time() - start < 20, "hours, without a limit"


def test_the_texts_of_a_file_are_no_longer_than_it() -> None:
    """Every section is the same notes: the build looks for names in them."""
    data = image([(0, NOTE, 1, len(MANY_NOTES), 0)] * (MOST - 1), b"\0" + MANY_NOTES)
    with pytest.raises(CodeObjectError, match="its sections overlap"):
        codeobject.texts(data)
    assert b"scale.kd" in codeobject.texts(FILE.read_bytes())


def test_most_sections_that_a_file_can_have() -> None:
    body = b"\0" + note(EMPTY)
    data = image([(0, PROGBITS, 0, 1, 0)] * (MOST - 1), body, [(PT_NOTE, 1, len(body) - 1)])
    start = time.process_time()
    assert elf.read(data).target == codeobject.read(data).target == "gfx942"
    assert time.process_time() - start < 20


def test_a_cubin_with_as_many_kernels() -> None:
    """Two sections for each, found by their names."""
    data, start = infos(0), time.process_time()
    assert len(elf.read(data).kernels) == MOST // 2 - 1
    assert time.process_time() - start < 20


def test_many_kernels() -> None:
    """Each with a descriptor that is looked up, and a name that no other has."""
    data = plain(*(kernel(f"k{place}", f"k{place}.kd") for place in range(6_000)))
    start = time.process_time()
    assert len(elf.read(data).kernels) == len(codeobject.read(data).kernels) == 6_000
    assert time.process_time() - start < 5


BROKEN = {
    "text that is not UTF-8": (noted(b"\x81\xa3\xff\xfe\xfd\xc0"), "no UTF-8"),
    "a longer text": (noted(b"\x81\xd9\x04\xff\xfe\xfd\xfc\xc0"), "no UTF-8"),
    "no map": (noted(b"\x93\x01\x02\x03"), "are no map"),
    "lists in lists": (noted(b"\x91" * 60_000), "nest deeper"),
    "a number where a list is": (noted(packed({"amdhsa.version": [1, 2], "amdhsa.kernels": 7}, {})), "no list of maps"),
    "a name that is a number": (plain(kernel(7)), "no text"),
    "a kind that is a number": (plain(kernel(args=[{".offset": 0, ".size": 8, ".value_kind": 3}])), "no text"),
    "a size that is text": (plain(kernel(group_segment_fixed_size="many")), "no 32-bit number"),
    "a key that is a list": (noted(b"\x81\x90\xc0"), "no text"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_metadata_that_is_broken(case: str) -> None:
    data, words = BROKEN[case]
    with pytest.raises(ElfError, match=words):
        elf.read(data)
    with pytest.raises(CodeObjectError):
        codeobject.read(data)


def test_a_real_code_object_is_well_below_the_limits() -> None:
    assert elf.read(FILE.read_bytes()).kernels[0].symbol == "scale"


@pytest.mark.parametrize(("name", "number"), [("kSharing", SHARING), ("kMostNotes", MOST_NOTES)])
def test_the_embedded_device_counts_alike(name: str, number: int) -> None:
    source = (ROOT / "csrc" / "emulator" / "machine" / "load" / "elf.cpp").read_text(encoding="utf-8")
    assert re.findall(rf"\b{name} = (\d+);", source) == [str(number)]
