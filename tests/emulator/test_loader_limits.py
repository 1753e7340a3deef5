"""Code objects that are made to be loaded slowly: each is refused, or loaded, in time in proportion to its size."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.hip_process import INVALID_IMAGE, SUCCESS, program
from support.linked import PLAIN, kernel_source, link, metadata

LOAD, DYNAMIC, NOTE = 1, 2, 4
MOST = 65535
HEADER, PROGRAM, SYMBOL = 64, 56, 24

_LOAD = """
import ctypes, sys, time
lib = ctypes.CDLL(sys.argv[1])
image = open(sys.argv[2], "rb").read()
assert lib.hipInit(0) == 0
module, function = ctypes.c_void_p(), ctypes.c_void_p()
start = time.process_time()
code = lib.hipModuleLoadData(ctypes.byref(module), image)
print(code, time.process_time() - start)
"""


def load(image: bytes, folder: Path) -> tuple[int, float, str]:
    """HIP's code, seconds, and the log."""
    path = folder / "image.co"
    path.write_bytes(image)
    out, log = program(_LOAD, str(path))
    code, seconds = out.split()
    return int(code), float(seconds), log


def plain() -> bytes:
    return link("gfx942", kernel_source("s_endpgm") + metadata([]))


def headers(image: bytes) -> list[bytes]:
    """The program headers."""
    (at,), (count,) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<H", image, 56)
    return [image[at + place * PROGRAM :][:PROGRAM] for place in range(count)]


def with_headers(image: bytes, rows: list[bytes]) -> bytes:
    """The image with these program headers, which stand behind everything; it has no section headers."""
    changed = bytearray(image) + bytes(-len(image) % 8)
    struct.pack_into("<QQ", changed, 32, len(changed), 0)
    struct.pack_into("<H", changed, 56, len(rows))
    struct.pack_into("<HHH", changed, 58, 64, 0, 0)
    return bytes(changed) + b"".join(rows)


def note(at: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", NOTE, 4, at, at, at, size, size, 4)


def test_the_image_as_it_is_and_with_other_headers(tmp_path: Path) -> None:
    """So that the images below are refused for their own reason."""
    assert load(plain(), tmp_path)[0] == SUCCESS
    assert load(with_headers(plain(), headers(plain())), tmp_path)[0] == SUCCESS


def test_as_many_note_segments_as_there_can_be(tmp_path: Path) -> None:
    """All of them the same four megabytes of empty notes."""
    image = plain()
    notes = bytes(12) * 350_000
    rows = headers(image)
    rows += [note(len(image), len(notes))] * (MOST - len(rows))
    code, seconds, log = load(with_headers(image + notes, rows), tmp_path)
    assert code == INVALID_IMAGE and "note segments overlap" in log
    assert seconds < 2, "minutes, without a limit"


def test_as_many_notes_in_one_segment(tmp_path: Path) -> None:
    image = plain()
    notes = struct.pack("<III", 0, 0, 1) * 3_000_000
    code, seconds, _ = load(
        with_headers(image + notes, [*headers(image), note(len(image), len(notes))]), tmp_path
    )
    assert code == SUCCESS and seconds < 2


def test_symbols_that_all_have_the_same_long_name(tmp_path: Path) -> None:
    """In a .symtab of 100,000 symbols, each with four megabytes of name: without it the file still loads."""
    image = plain()
    image += bytes(-len(image) % 8)
    strings = b"\0" + b"x" * (4 << 20) + b"\0"
    strings += bytes(-len(strings) % 8)
    symbols = b"".join(struct.pack("<IBBHQQ", 1 + place, 2, 0, 1, 0, 0) for place in range(100_000))
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, link_to, 0, 8, entry)
        for kind, at, size, link_to, entry in (
            (0, 0, 0, 0, 0),
            (2, len(image) + len(strings), len(symbols), 2, SYMBOL),
            (3, len(image), len(strings), 0, 0),
        )
    )
    changed = bytearray(image + strings + symbols)
    struct.pack_into("<Q", changed, 40, len(changed))
    struct.pack_into("<HHH", changed, 58, 64, 3, 0)
    code, seconds, _ = load(bytes(changed) + table, tmp_path)
    assert code == SUCCESS and seconds < 2, seconds


@pytest.mark.parametrize("kernels", [3000])
def test_many_kernels(tmp_path: Path, kernels: int) -> None:
    """Each is looked up by its name, and its code is looked at once."""
    source = "".join(kernel_source("s_endpgm", name=f"k{n}", descriptor=PLAIN) for n in range(kernels))
    code, seconds, _ = load(link("gfx942", source + metadata([], name="k7")), tmp_path)
    assert code == SUCCESS and seconds < 2


def test_kernels_that_share_too_much_code(tmp_path: Path) -> None:
    """20,000 names of one descriptor, whose kernel has a megabyte of code."""
    body = ".fill 250000, 4, 0xbf800000\ns_endpgm"
    source = kernel_source(body) + "".join(
        f".globl k{n}.kd\n.type k{n}.kd,@object\n.set k{n}.kd, kernel.kd\n.size k{n}.kd, 64\n"
        for n in range(20_000)
    )
    code, seconds, _ = load(link("gfx942", source + metadata([])), tmp_path)
    assert code == SUCCESS and seconds < 10, seconds
