"""Source lines: faults, findings and traces name them; the reader takes whatever bytes a file has."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import struct
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from emulator.test_clients import run
from support.assembly import code_object
from support.emulator import library_path
from support.hip_process import SUCCESS, Launch, launch, program
from support.hip_source import hip_object

SEED = int(os.environ.get("AITER_PREBUILT_TEST_SEED") or random.randrange(2**31))
ILLEGAL_ADDRESS, LAUNCH_FAILURE = 700, 719
FORMS = {
    "5": ("-gline-tables-only", "-gdwarf-5"), "4": ("-gline-tables-only", "-gdwarf-4"), "all of 5": ("-g", "-gdwarf-5"),
    "all of 4": ("-g", "-gdwarf-4"), "64 bits": ("-g", "-gdwarf-5", "-gdwarf64"),
}  # fmt: skip

#: #line makes numbers that do not move with the head that the text is compiled behind.
KERNELS = """
#line 100 "sub/kernels.hip"
__device__ inline __attribute__((always_inline)) void put(u32* to, u32 value) {
  to[0] = value;
}
__device__ inline __attribute__((always_inline)) void twice(u32* to, u32 value) {
  put(to, value + value);
}
extern "C" __global__ void kernel(u32* data, u32 at) {
  u32 item = __builtin_amdgcn_workitem_id_x();
  data[item] = item * 3;
  twice(data + at, item);
}
extern "C" __global__ void racing(u32* data, u32 at) {
  __shared__ volatile u32 shared[64];
  u32 item = __builtin_amdgcn_workitem_id_x();
  shared[item % 64] = item;
  data[item] = shared[(item + at) % 64];
}
"""


def lines(image: bytes) -> dict[str, Any]:
    """What the reader makes of a file, in a process of its own: a crash is a failed test."""
    (found,) = many([image])
    return found


_READ = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_lines.argtypes, lib.apb_emulator_lines.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_void_p
lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
data = sys.stdin.buffer.read()
while data:
    size = int.from_bytes(data[:8], "little")
    image, data = data[8 : 8 + size], data[8 + size :]
    text = lib.apb_emulator_lines(image, size)
    print(ctypes.string_at(text).decode())
    lib.apb_emulator_free(text)
"""


def many(images: list[bytes]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(library_path())],
        input=b"".join(struct.pack("<Q", len(image)) + image for image in images),
        capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(images)
    return found


def reference(image: bytes) -> tuple[dict[int, tuple[str, int, int]], int]:
    """Offset of each instruction's dword in the code: file name, line, column, as pyelftools reads the table."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    elf = elffile.ELFFile(BytesIO(image))
    (code,) = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_flags"] & 1]
    found: dict[int, tuple[str, int, int]] = {}
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        states = [entry.state for entry in program.get_entries() if entry.state is not None]
        for state, following in itertools.pairwise(states):
            if state.end_sequence:
                continue
            number = state.file if program.header["version"] >= 5 else state.file - 1
            name = program.header["file_entry"][number].name.decode()
            for address in range(state.address, following.address, 4):
                found[address - code["p_vaddr"]] = (name.split("/")[-1], state.line, state.column)
    return found, code["p_filesz"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_lines_are_those_that_another_reader_finds(target: str, form: str) -> None:
    image = hip_object(target, KERNELS, *FORMS[form])
    document = lines(image)
    assert any(name.endswith("sub/kernels.hip") and name.startswith("/") for name in document["files"])
    wanted, size = reference(image)
    assert len(wanted) > 20
    rows = document["lines"]
    bounds = [row["offset"] for row in rows] + [size]
    found = {}
    for row, end in zip(rows, bounds[1:], strict=True):
        for offset in range(row["offset"], end, 4):
            if row["frames"]:
                inner = row["frames"][0]
                found[offset] = (inner["file"].split("/")[-1], inner["line"], inner["column"])
    assert found == wanted


@pytest.mark.parametrize("form", FORMS)
def test_inlined_calls_are_named(form: str) -> None:
    document = lines(hip_object("gfx942", KERNELS, *FORMS[form]))
    chains = {tuple((f["function"], f["line"]) for f in row["frames"]) for row in document["lines"]}
    assert (("kernel", 108),) in chains
    assert (("put", 101), ("twice", 104), ("kernel", 109)) in chains


@pytest.mark.parametrize("form", FORMS)
def test_a_fault_names_its_line(form: str) -> None:
    image = hip_object("gfx942", KERNELS, *FORMS[form])
    arguments = [("buffer", bytes(256)), ("bytes", (1 << 20).to_bytes(4, "little"))]
    answer, log = launch(Launch(image, arguments))
    assert answer.status == ILLEGAL_ADDRESS
    assert re.search(
        r"` \(\S*/sub/kernels\.hip:101 in put, inlined at \S*/sub/kernels\.hip:104 in twice, "
        r"inlined at \S*/sub/kernels\.hip:109 in kernel\), workgroup", log
    ), log  # fmt: skip


def test_a_finding_names_its_line(tmp_path: Path) -> None:
    image = hip_object("gfx942", KERNELS, *FORMS["5"])
    source = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
with open(sys.argv[2], "rb") as file:
    assert lib.hipModuleLoadData(ctypes.byref(module), file.read()) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"racing") == 0
assert lib.hipMalloc(ctypes.byref(data), ctypes.c_size_t(512)) == 0
at = ctypes.c_uint(1)
params = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(at))
print(lib.hipModuleLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, None, params, None))
lib.apb_emulator_counters.restype = ctypes.c_char_p
print(lib.apb_emulator_counters().decode())
"""
    path = tmp_path / "kernels.co"
    path.write_bytes(image)
    out, log = program(source, str(path), checks="races,report")
    status, counters = out.splitlines()
    assert int(status) == SUCCESS
    assert re.search(r"found: kernel racing: LDS race .*kernels\.hip:114 in racing\)", log), log
    findings = json.loads(counters)["findings"]
    assert any(f["finding"] == "LDS race" and ":114 in racing" in f["source"] for f in findings)


