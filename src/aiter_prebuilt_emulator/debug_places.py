"""Breakpoints of the Debug Adapter Protocol, and as the emulator has them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from aiter_prebuilt_emulator import native
from aiter_prebuilt_emulator.debug_link import DeviceError, check_word

_KERNEL: Final = re.compile(r"(?P<name>.+?)(?:\+(?P<offset>0x[0-9a-fA-F]+|\d+))?")
_LINES: Final = range(1, 1 << 32)
_ADDRESSES: Final = range(1 << 64)
_NOT_YET: Final = "no kernel with it has been launched yet"


@dataclass(frozen=True, slots=True)
class Place:
    """One breakpoint. ``kind``: line, kernel or address; ``name``: the file or the kernel.

    One with a ``problem`` is never told to the emulator, and keeps none of the others from being told.
    """

    id: int
    kind: str
    name: str
    number: int
    condition: str = ""
    problem: str = ""


class Places:
    """All breakpoints of a session, and which of them lie in code that has been launched."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._lines: dict[str, list[Place]] = {}
        self._kernels: list[Place] = []
        self._addresses: list[Place] = []
        #: By breakpoint, the line that it lies at.
        self.placed: dict[int, int] = {}

    def set_lines(self, path: str, asked: Iterable[dict[str, Any]]) -> list[Place]:
        """All breakpoints of a file."""
        self._lines[path] = [
            _place(next(self._ids), "line", path, int(one["line"]), one, _LINES) for one in asked
        ]
        return self._lines[path]

    def set_kernels(self, asked: Iterable[dict[str, Any]]) -> list[Place]:
        """Set the breakpoints at a kernel or an offset in it.

        An offset is written ``add_kernel+0x40``.
        """
        self._kernels = []
        for one in asked:
            match = _KERNEL.fullmatch(one["name"])
            name, offset = (match["name"], match["offset"]) if match else (one["name"], None)
            number = int(offset or "0", 16 if (offset or "").startswith("0x") else 10)
            self._kernels.append(_place(next(self._ids), "kernel", name, number, one, _ADDRESSES))
        return self._kernels

    def set_addresses(self, asked: Iterable[dict[str, Any]]) -> list[Place]:
        """Set the breakpoints at an instruction."""
        self._addresses = [
            _place(
                next(self._ids), "address", "", int(one["instructionReference"], 0) + int(one.get("offset") or 0),
                one, _ADDRESSES,
            )
            for one in asked
        ]  # fmt: skip
        return self._addresses

    def fields(self) -> list[object]:
        """All of them as arguments of the emulator's command."""
        places = [*itertools.chain(*self._lines.values()), *self._kernels, *self._addresses]
        return [
            word
            for one in places
            if not one.problem
            for word in (one.id, one.kind, one.name, one.number, one.condition)
        ]

    def reason(self, ids: Iterable[int]) -> str:
        """Name the reason of a stop, in the protocol's words."""
        wanted = set(ids)
        if any(one.id in wanted for one in self._kernels):
            return "function breakpoint"
        return "instruction breakpoint" if any(one.id in wanted for one in self._addresses) else "breakpoint"

    def described(self, one: Place) -> dict[str, Any]:
        """Return a breakpoint as the protocol has it."""
        found: dict[str, Any]
        if one.problem:
            found = {"id": one.id, "verified": False, "reason": "failed", "message": one.problem}
        elif one.id not in self.placed:
            found = {"id": one.id, "verified": False, "reason": "pending", "message": _NOT_YET}
        else:
            found = {"id": one.id, "verified": True}
        if one.kind == "line":
            found["line"] = self.placed.get(one.id) or one.number
            found["source"] = {"path": one.name}
        if one.kind == "address":
            found["instructionReference"] = hex(one.number)
        return found

    def find(self, number: int) -> Place | None:
        """Return the breakpoint of a number."""
        every = itertools.chain(*self._lines.values(), self._kernels, self._addresses)
        return next((one for one in every if one.id == number), None)


def _place(id_: int, kind: str, name: str, number: int, asked: dict[str, Any], numbers: range) -> Place:
    """Build a breakpoint with its problem, if it has one."""
    condition = str(asked.get("condition") or "").strip()
    try:
        if number not in numbers:
            raise DeviceError(f"found the number {number}, expected one from {numbers[0]} to {numbers[-1]}")
        check_word(name)
        _check_condition(condition)
    except DeviceError as error:
        return Place(id_, kind, name, number, condition, str(error))
    return Place(id_, kind, name, number, condition)


def _check_condition(text: str) -> None:
    check_word(text)
    keys = {part.partition("=")[0].strip() for part in text.split(",") if text}
    if strange := sorted(keys - {"workgroup", "wave"}):
        raise DeviceError(
            f"condition {text}: found '{strange[0]}', expected workgroup=1:0:0, wave=2, or both with a comma between"
        )
    if problem := native.trace_problem(text) if text else "":
        raise DeviceError(f"condition {text}: {problem}")
