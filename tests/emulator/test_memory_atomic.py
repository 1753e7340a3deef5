"""Atomics of the embedded device in global, flat, buffer and LDS memory, against the model of ``memory_model``."""

from __future__ import annotations

import ctypes
import math
import random
import struct
import threading
from collections.abc import Callable
from functools import partial

import pytest
from support.device_memory import Region, region
from support.memory_model import LANES, add_f32, add_f64, integer_operations, pk_add_bf16, pk_add_f16, signed
from support.one_wave import ALL, MODE, run_wave

END = "\ns_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm"
MISALIGNED = 3
Operation = Callable[[int, int], int]


@pytest.fixture
def rng(record_property: Callable[[str, object], None]) -> random.Random:
    """Fresh numbers for every run; the seed is in the report."""
    seed = random.SystemRandom().getrandbits(32)
    record_property("seed", seed)
    return random.Random(seed)


def f64_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def f64_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


#: suffix of the mnemonic -> (bits, new = f(memory, data), what kind of numbers)
MEMORY: dict[str, tuple[int, Operation, str]] = {
    **{name: (32, f, "int") for name, f in integer_operations(32).items()},
    **{f"{name}_x2": (64, f, "int") for name, f in integer_operations(64).items()},
    "add_f32": (32, add_f32, "f32"),
    "pk_add_f16": (32, pk_add_f16, "f16"),
    "pk_add_bf16": (32, pk_add_bf16, "bf16"),
    "add_f64": (64, add_f64, "f64"),
    "min_f64": (64, lambda m, d: d if f64_of(d) < f64_of(m) else m, "f64"),
    "max_f64": (64, lambda m, d: d if f64_of(d) > f64_of(m) else m, "f64"),
}


def number(rng: random.Random, kind: str, bits: int) -> int:
    """Finite numbers that meet: small integers and edge values, floats of few exponents, denormals."""
    if kind == "f64":
        return f64_bits(rng.uniform(-4, 4) * 2.0 ** rng.choice((0, 1, -40)))
    if kind == "f32":
        return (
            rng.choice((rng.getrandbits(24), rng.randrange(0x3F000000, 0x41000000)))
            | rng.getrandbits(1) << 31
        )
    if kind == "f16":
        return sum(
            (rng.choice((rng.getrandbits(11), rng.randrange(0x3800, 0x4400))) | rng.getrandbits(1) << 15) << s
            for s in (0, 16)
        )
    if kind == "bf16":
        return sum(
            (rng.choice((rng.getrandbits(8), rng.randrange(0x3F00, 0x4100))) | rng.getrandbits(1) << 15) << s
            for s in (0, 16)
        )
    return rng.choice(
        (rng.getrandbits(bits), rng.getrandbits(3), (1 << bits) - 1 - rng.getrandbits(2), 1 << bits - 1)
    )


def names(first: int, dwords: int) -> str:
    return f"v{first}" if dwords == 1 else f"v[{first}:{first + dwords - 1}]"


def data_rows(values: list[int], dwords: int, first: int) -> dict[int, list[int]]:
    return {first + d: [v >> 32 * d & 0xFFFFFFFF for v in values] for d in range(dwords)}


def played(
    cells: list[int], where: list[int], data: list[int], execute: int, operation: Operation
) -> list[int]:
    """The lanes one after the other, lowest first; returns what each found and changes ``cells``."""
    found = [0] * LANES
    for lane in range(LANES):
        if execute >> lane & 1:
            found[lane] = cells[where[lane]]
            cells[where[lane]] = operation(found[lane], data[lane])
    return found


def mnemonics() -> list[tuple[str, str]]:
    return [(space, name) for space in ("global", "flat", "buffer") for name in MEMORY]


def source_of(space: str, name: str, dwords: int, returns: bool) -> str:
    result = f"{names(8, dwords)}, " if returns and space != "buffer" else ""
    tail = " sc0" if returns else ""
    if space == "buffer":
        return f"buffer_atomic_{name} {names(4, dwords)}, v2, s[4:7], 0 offen{tail}" + END
    base = ", off" if space == "global" else ""
    return f"{space}_atomic_{name} {result}v[0:1], {names(4, dwords)}{base}{tail}" + END