def test_the_log_of_all_instructions_has_lines() -> None:
    image = hip_object("gfx942", KERNELS, *FORMS["5"])
    answer, log = launch(Launch(image, [("buffer", bytes(512)), ("bytes", bytes(4))]), log="trace")
    assert answer.status == SUCCESS
    assert re.search(r": global_store_dword .*  ; \S*kernels\.hip:108 in kernel\n", log), log


def test_code_without_lines_says_none() -> None:
    image = hip_object("gfx942", KERNELS)
    assert lines(image) == {"version": 1, "files": [], "lines": []}
    arguments = [("buffer", bytes(256)), ("bytes", (1 << 20).to_bytes(4, "little"))]
    answer, log = launch(Launch(image, arguments))
    assert answer.status == ILLEGAL_ADDRESS and "`, workgroup" in log
    assert lines(code_object("gfx942", "s_endpgm"))["lines"] == []


def sections(image: bytes) -> dict[str, tuple[int, int]]:
    elffile = pytest.importorskip("elftools.elf.elffile")
    return {
        s.name: (s["sh_offset"], s["sh_size"])
        for s in elffile.ELFFile(BytesIO(image)).iter_sections()
        if s.name.startswith(".debug_")
    }


@pytest.mark.parametrize("form", FORMS)
def test_damaged_sections_are_survived(form: str) -> None:
    """Every section cut short by zeros, or full of random bytes, in part or whole: the reader ends, and soon."""
    image, chance = hip_object("gfx942", KERNELS, *FORMS[form]), random.Random(SEED)
    damaged = []
    for offset, size in sections(image).values():
        for _ in range(60):
            broken = bytearray(image)
            first = chance.randrange(size)
            last = min(size, first + chance.choice((1, 2, 8, size)))
            how = chance.randrange(3)
            for at in range(offset + first, offset + last):
                broken[at] = (0, 0xFF, chance.randrange(256))[how]
            damaged.append(bytes(broken))
    found = many(damaged)
    assert all(document["version"] == 1 for document in found), SEED
    # Most damage leaves some lines right, and some damage is seen.
    whole = lines(image)["lines"]
    assert sum(document.get("lines") == whole for document in found) < len(found) - 20, SEED
    assert sum(bool(document.get("lines")) for document in found) > 20, SEED


def debug_headers(image: bytes) -> dict[str, int]:
    """Where the header of each debug section lies."""
    headers, (count, names) = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<HH", image, 60)
    text = struct.unpack_from("<Q", image, headers + names * 64 + 24)[0]
    found = {}
    for at in range(headers, headers + count * 64, 64):
        name = image[text + struct.unpack_from("<I", image, at)[0] :].split(b"\0", 1)[0].decode()
        if name.startswith(".debug_"):
            found[name] = at
    return found


