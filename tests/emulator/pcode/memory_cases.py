"""DS, GLOBAL, FLAT and MUBUF instructions: loads, stores and atomics of 64 lanes at addresses of their own,
against the pseudocode.

What the text calls CalcDsAddr, CalcGlobalAddr, CalcFlatAddr and CalcBufferAddr is the sum of address and
offset here (buffer: base, soffset, voffset, offset, without a stride; test_memory_buffer has the others),
relative to one block of memory. Entries that name MEM[ADDR] without such a call mean the same address.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from emulator.pcode import compare, samples
from emulator.pcode.entries import compiled, text_of
from emulator.pcode.formats import is_nan
from emulator.pcode.forms import DESTINATION, Form, Operand, register
from emulator.pcode.frame import Frame, Place
from emulator.pcode.functions import find
from emulator.pcode.values import FLOATS, Value, unsigned
from emulator.pcode.vector_cases import get, noise, others, put, put_lane
from support.emulator import library
from support.instructions import EXEC, LANES, M0, Wave, WaveFaultError, run

from csrc.emulator.generate.isa_tables import OpcodeRow, rows

SIZE: Final = 65536
ADDRESS, DATA, DATA2 = 0, 32, 64
RESOURCE, SOFFSET = 8, 24
#: What the tests of their own cover: typed conversion, LDS-direct, scratch, counters of the wave, cross-lane exchange.
SKIPPED: Final[Mapping[str, str]] = {
    "_FORMAT_": "the conversion is the descriptor's: test_memory_buffer",
    "_LDS_": "data goes to LDS: test_memory",
    "DS_PERMUTE_B32": "lanes: test_instructions_lanes",
    "DS_BPERMUTE_B32": "lanes: test_instructions_lanes",
    "DS_SWIZZLE_B32": "lanes: test_instructions_lanes",
}


@dataclass(frozen=True, slots=True)
class Access:
    """``form.sources``: data operands. ``returns``: the old value or the loaded one comes back in ``form.destination``."""

    form: Form
    offset: int
    offset1: int = 0
    in_place: bool = False


@cache
def accesses(encoding: str) -> tuple[Access, ...]:
    """``encoding``: ds, global, flat or mubuf."""
    source = random.Random(encoding)
    found = []
    for row in rows():
        if (
            row.encoding == encoding
            and text_of(encoding.upper(), row.opcode)
            and not any(word in row.opcode for word in SKIPPED)
        ):
            found += (_ds if encoding == "ds" else _vector_memory)(row, source)
    return tuple(found)


def _ds(row: OpcodeRow, source: random.Random) -> list[Access]:
    slots = {one.slot: Operand(one.format, one.bits) for one in row.operands}
    addressed = "_ADDTID_" not in row.opcode
    data = [slots[s] for s in (("s1", "s2") if addressed else ("s0",)) if s in slots]
    destination = slots.get("d0")
    names = [register("v", DESTINATION, destination.dwords)] if destination else []
    names += [f"v{ADDRESS}"] if addressed else []
    names += [register("v", (DATA, DATA2)[i], one.dwords) for i, one in enumerate(data)]
    line = f"{row.opcode.lower()} {', '.join(names)}"
    two = bool(re.search(r"(READ|WRITE|WRXCHG)2", row.opcode))
    # 64 times as far apart, lanes would meet: one place in the lane's own part, one beyond those of all lanes.
    pair = (
        (0, 64 if "B64" in row.opcode else 128)
        if "ST64" in row.opcode
        else (source.randrange(12), source.randrange(12, 24))
    )
    first, second = pair if two else (source.randrange(32) * 16, 0)
    line += f" offset0:{first} offset1:{second}" if two else f" offset:{first}"
    return [Access(Form(row.opcode, "DS", line, tuple(data), destination), first, second)]


def _vector_memory(row: OpcodeRow, source: random.Random) -> list[Access]:
    found = []
    slots = {one.slot: Operand(one.format, one.bits) for one in row.operands}
    atomic, stores = "ATOMIC" in row.opcode, "STORE" in row.opcode
    data = [slots["s1"]] if atomic or stores else []
    offset = source.randrange(64) * 16
    for returning in (True, False) if atomic else (not stores,):
        result = _result(row.opcode, slots) if returning else None
        names = []
        if row.encoding == "mubuf":
            place = DATA if data else DESTINATION
            names = [
                register("v", place, (data[0] if data else slots["d0"]).dwords),
                f"v{ADDRESS}",
                f"s[{RESOURCE}:{RESOURCE + 3}]",
                f"s{SOFFSET}",
            ]
        else:
            names = [register("v", DESTINATION, result.dwords)] if result else []
            names += [f"v[{ADDRESS}:{ADDRESS + 1}]"] + [register("v", DATA, one.dwords) for one in data]
            names += ["off"] if row.encoding == "global" else []
        line = f"{row.opcode.lower()} {', '.join(names)}" + (" offen" if row.encoding == "mubuf" else "")
        line += f" offset:{offset}" + (" sc0" if atomic and returning else "")
        form = Form(row.opcode, row.encoding.upper(), line, tuple(data), result)
        found.append(Access(form, offset, in_place=row.encoding == "mubuf" and bool(data)))
    return found


def _result(opcode: str, slots: Mapping[str, Operand]) -> Operand:
    if "ATOMIC" not in opcode:
        return slots["d0"]
    data = slots["s1"]
    return Operand(data.format, data.bits // 2) if "CMPSWAP" in opcode else data


class MemoryFrame(Frame):
    """Notes where a NaN that arithmetic made went to."""

    def store(self, place: Place, value: Value) -> None:
        super().store(place, value)
        if place.root in ("MEM", "LDS"):
            self.open_nans += [(place.key[0] + at // 8, name) for at, _, name in value.nans]

    open_nans: list[tuple[int, str]]


class _Functions(dict[str, Callable[[Frame, list[Value]], Value]]):
    """Address calculation, and AMD's common functions."""

    def __missing__(self, name: str) -> Callable[[Frame, list[Value]], Value]:
        return find(name)

    def get(self, name: str, default: object = None) -> Callable[[Frame, list[Value]], Value]:
        return self[name]


