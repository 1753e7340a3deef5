"""MUBUF and MTBUF of the embedded device: descriptor, range checks, swizzle, formats, loads to LDS."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.device_memory import region
from support.memory_model import LANES, LOADS, STORES, loaded, stored
from support.one_wave import ALL, M0, run_wave

END = "\ns_waitcnt vmcnt(0)\ns_endpgm"
SIZE = 4096
TARGETS = ("gfx942", "gfx950")
UNKNOWN, ILLEGAL_ADDRESS, MISALIGNED, LDS_OUT_OF_BOUNDS = 1, 2, 3, 4
FORMAT_32 = 4


@pytest.fixture
def rng(record_property: Callable[[str, object], None]) -> random.Random:
    """Fresh numbers for every run; the seed is in the report."""
    seed = random.SystemRandom().getrandbits(32)
    record_property("seed", seed)
    return random.Random(seed)


@dataclass(frozen=True)
class Descriptor:
    """A buffer resource; ``select``: dst_sel of x, y, z, w."""

    base: int
    records: int
    stride: int = 0
    swizzle: bool = False
    select: tuple[int, int, int, int] = (4, 5, 6, 7)
    number_format: int = 7
    data_format: int = FORMAT_32
    index_stride: int = 0
    add_tid: bool = False

    def scalars(self, first: int = 4) -> dict[int, int]:
        """The four SGPRs."""
        last = sum(value << 3 * i for i, value in enumerate(self.select))
        last |= (
            self.number_format << 12 | self.data_format << 15 | self.index_stride << 21 | self.add_tid << 23
        )
        words = (
            self.base,
            self.base >> 32 & 0xFFFF | (self.stride & 0x3FFF) << 16 | self.swizzle << 31,
            self.records,
            last,
        )
        return {first + i: word for i, word in enumerate(words)}


def names(first: int, dwords: int, kind: str = "v") -> str:
    return f"{kind}{first}" if dwords == 1 else f"{kind}[{first}:{first + dwords - 1}]"


def offsets(rng: random.Random, records: int, size: int) -> list[int]:
    """In range, across the edge, far outside; the last one is what our Triton kernels give to lanes that are masked."""
    edge = [records - size + k for k in range(-5, size + 5)]
    return [
        rng.choice((rng.randrange(records), rng.choice(edge), 0x80000000, 0xFFFFFFFC)) for _ in range(LANES)
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", LOADS)
def test_raw_load(target: str, kind: str, rng: random.Random) -> None:
    """Each dword by itself is in range, or 0. num_records is in bytes and counts from the base: all three offsets are checked."""
    size, sign, half = LOADS[kind]
    dwords, piece = max(size // 4, 1), min(size, 4)
    contents = rng.randbytes(SIZE)
    execute, scalar_offset, constant = rng.getrandbits(64) | 1, rng.randrange(1000), 4 * rng.randrange(20)
    with region(contents) as memory:
        for where in ("v", "a"):
            records = rng.randrange(1000, 2000)
            at = offsets(rng, records, size)
            vector = {1: [(v - constant) & 0xFFFFFFFF if v < records + 20 else v for v in at]}
            vector[1] = [max(v, 0) if v < 1 << 31 else v for v in vector[1]]
            row = 8 if where == "v" else 264
            vector |= {row + d: [rng.getrandbits(32) for _ in range(LANES)] for d in range(dwords)}
            source = (
                f"buffer_load_{kind} {names(8, dwords, where)}, v1, s[4:7], s2 offen offset:{constant}" + END
            )
            done = run_wave(
                target, source, vector=vector,
                scalar=Descriptor(memory.address, records).scalars() | {2: scalar_offset}, execute=execute,
            )  # fmt: skip
            assert done.message == ""
            for lane in range(LANES):
                begin = (vector[1][lane] + constant) & 0xFFFFFFFF
                raw = b""
                for part in range(begin, begin + size, piece):
                    inside = part + scalar_offset + piece <= records
                    raw += (
                        contents[part + scalar_offset : part + scalar_offset + piece]
                        if inside
                        else bytes(piece)
                    )
                want = (
                    loaded(raw, sign, half)
                    if execute >> lane & 1
                    else [vector[row + d][lane] for d in range(dwords)]
                )
                assert [done.row(row + d)[lane] for d in range(dwords)] == want, lane


@pytest.mark.parametrize("kind", STORES)
def test_raw_store(kind: str, rng: random.Random) -> None:
    """Writes that are out of range are dropped, dword by dword."""
    size, first_bit = STORES[kind]
    dwords, piece = max(size // 4, 1), min(size, 4)
    records = rng.randrange(1000, 1200)
    wanted, values = (
        bytearray(rng.randbytes(SIZE)),
        [[rng.getrandbits(32) for _ in range(LANES)] for _ in range(dwords)],
    )
    slots = rng.sample(range(70), LANES)  # lanes do not overlap: whose bytes stay is nobody's promise
    at = [rng.choice((20 * slot + rng.randrange(4), 20 * slot, 0x80000000)) for slot in slots]
    with region(bytes(wanted)) as memory:
        done = run_wave(
            "gfx942", f"buffer_store_{kind} {names(8, dwords)}, v1, s[4:7], 0 offen" + END,
            vector={1: at} | {8 + d: values[d] for d in range(dwords)}, scalar=Descriptor(memory.address, records).scalars(),
        )  # fmt: skip
        assert done.message == ""
        for lane, begin in enumerate(at):
            raw = stored([value[lane] for value in values], size, first_bit)
            for part in range(0, size, piece):
                if begin + part + piece <= records:
                    wanted[begin + part : begin + part + piece] = raw[part : part + piece]
        assert memory.read() == bytes(wanted)


@pytest.mark.parametrize("kind", ["dword", "dwordx4"])
def test_contiguous_lanes(kind: str, rng: random.Random) -> None:
    """The usual access, with all of it in range and with its end out of range; the scalar offset counts in the range, too."""
    size = LOADS[kind][0]
    dwords = size // 4
    contents = rng.randbytes(SIZE)
    with region(contents) as memory:
        for scalar, records in itertools.product((0, 4, 100, 2000), (64 * size, 64 * size - 4, 13)):
            vector = {1: [lane * size for lane in range(LANES)]}
            done = run_wave("gfx950", f"buffer_load_{kind} {names(8, dwords)}, v1, s[4:7], s2 offen" + END, vector=vector,
                            scalar=Descriptor(memory.address, records).scalars() | {2: scalar})  # fmt: skip
            kept = contents[: records // 4 * 4] + bytes(2 * SIZE)
            words = struct.unpack(f"<{64 * dwords}I", kept[scalar : scalar + 64 * size])
            assert [done.row(8 + i % dwords)[i // dwords] for i in range(64 * dwords)] == list(words)


@pytest.mark.parametrize("swizzle", [False, True])
@pytest.mark.parametrize("add_tid", [False, True])
@pytest.mark.parametrize("idxen", [False, True])
def test_structured_and_swizzled_addresses(
    idxen: bool, add_tid: bool, swizzle: bool, rng: random.Random
) -> None:
    """Swizzled, with the lane number added alone: index_stride records are interleaved by 4 bytes. Linear accesses with an index
    of their own do not add it. idxen: num_records counts records and is compared with the VGPR; without it bytes, or nothing."""
    contents = rng.randbytes(1 << 17)
    source = "buffer_load_dword v8, {}, s[4:7], s2 {} offen".format(
        *(("v[2:3]", "idxen") if idxen else ("v3", ""))
    )
    adds = add_tid and (swizzle or not idxen)
    with region(contents) as memory:
        for code in range(4):
            stride = 4 * rng.randrange(4, 12)
            records = 256 if idxen else stride + 40
            index = [rng.randrange(records + 40) for _ in range(LANES)]
            offset = [4 * rng.randrange(stride // 4) for _ in range(LANES)]
            descriptor = Descriptor(
                memory.address, records, stride, swizzle, index_stride=code, add_tid=add_tid,
                data_format=0 if adds else FORMAT_32,
            )  # fmt: skip
            scalar = descriptor.scalars() | {2: 64}
            done = run_wave("gfx942", source + END, vector={2: index, 3: offset}, scalar=scalar)
            assert done.message == ""
            group = 8 << code
            for lane in range(LANES):
                i, o = (index[lane] if idxen else 0) + (lane if adds else 0), offset[lane]
                at = i * stride + o
                if swizzle and add_tid:
                    at = (i // group * stride + o // 4 * 4) * group + i % group * 4 + o % 4
                inside = index[lane] < records if idxen else add_tid or o + 64 + 4 <= records
                want = struct.unpack_from("<I", contents, 64 + at)[0] if inside else 0
                assert done.row(8)[lane] == want


def test_lane_number_as_index(rng: random.Random) -> None:
    """add_tid_enable without idxen: private memory, no range check; four more bits of stride come from the data format."""
    contents = rng.randbytes(64 * 16640)
    with region(contents) as memory:
        descriptor = Descriptor(
            memory.address, 0, stride=16640 & 0x3FFF, data_format=16640 >> 14, add_tid=True
        )
        done = run_wave(
            "gfx942", "buffer_load_dword v8, off, s[4:7], 0 offset:8" + END, scalar=descriptor.scalars()
        )
        assert done.message == ""
        assert done.row(8) == [
            struct.unpack_from("<I", contents, 8 + lane * 16640)[0] for lane in range(LANES)
        ]


def test_unbound_resources_and_dead_memory(rng: random.Random) -> None:
    """A resource of zeros, or one with data format 0, reads 0 and drops writes; memory that is in range must be alive."""
    source = (
        "buffer_load_dwordx2 v[8:9], v1, s[4:7], 0 offen\nbuffer_store_dword v1, v1, s[4:7], 0 offen" + END
    )
    vector = {1: [rng.getrandbits(32) for _ in range(LANES)], 8: [7] * LANES, 9: [7] * LANES}
    for descriptor in (
        Descriptor(0, 0, data_format=0, number_format=0, select=(0, 0, 0, 0)),
        Descriptor(4096, 0xFFFFFFFF, data_format=0),
    ):
        done = run_wave("gfx942", source, vector=vector, scalar=descriptor.scalars())
        assert done.message == ""
        assert done.row(8) == done.row(9) == [0] * LANES
    with region(bytes(1024)) as memory:
        at = [0] * LANES
        at[37] = 1021
        done = run_wave(
            "gfx942", source, vector={1: at}, scalar=Descriptor(memory.address, 0x7FFFFFFE).scalars()
        )
        assert done.fault == ILLEGAL_ADDRESS
        assert "lane 37" in done.message
        assert f"{memory.address + 1021:x}" in done.message


@pytest.mark.parametrize(
    ("target", "kind", "stride"),
    [
        ("gfx942", "ubyte", 4),
        ("gfx942", "sshort", 4),
        ("gfx942", "dword", 4),
        ("gfx950", "dword", 4),
        ("gfx950", "dwordx3", 16),
        ("gfx950", "dwordx4", 16),
    ],
)
def test_load_to_lds(target: str, kind: str, stride: int, rng: random.Random) -> None:
    """LDS address = M0 + offset + lane * 4 (16 for three and four dwords); lanes out of range bring 0."""
    size, sign, half = LOADS[kind]
    piece, records = min(size, 4), 1500
    contents, shared = rng.randbytes(SIZE), rng.randbytes(4096)
    execute, m0, constant = rng.getrandbits(64) | 1, rng.randrange(0, 900), 4 * rng.randrange(30)
    at = [max(v - constant, 0) if v < 1 << 31 else v for v in offsets(rng, records, size)]
    with region(contents) as memory:
        done = run_wave(
            target, f"buffer_load_{kind} v1, s[4:7], 0 offen offset:{constant} lds" + END,
            vector={1: at}, execute=execute, lds=shared,
            scalar=Descriptor(memory.address, records).scalars() | {M0: m0},
        )  # fmt: skip
        assert done.message == ""
        wanted = bytearray(shared)
        for lane in range(LANES):
            if execute >> lane & 1:
                first = (at[lane] + constant) & 0xFFFFFFFF
                parts = range(first, first + size, piece)
                raw = b"".join(
                    contents[p : p + piece] if p + piece <= records else bytes(piece) for p in parts
                )
                data = b"".join(struct.pack("<I", v) for v in loaded(raw, sign, half))
                begin = m0 + constant + lane * stride
                wanted[begin : begin + len(data)] = data
        assert done.lds == bytes(wanted)
        done = run_wave(target, f"buffer_load_{kind} v1, s[4:7], 0 offen lds" + END, lds=shared,
                        scalar=Descriptor(memory.address, records).scalars() | {M0: 4095})  # fmt: skip
        assert done.fault == LDS_OUT_OF_BOUNDS


#: data format -> bits of x, y, z, w
FORMATS = {
    1: (8,), 2: (16,), 3: (8, 8), 4: (32,), 5: (16, 16), 6: (11, 11, 10), 7: (10, 11, 11), 8: (2, 10, 10, 10), 9: (10, 10, 10, 2),
    10: (8, 8, 8, 8), 11: (32, 32), 12: (16,) * 4, 13: (32,) * 3, 14: (32,) * 4,
}  # fmt: skip
UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT = 0, 1, 2, 3, 4, 5, 7


def bits_of(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def component(raw: int, bits: int, numeric: int) -> int:
    """The register's 32 bits of one component in memory."""
    whole = raw - (1 << bits) if raw >> bits - 1 else raw
    if bits == 32:
        return raw
    if numeric == FLOAT:
        fraction = bits - 5 - (bits == 16)
        exponent, rest = raw >> fraction & 31, raw & (1 << fraction) - 1
        if exponent == 31:
            value = float("nan") if rest else float("inf")
        else:
            value = (rest / 2**fraction + (exponent > 0)) * 2.0 ** (max(exponent, 1) - 15)
        return bits_of(-value if bits == 16 and raw >> 15 else value)
    return {
        UNORM: lambda: bits_of(raw / ((1 << bits) - 1)),
        SNORM: lambda: bits_of(max(whole / ((1 << bits - 1) - 1), -1.0)),
        USCALED: lambda: bits_of(raw), SSCALED: lambda: bits_of(whole), UINT: lambda: raw, SINT: lambda: whole & 0xFFFFFFFF,
    }[numeric]()  # fmt: skip


