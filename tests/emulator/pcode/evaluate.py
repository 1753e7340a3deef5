"""The result of an entry for one lane's operands, remembered: forms and targets share most of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from emulator.pcode.entries import FUNCTIONS, compiled
from emulator.pcode.frame import Frame
from emulator.pcode.values import Arithmetic, Nans, Value, unsigned

RESULTS: Final = ("D0", "D1", "VCC", "EXEC", "SCC", "S0")
_SOURCE, _TARGET = 0, 1
"""Register numbers that SRC0 and VDST stand for, in entries that read the register itself."""

USUAL: Final = (0, 0, 3, 3, False, 1)
"""Rounding of f32 and of f64 and f16, denormals of the same, FP16_OVFL, IEEE: as DEFAULT_MODE has them."""


@dataclass(frozen=True, slots=True)
class Lane:
    """``sources``: (bits, width). ``extra``: named values beside them (OPSEL, SIMM16, ...), as (name, bits, width)."""

    sources: tuple[tuple[int, int], ...]
    old: int = 0
    old_width: int = 32
    vcc: int = 0
    lane: int = 0
    fnuz: bool = False
    extra: tuple[tuple[str, int, int], ...] = ()
    mode: tuple[int, int, int, int, bool, int] = USUAL


@dataclass(frozen=True, slots=True)
class Outcome:
    """``written``: mask of the destination's bits. ``view``: "f16" and its like where the destination was
    assigned whole.

    ``scalars``: (number, bits, width) of registers that ``SGPR[...]`` assignments changed.
    """

    bits: int
    written: int
    view: str
    nans: Nans
    values: Mapping[str, int]
    written_names: Mapping[str, int]
    scalars: tuple[tuple[int, int, int], ...] = ()


_KNOWN: dict[tuple[str, Lane], Outcome] = {}


def evaluate(text: str, lane: Lane) -> Outcome:
    """Runs ``text`` on ``lane``."""
    if "laneId.u32" not in text and lane.lane:
        lane = replace(lane, lane=0)
    key = (text, lane)
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = _run(text, lane)
    return found


def _run(text: str, lane: Lane) -> Outcome:
    values = {
        "D0": unsigned(lane.old, lane.old_width),
        "D1": unsigned(0, 64),
        "VCC": unsigned(lane.vcc << lane.lane, 64),
        "EXEC": unsigned(1 << lane.lane, 64),
        "SCC": unsigned(0, 1),
        "laneId": unsigned(lane.lane),
        "WAVE_MODE.IEEE": unsigned(lane.mode[5], 1),
        "OPSEL": unsigned(0, 4),
        "OPSEL_HI": unsigned(0, 3),
        "SDWA_SRC0_SEL": unsigned(0, 3),
        "SRC0": unsigned(_SOURCE),
        "VDST": unsigned(_TARGET),
    }
    values |= {f"S{i}": unsigned(bits, width) for i, (bits, width) in enumerate(lane.sources)}
    values |= {name: unsigned(bits, width) for name, bits, width in lane.extra}
    registers = {_SOURCE: lane.sources[0][0] & 0xFFFFFFFF if lane.sources else 0, _TARGET: lane.old}
    frame = Frame(
        values, Arithmetic(*lane.mode[:5]), lane.fnuz, arrays=_arrays(lane, values), written=dict.fromkeys(RESULTS, 0),
        registers=lambda _, number: registers[number], functions=FUNCTIONS,
    )  # fmt: skip
    compiled(text)(frame)
    result, written = frame.values["D0"], frame.written["D0"]
    if (lane.lane, _TARGET) in frame.register_writes:
        result, written = frame.register_writes[lane.lane, _TARGET], 0xFFFFFFFF
    return Outcome(
        result.bits, written, frame.views.get("D0", ""), result.nans,
        {name: frame.values[name].bits for name in RESULTS if name in frame.values}, dict(frame.written), _scalars(frame),
    )  # fmt: skip


def _arrays(lane: Lane, values: Mapping[str, Value]) -> dict[str, list[Value]]:
    """``S[i]``, as v_mad_mix has its sources, and ``SGPR[i]``: 64 bits from register i on."""
    scalars = [values[name] for name, _, _ in lane.extra if name.startswith("SGPR")]
    return {"S": [values[f"S{i}"] for i in range(len(lane.sources))], "SGPR": scalars}


def _scalars(frame: Frame) -> tuple[tuple[int, int, int], ...]:
    return tuple((at, one.bits, width) for at, one, width in frame.scalar_writes)