def scene(memory: Region, at: list[int]) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Registers that address byte offsets ``at`` in all three ways."""
    full = [memory.address + v for v in at]
    scalars = {4: memory.address, 5: memory.address >> 32, 6: memory.size, 7: 4 << 15}
    return {0: [v & 0xFFFFFFFF for v in full], 1: [v >> 32 for v in full], 2: at}, scalars


@pytest.mark.parametrize(("space", "name"), mnemonics())
def test_memory_atomics(space: str, name: str, rng: random.Random) -> None:
    """Many lanes on few cells, with the old value (sc0) and without."""
    bits, operation, kind = MEMORY[name]
    dwords, size, code = bits // 32, bits // 8, "I" if bits == 32 else "Q"
    target = "gfx950" if space == "buffer" and name == "pk_add_bf16" else rng.choice(("gfx942", "gfx950"))
    for returns in (True, False):
        execute = rng.choice((ALL, rng.getrandbits(64)))
        cells, data = (
            [number(rng, kind, bits) for _ in range(5)],
            [number(rng, kind, bits) for _ in range(LANES)],
        )
        where = [rng.randrange(5) for _ in range(LANES)]
        with region(struct.pack(f"<5{code}", *cells)) as memory:
            vector, scalars = scene(memory, [size * v for v in where])
            vector |= data_rows(data, dwords, 4)
            done = run_wave(
                target,
                source_of(space, name, dwords, returns),
                vector=vector,
                scalar=scalars,
                execute=execute,
            )
            assert done.message == ""
            found = played(cells, where, data, execute, operation)
            assert struct.unpack(f"<5{code}", memory.read()) == tuple(cells)
        row = 4 if space == "buffer" else 8
        for lane in range(LANES):
            untouched = data[lane] if space == "buffer" else 0
            want = found[lane] if returns and execute >> lane & 1 else untouched
            assert sum(done.row(row + d)[lane] << 32 * d for d in range(dwords)) == want


@pytest.mark.parametrize("space", ["global", "flat", "buffer"])
@pytest.mark.parametrize("bits", [32, 64])
def test_compare_and_swap(space: str, bits: int, rng: random.Random) -> None:
    """The first data replace, the second are compared with."""
    dwords, code, name = bits // 32, "I" if bits == 32 else "Q", "cmpswap" if bits == 32 else "cmpswap_x2"
    cells, new = [rng.getrandbits(1) for _ in range(4)], [rng.getrandbits(1) for _ in range(LANES)]
    expected, where = [rng.getrandbits(1) for _ in range(LANES)], [rng.randrange(4) for _ in range(LANES)]
    with region(struct.pack(f"<4{code}", *cells)) as memory:
        vector, scalars = scene(memory, [bits // 8 * v for v in where])
        vector |= data_rows(new, dwords, 4) | data_rows(expected, dwords, 4 + dwords)
        source = source_of(space, name, dwords, True).replace(
            f", {names(4, dwords)}", f", {names(4, 2 * dwords)}"
        )
        source = source.replace(f" {names(4, dwords)}, v2", f" {names(4, 2 * dwords)}, v2")
        done = run_wave("gfx942", source, vector=vector, scalar=scalars)
        assert done.message == ""
        found = []
        for lane in range(LANES):
            found.append(cells[where[lane]])
            if found[lane] == expected[lane]:
                cells[where[lane]] = new[lane]
        assert struct.unpack(f"<4{code}", memory.read()) == tuple(cells)
        assert done.row(4 if space == "buffer" else 8) == found


def test_range_and_alignment(rng: random.Random) -> None:
    """Out of the buffer's range: nothing happens and 0 comes back. Not aligned: a fault."""
    with region(struct.pack("<2I", 5, 6)) as memory:
        vector, scalars = scene(memory, [0x80000000] * 63 + [8])
        done = run_wave(
            "gfx942", source_of("buffer", "add", 1, True), vector=vector | {4: [9] * LANES}, scalar=scalars
        )
        assert (done.fault, done.row(4), memory.read()) == (0, [0] * LANES, struct.pack("<2I", 5, 6))
        lane = rng.randrange(LANES)
        vector, scalars = scene(memory, [2 if i == lane else 0 for i in range(LANES)])
        for space in ("global", "flat", "buffer"):
            done = run_wave("gfx942", source_of(space, "add", 1, False), vector=vector, scalar=scalars)
            assert done.fault == MISALIGNED
            assert f"lane {lane}" in done.message
    done = run_wave("gfx942", "ds_add_u32 v1, v2" + END, vector={1: [2] * LANES}, lds=64)
    assert done.fault == MISALIGNED


def test_host_threads_see_atomics() -> None:
    """Two waves on two host threads count in one cell: no addition is lost."""
    rounds = 200
    loop = "s_mov_b32 s0, 0\nagain:\nglobal_atomic_add v[0:1], v2, off\ns_add_u32 s0, s0, 1\n"
    source = loop + f"s_cmp_lt_u32 s0, {rounds}\ns_cbranch_scc1 again" + END
    with region(bytes(8)) as memory:
        vector, _ = scene(memory, [0] * LANES)
        results = []

        def work() -> None:
            results.append(run_wave("gfx942", source, vector=vector | {2: [1] * LANES}).message)

        work()  # assembles once
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == ["", "", ""]
        assert ctypes.c_uint64.from_address(memory.address).value == 3 * rounds * LANES


