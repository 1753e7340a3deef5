"""GLOBAL, FLAT and SCRATCH instructions of the embedded device, against the model of ``memory_model``."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from support.device_memory import region
from support.memory_model import LANES, LOADS, STORES, loaded, stored
from support.one_wave import ALL, M0, Result, run_wave

TARGETS = ("gfx942", "gfx950")
END = "\ns_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm"
SIZE = 8192
S_ENDPGM = 0xBF810000
ILLEGAL_ADDRESS, MISALIGNED, LDS_OUT_OF_BOUNDS = 2, 3, 4


@pytest.fixture
def rng(record_property: Callable[[str, object], None]) -> random.Random:
    """Fresh numbers for every run; the seed is in the report."""
    seed = random.SystemRandom().getrandbits(32)
    record_property("seed", seed)
    return random.Random(seed)


def masks(rng: random.Random) -> tuple[int, ...]:
    """EXEC values: all lanes, a tail, one lane, some lanes."""
    return ALL, (1 << rng.randrange(1, 64)) - 1, 1 << rng.randrange(64), rng.getrandbits(64)


def rows(rng: random.Random, number: int) -> list[list[int]]:
    """Registers of garbage."""
    return [[rng.getrandbits(32) for _ in range(LANES)] for _ in range(number)]


def registers(name: str, first: int, dwords: int) -> str:
    """``v4`` or ``v[4:7]``."""
    return f"{name}{first}" if dwords == 1 else f"{name}[{first}:{first + dwords - 1}]"


def spread(rng: random.Random, size: int, access: int, contiguous: bool) -> list[int]:
    """Byte offsets of 64 lanes inside ``size`` bytes, at any alignment."""
    if contiguous:
        first = rng.randrange(size - LANES * access)
        return [first + lane * access for lane in range(LANES)]
    return [rng.randrange(size - access + 1) for _ in range(LANES)]


def active(execute: int) -> list[int]:
    return [lane for lane in range(LANES) if execute >> lane & 1]


def check_load(result: Result, row: int, before: list[list[int]], expected: dict[int, list[int]]) -> None:
    """Lanes in ``expected`` have these registers, all others what was there."""
    assert result.message == ""
    for d, old in enumerate(before):
        want = [expected[lane][d] if lane in expected else old[lane] for lane in range(LANES)]
        assert result.row(row + d) == want


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize("where", ["v", "a"])
def test_global_load(target: str, kind: str, where: str, rng: random.Random) -> None:
    """64-bit addresses and SGPR base + 32-bit offset; the instruction's offset has a sign."""
    size, sign, half = LOADS[kind]
    dwords = max(size // 4, 1)
    contents = rng.randbytes(SIZE)
    row = 4 if where == "v" else 256 + 4
    data = registers(where, 4, dwords)
    offset = rng.choice((0, -4096, 4095, rng.randrange(-4096, 4096)))
    with region(contents) as memory:
        for execute in masks(rng):
            for contiguous in (True, False):
                at = spread(rng, SIZE, size, contiguous)
                expected = {
                    lane: loaded(contents[at[lane] : at[lane] + size], sign, half) for lane in active(execute)
                }
                before = rows(rng, dwords)
                vector = {row + d: before[d] for d in range(dwords)}
                wild = rng.getrandbits(64)  # lanes that are off may hold anything
                full = [
                    memory.address + at[lane] - offset if execute >> lane & 1 else wild
                    for lane in range(LANES)
                ]
                vector |= {0: [v & 0xFFFFFFFF for v in full], 1: [v >> 32 for v in full]}
                done = run_wave(
                    target,
                    f"global_load_{kind} {data}, v[0:1], off offset:{offset}" + END,
                    vector=vector,
                    execute=execute,
                )
                check_load(done, row, before, expected)
                # The VGPR is unsigned: 0x80000000 and more are not negative.
                base = memory.address - 0x80000000 - offset
                vector[0] = [0x80000000 + at[lane] for lane in range(LANES)]
                done = run_wave(
                    target, f"global_load_{kind} {data}, v0, s[2:3] offset:{offset}" + END,
                    vector=vector, scalar={2: base, 3: base >> 32}, execute=execute,
                )  # fmt: skip
                check_load(done, row, before, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("where", ["v", "a"])
def test_global_store(target: str, kind: str, where: str, rng: random.Random) -> None:
    """Lanes that overlap write in their order; bytes around stay."""
    size, first_bit = STORES[kind]
    dwords = max(size // 4, 1)
    row, data = (4 if where == "v" else 260), registers(where, 4, dwords)
    offset = rng.randrange(-4096, 4096)
    for execute in masks(rng):
        for contiguous in (True, False):
            at = spread(rng, SIZE, size, contiguous)
            values = rows(rng, dwords)
            wanted = bytearray(rng.randbytes(SIZE))
            with region(bytes(wanted)) as memory:
                for lane in active(execute):
                    wanted[at[lane] : at[lane] + size] = stored(
                        [value[lane] for value in values], size, first_bit
                    )
                full = [memory.address + v - offset for v in at]
                vector = {row + d: values[d] for d in range(dwords)} | {
                    0: [v & 0xFFFFFFFF for v in full],
                    1: [v >> 32 for v in full],
                }
                done = run_wave(
                    target,
                    f"global_store_{kind} v[0:1], {data}, off offset:{offset}" + END,
                    vector=vector,
                    execute=execute,
                )
                assert done.message == ""
                assert memory.read() == bytes(wanted)


@pytest.mark.parametrize("kind", ["ubyte", "dword", "dwordx3", "dwordx4"])
def test_global_bounds(kind: str, rng: random.Random) -> None:
    """The last bytes of an allocation are in; one byte further is a fault that names lane and address."""
    size = LOADS[kind][0]
    dwords = max(size // 4, 1)
    with region(rng.randbytes(1000)) as memory:
        lane = rng.randrange(LANES)
        for beyond in (0, 1, -1000 + size - 1):
            at = memory.address + 1000 - size + beyond
            low, high = [memory.address & 0xFFFFFFFF] * LANES, [memory.address >> 32] * LANES
            low[lane], high[lane] = at & 0xFFFFFFFF, at >> 32
            done = run_wave(
                "gfx942",
                f"global_load_{kind} {registers('v', 4, dwords)}, v[0:1], off" + END,
                vector={0: low, 1: high},
            )
            assert done.fault == (ILLEGAL_ADDRESS if beyond else 0), done.message
            if beyond:
                assert f"lane {lane}" in done.message
                assert f"{at:x}" in done.message
    done = run_wave("gfx942", "global_store_dword v[0:1], v2, off" + END)
    assert done.fault == ILLEGAL_ADDRESS  # null


@pytest.mark.parametrize("target", TARGETS)
def test_flat_goes_to_lds_scratch_and_memory(target: str, rng: random.Random) -> None:
    """One instruction whose lanes point to all three."""
    contents, shared = rng.randbytes(SIZE), rng.randbytes(4096)
    kinds = [rng.randrange(3) for _ in range(LANES)]
    at = [rng.randrange(0, 1000) for _ in range(LANES)]
    private = rng.getrandbits(32)
    source = """
s_mov_b64 s[4:5], src_shared_base
s_mov_b64 s[6:7], src_private_base
v_mov_b32 v6, s5
v_mov_b32 v7, s7
v_cmp_eq_u32 vcc, 1, v3
v_cndmask_b32 v1, v1, v6, vcc
v_cmp_eq_u32 vcc, 2, v3
v_cndmask_b32 v1, v1, v7, vcc
scratch_store_dword v2, v5, off
flat_load_dword v4, v[0:1] offset:8
flat_store_dword v[8:9], v4
"""
    with region(contents) as memory, region(bytes(4 * LANES)) as out:
        low = [
            (memory.address + v if kind == 0 else v) & 0xFFFFFFFF for kind, v in zip(kinds, at, strict=True)
        ]
        to = [out.address + 4 * lane for lane in range(LANES)]
        vector = {
            0: low, 1: [memory.address >> 32] * LANES, 2: [v + 8 for v in at], 3: kinds,
            5: [private ^ lane for lane in range(LANES)],
            8: [v & 0xFFFFFFFF for v in to], 9: [v >> 32 for v in to],
        }  # fmt: skip
        done = run_wave(target, source + END, vector=vector, lds=shared)
        assert done.message == ""
        wanted = []
        for lane, (kind, v) in enumerate(zip(kinds, at, strict=True)):
            wanted.append(
                private ^ lane if kind == 2 else struct.unpack_from("<I", (contents, shared)[kind], v + 8)[0]
            )
        assert done.row(4) == wanted
        assert struct.unpack(f"<{LANES}I", out.read()) == tuple(wanted)


def test_flat_offsets_have_no_sign(rng: random.Random) -> None:
    """12 bits, up to 4095."""
    contents = rng.randbytes(SIZE)
    with region(contents) as memory:
        vector = {
            0: [(memory.address + lane) & 0xFFFFFFFF for lane in range(LANES)],
            1: [memory.address >> 32] * LANES,
        }
        done = run_wave("gfx942", "flat_load_dword v4, v[0:1] offset:4095" + END, vector=vector)
        assert done.message == ""
        assert done.row(4) == [struct.unpack_from("<I", contents, 4095 + lane)[0] for lane in range(LANES)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("vaddr", "saddr", "offset", "constant"),
    [("v0", "off", 12, 12), ("off", "s2", -8, 292), ("v0", "s2", 20, 320), ("off", "off", 64, 64)],
)
def test_scratch_addresses(
    target: str, vaddr: str, saddr: str, offset: int, constant: int, rng: random.Random
) -> None:
    """All four modes reach the same private bytes as the simplest one."""
    vector = {0: [rng.randrange(0, 2000) for _ in range(LANES)], 6: rows(rng, 1)[0], 7: rows(rng, 1)[0]}
    vector[1] = [constant + (vector[0][lane] if vaddr == "v0" else 0) for lane in range(LANES)]
    source = f"""
scratch_store_dwordx2 {vaddr}, v[6:7], {saddr} offset:{offset}
scratch_load_dwordx2 v[8:9], v1, off
scratch_load_ushort v10, {vaddr}, {saddr} offset:{offset}
"""
    execute = rng.getrandbits(64) | 1
    done = run_wave(target, source + END, vector=vector, scalar={2: 300}, execute=execute)
    assert done.message == ""
    for lane in active(execute):
        assert (done.row(8)[lane], done.row(9)[lane]) == (vector[6][lane], vector[7][lane])
        assert done.row(10)[lane] == vector[6][lane] & 0xFFFF


def test_scratch_bounds() -> None:
    """Before the first and behind the last byte of a lane (4096 here): a fault, not the neighbour's memory."""
    for offset, fault in ((-4, True), (1 << 20, True), (4092, False), (4093, True), (4096, True)):
        vector = {0: [offset & 0xFFFFFFFF] * LANES}
        done = run_wave("gfx942", "scratch_load_dword v4, v0, off" + END, vector=vector, execute=1 << 5)
        assert done.fault == (ILLEGAL_ADDRESS if fault else 0)
        if fault:
            assert "lane 5" in done.message


@pytest.mark.parametrize(
    ("target", "kind", "stride"),
    [
        ("gfx942", "ubyte", 4), ("gfx942", "sshort", 4), ("gfx942", "dword", 4), ("gfx950", "sbyte", 4), ("gfx950", "ushort", 4),
        ("gfx950", "dword", 4), ("gfx950", "dwordx3", 16), ("gfx950", "dwordx4", 16),
    ],
)  # fmt: skip
def test_global_load_to_lds(target: str, kind: str, stride: int, rng: random.Random) -> None:
    """LDS address = M0[17:2] * 4 + offset + lane * 4 (16 for three and four dwords); the offset counts for memory too."""
    size, sign, half = LOADS[kind]
    contents, shared = rng.randbytes(SIZE), rng.randbytes(4096)
    offset = 4 * rng.randrange(0, 64)
    with region(contents) as memory:
        for execute in masks(rng):
            m0 = 4 * rng.randrange(0, 400)
            at = spread(rng, SIZE, size, rng.random() < 0.5)
            full = [memory.address + v - offset for v in at]
            wanted = bytearray(shared)
            for lane in active(execute):
                data = b"".join(
                    struct.pack("<I", v) for v in loaded(contents[at[lane] : at[lane] + size], sign, half)
                )
                begin = m0 + offset + lane * stride
                wanted[begin : begin + len(data)] = data
            done = run_wave(
                target, f"global_load_lds_{kind} v[0:1], off offset:{offset}" + END, lds=shared, execute=execute,
                vector={0: [v & 0xFFFFFFFF for v in full], 1: [v >> 32 for v in full]}, scalar={M0: m0 | 3},
            )  # fmt: skip
            assert done.message == ""
            assert done.lds == bytes(wanted)
        done = run_wave(
            target, f"global_load_lds_{kind} v[0:1], off" + END, lds=shared, scalar={M0: 4096 - stride * 10},
            vector={0: [memory.address & 0xFFFFFFFF] * LANES, 1: [memory.address >> 32] * LANES},
        )  # fmt: skip
        assert done.fault == LDS_OUT_OF_BOUNDS
        assert "lane 10" in done.message


@pytest.mark.parametrize("target", TARGETS)
def test_every_memory_mnemonic_is_executed(target: str) -> None:
    """With EXEC 0 an instruction does nothing, unless it is unknown. Encodings are built from AMD's opcode numbers."""
    enum = pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.enum")
    encodings: dict[str, Callable[[int], tuple[int, int]]] = {
        "DSOp": lambda op: (0xD8000000 | op << 17, 0),
        "FLATOp": lambda op: (0xDC000000 | op << 18, 0x7F << 16),
        "SCRATCHOp": lambda op: (0xDC000000 | op << 18 | 1 << 14, 0x7F << 16),
        "GLOBALOp": lambda op: (0xDC000000 | op << 18 | 2 << 14, 0x7F << 16),
        "MUBUFOp": lambda op: (0xE0000000 | op << 18, 0x80 << 24),
        "MTBUFOp": lambda op: (0xE8000000 | op << 15, 0x80 << 24),
    }
    unknown = {
        member.name
        for kind, encoding in encodings.items()
        for member in getattr(enum, kind)
        if run_wave(target, (*encoding(member.value), S_ENDPGM), execute=0).fault
    }
    # Global wave sync is a resource that a driver must hand out.
    expected = {"DS_GWS_SEMA_RELEASE_ALL", "DS_GWS_SEMA_V", "DS_GWS_SEMA_P"}
    if target == "gfx942":  # new in gfx950
        expected |= {"DS_READ_B64_TR_B4", "DS_READ_B96_TR_B6", "DS_READ_B64_TR_B8", "DS_READ_B64_TR_B16"}
        expected |= {"GLOBAL_LOAD_LDS_DWORDX3", "GLOBAL_LOAD_LDS_DWORDX4", "BUFFER_ATOMIC_PK_ADD_BF16"}
    assert unknown == expected
