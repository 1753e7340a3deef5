"""A child of ``test_in_place.py``: every operator that may be in place, in place and out of place, byte by byte.

Argument: how many compute units the card has; it decides which variants are chosen.
"""

# ruff: noqa: PT017  # not run by pytest: this is its child

from __future__ import annotations

import random
import struct
import sys

from emulator.rope_in_place import ROPE, cached, turned

from aiter_prebuilt import errors
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray

#: Rows, columns, distance of rows, first element: dense and not, aligned and not, few blocks and many.
LAYOUTS = [
    (rows, columns, pitch, first)
    for rows in (3, 200)
    for columns, pitch, first in ((64, 64, 0), (65, 65, 0), (64, 72, 8), (64, 65, 0), (64, 64, 1))
]


def silu(kind: str, rows: int, columns: int, pitch: int, first: int) -> None:
    """``silu(out, input)``: what it leaves in a buffer that is both must be what it leaves in two, gaps included."""
    draw = random.Random(f"{rows} {columns} {pitch} {first}")
    size = first + rows * pitch
    values = [draw.uniform(-8, 8) for _ in range(size)]
    pack = (lambda v: struct.pack("<f", v)[2:]) if kind == "bf16" else (lambda v: struct.pack("<e", v))
    data = b"".join(map(pack, values))
    source, target, both = (DeviceArray(kind, (size,), data) for _ in range(3))

    def view(array: DeviceArray, shift: int = 0) -> tuple[object, ...]:
        return (array.address + 2 * (first + shift), kind, (rows, columns), (pitch, 1), ("amd", 0))

    operator = dispatch.operator("silu")
    operator(view(target), view(source), stream=0)
    operator(view(both), view(both), stream=0)
    assert source.read() == data and target.read() != data
    assert both.read() == target.read(), (kind, rows, columns, pitch, first)
    launches = operator.stats()["launches"]
    for shift in (-1, 1) if first else (1,):
        try:
            operator(view(both), view(both, shift), stream=0)
        except errors.ArgumentStrideError as error:
            assert "Pass input itself" in str(error), error
        else:
            raise AssertionError("a shifted view was accepted")
    assert operator.stats()["launches"] == launches and both.read() == target.read()


def main() -> int:
    """Run all of them."""
    for kind in ("bf16", "f16"):
        for layout in LAYOUTS:
            silu(kind, *layout)
    for place, name in enumerate(ROPE):
        for style in (0, 1):
            turned(name, ("bf16", "f16", "f32")[place % 3], style, place % 2 == style)
    for kind in ("bf16", "f16"):
        for size in (64, 128, 256, 60):
            cached(kind, size, size % 128 == 0)
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