def subtract_from(mask: int, memory: int, data: int) -> int:
    """``rsub``: what is in memory is subtracted from the data."""
    return data - memory & mask


#: name -> (type without return, type's bits, f, kind)
LDS: dict[tuple[str, str], tuple[int, Operation, str]] = {
    ("pk_add", "f16"): (32, pk_add_f16, "f16"),
    ("pk_add", "bf16"): (32, pk_add_bf16, "bf16"),
    ("add", "f32"): (32, add_f32, "f32"),
    ("add", "f64"): (64, add_f64, "f64"),
    ("min", "f64"): MEMORY["min_f64"],
    ("max", "f64"): MEMORY["max_f64"],
}
for _bits in (32, 64):
    _integer = integer_operations(_bits)
    LDS |= {(op, f"u{_bits}"): (_bits, _integer[op], "int") for op in ("add", "sub", "inc", "dec")}
    LDS |= {(op, f"b{_bits}"): (_bits, _integer[op], "int") for op in ("and", "or", "xor")}
    LDS |= {
        (op[1:], f"{op[0].replace('s', 'i')}{_bits}"): (_bits, _integer[op], "int")
        for op in ("smin", "smax", "umin", "umax")
    }
    LDS["rsub", f"u{_bits}"] = (_bits, partial(subtract_from, (1 << _bits) - 1), "int")


