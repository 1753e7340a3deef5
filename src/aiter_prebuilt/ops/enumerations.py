"""AITER's enumerations under their names, with AITER's numbers. Options take these, AITER's own members, or plain numbers."""

from __future__ import annotations

from enum import Enum, IntEnum


class ActivationType(IntEnum):
    """The activation between the two products of an expert."""

    No = -1
    Silu = 0
    Gelu = 1
    Swiglu = 2
    Situv2 = 3


class QuantType(IntEnum):
    """The elements that share a scale.

    None, all, a row, a part of a row, or a block of rows and columns.
    """

    No = 0
    per_Tensor = 1  # noqa: N815 - AITER's names
    per_Token = 2  # noqa: N815
    per_1x32 = 3
    per_1x128 = 4
    per_128x128 = 5
    per_256x128 = 6
    per_1024x128 = 7


class GateMode(str, Enum):
    """The order of gate and up rows in a stacked weight.

    One after the other, or taking turns.
    """

    SEPARATED = "separated"
    MOCK_GATE_ONLY = "mock_gate_only"
    GATE_ONLY = "gate_only"
    INTERLEAVE = "interleave"