def _ds_address(frame: Frame, arguments: list[Value]) -> Value:
    base, low, high = arguments
    return unsigned(base.bits + (low.bits & 0xFF) + ((high.bits & 0xFF) << 8))


def _address(frame: Frame, arguments: list[Value]) -> Value:
    return frame.values["ADDRESS"]


FUNCTIONS: Final = _Functions(
    CalcDsAddr=_ds_address, CalcGlobalAddr=_address, CalcFlatAddr=_address, CalcBufferAddr=_address
)


@cache
def device_block() -> int:
    """Address of SIZE bytes of device memory."""
    pointer = ctypes.c_void_p()
    assert library().hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(SIZE)) == 0
    assert pointer.value
    return pointer.value


def device_bytes() -> npt.NDArray[np.uint8]:
    """The same memory: on the embedded device it is the host's."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * SIZE).from_address(device_block()))


@dataclass(frozen=True, slots=True)
class Plan:
    addresses: tuple[int, ...]
    data: tuple[tuple[int, ...], ...]
    old: tuple[int, ...]
    memory: bytes
    exec: int


def plan(access: Access, seed: str) -> Plan:
    """Addresses 512 bytes apart, shuffled: no lane meets another, whatever the offsets. Memory holds values
    of the data's kind.
    """
    source = random.Random(f"{seed}:{access.form.line}")
    form = access.form
    memory = bytearray(source.randbytes(SIZE))
    # A signalling address pattern: multiples of 16 so that every size is aligned.
    addresses = [lane * 512 + source.randrange(4) * 16 for lane in range(LANES)]
    source.shuffle(addresses)
    kinds = form.sources or ((form.destination,) if form.destination else ())
    data = tuple(
        tuple(samples.sample(one.format, one.bits, source) for _ in range(LANES)) for one in form.sources
    )
    for lane, address in enumerate(addresses):
        if kinds and source.random() < 0.8:
            one = kinds[0]
            held = samples.sample(one.format, one.bits, source)
            if data and source.random() < 0.3:
                held = data[0][lane] >> (32 * (one.dwords // 2) if "CMPSWAP" in form.mnemonic else 0)
            at = address + access.offset
            memory[at : at + 4 * one.dwords] = (held & ((1 << 32 * one.dwords) - 1)).to_bytes(
                4 * one.dwords, "little"
            )
    old = tuple(
        source.getrandbits(32 * form.destination.dwords) if form.destination else 0 for _ in range(LANES)
    )
    executed = source.choice(((1 << LANES) - 1, source.getrandbits(LANES)))
    return Plan(tuple(addresses), data, old, bytes(memory), executed)


def check(target: str, access: Access, words: tuple[int, ...], seed: str) -> list[str]:
    """Differences in registers and memory."""
    form, what = access.form, plan(access, seed)
    before = noise(2).copy()
    _place(access, what, before)
    if form.encoding == "DS":
        before.lds = np.frombuffer(what.memory, np.uint8).copy()
    else:
        device_bytes()[:] = np.frombuffer(what.memory, np.uint8)
    try:
        after = run(target, words, before)
    except WaveFaultError as error:
        return [f"{form.line}: {error}"]
    memory = bytearray((after.lds if form.encoding == "DS" else device_bytes()).tobytes())
    want, expected, found = before.copy(), bytearray(what.memory), []
    want.lds = after.lds
    for lane in range(LANES):
        if what.exec >> lane & 1:
            found += _check_lane(access, what, lane, expected, memory, want, after)
    if memory != expected:
        at = next(i for i in range(SIZE) if memory[i] != expected[i])
        found.append(
            f"{form.line}: byte {at} is {memory[at]:#x} and not {expected[at]:#x}, addresses {sorted(what.addresses)[at // 512]}"
        )
    return found or others(form, want, after)


def _place(access: Access, what: Plan, wave: Wave) -> None:
    form = access.form
    base = 0 if form.encoding in ("DS", "MUBUF") else device_block()
    put(wave, ADDRESS, 2 if base else 1, tuple(base + address for address in what.addresses))
    for i, (one, values) in enumerate(zip(form.sources, what.data, strict=True)):
        put(wave, (DATA, DATA2)[i], one.dwords, values)
    if form.destination and not access.in_place:
        put(wave, DESTINATION, form.destination.dwords, what.old)
    wave.set_pair(EXEC, what.exec)
    wave.scalar[M0] = 0x200 if "_ADDTID_" in form.mnemonic else 0xFFFFFFFF
    if form.encoding == "MUBUF":
        wave.set_pair(RESOURCE, device_block())  # stride 0
        wave.scalar[RESOURCE + 2], wave.scalar[RESOURCE + 3] = SIZE, 0x00020000
        wave.scalar[SOFFSET] = 0


def _check_lane(
    access: Access, what: Plan, lane: int, expected: bytearray, memory: bytearray, want: Wave, after: Wave
) -> list[str]:
    form = access.form
    frame = evaluated(access, what, lane, expected)
    for at, name in frame.open_nans:
        size = FLOATS[name].bits // 8
        if is_nan(FLOATS[name], int.from_bytes(memory[at : at + size], "little")):
            expected[at : at + size] = memory[at : at + size]
    if form.destination is None:
        return []
    result = frame.values["RETURN_DATA" if frame.written["RETURN_DATA"] else "VDATA"]
    bits, dwords = result.bits, form.destination.dwords
    if "RETURN_DATA" in frame.arrays:
        bits = frame.arrays["RETURN_DATA"][0].bits | frame.arrays["RETURN_DATA"][1].bits << 32
    bits &= (1 << 32 * dwords) - 1
    place = DATA if access.in_place else DESTINATION
    got = get(after, place, dwords, lane)
    put_lane(want, place, dwords, lane, got)
    if compare.matches(got, bits, result.nans):
        return []
    return [f"{form.line} lane {lane} address {what.addresses[lane]:#x}: expected {bits:#x}, got {got:#x}"]


def evaluated(access: Access, what: Plan, lane: int, memory: bytearray) -> MemoryFrame:
    """The entry run for one lane on ``memory``, which it changes."""
    form, address = access.form, what.addresses[lane]
    text = text_of(form.encoding, form.mnemonic)
    assert text is not None
    data = [
        Value("u", 32 * one.dwords, values[lane]) for one, values in zip(form.sources, what.data, strict=True)
    ]
    old = unsigned(what.old[lane], 32 * form.destination.dwords) if form.destination else unsigned(0)
    first, second = access.offset & 0xFF, access.offset1 or access.offset >> 8
    whole = address + access.offset
    values = {
        "ADDR": unsigned(whole if "MEM[ADDR]" in text else address), "ADDR_BASE": unsigned(address),
        "ADDRESS": unsigned(whole, 64),
        "SADDR": unsigned(0, 64), "VADDR": unsigned(0), "SRSRC": unsigned(0, 128), "SOFFSET": unsigned(0),
        "OFFSET": unsigned(access.offset, 16), "OFFSET0": unsigned(first, 8), "OFFSET1": unsigned(second, 8),
        "RETURN_DATA": old, "VDATA": data[0] if data and "STORE" in form.mnemonic else old,
        "laneID": unsigned(lane), "M0": unsigned(0x200),
        "S0": unsigned(address),
    }  # fmt: skip
    if data:
        values |= {"DATA": data[0], "DATA0": data[0], "S1": data[0], "DATA2": data[-1]}
    frame = MemoryFrame(values, memory=memory, functions=FUNCTIONS, written={"RETURN_DATA": 0, "VDATA": 0})
    frame.open_nans = []
    compiled(text)(frame)
    return frame