def numbers_of(data: int) -> list[int]:
    first = FORMATS[data][0]
    if first == 32:
        return [UINT, SINT, FLOAT]
    return [UNORM, SNORM, USCALED, SSCALED, UINT, SINT] + ([FLOAT] if first == 16 or data in (6, 7) else [])


@pytest.mark.parametrize("data", FORMATS)
def test_typed_loads_and_stores(data: int, rng: random.Random) -> None:
    """tbuffer: the instruction's format; what the format lacks is 0. Storing what was loaded brings the bytes back."""
    bits = FORMATS[data]
    size, execute = sum(bits) // 8, rng.getrandbits(64) | 1
    contents = rng.randbytes(64 * size)
    for numeric in numbers_of(data):
        source = (
            f"tbuffer_load_format_xyzw v[8:11], v1, s[4:7], 0 format:{data | numeric << 4} offen\ns_waitcnt vmcnt(0)\n"
            f"tbuffer_store_format_xyzw v[8:11], v2, s[4:7], 0 format:{data | numeric << 4} offen"
        )
        with region(contents + bytes(64 * size)) as memory:
            vector = {1: [lane * size for lane in range(LANES)]}
            vector[2] = [(64 + lane) * size if lane < 60 else 0x80000000 for lane in range(LANES)]
            scalars = Descriptor(memory.address, 124 * size).scalars()
            done = run_wave("gfx942", source + END, vector=vector, scalar=scalars, execute=execute)
            assert done.message == ""
            for lane in range(LANES):
                if not execute >> lane & 1:
                    continue
                raw = int.from_bytes(contents[lane * size : (lane + 1) * size], "little")
                first = 0
                for c in range(4):
                    width = bits[c] if c < len(bits) else 0
                    want = component(raw >> first & (1 << width) - 1, width, numeric) if width else 0
                    got = done.row(8 + c)[lane]
                    if width and numeric == FLOAT and want & 0x7FFFFFFF > 0x7F800000:
                        assert got & 0x7FFFFFFF > 0x7F800000
                    else:
                        assert got == want, (numeric, lane, c)
                    first += width
            if numeric == UINT:
                back = memory.read()[64 * size :]
                for lane in range(60):
                    want_bytes = (
                        contents[lane * size : (lane + 1) * size] if execute >> lane & 1 else bytes(size)
                    )
                    assert back[lane * size : (lane + 1) * size] == want_bytes


