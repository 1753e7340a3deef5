"""Expressions of a debugger: ``v3[5]``, ``s[0:1]``, ``lds[0x40:16]``, ``*0x7f00:64``, and how their values are written."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiter_prebuilt_emulator.debug_link import DeviceError

LANES: Final = 64
#: Number in the scalar file, dwords.
SPECIAL: Final = {
    "flat_scratch": (102, 2), "xnack_mask": (104, 2), "vcc": (106, 2), "vcc_lo": (106, 1), "vcc_hi": (107, 1), "m0": (124, 1),
    "exec": (126, 2), "exec_lo": (126, 1), "exec_hi": (127, 1),
}  # fmt: skip
HELP: Final = (
    "write s5, s[0:1], v3, v3[5], v[2:3][5], a0, exec, vcc, scc, m0, mode, lds[0x40:16], *0xADDRESS:16 or *s[4:5], "
    "with ,x ,d ,u ,f or ,h behind"
)
_REGISTER: Final = re.compile(
    r"(?P<file>[sva])(?:(?P<one>\d+)|\[(?P<first>\d+):(?P<last>\d+)\])(?:\[(?P<lane>\d+)\])?"
)
_LDS: Final = re.compile(r"lds\[(?P<at>0x[0-9a-f]+|\d+)(?::(?P<count>0x[0-9a-f]+|\d+))?\]")
_MEMORY: Final = re.compile(r"\*(?P<of>.+?)(?:\+(?P<plus>0x[0-9a-f]+|\d+))?(?::(?P<count>0x[0-9a-f]+|\d+))?")

Ask = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an expression.

    It is a text, has lanes if it has any, and a reference when it is memory.
    """

    text: str
    lanes: tuple[str, ...] = ()
    reference: str = ""
    numbers: tuple[int, ...] = field(default=(), repr=False)


def dword(number: int, form: str = "") -> str:
    """Format a register's 32 bits.

    ``form``: x, d, u, f, h (two halves), or all that are usual.
    """
    bits = struct.pack("<I", number)
    (real,) = struct.unpack("<f", bits)
    if form == "f":
        return f"{real:.9g}"
    if form == "h":
        return "({:.5g}, {:.5g})".format(*struct.unpack("<ee", bits))
    if form == "d":
        return str(struct.unpack("<i", bits)[0])
    if form == "u":
        return str(number)
    return f"0x{number:08x}" if form == "x" else f"0x{number:08x} = {number} = {real:.6g}f"


def wide(numbers: tuple[int, ...], form: str = "") -> str:
    """Several dwords, the lowest first."""
    if len(numbers) == 1:
        return dword(numbers[0], form)
    whole = sum(number << 32 * i for i, number in enumerate(numbers))
    if form in ("f", "h") and len(numbers) == 2 and form == "f":
        return f"{struct.unpack('<d', struct.pack('<Q', whole))[0]:.17g}"
    if form == "u":
        return str(whole)
    if form == "d":
        return str(whole - (1 << 32 * len(numbers)) if whole >> (32 * len(numbers) - 1) else whole)
    return f"0x{whole:0{8 * len(numbers)}x}"


def dump(data: bytes, form: str = "") -> str:
    """Bytes as dwords, the rest as bytes."""
    whole = len(data) // 4 * 4
    words = [dword(number, form or "x") for (number,) in struct.iter_unpack("<I", data[:whole])]
    return " ".join(words + [f"{byte:02x}" for byte in data[whole:]])


