"""DS instructions of the embedded device: reads, writes, lane exchange, transposing reads, counters, bounds."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from support.memory_model import LANES, Row, loaded, stored, swizzled_lane, transposed
from support.one_wave import ALL, M0, run_wave

END = "\ns_waitcnt lgkmcnt(0)\ns_endpgm"
TARGETS = ("gfx942", "gfx950")
SIZE = 16384
UNKNOWN, MISALIGNED, LDS_OUT_OF_BOUNDS = 1, 3, 4

READS = {
    "u8": (1, False, 0), "i8": (1, True, 0), "u16": (2, False, 0), "i16": (2, True, 0),
    "u8_d16": (1, False, 1), "u8_d16_hi": (1, False, 2), "i8_d16": (1, True, 1), "i8_d16_hi": (1, True, 2),
    "u16_d16": (2, False, 1), "u16_d16_hi": (2, False, 2),
    "b32": (4, False, 0), "b64": (8, False, 0), "b96": (12, False, 0), "b128": (16, False, 0),
}  # fmt: skip
WRITES = {
    "b8": (1, 0),
    "b8_d16_hi": (1, 16),
    "b16": (2, 0),
    "b16_d16_hi": (2, 16),
    "b32": (4, 0),
    "b64": (8, 0),
    "b96": (12, 0),
    "b128": (16, 0),
}


@pytest.fixture
def rng(record_property: Callable[[str, object], None]) -> random.Random:
    """Fresh numbers for every run; the seed is in the report."""
    seed = random.SystemRandom().getrandbits(32)
    record_property("seed", seed)
    return random.Random(seed)


def garbage(rng: random.Random) -> Row:
    return [rng.getrandbits(32) for _ in range(LANES)]


def names(first: int, dwords: int, kind: str = "v") -> str:
    return f"{kind}{first}" if dwords == 1 else f"{kind}[{first}:{first + dwords - 1}]"


def addresses(rng: random.Random, access: int, contiguous: bool) -> Row:
    """Any alignment works; some lanes share an address."""
    if contiguous:
        first = rng.randrange(SIZE - LANES * access)
        return [first + lane * access for lane in range(LANES)]
    return [rng.choice((rng.randrange(SIZE - access + 1), SIZE - access, 0)) for _ in range(LANES)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("where", ["v", "a"])
def test_read(target: str, kind: str, where: str, rng: random.Random) -> None:
    """VGPR + offset, a 32-bit sum: a base below the offset's origin wraps around."""
    size, sign, half = READS[kind]
    dwords, row = max(size // 4, 1), (8 if where == "v" else 264)
    contents, offset = rng.randbytes(SIZE), rng.choice((0, rng.randrange(65536)))
    for execute in (ALL, rng.getrandbits(64)):
        for contiguous in (True, False):
            at = addresses(rng, size, contiguous)
            before = [garbage(rng) for _ in range(dwords)]
            vector = {
                1: [(v - offset) & 0xFFFFFFFF if execute >> i & 1 else 0xFFFFFFF0 for i, v in enumerate(at)]
            }
            vector |= {row + d: before[d] for d in range(dwords)}
            done = run_wave(
                target,
                f"ds_read_{kind} {names(8, dwords, where)}, v1 offset:{offset}" + END,
                vector=vector,
                lds=contents,
                execute=execute,
            )
            assert done.message == ""
            for lane in range(LANES):
                want = loaded(contents[at[lane] : at[lane] + size], sign, half)
                want = want if execute >> lane & 1 else [old[lane] for old in before]
                assert [done.row(row + d)[lane] for d in range(dwords)] == want


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("where", ["v", "a"])
def test_write(kind: str, where: str, rng: random.Random) -> None:
    """Lanes that share bytes write in their order."""
    size, first_bit = WRITES[kind]
    dwords, row = max(size // 4, 1), (8 if where == "v" else 264)
    for execute in (ALL, rng.getrandbits(64)):
        for contiguous in (True, False):
            at, values, wanted = (
                addresses(rng, size, contiguous),
                [garbage(rng) for _ in range(dwords)],
                bytearray(rng.randbytes(SIZE)),
            )
            vector = {1: at} | {row + d: values[d] for d in range(dwords)}
            done = run_wave(
                "gfx942",
                f"ds_write_{kind} v1, {names(8, dwords, where)}" + END,
                vector=vector,
                lds=bytes(wanted),
                execute=execute,
            )
            assert done.message == ""
            for lane in range(LANES):
                if execute >> lane & 1:
                    wanted[at[lane] : at[lane] + size] = stored(
                        [value[lane] for value in values], size, first_bit
                    )
            assert done.lds == bytes(wanted)


def wide(rows: dict[int, Row], row: int, dwords: int, lane: int) -> int:
    """One or two registers of a lane as a number."""
    return sum(rows[row + d][lane] << 32 * d for d in range(dwords))


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("far", [False, True])
def test_two_addresses(size: int, far: bool, rng: random.Random) -> None:
    """read2, write2, wrxchg2: offsets count elements, or 64 elements."""
    suffix, unit, code = ("st64" if far else ""), size * (64 if far else 1), "I" if size == 4 else "Q"
    dwords, width = size // 4, 8 * size
    offsets = rng.sample(range(64 if far else 256), 2)
    at = [size * v for v in rng.sample(range(600), LANES)]
    contents = rng.randbytes(600 * size + 256 * unit)
    vector = {1: at} | {4 + d: garbage(rng) for d in range(2 * dwords)}
    both, data, data2 = names(8, 2 * dwords), names(4, dwords), names(4 + dwords, dwords)
    tail = f" offset0:{offsets[0]} offset1:{offsets[1]}" + END

    read = run_wave("gfx942", f"ds_read2{suffix}_b{width} {both}, v1" + tail, vector=vector, lds=contents)
    assert read.message == ""
    got = {8 + d: read.row(8 + d) for d in range(2 * dwords)}
    for lane in range(LANES):
        for n, offset in enumerate(offsets):
            want = struct.unpack_from("<" + code, contents, at[lane] + offset * unit)[0]
            assert wide(got, 8 + n * dwords, dwords, lane) == want

    wanted = bytearray(contents)
    for n, offset in enumerate(offsets):  # all lanes of the first address, then all of the second
        for lane in range(LANES):
            struct.pack_into(
                "<" + code, wanted, at[lane] + offset * unit, wide(vector, 4 + n * dwords, dwords, lane)
            )
    write = run_wave(
        "gfx942", f"ds_write2{suffix}_b{width} v1, {data}, {data2}" + tail, vector=vector, lds=contents
    )
    assert write.lds == bytes(wanted)

    wanted = bytearray(contents)
    source = f"ds_wrxchg2{suffix}_rtn_b{width} {both}, v1, {data}, {data2}" + tail
    swap = run_wave("gfx942", source, vector=vector, lds=contents)
    got = {8 + d: swap.row(8 + d) for d in range(2 * dwords)}
    for lane in range(LANES):
        places = [at[lane] + offset * unit for offset in offsets]
        old = [struct.unpack_from("<" + code, wanted, place)[0] for place in places]
        assert [wide(got, 8 + n * dwords, dwords, lane) for n in range(2)] == old
        for n, place in enumerate(places):
            struct.pack_into("<" + code, wanted, place, wide(vector, 4 + n * dwords, dwords, lane))
    assert swap.lds == bytes(wanted)


@pytest.mark.parametrize(
    ("source", "lane_fault"),
    [
        ("ds_read_b128 v[8:11], v1", 16),
        ("ds_write_b32 v1, v2", 4),
        ("ds_read2st64_b32 v[8:9], v1 offset1:1", 260),
        ("ds_add_u32 v1, v2", 4),
    ],
)
def test_bounds(source: str, lane_fault: int, rng: random.Random) -> None:
    """The last bytes are in; anything beyond the workgroup's allocation is a fault that names lane and address."""
    size, lane = 4096, rng.randrange(LANES)
    for beyond in (0, 4):
        at = [0] * LANES
        at[lane] = size - lane_fault + beyond
        done = run_wave("gfx942", source + END, vector={1: at}, lds=size)
        assert done.fault == (LDS_OUT_OF_BOUNDS if beyond else 0), done.message
        if beyond:
            assert f"lane {lane}" in done.message
            assert str(size) in done.message
            assert str(at[lane] + (256 if lane_fault == 260 else 0)) in done.message
    assert run_wave("gfx942", source + END, vector={1: [1 << 31] * LANES}, lds=size, execute=0).fault == 0


def test_addresses_by_lane_number(rng: random.Random) -> None:
    """The addtid forms: M0[15:0] + offset + lane * 4."""
    contents, values, base = bytearray(rng.randbytes(SIZE)), garbage(rng), 4 * rng.randrange(1000)
    source = "ds_read_addtid_b32 v8 offset:64\nds_write_addtid_b32 v2 offset:2048"
    done = run_wave(
        "gfx942", source + END, vector={2: values}, scalar={M0: base | 0xABC0000}, lds=bytes(contents)
    )
    assert done.message == ""
    assert done.row(8) == list(struct.unpack_from("<64I", contents, base + 64))
    struct.pack_into("<64I", contents, base + 2048, *values)
    assert done.lds == bytes(contents)


def test_append_and_consume(rng: random.Random) -> None:
    """One counter, changed by the number of active lanes; all of them get what was there."""
    execute, start = rng.getrandbits(64) | 1, rng.getrandbits(32)
    number = execute.bit_count()
    source = "ds_append v8 offset:8\nds_append v9 offset:8\nds_consume v10 offset:8"
    done = run_wave(
        "gfx950", source + END, scalar={M0: 32}, lds=bytes(40) + struct.pack("<I", start), execute=execute
    )
    assert done.message == ""
    for lane in range(LANES):
        want = [(start + k * number) & 0xFFFFFFFF for k in (0, 1, 2)] if execute >> lane & 1 else [0] * 3
        assert [done.row(8 + k)[lane] for k in range(3)] == want
    assert struct.unpack_from("<I", done.lds, 40)[0] == (start + number) & 0xFFFFFFFF


@pytest.mark.parametrize(
    "offset",
    [
        "0xe000",
        "0xe001",
        "0xe010",
        "0xe01f",
        "0xc041",
        "0xc444",
        "0x801b",
        "0x80b1",
        "0x041f",
        "0x7c1f",
        "0x001e",
        "swizzle(BROADCAST,8,3)",
        "random",
    ],
)
def test_swizzle(offset: str, rng: random.Random) -> None:
    """All four modes; lanes that are off give 0."""
    data, execute, old = garbage(rng), rng.choice((ALL, rng.getrandbits(64))), garbage(rng)
    text = offset if "(" in offset else str(rng.randrange(0xE01F) if offset == "random" else int(offset, 16))
    number = 0x18 | 3 << 5 if "(" in offset else int(text)
    done = run_wave(
        "gfx942", f"ds_swizzle_b32 v8, v1 offset:{text}" + END, vector={1: data, 8: old}, execute=execute
    )
    assert done.message == ""
    for lane in range(LANES):
        source = swizzled_lane(lane, number)
        want = data[source] if execute >> source & 1 else 0
        assert done.row(8)[lane] == (want if execute >> lane & 1 else old[lane])


def test_swizzle_of_a_transform() -> None:
    """The order that AMD's manual prints for masks 0 and 16, counted from 1."""
    printed = {
        0x00: "1 11 9 19 5 15 d 1d 3 13 b 1b 7 17 f 1f 2 12 a 1a 6 16 e 1e 4 14 c 1c 8 18 10 20",
        0x10: "1 9 5 d 3 b 7 f 2 a 6 e 4 c 8 10 11 19 15 1d 13 1b 17 1f 12 1a 16 1e 14 1c 18 20",
    }
    for mask, order in printed.items():
        done = run_wave(
            "gfx942",
            f"ds_swizzle_b32 v8, v1 offset:{0xE000 | mask}" + END,
            vector={1: list(range(1, LANES + 1))},
        )
        assert done.row(8)[:32] == [int(v, 16) for v in order.split()]
        assert done.row(8)[32:] == [v + 32 for v in done.row(8)[:32]]


def test_permute(rng: random.Random) -> None:
    """bpermute pulls, permute pushes (the highest lane wins); addresses are bytes, their high bits are ignored."""
    data, address, execute = garbage(rng), garbage(rng), rng.choice((ALL, rng.getrandbits(64)))
    offset = 4 * rng.randrange(64)
    source = f"ds_bpermute_b32 v8, v1, v2 offset:{offset}\nds_permute_b32 v9, v1, v2 offset:{offset}"
    done = run_wave(
        "gfx950", source + END, vector={1: address, 2: data, 8: [5] * LANES, 9: [5] * LANES}, execute=execute
    )
    assert done.message == ""
    pushed = [0] * LANES
    for lane in range(LANES):
        if execute >> lane & 1:
            pushed[(address[lane] + offset) // 4 % 64] = data[lane]
    for lane in range(LANES):
        pull = (address[lane] + offset) // 4 % 64
        on = execute >> lane & 1
        assert done.row(8)[lane] == ((data[pull] if execute >> pull & 1 else 0) if on else 5)
        assert done.row(9)[lane] == (pushed[lane] if on else 5)


@pytest.mark.parametrize(("bits", "size"), [(16, 8), (8, 8), (4, 8), (6, 12)])
@pytest.mark.parametrize("where", ["v", "a"])
def test_transposing_read(bits: int, size: int, where: str, rng: random.Random) -> None:
    """Sixteen lanes together: what they fetch are rows of 16 elements, lane i gets column i."""
    contents = rng.randbytes(SIZE)
    at = [rng.randrange(SIZE // 16) * 16 for _ in range(LANES)]
    row, dwords = (8 if where == "v" else 264), size // 4
    done = run_wave(
        "gfx950",
        f"ds_read_b{8 * size}_tr_b{bits} {names(8, dwords, where)}, v1" + END,
        vector={1: at},
        lds=contents,
    )
    assert done.message == ""
    want = transposed([contents[v : v + size] for v in at], bits)
    assert [sum(done.row(row + d)[lane] << 32 * d for d in range(dwords)) for lane in range(LANES)] == want


@pytest.mark.parametrize(("bits", "rows"), [(16, 4), (8, 8), (4, 16)])
def test_transposing_read_feeds_the_matrix_core(bits: int, rows: int, rng: random.Random) -> None:
    """A K x 16 matrix lies row by row in LDS; lane i ends up with consecutive K of column i: what an MFMA operand wants.

    The lanes walk through it in order, as the loaders of Triton and CK do.
    """
    matrix = [[rng.getrandbits(bits) for _ in range(16)] for _ in range(4 * rows)]
    stream = sum(
        value << bits * (16 * k + n) for k, line in enumerate(matrix) for n, value in enumerate(line)
    )
    contents = stream.to_bytes(4 * rows * 16 * bits // 8, "little")
    done = run_wave(
        "gfx950",
        f"ds_read_b64_tr_b{bits} v[8:9], v1" + END,
        vector={1: [8 * lane for lane in range(LANES)]},
        lds=contents,
    )
    assert done.message == ""
    for lane in range(LANES):
        got = done.row(8)[lane] | done.row(9)[lane] << 32
        k = lane // 16 * rows
        assert [got >> bits * i & (1 << bits) - 1 for i in range(rows)] == [
            matrix[k + i][lane % 16] for i in range(rows)
        ]


def test_gds_is_unknown() -> None:
    """Neither target has global data share."""
    done = run_wave("gfx942", ".long 0xd86d0000\n.long 0x08000001" + END, lds=64)
    assert done.fault == UNKNOWN
