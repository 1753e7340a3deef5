"""Show a stopped wave: stack, registers, LDS, memory and code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt_emulator.debug_link import DeviceError
from aiter_prebuilt_emulator.debug_values import LANES, Ask, Evaluator, Value, dword

Variables = list[dict[str, Any]]
#: Of a wave: its workgroup's number times this, plus its own, plus 1. The host's threads are one, number 1.
_WAVES: Final = 64
HOST: Final = 1
_LDS_ROW: Final = 64
_SCALARS: Final = 102
_BIGGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a wave's stack."""

    group: int
    wave: int


class Scopes:
    """Numbers for frames and lists of variables, good until the next stop. ``ask``: a command of the emulator's."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._frames: list[Frame] = []
        self._lists: list[Callable[[bool], Variables]] = []
        #: Where the program was started: a compiler that was given a relative path wrote one.
        self.folder = Path()

    def _source(self, file: str) -> dict[str, Any]:
        here = self.folder.absolute() / file
        return {"name": file.rsplit("/", 1)[-1], "path": str(here) if here.is_file() else file}

    def forget(self) -> None:
        """Somebody ran: all numbers are void."""
        self._frames, self._lists = [], []

    @staticmethod
    def name(wave: dict[str, Any]) -> str:
        """Return a wave as a thread's name."""
        x, y, z = wave["workgroup"]
        place = f"workgroup ({x}, {y}, {z}) wave {wave['wave']}"
        state = "" if wave["state"] == "runs" else f", {wave['state']}"
        return f"{wave['kernel']} {place}, device {wave['device']}{state}"

    def stack(self, group: int, wave: int) -> dict[str, Any]:
        """Its frames: the line, then what it is inlined into; without lines the kernel."""
        place = self._ask("frames", group, wave)
        found = place["frames"] or [{"function": place["kernel"], "file": "", "line": 0, "column": 0}]
        frames = []
        for depth, one in enumerate(found):
            self._frames.append(Frame(group, wave))
            frame = {
                "id": len(self._frames), "name": one["function"], "line": one["line"], "column": one["column"],
                "instructionPointerReference": hex(place["address"]),
            }  # fmt: skip
            if depth == 0:
                frame["name"] += f" (code+0x{place['offset']:x}: {place['instruction']})"
            if one["file"]:
                frame["source"] = self._source(one["file"])
            frames.append(frame)
        return {"stackFrames": frames, "totalFrames": len(frames)}

    def _frame(self, number: int | None) -> Frame:
        if number is None and self._frames:
            return self._frames[-1]
        if number is None or not 0 < number <= len(self._frames):
            raise DeviceError(
                "no such frame: the program has run since it was named; ask for the stack again"
            )
        return self._frames[number - 1]

    def _list(self, make: Callable[[bool], Variables]) -> int:
        self._lists.append(make)
        return len(self._lists)

    def of_frame(self, number: int) -> Variables:
        """Scopes of a frame: lists of registers, and LDS."""
        frame = self._frame(number)
        facts = self._ask("scalars", frame.group, frame.wave)
        made = [
            ("Special", self._special(frame), 0),
            ("Scalar registers", self._scalars(frame), _SCALARS),
            ("Vector registers", self._rows(frame, "v", facts["vgprs"]), facts["vgprs"]),
            ("Accumulation registers", self._rows(frame, "a", facts["agprs"]), facts["agprs"]),
            ("LDS", self._lds(frame, facts["lds"]), -(-facts["lds"] // _LDS_ROW)),
        ]
        return [
            {"name": name, "variablesReference": self._list(make), "expensive": name != "Special"}
            | ({"indexedVariables": count} if count else {})
            for name, make, count in made
            if count or name == "Special"
        ]

    def _special(self, frame: Frame) -> Callable[[bool], Variables]:
        names = ("pc", "exec", "vcc", "scc", "m0", "mode", "flat_scratch", "xnack_mask")
        evaluator = Evaluator(self._ask, frame.group, frame.wave)
        return lambda _: [_variable(name, evaluator.value(name).text) for name in names]

    def _scalars(self, frame: Frame) -> Callable[[bool], Variables]:
        def make(hexadecimal: bool) -> Variables:
            found = self._ask("scalars", frame.group, frame.wave)["scalars"][:_SCALARS]
            return [_variable(f"s{i}", dword(one, "x" if hexadecimal else "")) for i, one in enumerate(found)]

        return make

    def _rows(self, frame: Frame, file: str, count: int) -> Callable[[bool], Variables]:
        def make(_: bool) -> Variables:
            rows = self._ask("rows", frame.group, frame.wave, 256 if file == "a" else 0, count)["rows"]
            return [
                _variable(f"{file}{i}", ", ".join(f"0x{lane:08x}" for lane in row[:4]) + ", ...")
                | {"variablesReference": self._list(_lanes(f"{file}{i}", row)), "indexedVariables": LANES}
                for i, row in enumerate(rows)
            ]

        return make

    def _lds(self, frame: Frame, size: int) -> Callable[[bool], Variables]:
        evaluator = Evaluator(self._ask, frame.group, frame.wave)

        def make(_: bool) -> Variables:
            found = []
            for at in range(0, size, _LDS_ROW):
                name = f"lds[0x{at:x}:{min(_LDS_ROW, size - at)}]"
                value = evaluator.value(name)
                found.append(_variable(name, value.text) | {"memoryReference": value.reference})
            return found

        return make

    def variables(self, number: int, hexadecimal: bool) -> Variables:
        """Return the list of a number."""
        if not 0 < number <= len(self._lists):
            raise DeviceError("no such list of variables: the program has run since it was named")
        return self._lists[number - 1](hexadecimal)

    def evaluate(self, expression: str, frame_number: int | None) -> dict[str, Any]:
        """Evaluate an expression in the wave of a frame.

        Without a frame in the wave whose stack was asked for last.
        """
        frame = self._frame(frame_number)
        value = Evaluator(self._ask, frame.group, frame.wave).value(expression)
        found: dict[str, Any] = {"result": value.text, "variablesReference": 0}
        if value.lanes:
            found |= {"variablesReference": self._list(_texts(expression, value)), "indexedVariables": LANES}
        if value.reference:
            found["memoryReference"] = value.reference
        return found

    def memory(self, reference: str, offset: int, count: int) -> dict[str, Any]:
        """Bytes of the device's memory (an address) or of LDS (``lds:WORKGROUP:ADDRESS``)."""
        count = min(count, _BIGGEST)
        kind, _, rest = reference.partition(":")
        if kind == "lds":
            group, _, at = rest.partition(":")
            address = int(at, 0) + offset
            data = (
                bytes.fromhex(self._ask("lds", int(group), address, count)["bytes"]) if address >= 0 else b""
            )
        else:
            address = int(reference, 0) + offset
            data = bytes.fromhex(self._ask("memory", address, count)["bytes"])
        return {
            "address": hex(address), "data": base64.b64encode(data).decode(), "unreadableBytes": count - len(data),
        }  # fmt: skip

    def disassemble(self, address: int, skipped: int, count: int) -> dict[str, Any]:
        """``count`` instructions from ``skipped`` after (or before) the one at an address; what is not there is said so."""
        before, after = max(-skipped, 0), max(skipped, 0)
        found = self._ask("code", address, before, count + after)
        missing = [{"address": "0x0", "instruction": "(outside the code)", "presentationHint": "invalid"}]
        rows = missing * found["missing_before"] + [self._row(one) for one in found["instructions"]]
        rows = rows[after : after + count]
        return {"instructions": rows + missing * (count - len(rows))}

    def _row(self, one: dict[str, Any]) -> dict[str, Any]:
        text = " ".join(one["bytes"][i : i + 8] for i in range(0, len(one["bytes"]), 8))
        row = {
            "address": hex(one["address"]),
            "instruction": one["text"],
            "instructionBytes": text,
            "symbol": f"code+0x{one['offset']:x}",
        }
        if one.get("line"):
            row |= {"location": self._source(one["file"]), "line": one["line"]}
        return row


def _variable(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "value": text, "variablesReference": 0, "evaluateName": name}


def _lanes(name: str, row: list[int]) -> Callable[[bool], Variables]:
    return lambda hexadecimal: [
        _variable(f"[{lane}]", dword(one, "x" if hexadecimal else "")) | {"evaluateName": f"{name}[{lane}]"}
        for lane, one in enumerate(row)
    ]


def _texts(name: str, value: Value) -> Callable[[bool], Variables]:
    return lambda _: [
        _variable(f"[{lane}]", text) | {"evaluateName": f"{name}[{lane}]"}
        for lane, text in enumerate(value.lanes)
    ]


def number_of(group: int, wave: int) -> int:
    """Return a wave's number as a thread."""
    return group * _WAVES + wave + 1


def wave_of(number: int) -> tuple[int, int]:
    """Return the workgroup and the wave of a thread."""
    if number == HOST:
        raise DeviceError("no wave stands still: pause first")
    return divmod(number - 1, _WAVES)