@pytest.mark.parametrize(("name", "kind"), LDS)
@pytest.mark.parametrize("returns", [False, True])
def test_lds_atomics(name: str, kind: str, returns: bool, rng: random.Random) -> None:
    """All lanes on five cells."""
    bits, operation, numbers = LDS[name, kind]
    dwords, code, execute = bits // 32, "I" if bits == 32 else "Q", rng.choice((ALL, rng.getrandbits(64)))
    cells, data = (
        [number(rng, numbers, bits) for _ in range(5)],
        [number(rng, numbers, bits) for _ in range(LANES)],
    )
    where = [rng.randrange(5) for _ in range(LANES)]
    result, rtn = (f"{names(8, dwords)}, ", "_rtn") if returns else ("", "")
    shared = bytes(24) + struct.pack(f"<5{code}", *cells)
    vector = {1: [v * bits // 8 for v in where]} | data_rows(data, dwords, 4)
    done = run_wave(
        "gfx942",
        f"ds_{name}{rtn}_{kind} {result}v1, {names(4, dwords)} offset:24" + END,
        vector=vector,
        lds=shared,
        execute=execute,
    )
    assert done.message == ""
    found = played(cells, where, data, execute, operation)
    assert done.lds == bytes(24) + struct.pack(f"<5{code}", *cells)
    for lane in range(LANES):
        want = found[lane] if returns else 0
        assert sum(done.row(8 + d)[lane] << 32 * d for d in range(dwords)) == want


@pytest.mark.parametrize(
    ("name", "bits"), [("cmpst", 32), ("cmpst", 64), ("mskor", 32), ("mskor", 64), ("wrap", 32)]
)
def test_lds_atomics_with_two_sources(name: str, bits: int, rng: random.Random) -> None:
    """cmpst compares with the first data and stores the second; mskor clears and sets; wrap adds or subtracts."""
    mask = (1 << bits) - 1
    dwords, code = bits // 32, "I" if bits == 32 else "Q"
    cells = [rng.getrandbits(2) for _ in range(4)]
    first, second = ([rng.getrandbits(2) for _ in range(LANES)] for _ in range(2))
    where = [rng.randrange(4) for _ in range(LANES)]
    vector = {1: [v * bits // 8 for v in where]} | data_rows(first, dwords, 4) | data_rows(second, dwords, 6)
    source = f"ds_{name}_rtn_b{bits} {names(8, dwords)}, v1, {names(4, dwords)}, {names(6, dwords)}"
    done = run_wave("gfx942", source + END, vector=vector, lds=struct.pack(f"<4{code}", *cells))
    assert done.message == ""
    found = []
    for lane in range(LANES):
        m, d, d2 = cells[where[lane]], first[lane], second[lane]
        found.append(m)
        new = {"cmpst": d2 if m == d else m, "mskor": m & ~d | d2, "wrap": m - d if m >= d else m + d2}[name]
        cells[where[lane]] = new & mask
    assert done.lds == struct.pack(f"<4{code}", *cells)
    assert done.row(8) == found


F32 = {
    "snan": 0xFF800001,
    "qnan": 0x7FC00123,
    "+0": 0,
    "-0": 1 << 31,
    "1": 0x3F800000,
    "inf": 0x7F800000,
    "denormal": 5,
    "-inf": 0xFF800000,
}


def f32_case(name: str, memory: int, data: int, mode: int, data2: int = 0) -> int:
    source = f"ds_{name} v1, v2" + (", v3" if "cmpst" in name else "") + END
    vector = {2: [data] * LANES, 3: [data2] * LANES}
    done = run_wave("gfx942", source, vector=vector, lds=struct.pack("<I", memory), mode=mode, execute=1)
    assert done.message == ""
    return int(struct.unpack("<I", done.lds)[0])


@pytest.mark.parametrize(
    ("name", "memory", "data", "flush", "want"),
    [
        ("add_f32", "snan", "1", 0, 0xFFC00001), ("add_f32", "1", "snan", 0, 0xFFC00001),
        ("add_f32", "inf", "-inf", 0, 0x7FC00000),
        ("add_f32", "-0", "+0", 0, 0), ("add_f32", "denormal", "-0", 0, 5), ("add_f32", "denormal", "-0", 1, 0),
        ("add_f32", "qnan", "snan", 0, 0x7FC00123),
        ("max_f32", "qnan", "1", 0, 0x3F800000), ("min_f32", "qnan", "1", 0, 0x3F800000), ("max_f32", "1", "qnan", 0, 0x3F800000),
        ("min_f32", "snan", "1", 0, 0xFFC00001), ("max_f32", "-0", "+0", 0, 0), ("min_f32", "+0", "-0", 0, 1 << 31),
        ("min_f32", "-0", "+0", 0, 1 << 31), ("max_f32", "+0", "denormal", 0, 5), ("max_f32", "+0", "denormal", 1, 0),
    ],
)  # fmt: skip
def test_lds_floats_at_the_edges(name: str, memory: str, data: str, flush: int, want: int) -> None:
    """NaN, zeros and denormals by the rules of the ISA's "Float Memory Atomics"; MODE flushes f32 denormals in LDS."""
    assert f32_case(name, F32[memory], F32[data], MODE & ~0x30 if flush else MODE) == want


def test_lds_compare_store_of_floats() -> None:
    """Compared as numbers: both zeros are equal, NaN is equal to nothing."""
    assert f32_case("cmpst_f32", F32["-0"], F32["+0"], MODE, 77) == 77
    assert f32_case("cmpst_f32", F32["qnan"], F32["qnan"], MODE, 77) == F32["qnan"]
    assert f32_case("cmpst_f32", F32["1"], F32["+0"], MODE, 77) == F32["1"]


def test_global_f32_add_keeps_denormals() -> None:
    """The memory's adders do not look at MODE."""
    with region(struct.pack("<I", 5)) as memory:
        vector, scalars = scene(memory, [0] * LANES)
        done = run_wave(
            "gfx942",
            source_of("global", "add_f32", 1, False),
            vector=vector | {4: [3] * LANES},
            scalar=scalars,
            mode=MODE & ~0xF0,
            execute=1,
        )
        assert done.message == ""
        assert memory.read() == struct.pack("<I", 8)


def test_conditional_exchange(rng: random.Random) -> None:
    """Bit 31 of each data dword says whether it is stored, without that bit."""
    cells, data = [rng.getrandbits(32) for _ in range(128)], [rng.getrandbits(32) for _ in range(128)]
    vector = {1: [8 * lane for lane in range(LANES)], 4: data[0::2], 5: data[1::2]}
    done = run_wave(
        "gfx942",
        "ds_condxchg32_rtn_b64 v[8:9], v1, v[4:5]" + END,
        vector=vector,
        lds=struct.pack("<128I", *cells),
    )
    assert done.message == ""
    assert done.row(8) + done.row(9) == cells[0::2] + cells[1::2]
    assert list(struct.unpack("<128I", done.lds)) == [
        d & 0x7FFFFFFF if d >> 31 else c for c, d in zip(cells, data, strict=True)
    ]


def test_the_model_knows_signs() -> None:
    """The model itself, on cases done by hand."""
    assert signed(0xFFFFFFFF, 32) == -1
    assert pk_add_f16(0x3C00_7BFF, 0x3C00_7BFF) == 0x4000_7C00
    assert pk_add_bf16(0x3F80_0001, 0x3B00_0001) == 0x3F80_0002
    assert math.isinf(f64_of(add_f64(f64_bits(1e308), f64_bits(1e308))))
