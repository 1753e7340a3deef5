"""The loader of the embedded device: what it takes, what it refuses and in which words, and that broken files are only errors."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from support.hip_process import INVALID_IMAGE, NO_BINARY, SUCCESS, Launch, launch, launches, program
from support.linked import PLAIN, bundle, kernel_source, link, metadata

TARGETS = ("gfx942", "gfx950")
SEED = int(os.environ.get("AITER_PREBUILT_TEST_SEED") or random.randrange(2**31))
DATA = Path(__file__).with_name("data")

#: data[item] = item of the grid, 64 items a block.
_FILL = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    v_lshl_add_u32 v2, s2, 6, v0
    s_lshl_b32 s3, s2, 8
    s_waitcnt lgkmcnt(0)
    s_add_u32 s4, s4, s3
    s_addc_u32 s5, s5, 0
    global_store_dword v1, v2, s[4:5]
    s_endpgm
"""
_BUFFER = [(0, 8, "global_buffer")]


def fill(target: str, version: int = 5) -> bytes:
    return link(target, kernel_source(_FILL) + metadata(_BUFFER), version)


def numbers(count: int) -> list[int]:
    return list(range(count))


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("target", TARGETS)
def test_code_object_versions(target: str, version: int) -> None:
    answer, log = launch(
        Launch(fill(target, version), [("buffer", bytes(512))], grid=(2, 1, 1)), devices=target
    )
    assert answer.status == SUCCESS and answer.words() == numbers(128) and not log


def test_two_devices_each_take_their_own() -> None:
    requests = [Launch(fill(t), [("buffer", bytes(256))], device=i) for i, t in enumerate(TARGETS)]
    requests.append(Launch(fill("gfx950"), [("buffer", bytes(256))], device=0))
    answers, log = launches(requests, devices=",".join(TARGETS))
    assert [a.loaded for a in answers] == [SUCCESS, SUCCESS, NO_BINARY]
    assert all(a.words() == numbers(64) for a in answers[:2])
    assert "the code object is for gfx950, the device is gfx942:sramecc+:xnack-" in log


@pytest.mark.parametrize(
    ("target", "fits"),
    [
        ("gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack-", True),
        ("gfx942:sramecc-", False),
        ("gfx942:xnack+", False),
    ],
)
def test_target_features(target: str, fits: bool) -> None:
    answer, log = launch(Launch(fill(target), [("buffer", bytes(256))]))
    assert (answer.loaded == SUCCESS) is fits
    if not fits:
        assert f"the code object is for {target}, the device is gfx942:sramecc+:xnack-" in log


def test_another_processor_is_named() -> None:
    image = bytearray(fill("gfx942"))
    image[48] = 0x41  # EF_AMDGPU_MACH of gfx1100
    answer, log = launch(Launch(bytes(image)))
    assert answer.loaded == NO_BINARY and "gfx1100" in log and "gfx942" in log


_GLOBALS = """
.data
.globl table
.type table,@object
.p2align 3
table:
  .quad number          // R_AMDGPU_ABS64
  .quad table + 8       // and one with an addend
  .quad hidden
.size table, 24
.globl number
.type number,@object
.p2align 2
number:
  .long 41
.size number, 4
hidden:
  .long 7
.bss
.globl zeros
.type zeros,@object
.p2align 3
zeros:
  .zero 4096
.size zeros, 4096
"""

#: Reads the pointer to `number` out of `table`, stores number + 1 through it and into data.
_USE = """
    s_getpc_b64 s[6:7]
    s_add_u32 s6, s6, table@rel32@lo+4
    s_addc_u32 s7, s7, table@rel32@hi+12
    s_load_dwordx2 s[8:9], s[6:7], 0x0
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    s_load_dword s10, s[8:9], 0x0
    s_waitcnt lgkmcnt(0)
    s_add_u32 s10, s10, 1
    v_mov_b32_e32 v0, 0
    v_mov_b32_e32 v1, s10
    global_store_dword v0, v1, s[8:9]
    global_store_dword v0, v1, s[4:5]
    s_endpgm
"""


