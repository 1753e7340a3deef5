"""What one evaluation sees and changes: locals, operands, special registers, other lanes' registers, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.pcode import formats
from emulator.pcode.lexer import PcodeError
from emulator.pcode.values import FLOATS, Arithmetic, Value, insert, operand_number, part, rounded, unsigned

if TYPE_CHECKING:
    from emulator.pcode.statements import Function

CONSTANTS: Mapping[str, Value] = {
    "INF": Value("exact", 0, 0, formats.infinity(False)),
    "NAN": Value("exact", 0, 0, formats.NAN),
    "ROUND_NEAREST_EVEN": unsigned(formats.EVEN),
    "ROUND_TOWARD_ZERO": unsigned(formats.ZERO),
    # Numbers of SDWA's selections.
    "BYTE1": unsigned(1, 3), "BYTE2": unsigned(2, 3), "BYTE3": unsigned(3, 3), "WORD1": unsigned(5, 3),
    # The largest finite value times 2 and the smallest denormal divided by 2: rounding makes of them what the direction says.
    "OVERFLOW_F32": Value("exact", 0, 0, formats.finite(formats.power_of_two(129))),
    "UNDERFLOW_F32": Value("exact", 0, 0, formats.finite(formats.power_of_two(-150))),
    "OVERFLOW_F64": Value("exact", 0, 0, formats.finite(formats.power_of_two(1025))),
    "UNDERFLOW_F64": Value("exact", 0, 0, formats.finite(formats.power_of_two(-1075))),
}  # fmt: skip


@dataclass(slots=True)
class Place:
    """Where an assignment goes: ``width`` 0 is the whole. ``sliced``: bits were named, and not only a view."""

    root: str
    key: tuple[int, ...] = ()
    offset: int = 0
    width: int = 0
    kind: str = ""
    sliced: bool = False
    backwards: bool = False


@dataclass
class Frame:
    """``values``: operands, registers and locals by name. ``written``: mask of the bits that the text
    assigned, by name.

    ``whole``: names assigned through a view alone (``D0.f16 =``), whose other bits the encoding decides.
    ``registers`` reads lane, number; what the text writes to other lanes' registers is in
    ``register_writes``.
    """

    values: dict[str, Value]
    mode: Arithmetic = field(default_factory=Arithmetic)
    fnuz: bool = False
    arrays: dict[str, list[Value]] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    lambdas: dict[str, Function] = field(default_factory=dict)
    registers: Callable[[int, int], int] | None = None
    register_writes: dict[tuple[int, int], Value] = field(default_factory=dict)
    scalar_writes: list[tuple[int, Value, int]] = field(default_factory=list)
    memory: bytearray = field(default_factory=bytearray)
    functions: Mapping[str, Callable[[Frame, list[Value]], Value]] = field(default_factory=dict)

    def read(self, name: str) -> Value:
        value = self.values.get(name)
        if value is not None:
            return value
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name == "ROUND_MODE":
            return unsigned(self.mode.round_f32)
        raise PcodeError(f"{name} has no value")

    def element(self, name: str, index: int) -> Value:
        """``name[index]``: of an array, of memory (16 bytes; a view narrows them) or one bit."""
        if name in ("MEM", "LDS"):
            found = self.memory[index : index + 16]
            return Value("u", 128, int.from_bytes(found, "little"))
        if name in self.arrays:
            return self.arrays[name][index]
        return part(self.read(name), index, 1)

    def register(self, lane: int, number: int) -> Value:
        if (lane, number) in self.register_writes:
            return self.register_writes[lane, number]
        if self.registers is None:
            raise PcodeError("registers of other lanes")
        return unsigned(self.registers(lane, number))

    def call(self, name: str, arguments: list[Value]) -> Value:
        if name in self.lambdas:
            return self.lambdas[name](self, arguments)
        function = self.functions.get(name)
        if function is None:
            raise PcodeError(f"no function {name}")
        return function(self, arguments)

    def load(self, place: Place) -> Value:
        """What is at ``place`` now, for += and -=."""
        value = self._root(place)
        if place.width:
            value = part(value, place.offset, place.width)
            if place.kind in FLOATS:
                value = Value(place.kind, place.width, value.bits, nans=value.nans)
            elif place.kind == "i":
                value = Value("i", place.width, value.bits)
        return value

    def _root(self, place: Place) -> Value:
        if place.root == "VGPR":
            return self.register(place.key[0], place.key[1])
        if place.root in ("MEM", "LDS") or place.key:
            return self.element(place.root, place.key[0])
        return self.values.get(place.root) or unsigned(0, 1)

    def store(self, place: Place, value: Value) -> None:
        if place.root == "ROUND_MODE":
            self.mode.round_f32 = self.mode.round_f64 = value.bits
            return
        width = place.width or value.width
        if place.kind in FLOATS:
            value = self._as_float(value, place.kind)
        elif value.kind == "exact" and place.width:
            raise PcodeError(f"a number without a format into {place.root}")
        bits = value.signed if value.kind == "i" else value.bits
        bits &= (1 << width) - 1
        if place.backwards:
            bits = int(f"{bits:0{width}b}"[::-1], 2)
        fresh = Value(value.kind, width, bits, value.number, value.nans)
        if place.root in ("MEM", "LDS"):
            self.memory[place.key[0] : place.key[0] + width // 8] = bits.to_bytes(width // 8, "little")
        elif place.root == "VGPR":
            lane, number = place.key
            self.register_writes[lane, number] = insert(
                self.register(lane, number), place.offset, width, fresh
            )
        elif place.root == "SGPR":
            self.scalar_writes.append((place.key[0], fresh, width))
        elif place.key:
            self.arrays[place.root][place.key[0]] = insert(
                self.arrays[place.root][place.key[0]], place.offset, width, fresh
            )
        else:
            self._assign(place, width, fresh)

    def _assign(self, place: Place, width: int, fresh: Value) -> None:
        name = place.root
        old = self.values.get(name)
        if not place.sliced and (old is None or name not in self.written):
            self.values[name] = fresh  # a local takes the kind of what it is given
        else:
            self.values[name] = insert(old or unsigned(0, 1), place.offset, width, fresh)
        if name in self.written:
            self.written[name] |= ((1 << width) - 1) << place.offset
            if not place.sliced and place.kind:
                self.views[name] = place.kind if place.kind in FLOATS else f"{place.kind}{width}"

    def _as_float(self, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        if value.kind == "exact" or value.is_float:
            return rounded(operand_number(value, self.mode), kind, self.mode)
        return Value(kind, FLOATS[kind].bits, value.bits & ((1 << FLOATS[kind].bits) - 1), nans=value.nans)