def test_format_of_the_resource(rng: random.Random) -> None:
    """buffer_load_format_*: formats and component selection from the resource; components out of range are 0, selected ones 1."""
    contents = rng.randbytes(64 * 4)
    with region(contents) as memory:
        descriptor = Descriptor(
            memory.address, 40 * 4, select=(6, 1, 0, 4), number_format=UNORM, data_format=10
        )
        source = "buffer_load_format_xyzw v[8:11], v1, s[4:7], 0 offen\nbuffer_load_format_d16_xy v12, v1, s[4:7], 0 offen"
        vector = {1: [4 * lane for lane in range(LANES)]}
        done = run_wave("gfx950", source + END, vector=vector, scalar=descriptor.scalars())
        assert done.message == ""
        for lane in range(LANES):
            x, z = contents[4 * lane], contents[4 * lane + 2]
            inside = lane < 40
            assert done.row(8)[lane] == (bits_of(z / 255) if inside else 0)
            assert done.row(9)[lane] == 0x3F800000
            assert done.row(10)[lane] == 0
            assert done.row(11)[lane] == (bits_of(x / 255) if inside else 0)
            f32 = struct.unpack("<f", struct.pack("<f", z / 255))[0]
            half = struct.unpack("<H", struct.pack("<e", f32))[0] if inside else 0
            assert done.row(12)[lane] == half | 0x3C00 << 16


def test_formats_that_do_not_exist_name_themselves() -> None:
    """8-bit floats are an error, not a guess."""
    with region(bytes(64)) as memory:
        scalars = Descriptor(memory.address, 64).scalars()
        done = run_wave(
            "gfx942", f"tbuffer_load_format_x v8, off, s[4:7], 0 format:{1 | 7 << 4}" + END, scalar=scalars
        )
    assert done.fault == UNKNOWN
    assert "data format 1" in done.message
    assert "number format 7" in done.message


def test_cache_control_is_executed() -> None:
    """Writes back and invalidates nothing, but is no unknown instruction."""
    done = run_wave(
        "gfx942", "buffer_wbl2 sc0 sc1\ns_waitcnt vmcnt(0)\nbuffer_inv sc0 sc1" + END, execute=ALL
    )
    assert done.message == ""