@pytest.mark.parametrize("target", TARGETS)
def test_relocations_and_globals(target: str) -> None:
    source = kernel_source(_USE).replace("table@rel32", "table_here@rel32") + _GLOBALS
    source = source.replace("table:\n", "table:\ntable_here:\n") + metadata(_BUFFER)
    request = Launch(link(target, source), [("buffer", bytes(4))])
    answers, log = launches([request], ["table", "number", "zeros", "kernel.kd", "missing"], devices=target)
    answer = answers[0]
    assert answer.status == SUCCESS and answer.words() == [42], log
    assert answer.globals["number"] == (42).to_bytes(4, "little")
    assert answer.globals["zeros"] == bytes(4096)
    pointers = [int.from_bytes(answer.globals["table"][i : i + 8], "little") for i in (0, 8, 16)]
    # number stands 24 bytes behind the table, hidden behind that; table[1] points to itself.
    assert pointers[0] - pointers[1] == 16 and pointers[2] - pointers[0] == 4
    assert set(answer.globals) == {"table", "number", "zeros"}


def test_undefined_symbol_is_named() -> None:
    source = (
        kernel_source(_FILL) + ".data\n.globl nobody_has_this\n.quad nobody_has_this\n" + metadata(_BUFFER)
    )
    answer, log = launch(Launch(link("gfx942", source, undefined=True)))
    assert answer.loaded == INVALID_IMAGE and "undefined symbol 'nobody_has_this'" in log


def test_missing_kernel_is_named() -> None:
    answer, log = launch(Launch(fill("gfx942"), kernel="another"))
    assert answer.loaded == SUCCESS and answer.found != SUCCESS and "another" in log


def test_kernel_without_metadata_is_found_by_its_descriptor() -> None:
    image = link("gfx942", kernel_source(_FILL, descriptor=(*PLAIN, "kernarg_size 8")))
    answer, log = launch(Launch(image, [("buffer", bytes(256))], packed=True))
    assert answer.status == SUCCESS and answer.words() == numbers(64), log


def test_descriptor_that_the_metadata_names_must_be_there() -> None:
    image = fill("gfx942").replace(b"kernel.kd", b"kernel.zz", 1)
    answer, log = launch(Launch(image))
    assert answer.loaded == INVALID_IMAGE and "kernel" in log


def test_sections_headers_are_not_needed() -> None:
    image = bytearray(fill("gfx942"))
    image[40:48] = bytes(8)  # e_shoff
    image[60:64] = bytes(4)  # e_shnum, e_shstrndx
    answer, log = launch(Launch(bytes(image), [("buffer", bytes(256))]))
    assert answer.status == SUCCESS and answer.words() == numbers(64), log


def test_bundles() -> None:
    pieces = {t: fill(t) for t in TARGETS}
    whole = [("host-x86_64-unknown-linux--", b"")] + [
        (f"hipv4-amdgcn-amd-amdhsa--{t}", d) for t, d in pieces.items()
    ]
    featured = [
        ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack+", b"x"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack-", pieces["gfx942"]),
    ]
    for entries in (whole, featured):
        answer, log = launch(Launch(bundle(entries), [("buffer", bytes(256))]))
        assert answer.status == SUCCESS and answer.words() == numbers(64), log
    answer, log = launch(Launch(bundle(whole[:1] + whole[2:]), [("buffer", bytes(256))]))
    assert answer.loaded == NO_BINARY and "gfx942" in log and "hipv4-amdgcn-amd-amdhsa--gfx950" in log
    answer, log = launch(Launch(b"CCOB" + bytes(60)))
    assert answer.loaded != SUCCESS and "compressed offload bundle" in log


@pytest.mark.parametrize(
    "image", [b"", b"\x7fELF", b"MZ" + bytes(100), bytes(4096), b"\x7fELF\x02\x01\x01@\x03" + bytes(55)]
)
def test_no_code_object(image: bytes) -> None:
    answer, log = launch(Launch(image))
    assert answer.loaded not in (SUCCESS, -1) and log


def test_register_beyond_the_descriptor() -> None:
    image = link("gfx942", kernel_source("v_mov_b32_e32 v40, v0\ns_endpgm") + metadata([]))
    answer, log = launch(Launch(image))
    assert answer.status not in (SUCCESS, -1)
    assert "illegal register" in log and "v40" in log and "32 VGPRs" in log and "kernel" in log