class Evaluator:
    """Expressions in one wave of one workgroup. ``ask``: a command of the emulator's with its arguments."""

    def __init__(self, ask: Ask, group: int, wave: int) -> None:
        self._ask, self._group, self._wave = ask, group, wave

    def value(self, expression: str) -> Value:
        """Evaluate an expression.

        Raises:
            DeviceError: it is not understood, or not there.
        """
        text, _, form = (
            expression.strip().rpartition(",") if "," in expression else (expression.strip(), "", "")
        )
        text, form = text.strip().lower(), form.strip().lower()
        if form not in ("", "x", "d", "u", "f", "h"):
            raise DeviceError(f"found the form '{form}': {HELP}")
        if text in ("scc", "mode", "pc") or text in SPECIAL:
            return self._special(text, form)
        if match := _REGISTER.fullmatch(text):
            return self._register(match, form)
        if match := _LDS.fullmatch(text):
            return self._lds(int(match["at"], 0), int(match["count"] or "4", 0), form)
        if match := _MEMORY.fullmatch(text):
            return self._memory(match, form)
        raise DeviceError(f"found '{expression}': {HELP}")

    def _special(self, name: str, form: str) -> Value:
        if name == "pc":
            place = self._ask("frames", self._group, self._wave)
            return Value(f"0x{place['address']:x} (code+0x{place['offset']:x})", numbers=(place["address"],))
        found = self._ask("scalars", self._group, self._wave)
        if name in ("scc", "mode"):
            return Value(dword(found[name], form or ("u" if name == "scc" else "x")), numbers=(found[name],))
        first, count = SPECIAL[name]
        numbers = tuple(found["scalars"][first : first + count])
        return Value(wide(numbers, form or "x"), numbers=numbers)

    def _register(self, match: re.Match[str], form: str) -> Value:
        first = int(match["one"] or match["first"])
        last = int(match["one"] or match["last"])
        limit = 128 if match["file"] == "s" else 256
        if not first <= last < limit:
            raise DeviceError(f"found {match[0]}: registers go from 0 to {limit - 1}")
        if match["file"] == "s":
            if match["lane"]:
                raise DeviceError(f"found {match[0]}: a scalar register has no lanes")
            numbers = tuple(self._ask("scalars", self._group, self._wave)["scalars"][first : last + 1])
            return Value(wide(numbers, form), numbers=numbers)
        base = 256 if match["file"] == "a" else 0
        rows = self._ask("rows", self._group, self._wave, base + first, last - first + 1)["rows"]
        lanes = [tuple(row[lane] for row in rows) for lane in range(LANES)]
        if match["lane"] is None:
            texts = tuple(wide(lane, form) for lane in lanes)
            short = (
                texts[0]
                if len(set(texts)) == 1
                else ", ".join(wide(lane, form or "x") for lane in lanes[:4]) + ", ..."
            )
            return Value(short, texts, numbers=lanes[0])
        if int(match["lane"]) >= LANES:
            raise DeviceError(f"found {match[0]}: lanes go from 0 to {LANES - 1}")
        numbers = lanes[int(match["lane"])]
        return Value(wide(numbers, form), numbers=numbers)

    def _lds(self, at: int, count: int, form: str) -> Value:
        data = bytes.fromhex(self._ask("lds", self._group, at, count)["bytes"])
        if len(data) < count:
            raise DeviceError(f"the workgroup's LDS ends at 0x{at + len(data):x}")
        return Value(dump(data, form), reference=f"lds:{self._group}:{at}")

    def _memory(self, match: re.Match[str], form: str) -> Value:
        of, count = match["of"].strip(), int(match["count"] or "4", 0)
        if re.fullmatch(r"0x[0-9a-f]+|\d+", of):
            address = int(of, 0)
        else:
            numbers = self.value(of).numbers
            if len(numbers) != 2:
                raise DeviceError(f"found *{of}: an address is 64 bits, as in *s[4:5] or *v[2:3][0]")
            address = numbers[0] | numbers[1] << 32
        address += int(match["plus"] or "0", 0)
        data = bytes.fromhex(self._ask("memory", address, count)["bytes"])
        if len(data) < count:
            raise DeviceError(f"the allocation ends at 0x{address + len(data):x}")
        return Value(dump(data, form), reference=hex(address))