def test_truncated_sections_are_survived() -> None:
    """Section headers that claim less than there is."""
    image = hip_object("gfx942", KERNELS, *FORMS["all of 5"])
    cut = []
    for at in debug_headers(image).values():
        (size,) = struct.unpack_from("<Q", image, at + 32)
        for left in range(0, size, max(1, size // 50)):
            broken = bytearray(image)
            struct.pack_into("<Q", broken, at + 32, left)
            cut.append(bytes(broken))
    assert len(cut) > 300
    found = many(cut)
    assert all(document["version"] == 1 for document in found)
    assert len({json.dumps(document) for document in found}) > 9


def test_what_units_share_is_not_read_for_each_of_them() -> None:
    """A megabyte of attributes that 50,000 units begin at another place of each: work is bounded by the bytes that there are."""
    broken = bytearray(hip_object("gfx942", KERNELS, *FORMS["all of 4"]))
    units = 50_000
    abbreviations = bytes([1, 0x11, 0]) + bytes([3, 3]) * (1 << 19) + bytes(8)
    info = b"".join(struct.pack("<IHIBB", 8, 4, 3 + 2 * number, 8, 0) for number in range(units))
    headers = debug_headers(bytes(broken))
    for name, contents in ((".debug_abbrev", abbreviations), (".debug_info", info)):
        struct.pack_into("<QQ", broken, headers[name] + 24, len(broken), len(contents))
        broken += contents
    start = time.monotonic()
    assert lines(bytes(broken))["lines"]
    assert time.monotonic() - start < 30


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_fault_of_a_triton_kernel_names_its_line(target: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    client = Path(__file__).parent / "clients" / "triton_lines.py"
    number = 1 + client.read_text().splitlines().index("    tl.store(out + at + far, at * value)  # here")
    environment = os.environ | {
        "AITER_PREBUILT_EMULATOR": target, "TRITON_LIBHIP_PATH": str(library_path()), "HOME": str(tmp_path),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(client), str(1 << 24)], env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.stdout == "right\n", done.stderr
    assert done.returncode != 0 and f"({client}:{number}), workgroup" in done.stderr, done.stderr


#: What is inlined lies in several pieces: the compiler mixes the three calls.
PIECES = """
#line 300 "pieces.hip"
__device__ inline __attribute__((always_inline)) float part(float a, float b) {
  float c = a * b;
  c += __builtin_sqrtf(a);
  return c / b;
}
extern "C" __global__ void kernel(float* data, u32 at) {
  u32 item = __builtin_amdgcn_workitem_id_x();
  float x = data[item], y = data[item + at];
  float p = part(x, y), q = part(y, x), r = part(p, q);
  data[item] = p + q * r;
}
"""


def pieces(image: bytes) -> set[tuple[int, int]]:
    """Begin and end in the file of what is inlined, as pyelftools reads DWARF 4."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    dwarf = elffile.ELFFile(BytesIO(image)).get_dwarf_info()
    lists, found = dwarf.range_lists(), set()
    for unit in dwarf.iter_CUs():
        low = unit.get_top_DIE().attributes["DW_AT_low_pc"].value
        for entry in unit.iter_DIEs():
            if entry.tag != "DW_TAG_inlined_subroutine" or "DW_AT_ranges" not in entry.attributes:
                continue
            for piece in lists.get_range_list_at_offset(entry.attributes["DW_AT_ranges"].value, unit):
                found.add((low + piece.begin_offset, low + piece.end_offset))
    return found


def calls(image: bytes) -> dict[int, tuple[tuple[str, int], ...]]:
    """By offset of a dword, functions and lines from the line to the kernel."""
    document, found = lines(image), {}
    size = reference(image)[1]
    bounds = [row["offset"] for row in document["lines"]] + [size]
    for row, end in zip(document["lines"], bounds[1:], strict=True):
        for offset in range(row["offset"], end, 4):
            found[offset] = tuple((frame["function"], frame["line"]) for frame in row["frames"])
    return found


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_what_is_inlined_in_several_pieces(target: str) -> None:
    image = hip_object(target, PIECES, *FORMS["all of 4"])
    elffile = pytest.importorskip("elftools.elf.elffile")
    elf = elffile.ELFFile(BytesIO(image))
    (code,) = [s["p_vaddr"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_flags"] & 1]
    wanted = pieces(image)
    assert len(wanted) >= 6
    inlined = {offset for first, last in wanted for offset in range(first - code, last - code, 4)}
    found = calls(image)
    assert {offset for offset, chain in found.items() if len(chain) > 1} == inlined
    assert {chain[1] for chain in found.values() if len(chain) > 1} == {("kernel", 308)}
    for form, flags in FORMS.items():
        assert calls(hip_object(target, PIECES, *flags)) == found, form


@pytest.mark.slow
def test_flydsls_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1``: stores come from the lines that store."""
    pytest.importorskip("flydsl")
    kernels = Path(__file__).resolve().parents[2] / "csrc" / "kernels" / "flydsl" / "softmax.py"
    trace = tmp_path / "trace"
    for name, value in {
        "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1", "AITER_PREBUILT_EMULATOR_TRACE_FILE": str(trace),
        "AITER_PREBUILT_EMULATOR_TRACE": "class=vmem_store,registers=no,format=json,workgroup=0:0:0",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    client = Path(__file__).parent / "clients" / "flydsl_client.py"
    assert run([str(client), str(kernels), "gfx942"], "gfx942", tmp_path).split()[-1] == "right"
    sources = {json.loads(line)["source"] for line in trace.read_text().splitlines()}
    assert sources
    for source in sources:
        match = re.fullmatch(rf"{re.escape(str(kernels))}:(\d+) in softmax_rows", source)
        assert match and "store" in kernels.read_text().splitlines()[int(match[1]) - 1], source