def test_vector_and_accumulation_names_of_one_register() -> None:
    # 32 registers, accum_offset 16: v20 is a4.
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v20, v0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    v_accvgpr_read_b32 v2, a4
    global_store_dword v1, v2, s[4:5]
    s_endpgm
    """
    answer, log = launch(
        Launch(link("gfx942", kernel_source(body) + metadata(_BUFFER)), [("buffer", bytes(256))])
    )
    assert answer.status == SUCCESS and answer.words() == numbers(64), log


def test_unknown_instruction_faults_only_when_executed() -> None:
    def body(jump: str) -> str:
        return _FILL.replace("s_endpgm", f"{jump}\n.long 0xffffffff\n.Lend: s_endpgm")

    images = [
        link("gfx942", kernel_source(body(jump)) + metadata(_BUFFER))
        for jump in ("s_branch .Lend", "s_nop 0")
    ]
    jumped, fell = launches([Launch(image, [("buffer", bytes(256))]) for image in images])[0]
    assert jumped.status == SUCCESS and jumped.words() == numbers(64)
    assert fell.status not in (SUCCESS, -1)


def corpus() -> dict[str, bytes]:
    """The small files under ``data`` by name; ``data/README.md`` says what each is."""
    files = {
        path.name: path.read_bytes() for path in sorted(DATA.iterdir()) if path.suffix in (".co", ".bundle")
    }
    assert files
    return files


def test_the_corpus_loads() -> None:
    for name, image in corpus().items():
        device = 1 if "gfx950" in name else 0
        answer, log = launch(Launch(image, device=device, kernel="-"), devices="gfx942,gfx950")
        assert answer.loaded == SUCCESS, (name, log)


#: argv: library, seed, count, file. Changes bytes, words and lengths at random and loads what comes out, through the
#: module API and the coverage API. Every refusal must have words.
_FUZZ = r"""
import ctypes, json, random, sys
lib = ctypes.CDLL(sys.argv[1])
rng, count, seeds = random.Random(int(sys.argv[2])), int(sys.argv[3]), [open(p, "rb").read() for p in sys.argv[4:]]
lib.apb_emulator_coverage.restype = ctypes.c_void_p
lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
assert lib.hipInit(0) == 0
spots = (0, 1, 0x7f, 0x80, 0xff)
def change(data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(1024, len(data)))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice(spots)
        elif kind == 2:
            at = at & ~7
            word = rng.choice((0, 1, 2**63, 2**64 - 1, 2**32 - 1, len(data), rng.getrandbits(64)))
            data[at:at + 8] = word.to_bytes(8, "little")
        elif rng.random() < 0.2:
            del data[rng.randrange(len(data)):]
            if not data:
                return b""
    return bytes(data)
loaded = refused = 0
for _ in range(count):
    image = change(rng.choice(seeds))
    text = lib.apb_emulator_coverage(image, ctypes.c_size_t(len(image)))
    document = json.loads(ctypes.string_at(text))
    lib.apb_emulator_free(text)
    assert document.get("error") or document["instructions"] is not None, document
    module = ctypes.c_void_p()
    if lib.hipModuleLoadData(ctypes.byref(module), image) == 0:
        loaded += 1
        assert lib.hipModuleUnload(module) == 0
    else:
        refused += 1
print(loaded, refused)
"""


def test_changed_files_are_errors_and_never_a_crash() -> None:
    files = [str(DATA / name) for name in corpus()]
    out, log = program(_FUZZ, str(SEED), "2000", *files, log="error")
    loaded, refused = map(int, out.split())
    assert loaded > 50 and refused > 50, (SEED, out)
    assert len(log.splitlines()) >= refused, SEED


def test_every_truncation_is_an_error() -> None:
    source = r"""
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_coverage.restype = ctypes.c_void_p
image = open(sys.argv[2], "rb").read()
for size in range(len(image)):
    document = json.loads(ctypes.string_at(lib.apb_emulator_coverage(image[:size], ctypes.c_size_t(size))))
    print(size, "error" in document)
"""
    path = next(DATA.glob("*.co"))
    image = path.read_bytes()
    headers, count = int.from_bytes(image[32:40], "little"), int.from_bytes(image[56:58], "little")
    rows = [struct.unpack_from("<IIQQQQQQ", image, headers + 56 * i) for i in range(count)]
    # Behind the last segment are section headers and symbols of debuggers, which loading does not need.
    needed = max(offset + size for kind, _, offset, _, _, size, _, _ in rows if kind == 1)
    out, _ = program(source, str(path))
    refused = [verdict == "True" for _, verdict in (line.split() for line in out.splitlines())]
    assert len(refused) == len(image) and all(refused[:needed]) and not any(refused[needed:])
